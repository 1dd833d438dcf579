"""The permission layer: one audit event per evaluation, denials as results, grants from answers."""

import shlex

import msgspec
import pytest

from bridle.base.fs.paths import session_folders
from bridle.conformance.fake_clock import FakeClock
from bridle.engine.open_questions import PermissionAnswer
from bridle.protocol.errors import StoreError
from bridle.protocol.events import (
    CommandPart,
    GrantAdded,
    Notice,
    Offer,
    PermissionDecided,
    PermissionRequested,
)
from bridle.safety.grants import SavedGrants
from bridle.safety.guards import PathPolicy, guarded
from bridle.safety.permission_policy import Permissions
from bridle.safety.permitted import permitted
from bridle.safety.rules import Rule, parse_rule
from safety.script_kit import understood
from tables import table

pytestmark = pytest.mark.requirement("T5.1", "H7.5")


class Desk:
    """Guard and permission layer around a call, with a person who gives one answer."""

    def __init__(self, calls, workspace, answer=None, mode="default", **options) -> None:
        folders = session_folders(str(workspace))
        self.calls = calls
        self.answer = answer
        self.asked: list[PermissionRequested] = []
        self.log: list[PermissionDecided | GrantAdded | Notice] = []
        self.permissions = Permissions(folders=folders, mode=lambda: mode, **options)
        self._guard = guarded(PathPolicy(folders=folders))
        self._gate = permitted(self.permissions, self._put, self.log.append)

    async def _put(self, request: PermissionRequested, _is_open) -> PermissionAnswer:
        self.asked.append(request)
        assert self.answer is not None, "nobody expected a question"
        return self.answer

    async def run(self, tool: str, **arguments):
        risk, access = {"bash": ("shell", "run"), "write_file": ("write", "write")}.get(
            tool, ("read", "read")
        )
        call = self.calls.make(tool, risk=risk, access=access, **arguments)
        return await self._guard(call, lambda guarded_call: self._gate(guarded_call, self.calls.proceed))


def yes(answer: str = "once") -> PermissionAnswer:
    return PermissionAnswer(answer=answer, answered_by="client_2")


def no(reason="PermissionDenied", **fields) -> PermissionAnswer:
    waited_s = 60 if reason == "PermissionTimeout" else 0
    return PermissionAnswer(answer="deny", reason=reason, waited_s=waited_s, **fields)


async def test_a_quiet_read_is_allowed_and_audited(calls, workspace) -> None:
    desk = Desk(calls, workspace)
    assert (await desk.run("read_file", path="src/a.py")).ok
    assert desk.log == [
        PermissionDecided(
            call_id="call_7", tool="read_file", verdict="allow", decided_by="mode", rule="default", step=6
        )
    ]


@pytest.mark.requirement("T5.5", "H7.6", "T2.8")
async def test_a_denied_call_is_a_result_with_evidence_and_an_audit(calls, workspace) -> None:
    rule = Rule(
        "bash", "deny", command="rm*", reason="Nothing is deleted here.", origin="user config, line 3"
    )
    desk = Desk(calls, workspace, rules=[rule], mode="yolo", yes=True)
    output = await desk.run("bash", command="cd x; rm -rf y")
    assert calls.ran == []
    assert (output.outcome, output.reason) == ("denied", "RuleDenied")
    assert output.content == (
        "bash is denied by rule bash(rm*) (user config, line 3). Nothing is deleted here."
    )
    assert (output.evidence.source, output.evidence.matched) == ("permission_engine", "cd x; rm -rf y")
    assert desk.log == [
        PermissionDecided(
            call_id="call_7",
            tool="bash",
            verdict="deny",
            decided_by="rule",
            rule="bash(rm*)",
            origin="user config, line 3",
            reason="RuleDenied",
            note="Nothing is deleted here.",
            step=2,
        )
    ]


@pytest.mark.requirement("T4.2")
@table("mode", ["safe", "plan"])
async def test_neither_a_person_nor_the_yes_flag_upgrades_a_mode_that_denies(calls, workspace, mode) -> None:
    desk = Desk(calls, workspace, answer=yes(), mode=mode, yes=True)
    output = await desk.run("bash", command="ls")
    assert (output.outcome, output.reason, desk.asked, calls.ran) == ("denied", "ModeDenied", [], [])
    assert output.content == f"Mode {mode} does not allow bash (shell)."


async def test_the_yes_flag_answers_questions(calls, workspace) -> None:
    desk = Desk(calls, workspace, yes=True)
    assert (await desk.run("bash", command="ls")).ok
    assert (desk.asked, desk.log[0].decided_by, desk.log[0].verdict) == ([], "yes", "allow")


@pytest.mark.requirement("T4.4", "D11.1")
async def test_the_yes_flag_and_yolo_lift_no_guard(calls, workspace) -> None:
    desk = Desk(calls, workspace, mode="yolo", yes=True, rules=[parse_rule("edit(/**)", "allow")])
    output = await desk.run("write_file", path="../outside")
    assert (output.outcome, desk.log, calls.ran) == ("blocked", [], [])


@pytest.mark.requirement("H7.5", "T4.6")
async def test_the_question_says_why_and_the_answer_is_audited(calls, workspace) -> None:
    desk = Desk(calls, workspace, answer=yes())
    assert (await desk.run("bash", command="ls")).ok
    assert [request.why for request in desk.asked] == [
        "mode=default tool=bash risk=shell action=approval_required; step=6 decided_by=mode; rule=default; a note"
    ]
    assert [(entry.decided_by, entry.answered_by) for entry in desk.log] == [("person", "client_2")]
    await desk.run("bash", command="ls")
    assert len(desk.asked) == 2, "once means once"


async def test_a_no_reaches_the_model_with_the_persons_words(calls, workspace) -> None:
    desk = Desk(calls, workspace, answer=no(answered_by="client_2", note="keep build/cache"))
    output = await desk.run("bash", command="rm -rf build")
    assert (output.outcome, output.reason) == ("denied", "PermissionDenied")
    assert output.content.startswith("Permission denied for bash by client_2.")
    assert output.content.endswith("They said: keep build/cache")
    assert (desk.log[0].note, desk.log[0].verdict, desk.log[0].decided_by) == (
        "keep build/cache",
        "deny",
        "person",
    )


@table(
    ("reason", "words"),
    [
        ("NoApprover", "To allow it: --allow 'bash(npm test && make)'"),
        ("PermissionTimeout", "not answered within 60s"),
    ],
)
async def test_nobody_is_a_no_that_says_what_would_allow_it(calls, workspace, reason, words) -> None:
    desk = Desk(calls, workspace, answer=no(reason))
    output = await desk.run("bash", command="npm test && make")
    assert (output.outcome, output.reason) == ("denied", reason)
    assert words in output.content
    assert desk.log[0].decided_by == "nobody"


async def test_the_hint_given_to_nobody_really_allows_that_call(calls, workspace) -> None:
    for tool, arguments in (
        ("bash", {"command": "npm test && (make; ls) > x"}),
        ("write_file", {"path": "src/b.py"}),
    ):
        output = await Desk(calls, workspace, answer=no("NoApprover")).run(tool, **arguments)
        rule = shlex.split(output.content.partition("--allow ")[2])[0]
        assert (await Desk(calls, workspace, rules=[parse_rule(rule, "allow")]).run(tool, **arguments)).ok


async def test_a_pattern_answer_grants_exactly_this_command(calls, workspace) -> None:
    desk = Desk(calls, workspace, answer=yes("pattern"))
    await desk.run("bash", command="make *")
    assert desk.log[1] == GrantAdded(grant_id="grant_7", tool="bash", pattern="make *", life="session")
    await desk.run("bash", command="make *")
    assert desk.log[2].decided_by == "grant"
    await desk.run("bash", command="make all")
    assert len(desk.asked) == 2


async def test_a_pattern_answer_grants_exactly_these_paths(calls, workspace) -> None:
    desk = Desk(calls, workspace, answer=yes("pattern"))
    await desk.run("write_file", paths=("in/a.py", "new.py"))
    assert [(entry.grant_id, entry.pattern) for entry in desk.log[1:]] == [
        ("grant_7", "src/a.py"),
        ("grant_7_1", "new.py"),
    ]
    await desk.run("write_file", path="src/a.py")
    await desk.run("write_file", paths=("src/a.py", "other.py"))
    assert len(desk.asked) == 2


async def test_a_tool_answer_grants_the_tool_but_not_the_files_that_later_runs_obey(calls, workspace) -> None:
    desk = Desk(calls, workspace, answer=yes("tool"))
    await desk.run("write_file", path="a")
    await desk.run("write_file", path="b")
    assert len(desk.asked) == 1
    await desk.run("write_file", path=".git/hooks/pre-commit")
    assert len(desk.asked) == 2


async def test_the_question_carries_the_reason_the_parts_and_what_each_answer_remembers(
    calls, workspace
) -> None:
    saved = SavedGrants(str(workspace.parent / "state"), FakeClock().now_ms)
    desk = Desk(calls, workspace, answer=yes(), understand=understood, saved=saved)
    await desk.run("bash", command="rm -rf build && npm run build")
    (request,) = desk.asked
    exactly = {"tool": "bash", "pattern": "rm -rf build && npm run build"}
    assert (request.because, request.risk) == ("it deletes files", "dangerous")
    assert request.parts == (
        CommandPart(text="rm -rf build", command_class="destructive", does="rm does it"),
        CommandPart(text="npm run build", command_class="executes", does="npm does it"),
    )
    assert request.offers == (
        Offer(answer="pattern", **exactly),
        Offer(answer="always", days=7, **exactly),
    )


@pytest.mark.requirement("G8.2")
async def test_a_pattern_answer_to_one_simple_command_grants_it_with_any_arguments(calls, workspace) -> None:
    desk = Desk(calls, workspace, answer=yes("pattern"), understand=understood)
    await desk.run("bash", command="npm test -- -x")
    assert desk.log[1] == GrantAdded(
        grant_id="grant_7", tool="bash", pattern="npm test", life="session", match="key"
    )
    await desk.run("bash", command="npm test -- -y")
    assert (len(desk.asked), desk.log[2].decided_by) == (1, "grant")


@pytest.mark.requirement("D17.1", "C5")
async def test_always_is_saved_for_this_project_for_seven_days(calls, workspace) -> None:
    clock = FakeClock()
    saved = SavedGrants(str(workspace.parent / "state"), clock.now_ms)
    desk = Desk(calls, workspace, answer=yes("always"), understand=understood, saved=saved)
    await desk.run("bash", command="make")
    assert desk.log[1] == GrantAdded(
        grant_id="grant_7",
        tool="bash",
        pattern="make",
        life="saved",
        expires_ms=clock.now_ms() + 7 * 86_400_000,
    )
    later = Desk(calls, workspace, understand=understood, saved=saved)
    assert (await later.run("bash", command="make")).ok
    assert (later.asked, later.log[0].decided_by, later.log[0].rule) == ([], "grant", "grant_7")
    elsewhere = Desk(calls, workspace / "src", answer=no(), understand=understood, saved=saved)
    await elsewhere.run("bash", command="make")
    assert len(elsewhere.asked) == 1
    await clock.advance(7 * 86_400)
    expired = Desk(calls, workspace, answer=no(), understand=understood, saved=saved)
    await expired.run("bash", command="make")
    assert len(expired.asked) == 1


@pytest.mark.requirement("D17.2")
async def test_where_nothing_is_saved_an_answer_that_would_be_is_a_yes_for_once(calls, workspace) -> None:
    desk = Desk(calls, workspace, answer=yes("always"), understand=understood)
    assert (await desk.run("bash", command="make")).ok
    assert (len(desk.log), "always" in [offer.answer for offer in desk.asked[0].offers]) == (1, False)
    await desk.run("bash", command="make")
    assert len(desk.asked) == 2


@pytest.mark.requirement("D17.2", "D11.3")
async def test_no_grant_lifts_a_rule_that_denies(calls, workspace) -> None:
    saved = SavedGrants(str(workspace.parent / "state"), FakeClock().now_ms)
    grant = GrantAdded(grant_id="g", tool="bash", pattern="make", life="saved")
    saved.add(str(workspace.resolve()), grant)
    desk = Desk(calls, workspace, rules=[parse_rule("bash(make)", "deny")], saved=saved)
    desk.permissions.remember(GrantAdded(grant_id="h", tool="bash", pattern="", life="session"))
    assert (await desk.run("bash", command="make")).reason == "RuleDenied"


async def test_a_yes_that_cannot_be_saved_holds_for_the_session_and_that_is_said(calls, workspace) -> None:
    (workspace.parent / "state").write_text("not a folder")
    saved = SavedGrants(str(workspace.parent / "state" / "deeper"), FakeClock().now_ms)
    desk = Desk(calls, workspace, answer=yes("always"), saved=saved)
    assert (await desk.run("bash", command="make")).ok
    assert (desk.log[1].life, desk.log[2].reason) == ("session", "GrantNotSaved")
    assert (await desk.run("bash", command="make")).ok
    assert len(desk.asked) == 1


async def test_a_tool_answer_to_an_edit_is_for_every_edit(calls, workspace) -> None:
    desk = Desk(calls, workspace, answer=yes("tool"))
    await desk.run("write_file", path="a")
    assert (desk.log[1].tool, desk.log[1].pattern) == ("edit", "")


async def test_an_answer_nobody_offered_is_a_yes_for_once(calls, workspace) -> None:
    desk = Desk(calls, workspace, answer=yes("tool"), understand=understood)
    assert (await desk.run("bash", command="rm -rf build")).ok
    assert [type(entry) for entry in desk.log] == [PermissionDecided]


async def test_a_decision_that_breaks_blocks_the_call(calls, workspace) -> None:
    async def broken(_request, _is_open):
        raise RuntimeError("no terminal")

    desk = Desk(calls, workspace)
    layer = permitted(desk.permissions, broken, desk.log.append)
    output = await layer(calls.make("bash", risk="shell", command="ls"), calls.proceed)
    assert (output.outcome, output.reason, calls.ran) == ("blocked", "CheckFailed", [])


async def test_a_call_whose_audit_cannot_be_written_does_not_run(calls, workspace) -> None:
    def full(_event):
        raise StoreError("StoreUnwritable", path="log", problem="disk full")

    layer = permitted(Desk(calls, workspace, yes=True).permissions, None, full)
    with pytest.raises(StoreError):
        await layer(calls.make(path=None), calls.proceed)
    assert calls.ran == []


async def test_the_layer_changes_nothing_about_the_call(calls, workspace) -> None:
    await Desk(calls, workspace, yes=True).run("bash", command="echo $SECRET")
    assert calls.ran[0].input == {"command": "echo $SECRET"}
    assert msgspec.structs.asdict(calls.ran[0].args)["command"] == "echo $SECRET"
