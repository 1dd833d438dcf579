"""The same conversations over every wire: what a client sees does not tell which protocol the model speaks."""

import json
from collections.abc import AsyncIterator

import pytest

from bridle.base.net.http import HttpConnections
from bridle.conformance.harness import harness
from bridle.conformance.servers import ModelServer
from bridle.providers.endpoints import WireName
from bridle.providers.script import answer, call, say, think
from providers.conversation_kit import CASES, held, model, story
from providers.wire_kit import WIRES, Unhurried


@pytest.fixture
async def connections() -> AsyncIterator[HttpConnections]:
    made = HttpConnections(env={}, clock=Unhurried())
    yield made
    await made.close()


@pytest.mark.requirement("T6.1", "T6.2", "T6.3", "D8.62")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_conversation_is_the_same_over_every_wire(
    connections: HttpConnections, wire: WireName, name: str
) -> None:
    case = CASES[name]
    async with ModelServer.playing(*case.script) as server:
        events = await held(model(connections, server.url, wire), case.prompt)
        assert all(request.path.endswith(PATHS[wire]) for request in server.chats)
    assert story(events) == case.told


PATHS: dict[WireName, str] = {
    "openai_chat": "/chat/completions",
    "openai_responses": "/responses",
    "anthropic": "/messages",
}


@pytest.mark.requirement("G12.2")
@pytest.mark.parametrize("wire", ["anthropic", "openai_responses"])
async def test_a_vendor_gets_its_thoughts_back_unchanged(
    connections: HttpConnections, wire: WireName
) -> None:
    """Our server refuses a thought that was changed, as the vendors do."""
    script = [
        answer(think("First."), say("I look."), think("Then."), call("ls", path=".")),
        answer(think("Third."), call("ls", path=".")),
        say("Done."),
    ]
    async with ModelServer.playing(*script) as server:
        async with harness(model(connections, server.url, wire), yes=True) as session:
            events = await session.ask("go")
        bodies = [json.dumps(request.json) for request in server.chats]
    assert story(events)[-1] == ("turn", "end_turn", None)
    assert [body.count('"sealed-') for body in bodies] == [0, 2, 3]
    assert bodies[1].index("First.") < bodies[1].index("I look.") < bodies[1].index("Then.")


@pytest.mark.parametrize("wire", ["anthropic", "openai_responses"])
async def test_a_changed_thought_is_refused_by_our_server(
    connections: HttpConnections, wire: WireName
) -> None:
    """Else the test above would prove nothing."""
    script = [answer(think("First."), call("ls", path=".")), say("Done.")]
    async with ModelServer.playing(*script) as server:
        async with harness(model(connections, server.url, wire), yes=True) as session:
            await session.ask("go")
        request = server.chats[-1]
        changed = request.body.replace(b"First.", b"Forged.")
        path = f"{server.origin}{request.path}"
        kept = {"anthropic-version": "1"}
        async with await connections.post_stream(path, headers=kept, body=changed) as refused:
            assert refused.status == 400
        async with await connections.post_stream(path, headers=kept, body=request.body) as taken:
            assert taken.status == 200
