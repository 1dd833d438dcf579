"""The moments of a session: who is told, what counts as an answer there, and what a failure means."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from bridle.base.secrets.redact import stored_marker
from bridle.engine.dispatch import Submitted
from bridle.engine.tools import Tool, ToolCall, ToolOutput
from bridle.protocol.events import HookError, HookTimeout, Notice, ToolResult
from bridle.safety.hooks.definitions import EVENTS, Actor, HookContext, hook_from
from bridle.safety.hooks.session_hooks import Block, Continue, Hooks, Modify
from bridle.safety.permitted import HookWord

from .conftest import Bench, Ready, call_of

KEEP = 'cat >>"$HOME/told"'


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str


async def _run(_args: Any, _context: Any) -> ToolOutput:
    return ToolOutput()


WRITE = Tool(name="write_file", description="", input=Arguments, risk="write", run=_run)


def ended(call: ToolCall, outcome: Any = "ok", *, content: str = "", reason: str | None = None) -> ToolResult:
    return ToolResult(call_id=call.id, tool=call.name, outcome=outcome, content=content, reason=reason)


def told(bench: Bench) -> list[dict[str, Any]]:
    """What hooks were told, in order."""
    path = bench.workspace.parent / "told"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def every_moment(hooks: Hooks, *, failed: bool = False) -> None:
    call = call_of(WRITE, path="a")
    result = ended(call, "error" if failed else "ok", content="out")
    await hooks.session_started(resumed=True)
    await hooks.input_submitted("fix it")
    await hooks.before_model_request(model="p:m", step=4)
    await hooks.after_model_response(model="p:m", step=4, text="done", calls=("bash",))
    await hooks.permission_requested(call, "it writes")
    await hooks.tool_ended(call, result)
    await hooks.compacting()
    await hooks.turn_ended("error" if failed else "end_turn", "StepLimit" if failed else None)
    await hooks.session_ended("user")


async def test_every_moment_is_told_with_its_facts(bench: Bench) -> None:
    hooks = bench.hooks(*(bench.hook(KEEP, event=event, name=event) for event in EVENTS))
    await every_moment(hooks)
    await every_moment(hooks, failed=True)
    heard = told(bench)
    moments = [
        "SessionStart", "UserPromptSubmit", "BeforeModelRequest", "AfterModelResponse", "PermissionRequest",
        "PostToolUse", "Compact", "Stop", "SessionEnd",
    ]  # fmt: skip
    failed = [*moments[:6], "ToolError", "Compact", "TurnFailed", "SessionEnd"]
    assert [one["event"] for one in heard] == [*moments, *failed]
    by_event = {one["event"]: one for one in heard}
    assert all((one["sessionId"], one["turnId"]) == ("sess_1", 3) for one in heard)
    for event, facts in {
        "SessionStart": {"resumed": True},
        "UserPromptSubmit": {"prompt": "fix it"},
        "BeforeModelRequest": {"model": "p:m", "step": 4},
        "AfterModelResponse": {"text": "done", "calls": ["bash"]},
        "PermissionRequest": {"toolInput": {"path": "a"}, "decision": "ask", "why": "it writes"},
        "PostToolUse": {"toolOutput": "out", "outcome": "error", "toolInput": {"path": "a"}},
        "ToolError": {"toolOutput": "out", "callId": "call_7"},
        "TurnFailed": {"stop": "error", "reason": "StepLimit"},
        "SessionEnd": {"cause": "user"},
    }.items():
        assert facts.items() <= by_event[event].items(), event
    assert bench.events == []


async def test_where_nobody_listens_nothing_happens(bench: Bench) -> None:
    hooks = bench.hooks(
        bench.hook("exit 2", tool="bash"), bench.hook("exit 2", event="PostToolUse", tool="bash")
    )
    await every_moment(hooks)
    assert await bench.hooks().input_submitted("x") == Submitted()
    assert bench.events == []


async def test_a_stopped_turn_is_neither_complete_nor_failed(bench: Bench) -> None:
    hooks = bench.hooks(*(bench.hook(KEEP, event=event) for event in ("Stop", "TurnFailed")))
    await hooks.turn_ended("cancelled")
    await hooks.turn_ended("max_tokens")
    assert [one["event"] for one in told(bench)] == ["Stop"]


@pytest.mark.requirement("H9.5")
async def test_failures_behind_a_tool_are_recorded_and_block_nothing(bench: Bench) -> None:
    hooks = bench.hooks(
        bench.hook("echo broken >&2; exit 3", event="PostToolUse", name="a", on_error="block"),
        bench.hook("echo no >&2; exit 2", event="PostToolUse", name="b"),
        bench.hook(KEEP, event="PostToolUse", name="c"),
    )
    call = call_of(WRITE, path="a")
    await hooks.tool_ended(call, ended(call))
    failed, cannot = bench.events
    assert isinstance(failed, HookError)
    assert (failed.event, failed.exit_code, failed.message) == ("PostToolUse", 3, "exit code 3: broken")
    assert isinstance(cannot, Notice)
    assert cannot.message.endswith("/b cannot block PostToolUse: no")
    assert len(told(bench)) == 1


@pytest.mark.parametrize(
    ("outcome", "reason", "events"),
    [
        ("ok", None, ["PostToolUse"]),
        ("error", "ToolCrashed", ["PostToolUse", "ToolError"]),
        ("timeout", "ToolTimeout", ["PostToolUse", "ToolError"]),
        ("error", "InvalidInput", ["ToolError"]),
        ("denied", "RuleDenied", []),
        ("blocked", "HookBlocked", []),
        ("cancelled", "ToolCancelled", []),
    ],
)
async def test_only_what_ran_is_told_as_used(
    bench: Bench, outcome: Any, reason: str | None, events: list[str]
) -> None:
    hooks = bench.hooks(
        *(bench.hook(KEEP, event=event, name=event) for event in ("PostToolUse", "ToolError"))
    )
    call = call_of(WRITE, path="a")
    await hooks.tool_ended(call, ended(call, outcome, reason=reason))
    assert [one["event"] for one in told(bench)] == events


async def test_an_output_is_shown_without_secrets(bench: Bench) -> None:
    key, shaped = "plain" + "word" * 2, "sk-" + "a1B2" * 12
    bench.secrets = [key, ""]
    hooks = bench.hooks(
        *(bench.hook(KEEP, event=event, name=event) for event in ("PostToolUse", "AfterModelResponse"))
    )
    call = call_of(WRITE, path=shaped)
    result = ended(call, content=f"{key} {shaped}")
    await hooks.tool_ended(call, result)
    await hooks.after_model_response(model="m", step=1, text=f"use {key}", calls=())
    after, answered = told(bench)
    assert key not in after["toolOutput"]
    assert shaped not in after["toolOutput"]
    assert after["toolInput"] == {"path": shaped}, "the input is what really ran"
    assert answered["text"] == f"use {stored_marker('key')}"


@pytest.mark.requirement("G44.4")
async def test_killed_and_failing_programs_leave_distinct_events(bench: Bench) -> None:
    late = bench.hook("sleep 600", event="Stop", name="late", timeout_ms=50)
    broken = bench.hook("exit 7", event="Stop", name="broken")
    await bench.hooks(late, broken, kill_after_s=0.1).turn_ended("end_turn")
    assert bench.events == [
        HookTimeout(event="Stop", command=late.shown, timeout_ms=50),
        HookError(event="Stop", command=broken.shown, exit_code=7, message="exit code 7"),
    ]


async def test_an_input_can_be_stopped_or_given_more_context(bench: Bench) -> None:
    context = json.dumps({"decision": "allow", "metadata": {"context": "branch: main"}})
    more = bench.hook(f"echo '{context}'", event="UserPromptSubmit", name="more")
    assert await bench.hooks(more).input_submitted("hi") == Submitted(context="branch: main")
    stop = bench.hook("echo 'not on Fridays' >&2; exit 2", event="UserPromptSubmit", name="stop")
    never = bench.hook(KEEP, event="UserPromptSubmit", name="never")
    blocked = await bench.hooks(more, stop, never).input_submitted("deploy")
    assert (blocked.blocked_by, blocked.message) == (stop.shown, "not on Fridays")
    assert told(bench) == []
    broken = bench.hook("exit 1", event="UserPromptSubmit", name="broken")
    assert "exit code 1" in (await bench.hooks(broken).input_submitted("x")).message
    assert (
        await bench.hooks(msgspec.structs.replace(broken, on_error="warn")).input_submitted("x")
    ).blocked_by == ""


async def test_a_question_may_be_answered_by_the_persons_own_hook(bench: Bench) -> None:
    yes = bench.hook("""echo '{"decision": "allow"}'""", event="PermissionRequest", name="yes")
    no = bench.hook("echo never >&2; exit 2", event="PermissionRequest", name="no")
    silent = bench.hook("exit 0", event="PermissionRequest", name="silent")
    broken = bench.hook("exit 9", event="PermissionRequest", name="broken")
    call = call_of(WRITE, path="a")
    allowed = HookWord(verdict="allow", by=yes.shown)
    assert await bench.hooks(silent).permission_requested(call, "") is None
    assert await bench.hooks(silent, yes).permission_requested(call, "") == allowed
    denied = await bench.hooks(yes, no).permission_requested(call, "")
    assert denied == HookWord(verdict="deny", by=no.shown, message="never")
    asked = msgspec.structs.replace(call, must_ask="hook x asks")
    assert await bench.hooks(yes).permission_requested(asked, "") is None
    foreign = msgspec.structs.replace(yes, scope="project")
    assert await bench.hooks(foreign).permission_requested(call, "") is None
    failed = await bench.hooks(broken, yes).permission_requested(call, "")
    assert failed is not None
    assert failed.verdict == "deny"


@pytest.mark.requirement("G47.10")
async def test_a_changed_or_late_hook_explains_itself(bench: Bench) -> None:
    path = bench.script("check", "exit 0", folder=bench.workspace / ".bridle/hooks")
    hook = hook_from({"event": "UserPromptSubmit", "command": [path]}, scope="project", approved=(path,))
    changed = await bench.hooks(hook).input_submitted("x")
    sentence = (
        f"{path} changed since you last approved it. Review the diff (TUI: 'v' opens the diff viewer). "
        "Re-ack to continue."
    )
    assert bench.events == [Notice(reason="HookHashChanged", message=sentence)]
    assert sentence in changed.message
    late = bench.hook("sleep 600", event="UserPromptSubmit", timeout_ms=50)
    blocked = (await bench.hooks(late, kill_after_s=0.1).input_submitted("x")).message
    assert f"Hook 'UserPromptSubmit' command '{late.shown}' exceeded its 0.05s deadline. Killed." in blocked


@pytest.mark.requirement("T14.2")
async def test_callables_run_in_the_order_of_their_registration_after_programs(bench: Bench) -> None:
    order: list[str] = []

    def named(name: str):
        def run(context: HookContext) -> Continue:
            order.append(f"{name} {len(told(bench))} {context.prompt}")
            return Continue()

        return run

    hooks = bench.hooks(bench.hook(KEEP, event="UserPromptSubmit"))
    for name in ("a", "b", "c"):
        hooks.register("UserPromptSubmit", named(name))
    await hooks.input_submitted("hi")
    assert order == ["a 1 hi", "b 1 hi", "c 1 hi"]


async def test_a_callable_that_breaks_or_mumbles_at_a_gate_blocks(bench: Bench) -> None:
    for wrong in (lambda context: context.nothing, lambda _context: True):
        hooks = bench.hooks()
        hooks.register("UserPromptSubmit", wrong, name="own")
        assert (await hooks.input_submitted("x")).blocked_by == "own"
    assert bench.kinds() == ["HookError", "HookError"]
    hooks = bench.hooks()
    hooks.register("UserPromptSubmit", lambda _context: Block("closed"))
    assert (await hooks.input_submitted("x")).message == "closed"
    hooks = bench.hooks()
    hooks.register("Stop", lambda _context: Modify({}))
    await hooks.turn_ended("end_turn")


async def test_a_child_has_the_hooks_of_its_session(bench: Bench) -> None:
    hooks = bench.hooks(bench.hook(KEEP, event="PostToolUse"))
    child = hooks.acting_as(
        Actor(
            session="sess_1", cwd=str(bench.workspace), agent="tester", agent_path=("t",), invocation="inv_1"
        )
    )
    hooks.register("PostToolUse", lambda _context: None)
    call = call_of(WRITE, path="a")
    await child.tool_ended(call, ended(call))
    (heard,) = told(bench)
    assert (heard["agent"], heard["agentPath"], heard["invocationId"]) == ("tester", ["t"], "inv_1")


async def test_cancelling_while_a_hook_runs_passes_through(bench: Bench) -> None:
    ready = Ready(bench.workspace)
    hooks = bench.hooks(bench.hook(f"{ready.tell}; sleep 600", event="Stop"))
    waiting = asyncio.create_task(hooks.turn_ended("end_turn"))
    await ready.told()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert bench.events == []
