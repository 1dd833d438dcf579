"""Text on its way into the journal: at once, at most 60 events a second or one per 4 KB.

The model's words are redacted as a stream and kept whole. A call's live output is a view: of a flood, the last lines
are shown.
"""

from __future__ import annotations

import hashlib
from typing import Literal

from bridle.base.clock import Clock, Timer
from bridle.base.secrets.redact import StreamRedactor
from bridle.engine.journal import Journal
from bridle.protocol.events import TextDelta, ThinkingDelta, ToolCallProgress

MIN_GAP_S = 1 / 60
PROGRESS_GAP_S = 1 / 30
MAX_CHARACTERS = 4096


class DeltaWriter:
    """Collects the text of one step. `text_sha256` is the digest of what was written as `TextDelta`."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._kind: Literal["text", "thinking"] = "text"
        self._redactor: StreamRedactor | None = None  # a step that only calls tools needs none
        self._pending: list[str] = []
        self._size = 0
        self._last_s = -1.0
        self._timer: Timer | None = None
        self._digest = hashlib.sha256()

    @property
    def text_sha256(self) -> str:
        return self._digest.hexdigest()

    def text(self, text: str) -> None:
        self._add("text", text)

    def thinking(self, text: str) -> None:
        self._add("thinking", text)

    def finish(self) -> None:
        self._end_kind()

    def abandon(self) -> None:
        """Forgets what is not written yet: the attempt failed."""
        self._stop_timer()
        self._pending.clear()
        self._size = 0

    def _add(self, kind: Literal["text", "thinking"], text: str) -> None:
        if kind != self._kind:
            self._end_kind()
            self._kind = kind
        self._pending.append(text)
        self._size += len(text)
        wait_s = self._last_s + MIN_GAP_S - self._clock.monotonic()
        if self._size >= MAX_CHARACTERS or wait_s <= 0:
            self._write()
        elif self._timer is None:
            self._timer = self._clock.call_later(wait_s, self._write)

    def _end_kind(self) -> None:
        self._stop_timer()
        if self._pending or self._redactor is not None:
            redactor = self._redacting()
            self._emit(redactor.feed(self._taken()) + redactor.flush())

    def _write(self) -> None:
        self._stop_timer()
        self._emit(self._redacting().feed(self._taken()))

    def _redacting(self) -> StreamRedactor:
        if self._redactor is None:
            self._redactor = StreamRedactor(known=self._journal.secrets())
        return self._redactor

    def _taken(self) -> str:
        text = "".join(self._pending)
        self._pending.clear()
        self._size = 0
        return text

    def _emit(self, text: str) -> None:
        if not text:
            return
        self._last_s = self._clock.monotonic()
        if self._kind == "text":
            self._digest.update(text.encode("utf-8", "surrogatepass"))
            self._journal.emit(TextDelta(text=text))
        else:
            self._journal.emit(ThinkingDelta(text=text))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ProgressWriter:
    """Shows the output of a running call: at most 30 small events a second, none for a call that ends at once.
    Nothing is stored."""

    def __init__(self, journal: Journal, clock: Clock, call_id: str) -> None:
        self._journal = journal
        self._clock = clock
        self._call_id = call_id
        self._pending = ""
        self._lines = 0
        self._last_s = clock.monotonic()
        self._timer: Timer | None = None

    def write(self, text: str) -> None:
        self._pending = (self._pending + text)[-MAX_CHARACTERS:]
        self._lines += text.count("\n")
        wait_s = self._last_s + PROGRESS_GAP_S - self._clock.monotonic()
        if wait_s <= 0:
            self._show()
        elif self._timer is None:
            self._timer = self._clock.call_later(wait_s, self._show)

    def stop(self) -> None:
        """The call has ended; its result says the rest."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _show(self) -> None:
        self.stop()
        self._last_s = self._clock.monotonic()
        self._journal.show(ToolCallProgress(call_id=self._call_id, text=self._pending, lines=self._lines))
        self._pending = ""
