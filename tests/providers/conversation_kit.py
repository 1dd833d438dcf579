"""The conversations every wire must tell alike, and what a client can tell of one."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from bridle.base.net.http import HttpConnections
from bridle.conformance.harness import harness
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
from bridle.providers.script import ScriptAnswer, Spend, Statement, Stop, answer, call, fail, say, think
from providers.wire_kit import Unhurried

PROMPT = (TextBlock(text="Do it."),)
PICTURE = (TextBlock(text="What is it?"), ImageBlock(url="data:image/png;base64,AAAA", detail="low"))
SPENT = Usage(input_tokens=10, output_tokens=5, cache_read_tokens=3, cache_write_tokens=2)
LONG = "All work and no play. 漢字 😀 " * 2000


class Case(NamedTuple):
    script: Sequence[ScriptAnswer | Statement]
    told: list[tuple[Any, ...]]
    prompt: tuple[InputBlock, ...] = PROMPT


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
        [("text", "And so"), ("step", "max_tokens", []), ("turn", "max_tokens", "AnswerCut")],
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


async def held(model: RemoteModel, prompt: tuple[InputBlock, ...]) -> list[AnyEvent]:
    """The events of one turn with this model. Waits between attempts take no time."""
    async with harness(model, clock=Unhurried(), yes=True) as session:
        accepted = await session.connection.send(SendInput(session=session.id, content=prompt, mode="queue"))
        assert accepted.event is not None
        return await session.turn_of(accepted.event)


def model(connections: HttpConnections, base_url: str, wire: WireName, **more: Any) -> RemoteModel:
    endpoint = Endpoint(name="work", base_url=base_url, wire=wire, local=True, placeholder_key="none", **more)
    return RemoteModel(endpoint, lambda: None, connections)


def sequence(events: Sequence[AnyEvent]) -> list[str]:
    """The kinds of a turn's events in order, neighbours alike told once: how often a text was read is chance."""
    return [kind for kind, _ in groupby(type(event).__name__ for event in events)]
