"""Permissions through the public door: what a question offers, what is remembered, what is taken back, plan mode."""

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, harness, of_kind, outcomes
from bridle.protocol.commands import (
    AnswerPermission,
    AnswerQuestion,
    EnterPlanMode,
    ExitPlanMode,
    RevokeGrant,
)
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import (
    GrantAdded,
    GrantRevoked,
    ModeChanged,
    PermissionDecided,
    PermissionRequested,
    QuestionAsked,
    ToolResult,
)
from bridle.protocol.questions import PlanAnswer, PlanQuestion
from bridle.providers.script import call, say


def writing(*paths: str):
    return [call("write_file", path=path, content="x") for path in paths]


async def answered(session: HarnessSession, answer: str, number: int) -> PermissionRequested:
    request = await session.until(PermissionRequested, since=number)
    await session.connection.send(
        AnswerPermission(session=session.id, call_id=request.call_id, answer=answer, digest=request.digest)
    )
    return request


@pytest.mark.requirement("C5", "D17.1")
async def test_always_holds_in_a_later_session_of_the_same_folder(tmp_path):
    options = {"folder": str(tmp_path / "work"), "home": str(tmp_path / "home"), "answers": True}
    (tmp_path / "work").mkdir()
    async with harness(scripted(*writing("a.txt"), say("Done.")), **options) as session:
        number = await session.send("go")
        request = await answered(session, "always", number)
        assert [offer.answer for offer in request.offers] == ["pattern", "tool", "always"]
        await session.turn_of(number)
    async with harness(scripted(*writing("a.txt"), say("Done.")), **options) as session:
        events = await session.ask("again")
        (decided,) = of_kind(events, PermissionDecided)
        assert (decided.decided_by, decided.step, outcomes(events)) == ("grant", 3, ["ok"])
        revoked = await session.connection.send(RevokeGrant(session=session.id, grant_id=decided.rule))
        assert [event.event for event in await session.stored() if event.id == revoked.event] == [
            GrantRevoked(grant_id=decided.rule)
        ]
        with pytest.raises(CommandRefused) as refused:
            await session.connection.send(RevokeGrant(session=session.id, grant_id=decided.rule))
        assert refused.value.reason == "UnknownGrant"


async def test_a_yes_to_all_edits_covers_every_way_to_change_files():
    changes = [*writing("a.txt"), call("edit_file", path="a.txt", old_string="x", new_string="y")]
    async with harness(scripted(*changes, say("Done.")), answers=True) as session:
        number = await session.send("go")
        await answered(session, "tool", number)
        events = await session.turn_of(number)
    assert outcomes(events) == ["ok", "ok"]
    assert [(grant.tool, grant.pattern) for grant in of_kind(events, GrantAdded)] == [("edit", "")]


@pytest.mark.requirement("D17.2")
async def test_where_nothing_may_be_kept_nobody_is_offered_it():
    model = scripted(*writing("a.txt"), say("Done."))
    async with harness(model, answers=True, sets=("permissions.persist=false",)) as session:
        number = await session.send("go")
        request = await answered(session, "always", number)
        events = await session.turn_of(number)
    assert "always" not in [offer.answer for offer in request.offers]
    assert (outcomes(events), of_kind(events, GrantAdded)) == (["ok"], [])


@pytest.mark.requirement("G8.6")
async def test_a_yes_for_the_session_dies_with_it_and_is_written_nowhere(tmp_path):
    options = {"folder": str(tmp_path / "work"), "home": str(tmp_path / "home"), "answers": True}
    (tmp_path / "work").mkdir()
    first_turn = (*writing("a.txt", "a.txt"), say("Done."))
    async with harness(scripted(*first_turn), **options) as session:
        number = await session.send("go")
        await answered(session, "pattern", number)
        assert outcomes(await session.turn_of(number)) == ["ok", "ok"]
        first = session.id
    assert not (tmp_path / "home/state/grants.json").exists()
    for resumed, before in ((None, ()), (first, first_turn)):
        model = scripted(*before, *writing("a.txt"), say("Done."))
        async with harness(model, resume=resumed, **options) as session:
            number = await session.send("again")
            await answered(session, "deny", number)
            assert outcomes(await session.turn_of(number)) == ["denied"]


CONFIG = """
disallowed_tools = ["write_file(*.lock)"]
[[permissions.rules]]
tool = "write_*"
path = "docs/**"
verdict = "ask"
[[permissions.rules]]
tool = "write_file"
path = "**"
verdict = "allow"
"""


@pytest.mark.requirement("H7.5")
@pytest.mark.requirement("G8.7", "D11.40")
async def test_the_settings_decide_what_is_allowed_asked_and_denied(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(CONFIG)
    model = scripted(*writing("a.txt", "docs/b.txt", "c.lock"), say("Done."))
    async with harness(model, home=str(tmp_path)) as session:
        events = await session.ask("go")
    assert [(result.outcome, result.reason) for result in of_kind(events, ToolResult)] == [
        ("ok", None),
        ("denied", "NoApprover"),
        ("denied", "RuleDenied"),
    ]
    assert [(decided.decided_by, decided.step) for decided in of_kind(events, PermissionDecided)] == [
        ("rule", 4),
        ("nobody", 4),
        ("rule", 2),
    ]


@pytest.mark.requirement("D11.5")
async def test_no_permission_reveals_a_tool_that_is_hidden():
    model = scripted(call("exit_plan_mode", plan="1."), *writing("a"), say("Ok."))
    options = {"allow": ("exit_plan_mode", "*"), "yes": True}
    async with harness(model, mode="yolo", **options) as session:
        events = await session.ask("go")
        prefix = session.conversation.prefix
    assert [result.reason for result in of_kind(events, ToolResult)] == ["UnknownTool", None]
    assert "exit_plan_mode" not in {tool.name for tool in prefix.tools}
    async with harness(scripted(*writing("a"), say("Ok."))) as session:
        events = await session.ask("go")
        assert "write_file" in {tool.name for tool in session.conversation.prefix.tools}
    assert [result.reason for result in of_kind(events, ToolResult)] == ["NoApprover"]


@pytest.mark.requirement("G16.8")
async def test_a_plan_that_is_approved_ends_plan_mode():
    model = scripted(call("exit_plan_mode", plan="1. write a.txt"), *writing("a.txt"), say("Done."))
    async with harness(model, mode="auto", answers=True) as session:
        await session.connection.send(EnterPlanMode(session=session.id))
        number = await session.send("go")
        asked = await session.until(QuestionAsked, since=number)
        assert asked.question == PlanQuestion(plan="1. write a.txt")
        await session.connection.send(
            AnswerQuestion(session=session.id, question_id=asked.question_id, answer=PlanAnswer(approve=True))
        )
        events = await session.turn_of(number)
    assert [event.mode for event in of_kind(events, ModeChanged)] == ["auto"]
    assert outcomes(events) == ["ok", "ok"]


async def test_a_plan_that_is_not_approved_leaves_everything_as_it_was():
    async with harness(
        scripted(call("exit_plan_mode", plan="1."), *writing("a"), say("Ok.")), mode="plan"
    ) as session:
        events = await session.ask("go")
        assert [result.reason for result in of_kind(events, ToolResult)] == ["NoApprover", "ModeDenied"]
        accepted = await session.connection.send(ExitPlanMode(session=session.id, approve=False))
        assert session.conversation.mode == "plan"
        assert accepted.event == session.conversation.last_id
        await session.connection.send(ExitPlanMode(session=session.id, approve=True))
        assert session.conversation.mode == "default"
        with pytest.raises(CommandRefused):
            await session.connection.send(ExitPlanMode(session=session.id, approve=True))


async def test_outside_plan_mode_there_is_no_tool_to_leave_it():
    async with harness(scripted(call("exit_plan_mode", plan="1."), say("Ok."))) as session:
        events = await session.ask("go")
    assert [result.reason for result in of_kind(events, ToolResult)] == ["UnknownTool"]
