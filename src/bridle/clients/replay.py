"""A stored session as it went, to be watched: what appears, and how long after the last thing. Nothing is run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.render.story import Story
from bridle.protocol import events as e
from bridle.protocol.codec import is_expired

LONGEST_PAUSE_S = 2.0
"""Nobody watches a person think, or a build run."""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """Text that appears `pause_s` after what was there before. `rests`: something is complete here."""

    text: str
    pause_s: float = 0.0
    rests: bool = False


def frames(envelopes: Iterable[e.Envelope], *, pace: float = 1.0) -> Iterator[Frame]:
    """What a person would have seen, `pace` times as fast as it happened."""
    replay = EventReplay()
    shown_ms: int | None = None
    for envelope in envelopes:
        text, rests = replay.of(envelope)
        if not text:
            continue
        passed_s = 0.0 if shown_ms is None else max(0, envelope.ts_ms - shown_ms) / 1000
        shown_ms = envelope.ts_ms
        yield Frame(text=text, pause_s=min(passed_s / pace, LONGEST_PAUSE_S), rests=rests)
    if end := replay.end():
        yield Frame(text=end, rests=True)


class EventReplay:
    """What each event adds to what a person sees, in order. `reader` is their name, where their token gives one."""

    def __init__(self, reader: str = "") -> None:
        self._story = Story(diffs=True, outputs=True, child_words="all", reader=reader)
        self._in_line = False
        self._gone = 0

    def of(self, envelope: e.Envelope) -> tuple[str, bool]:
        """What an event adds, and whether something is complete with it."""
        event = envelope.event
        if is_expired(event):
            self._gone += 1
            return "", False
        match event if e.concerns(envelope) else None:
            case e.InputAccepted(content=content, goal=None, child=""):
                words = visible(e.text_of(content)).replace("\n", "\n  ")
                return self._on_a_new_line(f"\n› {words}\n\n"), True
            case e.TextDelta(text=text):
                shown = visible(text)
                self._in_line = not shown.endswith("\n")
                return shown, False
            case e.StepEnded():
                return self._on_a_new_line(""), True
            case e.TurnEnded(stop=stop, message=message):
                ended = "" if stop == "end_turn" else f"  ended: {visible(message or stop)}\n"
                return self._on_a_new_line(ended), True
            case _:
                lines = self._story.nested(envelope)
                told = "".join(f"  {line}\n" for line in lines)
                return (self._on_a_new_line(told), True) if told else ("", False)

    def end(self) -> str:
        gone = (
            f"The content of {counted(self._gone, 'event')} has expired and is not kept any more.\n"
            if self._gone
            else ""
        )
        return self._on_a_new_line(gone)

    def _on_a_new_line(self, text: str) -> str:
        broken, self._in_line = self._in_line, False
        return f"\n{text}" if broken else text
