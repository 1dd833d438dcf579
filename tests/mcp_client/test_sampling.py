"""What servers want of the session's model: off by itself, and never without a person."""

import pytest
from mcp.server.lowlevel.server import Server

from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import of_kind
from bridle.engine.aside import BESIDE
from bridle.mcp.sampling_requests import SampleReply, SampleRequest, SamplingBudget
from bridle.protocol.events import Notice, ToolResult
from bridle.protocol.questions import (
    BudgetAnswer,
    BudgetQuestion,
    SampledMessage,
    SamplingAnswer,
    SamplingQuestion,
)
from bridle.providers.script import call, say
from mcp_client.test_http_servers import OPEN, listening
from mcp_client.test_session_servers import answered, said
from mcp_kit import server, session_with, until_phase

ALL = {"allow": ("mcp__*",)}
SAMPLE = call("mcp__files__sample")
ONE = {"named": [{"name": "sample"}]}
WILLING = {"files": server(ONE, sampling=True)}
YES, NO = SamplingAnswer(allow=True), SamplingAnswer(allow=False)


class WithAsides(RecordingModel):
    """A model that says something else to requests beside the conversation."""

    def __init__(self, inner, aside) -> None:
        super().__init__(inner)
        self._aside = scripted(aside)

    def stream(self, request):
        if request.step != BESIDE:
            return super().stream(request)
        self.requests.append(request)
        return self._aside.stream(request)


@pytest.mark.parametrize("options", [{}, {"answers": True}])
async def test_without_the_setting_a_server_is_refused_and_nobody_is_asked(tmp_path, options):
    async with session_with(
        scripted(SAMPLE, say("Ok.")), tmp_path, {"files": server(ONE)}, **options, **ALL
    ) as session:
        events = await session.ask("go")
    assert said(events)["message"] == "Sampling not supported"


async def test_a_person_sees_every_word_and_the_session_pays_for_the_answer(tmp_path):
    model = WithAsides(scripted(SAMPLE, say("Ok.")), say("Hello from the model."))
    async with session_with(model, tmp_path, WILLING, answers=True, **ALL) as session:
        asked, events = await answered(session, await session.send("gogogo"), [YES])
    _first, request, _last = model.requests
    assert asked == [
        SamplingQuestion(
            server="files",
            system="Be brief.",
            messages=(SampledMessage(role="user", text="Say hello"),),
            max_tokens=50,
            requests_left=9,
            tokens_left=20_000,
        )
    ]
    reply = said(events)
    assert reply["content"] == {"type": "text", "text": "[scripted] Hello from the model."}
    assert reply["stopReason"] == "endTurn"
    assert b"mcp__files__sample" not in request.body, "it has no tools"
    assert b"gogogo" not in request.body, "and nothing of the conversation"
    (notice,) = [one for one in of_kind(events, Notice) if one.reason == "MCPSampled"]
    assert "Hello from the model." in notice.message


@pytest.mark.parametrize("mode", ["default", "yolo"])
async def test_a_no_and_nobody_are_both_a_no_whatever_the_mode(tmp_path, mode):
    async with session_with(
        scripted(SAMPLE, say("Ok.")), tmp_path, WILLING, answers=True, mode=mode, **ALL
    ) as session:
        _asked, events = await answered(session, await session.send("go"), [NO])
    assert said(events)["message"] == "Sampling was refused: the person declined"
    async with session_with(scripted(SAMPLE, say("Ok.")), tmp_path, WILLING, mode=mode, **ALL) as session:
        assert said(await session.ask("go"))["message"] == "Sampling was refused: the person declined"


async def test_the_budget_of_a_session_is_for_all_its_servers_and_counts_what_was_declined(tmp_path):
    model = scripted(SAMPLE, SAMPLE, say("Ok."))
    settings = {"mcp": {"sampling_requests": 1}}
    async with session_with(model, tmp_path, WILLING, settings=settings, answers=True, **ALL) as session:
        asked, events = await answered(session, await session.send("go"), [NO])
    assert len(asked) == 1
    assert "budget for sampling is used up" in of_kind(events, ToolResult)[1].content


async def test_pictures_tools_and_what_nobody_would_read_are_refused_unasked(tmp_path):
    picture = {"role": "user", "content": {"type": "image", "data": "aaaa", "mimeType": "image/png"}}
    model = scripted(
        call("mcp__files__sample", more={"messages": [picture]}),
        call("mcp__files__sample", words="x" * 30_000),
        say("Ok."),
    )
    async with session_with(model, tmp_path, WILLING, **ALL) as session:
        first, second = of_kind(await session.ask("go"), ToolResult)
    assert "Only text can be sampled" in first.content
    assert "put to nobody" in second.content


def asks_for_input() -> Server:
    """A server of the newer era whose one tool needs an answer of a model."""
    wanted = {
        "method": "sampling/createMessage",
        "params": {
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}}
            ],
            "maxTokens": 100,
        },
    }

    async def tools(_context, _params):
        tool = {"name": "capital", "description": "Capital.", "inputSchema": {"type": "object"}}
        return {"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    async def run(_context, params):
        if not params.input_responses:
            return {"resultType": "input_required", "inputRequests": {"it": wanted}, "requestState": "1"}
        (given,) = params.input_responses.values()
        return {"content": [{"type": "text", "text": str(given)}], "resultType": "complete"}

    return Server("asks", version="1", on_list_tools=tools, on_call_tool=run)


async def test_a_server_of_the_newer_era_gets_its_answer_with_the_repeated_call(tmp_path):
    model = WithAsides(scripted(call("mcp__far__capital"), say("Ok.")), say("Paris."))
    async with listening(asks_for_input().streamable_http_app(transport_security=OPEN)) as origin:
        servers = {"far": {"url": f"{origin}/mcp", "sampling": True}}
        async with session_with(model, tmp_path, servers, answers=True, **ALL) as session:
            state = await until_phase(session, "far", "up")
            asked, events = await answered(session, await session.send("go"), [YES])
    assert state["protocol"] == "2026-07-28"
    assert asked[0].messages[0].text == "What is the capital of France?"
    (result,) = of_kind(events, ToolResult)
    assert result.outcome == "ok"
    assert "Paris." in result.content


async def test_what_could_cost_more_than_the_session_may_is_not_sent(tmp_path):
    model = scripted(SAMPLE, say("Ok."), name="paid")
    settings = {"budget": {"usd_per_session": 0.000001}}
    async with session_with(model, tmp_path, WILLING, settings=settings, answers=True, **ALL) as session:
        going_on = BudgetAnswer(choice="unlimited")
        asked, events = await answered(session, await session.send("go"), [going_on, YES])
    assert [type(one) for one in asked] == [BudgetQuestion, SamplingQuestion]
    assert "Sampling was refused" in said(events)["message"]


def test_a_budget_leaves_room_for_what_it_has() -> None:
    budget = SamplingBudget(requests=2, tokens=100)
    short = SampleRequest(messages=(SampledMessage(role="user", text="x" * 40),), max_tokens=1000)
    room = budget.room(short)
    assert 0 < room < 100
    budget.spend(short, SampleReply(text="y" * 400))
    assert budget.room(short) == 0
    assert SamplingBudget(requests=0, tokens=100).room(short) == 0
