"""What code that is not ours returns and emits, held to what the log can keep. Loaded with the first of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any, cast

import msgspec

from bridle.engine.journal import Journal
from bridle.engine.known_files import SEEN
from bridle.engine.steps import Reply, Step
from bridle.engine.tools import Tool, ToolContext, ToolOutput
from bridle.protocol.codec import encode_payload
from bridle.protocol.events import (
    ContextAdded,
    CustomEvent,
    Degraded,
    DurableEvent,
    Mode,
    ModelChanged,
    Notice,
    ToolResult,
)
from bridle.protocol.messages import Message

MAX_CHARACTERS = 64 * 1024
"""So long may the text be that a layer puts in the place of a result, which is cut already."""
MAX_BYTES = 256 * 1024
"""So much may stand in metadata, and in what a layer shows."""

EVENTS = (ContextAdded, CustomEvent, Degraded, Notice)
"""The events that others emit. What was decided, asked, paid or done is for the engine to say."""


class JournalView:
    """The part of a journal that an outside layer may use: read what is so, and emit events that are for others."""

    __slots__ = ("_emit", "_fold", "session")

    def __init__(self, journal: Journal) -> None:
        self.session = journal.session
        self._fold = lambda: journal.conversation
        self._emit = journal.emit

    @property
    def turn(self) -> int:
        return self._fold().turn

    @property
    def mode(self) -> Mode:
        return self._fold().mode

    @property
    def model(self) -> ModelChanged | None:
        return self._fold().model

    @property
    def messages(self) -> tuple[Message, ...]:
        return deepcopy(tuple(self._fold().messages))

    def emit(self, event: DurableEvent) -> int:
        return self._emit(checked_event(event))


def foreign_step(step: Step) -> Step:
    """A step as a layer from outside sees it: its journal is a `JournalView`."""
    return Step(number=step.number, journal=cast("Journal", JournalView(step.journal)), attempt=step.attempt)


def checked_event(event: object) -> DurableEvent:
    """An event of others, of which every field is what its type says. Raises an `Exception` where it is none."""
    if not isinstance(event, EVENTS):
        kinds = ", ".join(kind.__name__ for kind in EVENTS)
        raise TypeError(f"a {type(event).__name__} is not for others to emit (there are {kinds})")
    return msgspec.json.decode(encode_payload(event), type=type(event))


def checked_reply(reply: object) -> Reply:
    if not isinstance(reply, Reply):
        raise TypeError(f"a Reply is wanted, not {type(reply).__name__}")
    return reply


def run_foreign(tool: Tool) -> Callable[[Any, ToolContext], Awaitable[ToolOutput]]:
    """The tool's function. What it returns and emits is checked; if it wants to end the program, its call fails."""

    async def run(args: Any, context: ToolContext) -> ToolOutput:
        def emit(event: DurableEvent) -> None:
            context.emit(checked_event(event))

        try:
            return checked(await tool.run(args, msgspec.structs.replace(context, emit=emit)), seen_by=None)
        except SystemExit as left:
            raise RuntimeError(f"it wants to end the program ({left})") from None

    return run


def checked(output: object, *, seen_by: ToolOutput | None) -> ToolOutput:
    """Return the output with every field of its declared type; raise an `Exception` otherwise. Only our own tools
    say which files the model knows: `seen_by` is the result of one that this output replaces."""
    if not isinstance(output, ToolOutput):
        raise TypeError(f"a ToolOutput is wanted, not {type(output).__name__}")
    metadata = {key: value for key, value in output.metadata.items() if key != SEEN}
    if len(msgspec.json.encode(metadata)) > MAX_BYTES:
        raise ValueError(f"the metadata is longer than {MAX_BYTES} bytes")
    if seen_by is not None and SEEN in seen_by.metadata:
        metadata[SEEN] = seen_by.metadata[SEEN]
    fields = msgspec.structs.asdict(msgspec.structs.replace(output, metadata=metadata))
    kept = msgspec.json.decode(encode_payload(ToolResult(call_id="", tool="", **fields)), type=ToolResult)
    return ToolOutput(**{name: getattr(kept, name) for name in fields})


def cut_short(output: ToolOutput) -> ToolOutput:
    """The output of a layer with no more in it than a model and a client can take."""
    content, shown = output.content, output.shown
    if len(content) > MAX_CHARACTERS:
        content = f"{content[:MAX_CHARACTERS]}\n[cut: {len(content) - MAX_CHARACTERS} more characters]"
    if shown is not None and len(msgspec.json.encode(shown)) > MAX_BYTES:
        shown = None
    return msgspec.structs.replace(output, content=content, shown=shown)
