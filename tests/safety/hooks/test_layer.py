"""Hooks in front of a tool: they stop it, change it, ask for a person, and nobody behind them sees anything else."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from bridle.base.fs.paths import session_folders
from bridle.engine.dispatch import ToolLayers
from bridle.engine.layers import validated
from bridle.engine.tools import Subject, Tool, ToolCall, ToolOutput
from bridle.protocol.errors import StoreError
from bridle.protocol.events import Evidence, Notice, ToolResult
from bridle.safety.guards import PathPolicy, guarded
from bridle.safety.hooks.definitions import Hook, content_digest, hook_from
from bridle.safety.hooks.layer import hooked, passing
from bridle.safety.hooks.session_hooks import Block, Continue, Hooks, Modify

from .conftest import Bench, call_of


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    content: str = ""


def _subjects(args: Arguments) -> tuple[Subject, ...]:
    return (Subject(kind="path", access="write", value=args.path),)


async def _unused(_args: Any, _context: Any) -> ToolOutput:
    return ToolOutput()


WRITE = Tool(
    name="write_file", description="", input=Arguments, risk="write", run=_unused, subjects=_subjects
)


class Line:
    """The layers up to the question, in their order, and what arrives behind them."""

    def __init__(self, bench: Bench, hooks: Hooks) -> None:
        self.arrived: list[ToolCall] = []
        validate = validated()
        guard = guarded(PathPolicy(folders=session_folders(str(bench.workspace))))
        again = passing(validate, guard)
        self.run: Callable[[ToolCall], Awaitable[ToolOutput]] = ToolLayers(
            one_at_a_time=(
                validate,
                guard,
                hooked(hooks, again),
                hooked(hooks, again, phase="after_permission"),
            ),
            together=(),
        ).around(self._execute)

    async def _execute(self, call: ToolCall) -> ToolOutput:
        self.arrived.append(call)
        return ToolOutput(content="ran")


async def use(bench: Bench, *hooks: Hook, path: str = "a.txt") -> tuple[ToolOutput, list[ToolCall]]:
    line = Line(bench, bench.hooks(*hooks, kill_after_s=0.1))
    return await line.run(call_of(WRITE, path=path)), line.arrived


def says(**answer: Any) -> str:
    return f"echo '{json.dumps(answer)}'"


@pytest.mark.requirement("H9.2")
async def test_a_hook_that_ends_well_lets_the_call_pass(bench: Bench) -> None:
    output, (call,) = await use(bench, bench.hook("exit 0"), bench.hook(says(decision="allow"), name="b"))
    assert (output.content, call.input, call.must_ask) == ("ran", {"path": "a.txt"}, "")
    assert bench.events == []


@pytest.mark.requirement("H9.3")
async def test_exit_code_2_blocks_the_call_with_the_words_of_the_hook(bench: Bench) -> None:
    hook = bench.hook("echo generated file >&2; exit 2")
    never = bench.hook('touch "$HOME/never"', name="never")
    output, arrived = await use(bench, hook, never)
    assert output == ToolOutput(
        outcome="blocked",
        reason="HookBlocked",
        content=f"write_file was not run: hook {hook.shown} blocked it: generated file",
        evidence=Evidence(source="hook", rule=hook.shown, matched="generated file"),
    )
    assert arrived == []
    assert not (bench.workspace.parent / "never").exists()


@pytest.mark.requirement("H9.4")
@pytest.mark.parametrize(
    ("body", "event"),
    [
        ("exit 1", "HookError"),
        ("kill -9 $$", "HookError"),
        ("""echo '{"decision": "deny"}'""", "HookError"),
        ("sleep 600", "HookTimeout"),
    ],
)
async def test_a_hook_that_fails_blocks_the_call_and_is_recorded(bench: Bench, body: str, event: str) -> None:
    hook = bench.hook(body, timeout_ms=100 if event == "HookTimeout" else 30_000)
    output, arrived = await use(bench, hook)
    assert (output.outcome, output.reason, arrived) == ("blocked", "HookFailed", [])
    assert bench.kinds() == [event]
    bench.events.clear()
    output, arrived = await use(bench, msgspec.structs.replace(hook, on_error="warn"))
    assert (output.content, len(arrived)) == ("ran", 1)
    assert bench.kinds() == [event]


@pytest.mark.requirement("D10.11")
async def test_a_patch_is_validated_and_guarded_again_before_anybody_sees_it(bench: Bench) -> None:
    patch = bench.hook(says(decision="allow", patch={"path": "src/b.txt"}))
    keep = bench.hook('cat >"$HOME/told"', name="keep")
    output, (call,) = await use(bench, patch, keep)
    assert output.content == "ran"
    assert (call.input, call.args) == ({"path": "src/b.txt"}, Arguments(path="src/b.txt"))
    assert call.resolved("src/b.txt") == str(bench.workspace / "src/b.txt")
    told = json.loads((bench.workspace.parent / "told").read_text())
    assert told["toolInput"] == {"path": "src/b.txt"}, "the next hook sees what this one made of it"
    (notice,) = bench.events
    assert isinstance(notice, Notice)
    assert notice.message == f"hook {patch.shown} changed the input of write_file"

    for bad, said in (
        ({"path": 5}, "is not valid"),
        ({"path": None}, "missing required field"),
        ({"extra": 1}, "is not valid"),
        ({"path": "../../etc/passwd"}, "outside the workspace"),
    ):
        output, arrived = await use(bench, bench.hook(says(decision="allow", patch=bad)))
        assert (output.outcome, output.reason, arrived) == ("blocked", "HookFailed", [])
        assert said in output.content


async def test_what_was_told_after_a_patched_call_is_the_input_that_ran(bench: Bench) -> None:
    patch = bench.hook(says(decision="allow", patch={"path": "b"}))
    keep = bench.hook('cat >"$HOME/told"', event="PostToolUse", name="keep")
    hooks = bench.hooks(patch, keep)
    call = call_of(WRITE, path="a")
    await Line(bench, hooks).run(call)
    await hooks.tool_ended(call, ToolResult(call_id=call.id, tool=call.name, outcome="ok", content=""))
    told = json.loads((bench.workspace.parent / "told").read_text())
    assert told["toolInput"] == {"path": "b"}


async def test_a_hook_may_want_a_person_to_decide_or_only_warn(bench: Bench) -> None:
    ask = bench.hook(says(decision="ask", message="a release"))
    second = bench.hook(says(decision="ask"), name="second")
    _, (call,) = await use(bench, ask, second)
    assert call.must_ask == f"hook {ask.shown}: a release"
    _, (call,) = await use(bench, second)
    assert call.must_ask == f"hook {second.shown} asks"
    warn = bench.hook(says(decision="warn", message="big file"), name="warn")
    _, (call,) = await use(bench, warn)
    assert call.must_ask == ""
    assert bench.events == [Notice(reason="HookWarned", message=f"hook {warn.shown}: big file")]


async def test_behind_permission_a_hook_can_only_say_no(bench: Bench) -> None:
    late = {"phase": "after_permission"}
    keep = bench.hook('cat >"$HOME/told"', **late)
    output, _ = await use(bench, keep)
    assert output.content == "ran"
    assert json.loads((bench.workspace.parent / "told").read_text())["decision"] == "allow"
    output, arrived = await use(bench, bench.hook("echo no >&2; exit 2", **late))
    assert (output.reason, arrived) == ("HookBlocked", [])
    for answer in ({"decision": "allow", "patch": {"path": "b"}}, {"decision": "ask"}):
        output, arrived = await use(bench, bench.hook(says(**answer), **late))
        assert (output.reason, arrived) == ("HookFailed", [])
        assert "settled already" in output.content


async def test_hooks_before_permission_come_before_those_after_it(bench: Bench) -> None:
    order = 'printf "%s " "${0##*/}" >>"$HOME/order"'
    late = bench.hook(order, name="late", phase="after_permission")
    await use(bench, late, bench.hook(order, name="early"))
    assert (bench.workspace.parent / "order").read_text() == "early late "


@pytest.mark.requirement("T14.4")
async def test_callables_continue_block_or_modify(bench: Bench) -> None:
    hooks = bench.hooks()
    hooks.register("PreToolUse", lambda _context: Continue())
    hooks.register(
        "PreToolUse", lambda context: Modify({**context.tool_input, "content": "x"}), tool="write_*"
    )
    hooks.register("PreToolUse", lambda _context: Block("never here"), tool="bash", name="bash-gate")
    line = Line(bench, hooks)
    await line.run(call_of(WRITE, path="a"))
    assert line.arrived[0].args == Arguments(path="a", content="x")
    hooks.register("PreToolUse", lambda _context: Block("frozen"), name="freeze")
    output = await line.run(call_of(WRITE, path="a"))
    assert output.content == "write_file was not run: hook freeze blocked it: frozen"
    hooks = bench.hooks()
    hooks.register("PreToolUse", lambda _context: Modify({"path": "../x"}), name="wild")
    output = await Line(bench, hooks).run(call_of(WRITE, path="a"))
    assert (output.outcome, output.reason) == ("blocked", "HookFailed")


async def test_a_workspace_program_runs_only_as_it_was_approved(bench: Bench) -> None:
    """The person's own hook, but the program it names belongs to the project: an agent could have changed it."""
    program = bench.script("scripts/check", "exit 0", folder=bench.workspace)
    for command in ("scripts/check", "true && ./scripts/check --all", ["/bin/sh", "scripts/check"]):
        bench.trusted.clear()
        hook = hook_from({"event": "PreToolUse", "command": command})
        output, arrived = await use(bench, hook)
        assert (output.reason, arrived) == ("HookNotApproved", [])
        bench.script("scripts/check", "exit 0", folder=bench.workspace)
        bench.trusted.add((program, content_digest(program) or ""))
        output, arrived = await use(bench, hook)
        assert output.content == "ran"
        bench.script("scripts/check", "touch stolen", folder=bench.workspace)
        output, arrived = await use(bench, hook)
        assert (output.outcome, arrived) == ("blocked", [])
        assert not (bench.workspace / "stolen").exists()


async def test_a_store_that_fails_ends_the_turn_and_is_no_hooks_failure(bench: Bench) -> None:
    def full(_event: object) -> None:
        raise StoreError("StoreUnwritable")

    hooks = bench.hooks(bench.hook("exit 1"))
    hooks.around = msgspec.structs.replace(hooks.around, emit=full)
    with pytest.raises(StoreError):
        await Line(bench, hooks).run(call_of(WRITE, path="a"))
