"""Stored sessions as plain text: whole, or in frames to be watched. Pure; nothing is run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.render.event_rows import (
    NOT_IN_TRANSCRIPTS,
    EventRow,
    EventRows,
    RowKind,
    Wording,
    gap_text,
    nested_lines,
    plain_lines,
)
from bridle.protocol import events as e

LONGEST_PAUSE_S: Final = 2.0
LEFT_OUT: Final = NOT_IN_TRANSCRIPTS | frozenset[RowKind]({"delta", "gap"})
"""Rows that a transcript which is not streamed leaves out."""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """Text that appears after `pause_s`. `rests`: something is complete here."""

    text: str
    pause_s: float = 0.0
    rests: bool = False


def frames(envelopes: Iterable[e.Envelope], *, pace: float = 1.0) -> Iterator[Frame]:
    """The session as its user saw it, `pace` times as fast as it happened."""
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
    """The text that each event adds, in order. `reader` is the reader's name, where their token gives one."""

    def __init__(self, reader: str = "") -> None:
        self._rows = EventRows(left_out=NOT_IN_TRANSCRIPTS, wording=Wording(reader=reader))
        self._in_line = False
        self._expired = 0

    def of(self, envelope: e.Envelope) -> tuple[str, bool]:
        """The text of an event, and whether something is complete with it."""
        rows = self._rows.take(envelope)
        return "".join(map(self._text, rows)), any(row.kind not in ("delta", "gap") for row in rows)

    def _text(self, row: EventRow) -> str:
        match row.kind:
            case "delta":
                shown = visible(row.text)
                self._in_line = not shown.endswith("\n")
                return shown
            case "gap":
                self._expired += 1
                return ""
            case "said" | "answer":  # streamed
                return self._on_a_new_line("")
            case "input":
                words = visible(row.text).replace("\n", "\n  ")
                return self._on_a_new_line(f"\n› {words}\n\n")
            case _:
                return self._on_a_new_line("".join(f"  {line}\n" for line in nested_lines(row)))

    def end(self) -> str:
        return self._on_a_new_line(f"{gap_text(self._expired)}\n" if self._expired else "")

    def _on_a_new_line(self, text: str) -> str:
        broken, self._in_line = self._in_line, False
        return f"\n{text}" if broken else text


def transcript_lines(envelopes: Iterable[e.Envelope]) -> Iterator[str]:
    rows = EventRows(left_out=LEFT_OUT)
    for row in (row for envelope in envelopes for row in rows.take(envelope)):
        match row.kind:
            case "input" | "said" | "answer":
                yield "you" if row.kind == "input" else "bridle"
                yield from (f"  {line}" for line in plain_lines(row))
            case _:
                yield from (f"  {line}" for line in nested_lines(row))
