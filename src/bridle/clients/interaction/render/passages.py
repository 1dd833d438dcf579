"""Fold a session into passages to read.

Every page made of a session, as Markdown or as HTML, is made of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from bridle.clients.interaction.render.progress_text import child_title, ended_line
from bridle.clients.interaction.render.story import Story, describe_call, diff_text
from bridle.protocol import events as e
from bridle.protocol.child_tree import ChildTree
from bridle.protocol.codec import is_expired
from bridle.protocol.messages import ImageBlock


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What a person or the model said. `images` are the addresses of what a person added."""

    who: Literal["you", "bridle"]
    text: str
    ts_ms: int
    images: tuple[str, ...] = ()


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call and what came of it. `told` is the line every client shows; `input` is what `what` leaves out."""

    what: str
    told: str
    outcome: str
    input: str = ""
    output: str = ""
    diff: str = ""
    ts_ms: int


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened around the conversation."""

    text: str
    ts_ms: int


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Events whose content is not kept any more."""

    first: int
    last: int
    ts_ms: int


class ChildWork(msgspec.Struct, frozen=True, kw_only=True):
    """The work of an agent that was sent: what it was to do, what it said and did, and what came of it."""

    agent: str
    task: str
    inner: tuple[Passage, ...]
    came_to: str
    ts_ms: int


Passage: TypeAlias = Words | Call | Note | Gap | ChildWork


def passages(envelopes: Iterable[e.Envelope]) -> Iterator[Passage]:
    """The session in order. A failed attempt of the model is left out, as the model itself never sees it again."""
    found = _Passages()
    for envelope in envelopes:
        yield from found.of(envelope)
    yield from found.rest()


class _Passages:
    """The whole session: the passages of the main agent, and those of each that was sent, together where it ends."""

    def __init__(self) -> None:
        self._main = _AgentPassages()
        self._children: dict[str, _AgentPassages] = {}
        self._tree = ChildTree()
        self._gap: Gap | None = None

    def of(self, envelope: e.Envelope) -> Iterator[Passage]:
        event, ts_ms, number = envelope.event, envelope.ts_ms, envelope.id or 0
        if is_expired(event):
            first = number if self._gap is None else self._gap.first
            self._gap = Gap(first=first, last=number, ts_ms=ts_ms)
            return
        if envelope.invocation is not None or isinstance(event, e.ChildStarted | e.ChildEnded):
            yield from self._of_child(envelope)
            return
        if isinstance(event, e.InputAccepted):
            yield from self._gone()
        yield from self._main.of(event, ts_ms)

    def rest(self) -> Iterator[Passage]:
        yield from filter(None, map(self._work, list(self._children)))
        yield from self._gone()

    def _gone(self) -> Iterator[Gap]:
        if self._gap is not None:
            yield self._gap
            self._gap = None

    def _of_child(self, envelope: e.Envelope) -> Iterator[Passage]:
        """What one that was sent does is in the work of whoever sent it."""
        event = envelope.event
        self._tree.take(envelope)
        agent = self._main if envelope.invocation is None else self._children.get(envelope.invocation)
        if isinstance(event, e.ChildStarted):
            self._children[event.invocation] = _AgentPassages()
        if isinstance(event, e.ChildEnded):
            work = self._work(event.invocation)
            if work is None or agent is None:
                return
            if agent is self._main:
                yield work
            else:
                agent.found.append(work)
        elif agent is not None and not isinstance(event, e.InputAccepted):  # its task says what it is about
            agent.found.extend(agent.of(event, envelope.ts_ms))

    def _work(self, invocation: str) -> ChildWork | None:
        child, agent = self._tree.entries.get(invocation), self._children.pop(invocation, None)
        if child is None or agent is None:
            return None
        return ChildWork(
            agent=child.label,
            task=child.task,
            inner=tuple(agent.found),
            came_to=ended_line(child) if child.is_over else f"{child_title(child)}: still at work",
            ts_ms=child.started_ms,
        )


class _AgentPassages:
    """What one agent says and does. `found` are the passages of one that was sent, until its end."""

    def __init__(self) -> None:
        self.found: list[Passage] = []
        self._story = Story()
        self._said: list[str] = []
        self._inputs: dict[str, dict[str, Any]] = {}

    def of(self, event: e.AnyEvent, ts_ms: int) -> Iterator[Passage]:
        match event:
            case e.InputAccepted(content=content, goal=None, child=""):
                images = tuple(block.url for block in content if isinstance(block, ImageBlock))
                yield Words(who="you", text=e.text_of(content), ts_ms=ts_ms, images=images)
            case e.TextDelta(text=text):
                self._said.append(text)
            case e.StepStarted() | e.StepFailed():
                self._said.clear()
                yield from self._notes(event, ts_ms)
            case e.StepEnded():
                yield from self._words(ts_ms)
            case e.TurnEnded(stop=stop, message=message):
                yield from self._words(ts_ms)
                if stop != "end_turn":
                    yield Note(text=f"ended: {message or stop}", ts_ms=ts_ms)
            case e.ToolCallRequested():
                self._inputs[event.call_id] = event.input
                self._story.lines(event)
            case e.ToolResult():
                yield self._call(event, ts_ms)
            case e.Branched(at=at):
                yield Note(text=f"branched here (event {at})", ts_ms=ts_ms)
            case _:
                yield from self._notes(event, ts_ms)

    def _words(self, ts_ms: int) -> Iterator[Words]:
        text = "".join(self._said)
        self._said.clear()
        if text.strip():
            yield Words(who="bridle", text=text, ts_ms=ts_ms)

    def _notes(self, event: e.AnyEvent, ts_ms: int) -> Iterator[Note]:
        for line in self._story.lines(event):
            yield Note(text=line, ts_ms=ts_ms)

    def _call(self, result: e.ToolResult, ts_ms: int) -> Call:
        given = self._inputs.pop(result.call_id, {})
        what = describe_call(result.tool, given)
        told = self._story.lines(result) or [what]  # of a command in the background nothing more is told
        return Call(
            what=what,
            told=" ".join(told[-1].split()),
            outcome=result.outcome,
            input=_whole(given),
            output=result.content,
            diff=diff_text(result),
            ts_ms=ts_ms,
        )


def _whole(given: dict[str, Any]) -> str:
    """The input as text: a command as it is, anything else as JSON."""
    if set(given) == {"command"} and isinstance(given["command"], str):
        return given["command"]
    return msgspec.json.format(msgspec.json.encode(given), indent=2).decode() if given else ""
