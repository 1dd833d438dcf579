"""The conversations of every wire once more, with aimock, a model server of another make, instead of ours.

Its fixtures are made from the same scripts. Where it has no word for something, `UNSAYABLE` says what it does instead.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

import pytest

from bridle.base.net.http import HttpConnections
from bridle.conformance.servers import ModelServer
from bridle.protocol.messages import Usage
from bridle.providers.endpoints import WireName
from bridle.providers.script import (
    Fail,
    Say,
    ScriptAnswer,
    ScriptCall,
    Spend,
    Statement,
    Stop,
    Think,
    answer,
    fail,
    say,
)
from peers.peer_kit import running
from providers.conversation_kit import CASES, DONE, Case, held, model, sequence, story
from providers.wire_kit import WIRES, Unhurried

pytestmark = pytest.mark.peers

PROGRAM = "node_modules/@copilotkit/aimock/dist/cli.js"

UNSAYABLE = {
    "error inside the stream": "once it answers, aimock can break off but has no event for an error",
    "usage": "aimock counts tokens in and out, and has no words for a cache",
}
"""Conversations that aimock cannot hold on any wire. `NEAREST` has what comes closest."""
NEAREST = {
    "broken off inside the stream": Case(
        [answer(say("Do"), fail("cut", times=1), say("ne."))], [("failed", "BadStream", 1), *DONE]
    ),
    "usage without a cache": Case(
        [answer(say("Done."), Spend(Usage(input_tokens=10, output_tokens=5)))],
        [*DONE[:2], ("cost", {"input_tokens": 10, "output_tokens": 5}), DONE[2]],
    ),
}
SAYABLE = {**{name: case for name, case in CASES.items() if name not in UNSAYABLE}, **NEAREST}
HELD = [
    pytest.param(wire, name, id=f"{wire}-{name}")
    for wire in WIRES
    for name in SAYABLE
    # A filtered answer is a failed response to aimock, without an error that would say why.
    if (wire, name) != ("openai_responses", "filter")
]
STOPS: dict[WireName, dict[str, str]] = {
    "openai_chat": {"max_tokens": "length", "content_filter": "content_filter"},
    "openai_responses": {"max_tokens": "length"},
    "anthropic": {"max_tokens": "length", "content_filter": "refusal"},
}
"""What a fixture must say for an answer to end like that."""


def place(wire: WireName, name: str) -> str:
    """The header value by which aimock finds the fixtures of a conversation."""
    return f"{wire} {name}"


def fixtures(
    wire: WireName, name: str, script: Iterable[ScriptAnswer | Statement]
) -> Iterator[dict[str, Any]]:
    """A script as aimock's fixtures: one for every request it will get."""
    for turn, one in enumerate(script):
        statements = one.statements if isinstance(one, ScriptAnswer) else (one,)
        match = {"context": place(wire, name), "hasToolResult": turn > 0}
        answers = [*failures(statements), {"response": response(wire, statements)}]
        for number, given in enumerate(answers):
            yield {"match": {**match, "sequenceIndex": number}, **given}


def failures(statements: Iterable[Statement]) -> Iterator[dict[str, Any]]:
    for failure in (one for one in statements if isinstance(one, Fail)):
        error = {"message": "Not now.", "type": "rate_limit_error"}
        refused = {"response": {"error": error, "status": 429, "retryAfter": failure.retry_after_s}}
        broken = {"response": {"content": "Do"}, "truncateAfterChunks": 2, "latency": 5}
        yield from [broken if failure.reason == "cut" else refused] * (failure.times or 0)


def response(wire: WireName, statements: Sequence[Statement]) -> dict[str, Any]:
    calls = [{"name": one.tool, "arguments": one.input} for one in statements if isinstance(one, ScriptCall)]
    spent = [one.usage for one in statements if isinstance(one, Spend)] or [Usage()]
    made: dict[str, Any] = {
        "content": "".join(one.text for one in statements if isinstance(one, Say)),
        "usage": {"prompt_tokens": spent[-1].input_tokens, "completion_tokens": spent[-1].output_tokens},
    }
    if calls:
        made["toolCalls"] = calls
    if thought := "".join(one.text for one in statements if isinstance(one, Think)):
        made["reasoning"] = thought
    for stop in (one for one in statements if isinstance(one, Stop)):
        made["finishReason"] = STOPS[wire][stop.reason]
    return made


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running aimock that knows every conversation, and cuts its texts without regard for characters."""
    known = [param.values for param in HELD]
    made = [one for wire, name in known for one in fixtures(wire, name, SAYABLE[name].script)]
    folder = tmp_path_factory.mktemp("aimock")
    (folder / "conversations.json").write_text(json.dumps({"fixtures": made}), encoding="utf-8")
    options = ("-p", "0", "-f", str(folder), "--chunk-size", "7", "--strict")
    with running(PROGRAM, *options, package="@copilotkit/aimock") as address:
        yield address


@pytest.fixture
async def connections() -> AsyncIterator[HttpConnections]:
    made = HttpConnections(env={}, clock=Unhurried())
    yield made
    await made.close()


@pytest.mark.requirement("T6.1", "T6.2", "T6.3", "D8.62")
@pytest.mark.parametrize(("wire", "name"), HELD)
async def test_aimock_holds_the_same_conversation_as_our_server(
    connections: HttpConnections, origin: str, wire: WireName, name: str
) -> None:
    case = SAYABLE[name]
    headers = {"X-AIMock-Context": place(wire, name)}
    theirs = await held(model(connections, f"{origin}/v1", wire, headers=headers), case.prompt)
    async with ModelServer.playing(*case.script) as server:
        ours = await held(model(connections, server.url, wire), case.prompt)
    assert story(theirs) == case.told
    assert (story(theirs), sequence(theirs)) == (story(ours), sequence(ours))


def test_what_aimock_cannot_say_is_among_the_conversations() -> None:
    assert UNSAYABLE.keys() <= CASES.keys()
    assert len(CASES) == 12
