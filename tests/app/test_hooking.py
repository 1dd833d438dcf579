"""Hooks in a real session: each moment reaches real programs, and what they say counts."""

import json
from pathlib import Path

import pytest

from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind, outcomes
from bridle.protocol.commands import AnswerPermission
from bridle.protocol.events import (
    ContextAdded,
    HookError,
    HookTimeout,
    Notice,
    PermissionDecided,
    PermissionRequested,
    ToolResult,
    TurnEnded,
)
from bridle.providers.script import call, say
from bridle.safety.trust.approvals import Approvals, content_digest


class Home:
    """A person's folder with hooks in it, and what they noted."""

    def __init__(self, root: Path) -> None:
        self.root = root / "home"
        self.notes = root / "notes"
        self.work = root / "work"
        self.work.mkdir()
        self._hooks: list[str] = []

    def hook(self, event: str, script: str, **settings: str | int) -> None:
        """A hook of the person's own, noting what it gets on stdin."""
        path = self.root / "programs" / f"{event}-{len(self._hooks)}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\ncat >> {self.notes}; echo >> {self.notes}\n{script}\n")
        path.chmod(0o755)
        lines = [
            f'event = "{event}"',
            f'command = ["{path}"]',
            *(f"{k} = {json.dumps(v)}" for k, v in settings.items()),
        ]
        self._hooks.append("\n".join(["[[hooks]]", *lines]))
        config = self.root / "config" / "config.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text("\n\n".join(self._hooks))

    def heard(self) -> list[dict[str, object]]:
        text = self.notes.read_text() if self.notes.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line]

    def session(self, *answers, **options):
        return harness(scripted(*answers), home=str(self.root), folder=str(self.work), **options)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.requirement("D10.1", "T14.1", "D7.5", "H9.2")
async def test_every_moment_of_a_session_is_told(home: Home) -> None:
    told = (
        "SessionStart", "SessionEnd", "UserPromptSubmit", "BeforeModelRequest", "AfterModelResponse",
        "PreToolUse", "PostToolUse", "ToolError", "PermissionRequest", "Stop",
    )  # fmt: skip
    for event in told:
        home.hook(event, "exit 0")
    async with home.session(
        call("bash", command="touch a"), call("read_file", path="none"), say("Done."), yes=True
    ) as session:
        await session.ask("go")
    order = [str(one["event"]) for one in home.heard()]
    assert order == [
        "SessionStart", "UserPromptSubmit", "BeforeModelRequest", "AfterModelResponse", "PreToolUse",
        "PermissionRequest", "PostToolUse", "BeforeModelRequest", "AfterModelResponse", "PreToolUse",
        "PostToolUse", "ToolError", "BeforeModelRequest", "AfterModelResponse", "Stop", "SessionEnd",
    ]  # fmt: skip
    assert set(order) == set(told)


@pytest.mark.requirement("H9.3")
@pytest.mark.requirement("H9.9", "C8")
async def test_a_block_beats_what_would_be_allowed_and_says_who(home: Home) -> None:
    home.hook("PreToolUse", 'echo "generated file" >&2; exit 2', tool="write_file|bash")
    async with home.session(
        call("bash", command="touch a"), say("Done."), mode="yolo", allow=("bash",)
    ) as session:
        events = await session.ask("go")
    (result,) = of_kind(events, ToolResult)
    assert (result.outcome, result.reason) == ("blocked", "HookBlocked")
    assert "generated file" in result.content
    assert of_kind(events, PermissionDecided) == []
    assert list(home.work.iterdir()) == []


@pytest.mark.requirement("D10.8", "D10.11")
async def test_a_patched_input_is_what_is_asked_about_and_what_runs(home: Home) -> None:
    home.hook("PreToolUse", """echo '{"decision":"allow","patch":{"command":"touch b"}}'""", tool="bash")
    async with home.session(call("bash", command="touch a"), say("Done."), answers=True) as session:
        number = await session.send("go")
        request = await session.until(PermissionRequested, since=number)
        assert request.input["command"] == "touch b"
        await session.connection.send(
            AnswerPermission(session=session.id, call_id=request.call_id, answer="once")
        )
        events = await session.turn_of(number)
    assert outcomes(events) == ["ok"]
    assert [path.name for path in home.work.iterdir()] == ["b"]


async def test_a_patch_that_a_guard_refuses_does_not_run(home: Home) -> None:
    home.hook("PreToolUse", """echo '{"decision":"allow","patch":{"command":"secret-tool lookup a b"}}'""")
    async with home.session(call("bash", command="touch a"), say("Done."), mode="yolo") as session:
        events = await session.ask("go")
    (result,) = of_kind(events, ToolResult)
    assert (result.outcome, result.reason) == ("blocked", "HookFailed")
    assert list(home.work.iterdir()) == []


async def test_a_hook_answers_a_permission_question_and_the_log_says_so(home: Home) -> None:
    home.hook("PermissionRequest", """echo '{"decision":"allow"}'""")
    async with home.session(call("bash", command="touch a"), say("Done.")) as session:
        events = await session.ask("go")
    assert outcomes(events) == ["ok"]
    (decided,) = of_kind(events, PermissionDecided)
    assert (decided.verdict, decided.decided_by) == ("allow", "hook")


async def test_a_hook_that_denies_a_question_is_heard_before_yes(home: Home) -> None:
    home.hook("PermissionRequest", "echo 'not today' >&2; exit 2")
    async with home.session(call("bash", command="touch a"), say("Done."), yes=True) as session:
        events = await session.ask("go")
    (result,) = of_kind(events, ToolResult)
    assert (result.outcome, result.reason) == ("denied", "HookBlocked")
    assert "not today" in result.content


MODULE = """
def no_a(told):
    print("looking at", told["toolInput"]["command"])
    if told["toolInput"]["command"] == "touch a":
        return {"decision": "block", "message": f"not on {told['event']}"}

def slip(told):
    return False

class Late:
    def forever(told):
        while True:
            pass
    forever = staticmethod(forever)
"""


def scripts(home: Home, script: str, more: str = "") -> None:
    """A hook that is a function of the module beside the person's own settings."""
    folder = home.root / "config" / "hooks"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(MODULE)
    text = f'[[hooks]]\nevent = "PreToolUse"\ntool = "bash"\nscript = "{script}"\n{more}'
    (folder.parent / "config.toml").write_text(text)
    (home.work / "mine.py").write_text("raise SystemExit(0)\n")  # what lies in the project is not imported


@pytest.mark.requirement("D10.10", "C7")
async def test_a_hook_may_be_a_python_function_of_the_persons_own(home: Home) -> None:
    scripts(home, "mine:no_a")
    steps = (call("bash", command="touch a"), call("bash", command="touch b"), say("Done."))
    async with home.session(*steps, mode="yolo") as session:
        events = await session.ask("go")
    first, second = of_kind(events, ToolResult)
    assert (first.outcome, first.reason, second.outcome) == ("blocked", "HookBlocked", "ok")
    assert "mine:no_a" in first.content
    assert "not on PreToolUse" in first.content
    assert sorted(path.name for path in home.work.iterdir()) == ["b", "mine.py"]
    assert [path.name for path in (home.root / "config" / "hooks").iterdir()] == ["mine.py"]


@pytest.mark.requirement("G44.4")
@pytest.mark.requirement("D10.10")
@pytest.mark.parametrize(
    ("script", "more", "event"),
    [
        ("mine:slip", "", HookError),
        ("mine:nothing_of_this_name", "", HookError),
        ("no_such_module:f", "", HookError),
        ("mine:Late.forever", "timeout_ms = 900", HookTimeout),
    ],
)
async def test_a_function_that_fails_or_is_late_blocks(
    home: Home, script: str, more: str, event: type
) -> None:
    scripts(home, script, more)
    async with home.session(call("bash", command="touch a"), say("Done."), mode="yolo") as session:
        events = await session.ask("go")
    assert outcomes(events) == ["blocked"]
    assert [one.command for one in of_kind(events, event)] == [script]


async def test_a_blocked_input_never_reaches_the_model(home: Home) -> None:
    home.hook(
        "UserPromptSubmit", 'grep -q password && { echo "no passwords" >&2; exit 2; } < /dev/null; exit 0'
    )
    home.hook("UserPromptSubmit", f"grep -q password {home.notes} && exit 2; exit 0")
    model = RecordingModel(scripted(say("Hello.")))
    async with harness(model, home=str(home.root), folder=str(home.work)) as session:
        blocked = await session.ask("my password")
        home.notes.unlink()
        await session.ask("hi")
    (ended,) = of_kind(blocked, TurnEnded)
    assert (ended.stop, ended.reason) == ("error", "InputBlocked")
    assert len(model.requests) == 1
    assert b"password" not in model.requests[0].body


async def test_what_hooks_add_joins_the_conversation(home: Home) -> None:
    home.hook("SessionStart", """echo '{"decision":"allow","metadata":{"context":"on branch main"}}'""")
    async with home.session(say("Hello.")) as session:
        await session.ask("hi")
        stored = [entry.event for entry in await session.stored()]
    assert "on branch main" in str(of_kind(stored, ContextAdded))


@pytest.mark.requirement("G1.25", "G39.4", "H9.10")
async def test_hooks_of_a_project_do_not_count_by_themselves(home: Home) -> None:
    marker = home.work / "ran"
    folder = home.work / ".bridle" / "hooks"
    folder.mkdir(parents=True)
    program = folder / "SessionStart"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    async with home.session(say("Hello."), allow_project_hooks=True) as session:
        await session.ask("hi")
        stored = [entry.event for entry in await session.stored()]
    assert not marker.exists()
    assert any(
        notice.reason == "HooksIgnored" and ".bridle/hooks/SessionStart" in notice.message
        for notice in of_kind(stored, Notice)
    )


@pytest.mark.requirement("G47.10")
async def test_a_late_hook_explains_itself(home: Home) -> None:
    home.hook("PreToolUse", "exec sleep 600", timeout_ms=50)
    async with home.session(call("bash", command="ls"), say("Done.")) as session:
        (result,) = of_kind(await session.ask("go"), ToolResult)
    assert result.outcome == "blocked"
    assert "exceeded its 0.05s deadline. Killed" in result.content


@pytest.mark.requirement("G47.10")
async def test_a_hook_that_changed_since_it_was_agreed_to_explains_itself(home: Home) -> None:
    program = home.work / ".bridle/hooks/PreToolUse"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    digest = content_digest(program.read_bytes())
    approvals = Approvals(str(home.root / "config"))
    approvals.add(".bridle/hooks/PreToolUse", digest, kind="hook", root=str(home.work))
    answers = (call("bash", command="ls"), say("Done."), call("bash", command="ls"), say("Done."))
    async with home.session(*answers, allow_project_hooks=True) as session:
        before = await session.ask("go")
        program.write_text(f"#!/bin/sh\ntouch {home.work}/stolen\n")
        after = await session.ask("again")
    assert (outcomes(before), outcomes(after)) == (["ok"], ["blocked"])
    (result,) = of_kind(after, ToolResult)
    assert "changed since you last approved it." in result.content
    assert not (home.work / "stolen").exists()


@pytest.mark.requirement("H9.4")
async def test_a_broken_gate_blocks_and_is_recorded(home: Home) -> None:
    home.hook("PreToolUse", "exit 7")
    async with home.session(call("bash", command="ls"), say("Done.")) as session:
        events = await session.ask("go")
    assert outcomes(events) == ["blocked"]
    (error,) = of_kind(events, HookError)
    assert error.exit_code == 7


CHANGES = [
    call("bash", command="touch made"),
    call("write_file", path="made", content="x"),
    call("edit_file", path="here", old_string="a", new_string="b"),
    call("apply_patch", patch="*** Begin Patch\n*** Add File: made\n+x\n*** End Patch"),
]


@pytest.mark.requirement("D1.3")
@pytest.mark.parametrize("change", CHANGES, ids=["bash", "write_file", "edit_file", "apply_patch"])
async def test_nothing_changes_but_through_hooks_and_permission(home: Home, change) -> None:
    (home.work / "here").write_text("a")
    async with home.session(change, say("Done."), mode="safe") as session:
        assert outcomes(await session.ask("go")) == ["denied"]
    home.hook("PreToolUse", "exit 2")
    async with home.session(change, say("Done."), mode="yolo") as session:
        assert outcomes(await session.ask("go")) == ["blocked"]
    assert [(path.name, path.read_text()) for path in home.work.iterdir()] == [("here", "a")]
