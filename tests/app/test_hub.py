"""Runs for a hub of agents: the envelopes it reads, the approvals it decides, one run per session."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

import bridle
from bridle.app.engine import Engine
from bridle.clients.hub import ApprovalRequest, Decision, Hub, HubRun, careful_answer
from bridle.clients.hub_stream import HubEnvelope, HubResult, HubTask
from bridle.config.folders import folders
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.protocol import questions as q
from bridle.protocol.commands import CreateSession, EndSession
from bridle.protocol.messages import Usage
from bridle.providers.script import Spend, answer, call, say

SPENT = Spend(Usage(input_tokens=10, output_tokens=2))
TASK = HubTask(task_id="task-1", edge_run_id="run-1", agent_instance_id="agent-1")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "work").mkdir()
    (tmp_path / "person").mkdir()
    return str(tmp_path / "work")


@pytest.fixture
def model() -> RecordingModel:
    return RecordingModel(
        scripted(
            answer(say("I look. "), call("bash", command="touch made"), SPENT),
            answer(say("Done."), SPENT),
        )
    )


@pytest.fixture
async def engine(
    tmp_path: Path, folder: str, clock: FakeClock, model: RecordingModel
) -> AsyncIterator[Engine]:
    env = {"BRIDLE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path / "person"), "PATH": "/usr/bin:/bin"}
    made = Engine(where=folders(env), env=env, clock=clock, model=model)
    try:
        yield made
    finally:
        await made.close()


def hub_of(engine: Engine, clock: FakeClock) -> Hub:
    return Hub(engine.connect(name="hub", answers=True), clock=clock)


async def read(run: HubRun, until: str) -> list[HubEnvelope]:
    found: list[HubEnvelope] = []
    async for envelope in run.stream():
        found.append(envelope)
        if envelope.event_type == until:
            return found
    return found


def kinds(envelopes: list[HubEnvelope]) -> list[str]:
    return [envelope.event_type.removeprefix("run.agent.") for envelope in envelopes]


@pytest.mark.requirement("T18.5", "T18.6", "T18.7", "P15")
async def test_a_run_is_a_numbered_stream_with_one_result_and_an_approval_in_the_middle(
    engine: Engine, clock: FakeClock, folder: str
) -> None:
    seen: list[HubEnvelope] = []
    asked: list[ApprovalRequest] = []

    async def allow(request: ApprovalRequest) -> Decision:
        asked.append(request)
        return "allow"

    result = await hub_of(engine, clock).run(
        "make it", cwd=folder, model="demo:x", task=TASK, on_approval=allow, sink=seen.append
    )
    assert kinds(seen) == [
        "text_delta",
        "text_block",
        "tool_call",
        "permission_requested",
        "permission_decided",
        "tool_result",
        "text_delta",
        "text_block",
        "result",
    ]
    assert [one.event_seq for one in seen] == list(range(1, 10))
    assert len({one.id for one in seen}) == 9
    assert {
        (
            one.schema_version,
            one.sdk_contract_version,
            one.source,
            one.task_id,
            one.edge_run_id,
            one.agent_instance_id,
        )
        for one in seen
    } == {(2, "bridle-sdk.v1", "bridle", "task-1", "run-1", "agent-1")}
    (request,) = asked
    assert msgspec.to_builtins(request) == seen[3].payload
    assert seen[3].payload == {
        "schemaVersion": 1,
        "requestId": request.call_id,
        "callId": request.call_id,
        "toolName": "bash",
        "toolRisk": request.tool_risk,
        "reason": request.reason,
        "input": {"command": "touch made"},
        "decisionChannel": "hub",
    }
    assert seen[4].payload["requestId"] == request.request_id
    assert result == HubResult(
        success=True,
        final_response="[scripted] Done.",
        steps=2,
        usage={"inputTokens": 20, "outputTokens": 4, "cacheReadTokens": 0, "cacheWriteTokens": 0},
        cost_usd=0.0,
    )
    assert Path(folder, "made").exists()


@pytest.mark.requirement("T18.10")
async def test_what_nobody_decides_in_time_is_denied_and_an_unknown_request_is_false(
    engine: Engine, clock: FakeClock, folder: str
) -> None:
    run = await hub_of(engine, clock).start("make it", cwd=folder, model="demo:x")
    stream = run.stream()
    async for envelope in stream:
        if envelope.event_type == "run.agent.permission_requested":
            break
    (request,) = run.pending()
    assert await run.decide("call_of_nobody", "allow") is False
    await clock.advance(59)
    assert run.pending() == (request,)
    await clock.advance(2)
    rest = [envelope async for envelope in stream]
    assert kinds(rest)[:2] == ["permission_decided", "tool_result"]
    assert rest[0].payload["decision"] == "deny"
    assert rest[0].payload["note"] == "nobody decided within 60 s"
    assert rest[-1].payload["success"] is True
    assert await run.decide(request.request_id, "allow") is False
    assert not Path(folder, "made").exists()


async def test_without_anybody_to_decide_everything_asked_is_denied(
    engine: Engine, clock: FakeClock, folder: str
) -> None:
    seen: list[HubEnvelope] = []
    result = await hub_of(engine, clock).run("make it", cwd=folder, model="demo:x", sink=seen.append)
    assert result.success
    assert [one.payload["outcome"] for one in seen if one.event_type.endswith("tool_result")] == ["denied"]


@pytest.mark.requirement("T18.12", "P16")
async def test_a_second_run_of_a_session_changes_nothing_and_ends_with_a_failed_result(
    engine: Engine, clock: FakeClock, folder: str, model: RecordingModel
) -> None:
    hub = hub_of(engine, clock)
    first = await hub.start("make it", cwd=folder, session="thread-7", model="demo:x")
    stream = first.stream()
    async for envelope in stream:
        if envelope.event_type == "run.agent.permission_requested":
            break
    (before,) = (live.session for live in engine.live.all_open().values())
    events = before.journal.conversation.last_id
    (refused,) = [
        envelope async for envelope in (await hub.start("me too", cwd=folder, session="thread-7")).stream()
    ]
    assert refused.event_type == "run.agent.result"
    assert refused.payload["success"] is False
    assert refused.payload["error"]["code"] == "SESSION_RUN_IN_PROGRESS"
    assert refused.payload["error"]["reason"] == "same_session_run_in_progress"
    assert before.journal.conversation.last_id == events
    await first.cancel()
    rest = [envelope async for envelope in stream]
    assert rest[-1].payload["success"] is False
    assert rest[-1].payload["error"]["name"] == "cancelled"
    again = await hub.run("again", cwd=folder, session="thread-7")
    assert (again.success, again.final_response) == (True, "[scripted] Done.")
    assert len(model.requests) == 2


async def test_a_run_that_cannot_begin_has_a_result_alone(
    engine: Engine, clock: FakeClock, folder: str
) -> None:
    run = await hub_of(engine, clock).start("go", cwd=folder, model="nobody:x")
    (only,) = [envelope async for envelope in run.stream()]
    assert (only.event_type, only.event_seq, only.session_id) == ("run.agent.result", 1, None)
    assert only.payload["error"]["name"] == "UnknownProvider"
    await run.cancel()
    assert await run.decide("x", "allow") is False


async def test_a_session_that_ends_under_a_run_ends_it_with_a_failed_result(
    engine: Engine, clock: FakeClock, folder: str
) -> None:
    other = engine.connect(name="person", answers=True)
    opened = await other.send(CreateSession(cwd=folder, model="demo:x"))
    run = await hub_of(engine, clock).start("make it", cwd=folder, session=opened.session)
    stream = run.stream()
    async for envelope in stream:
        if envelope.event_type == "run.agent.permission_requested":
            break
    ending = asyncio.create_task(other.send(EndSession(session=opened.session)))
    rest = [envelope async for envelope in stream]
    await ending
    assert rest[-1].event_type == "run.agent.result"
    assert rest[-1].payload["success"] is False


def test_the_careful_answer_fits_every_question_and_allows_nothing() -> None:
    questions = (
        q.OpenQuestion(text="?"),
        q.PlanQuestion(plan="p"),
        q.TrustQuestion(kind="hook", path="x", sha256="y", asked_ms=0),
        q.BudgetQuestion(reason="BudgetExceeded", model="m", cap_usd=1, spent_usd=1),
        q.StepLimitQuestion(steps=1, more=1),
        q.UndoQuestion(preview=q.UndoPreview()),
        q.ConflictQuestion(conflict=q.UndoConflict(path="x", since="turn")),
        q.GitQuestion(deed="stash", cwd="/x", commands=(("git", "stash"),)),
        q.OrphanQuestion(tool="bash", input={}, started_ms=0, stopped_ms=0),
        q.TokenQuestion(code="123456", identity="human"),
    )
    answers = [careful_answer(question) for question in questions]
    assert [q.about(answer) for answer in answers] == [q.about(question) for question in questions]
    assert answers[1:] == [
        q.PlanAnswer(approve=False),
        q.TrustAnswer(use=False),
        q.BudgetAnswer(choice="stop"),
        q.StepLimitAnswer(go_on=False),
        q.UndoAnswer(choice="keep"),
        q.ConflictAnswer(choice="stop"),
        q.GitAnswer(choice="keep"),
        q.OrphanAnswer(judgement="unknown"),
        q.TokenAnswer(allow=False),
    ]


def test_the_facade_is_part_of_the_public_face() -> None:
    assert bridle.hub.Hub is Hub
