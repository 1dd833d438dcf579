"""The same conversations over every wire: what a client sees does not tell which protocol the model speaks."""

import json
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
import pytest

from bridle.base.http import HttpConnections
from bridle.conformance.harness import harness
from bridle.conformance.servers import ModelServer
from bridle.protocol.commands import SendInput
from bridle.protocol.events import (
    AnyEvent,
    CostIncremented,
    StepEnded,
    StepFailed,
    TextDelta,
    ThinkingDelta,
    ToolResult,
    TurnEnded,
)
from bridle.protocol.messages import ImageBlock, InputBlock, TextBlock, Usage
from bridle.providers.endpoints import Endpoint, WireName
from bridle.providers.remote import RemoteModel
from bridle.providers.script import Answer, Spend, Statement, Stop, answer, call, fail, say, think
from providers.wire_kit import WIRES, Unhurried

PROMPT = (TextBlock(text="Do it."),)
PICTURE = (TextBlock(text="What is it?"), ImageBlock(url="data:image/png;base64,AAAA", detail="low"))
SPENT = Usage(input_tokens=10, output_tokens=5, cache_read_tokens=3, cache_write_tokens=2)
LONG = "All work and no play. 漢字 😀 " * 2000


class Case(NamedTuple):
    script: Sequence[Answer | Statement]
    told: list[tuple[Any, ...]]
    prompt: tuple[InputBlock, ...] = PROMPT


def note(text: str) -> Statement:
    return call("todo", items=[{"text": text, "state": "open"}])


DONE = [("text", "Done."), ("step", "end_turn", []), ("turn", "end_turn", None)]

CASES = {
    "text": Case([say("Hello.", chunk=2)], [("text", "Hello."), *DONE[1:]]),
    "one call": Case(
        [answer(say("I look."), call("ls", path=".")), say("Done.")],
        [("text", "I look."), ("step", "tool_use", ["ls"]), ("result", "ls", "ok"), *DONE],
    ),
    "several calls": Case(
        [
            answer(call("ls", path="."), call("ls", path="nowhere"), call("nonsense", a=[1.5, None])),
            say("Done."),
        ],
        [
            ("step", "tool_use", ["ls", "ls", "nonsense"]),
            ("result", "ls", "error"),
            ("result", "ls", "ok"),
            ("result", "nonsense", "error"),
            *DONE,
        ],
    ),
    "thinking": Case(
        [answer(think("Let me see.", chunk=3), say("I look."), call("ls", path=".")), say("Done.")],
        [
            ("thinking", "Let me see."),
            ("text", "I look."),
            ("step", "tool_use", ["ls"]),
            ("result", "ls", "ok"),
            *DONE,
        ],
    ),
    "image": Case([say("Done.")], DONE, PICTURE),
    "filter": Case(
        [answer(say("I will"), Stop("content_filter"))],
        [("text", "I will"), ("step", "content_filter", []), ("turn", "content_filter", "ContentFiltered")],
    ),
    "length": Case(
        [answer(say("And so"), Stop("max_tokens"))],
        [("text", "And so"), ("step", "max_tokens", []), ("turn", "max_tokens", None)],
    ),
    "error inside the stream": Case(
        [answer(say("Do"), fail("overloaded", times=1), say("ne."))],
        [("failed", "Overloaded", 1), *DONE],
    ),
    "retry after 429": Case(
        [answer(fail("rate_limited", times=2, retry_after_s=3), say("Done."))],
        [("failed", "RateLimited", 1), ("failed", "RateLimited", 2), *DONE],
    ),
    "usage": Case(
        [answer(say("Done."), Spend(SPENT))],
        [*DONE[:2], ("cost", msgspec.to_builtins(SPENT)), DONE[2]],
    ),
    "empty": Case([answer()], DONE[1:]),
    "long": Case([say(LONG, chunk=37)], [("text", LONG), *DONE[1:]]),
}


def story(events: Sequence[AnyEvent]) -> list[tuple[Any, ...]]:
    """What a client can tell of a turn. Neighbouring deltas are one, those of a failed attempt none; results sorted."""
    made: list[tuple[Any, ...]] = []
    for event in events:
        match event:
            case TextDelta(text=text) | ThinkingDelta(text=text):
                kind = "text" if isinstance(event, TextDelta) else "thinking"
                if made and made[-1][0] == kind:
                    made[-1] = (kind, made[-1][1] + text)
                else:
                    made.append((kind, text))
            case StepEnded():
                made.append(("step", event.stop, [one.tool for one in event.calls]))
            case StepFailed():
                while made and made[-1][0] in {"text", "thinking"}:
                    made.pop()
                made.append(("failed", event.reason, event.attempt))
            case ToolResult():
                made.append(("result", event.tool, event.outcome))
            case CostIncremented():
                made.append(("cost", msgspec.to_builtins(event.usage)))
            case TurnEnded():
                made.append(("turn", event.stop, event.reason))
            case _:
                pass
    grouped = (list(group) for _, group in groupby(made, key=lambda one: one[0]))
    return [one for group in grouped for one in (sorted(group) if group[0][0] == "result" else group)]


@pytest.fixture
async def connections() -> AsyncIterator[HttpConnections]:
    made = HttpConnections(env={}, clock=Unhurried())
    yield made
    await made.close()


def model(connections: HttpConnections, base_url: str, wire: WireName) -> RemoteModel:
    endpoint = Endpoint(name="work", base_url=base_url, wire=wire, local=True, placeholder_key="none")
    return RemoteModel(endpoint, lambda: None, connections)


@pytest.mark.requirement("T6.1", "T6.2", "T6.3", "D8.62")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_conversation_is_the_same_over_every_wire(
    connections: HttpConnections, wire: WireName, name: str
) -> None:
    case = CASES[name]
    async with ModelServer.playing(*case.script) as server:
        async with harness(model(connections, server.url, wire), clock=Unhurried(), yes=True) as session:
            accepted = await session.connection.send(
                SendInput(session=session.id, content=case.prompt, mode="queue")
            )
            assert accepted.event is not None
            events = await session.turn_of(accepted.event)
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
