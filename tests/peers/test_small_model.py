"""Every wire with a real small model, served by llama.cpp: no script knows what it will say."""

from collections.abc import AsyncIterator

import pytest

from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections
from bridle.conformance.harness import harness, of_kind
from bridle.engine.ports import ModelDone, ModelRequest, ModelText
from bridle.protocol.events import CostIncremented, PrefixSet, TextDelta, TurnEnded
from bridle.protocol.messages import Message, Parameters, TextBlock, ToolResultBlock, ToolSchema, ToolUseBlock
from bridle.providers.endpoints import WireName
from providers.conversation_kit import model
from providers.wire_kit import WIRES, sent

pytestmark = [pytest.mark.peers, pytest.mark.timeout(180)]

LOOK = ToolSchema(
    name="ls",
    description="Lists the files of a folder.",
    input_schema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
PREFIX = PrefixSet(
    provider="work",
    model="small",
    system="Be brief.",
    tools=(LOOK,),
    parameters=Parameters(max_tokens=16, temperature=0.0),
)
CONVERSATION = (
    Message(role="user", content=(TextBlock(text="Which files are here?"),)),
    Message(
        role="assistant",
        content=(
            TextBlock(text="I look."),
            ToolUseBlock(wire_id="a", tool="ls", input={"path": "."}),
            ToolUseBlock(wire_id="b", tool="ls", input={"path": "b"}),
        ),
    ),
    Message(
        role="user",
        content=(
            ToolResultBlock(wire_id="a", tool="ls", text="a.txt"),
            ToolResultBlock(wire_id="b", tool="ls", text="no such folder", failed=True),
        ),
    ),
)


@pytest.fixture
async def connections() -> AsyncIterator[HttpConnections]:
    made = HttpConnections(env={}, clock=SystemClock())
    yield made
    await made.close()


async def test_a_real_model_lists_itself(connections: HttpConnections, small_model: str) -> None:
    assert len(await model(connections, small_model, "openai_chat").models()) == 1


@pytest.mark.parametrize("wire", ["openai_chat", "openai_responses"])
async def test_a_real_model_answers_a_turn_with_words_and_usage(
    connections: HttpConnections, small_model: str, wire: WireName
) -> None:
    """The server ends the answer. A request of the third wire says how long it may be, and a small model goes on."""
    async with harness(model(connections, small_model, wire)) as session:
        events = await session.ask("Say hello.")
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.stop in {"end_turn", "max_tokens"}
    assert "".join(delta.text for delta in of_kind(events, TextDelta)).strip()
    (spent,) = of_kind(events, CostIncremented)
    assert spent.usage.output_tokens > 0
    assert spent.usage.input_tokens + spent.usage.cache_read_tokens > 0


@pytest.mark.parametrize("wire", WIRES)
async def test_a_real_server_takes_calls_and_their_results(
    connections: HttpConnections, small_model: str, wire: WireName
) -> None:
    asked = model(connections, small_model, wire)
    request = ModelRequest(
        model="small", body=sent(asked.wire, PREFIX, CONVERSATION), step=1, answers=0, purpose="main"
    )
    *parts, done = [part async for part in asked.stream(request)]
    assert isinstance(done, ModelDone)
    assert done.usage.output_tokens > 0
    assert "".join(part.text for part in parts if isinstance(part, ModelText)).strip()
