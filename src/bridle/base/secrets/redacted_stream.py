"""Redact a stream of text without blocking the event loop."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from bridle.base.secrets.redact import StreamRedactor
from bridle.base.threads import in_thread

AT_ONCE = 4 * 1024
"""Longer texts are redacted in a thread, so that the event loop does not wait."""


class RedactedStream:
    """Pass text to `write` in order and without secrets. Long texts are redacted in a thread.

    `known` are values that are always masked.
    """

    def __init__(self, write: Callable[[str], object], *, known: Iterable[str] = ()) -> None:
        self._redactor = StreamRedactor(known=known)
        self._write = write
        self._waiting: deque[str] = deque()
        self._working: asyncio.Task[None] | None = None

    def feed(self, text: str) -> asyncio.Future[None] | None:
        """Take a piece of text. Wait for the result before feeding more."""
        if self._working is None:
            if len(text) <= AT_ONCE:
                self._pass_on(self._redactor.feed(text))
                return None
            self._working = asyncio.ensure_future(self._work())
        self._waiting.append(text)
        return self._working

    async def end(self) -> StreamRedactor:
        """Pass everything on, then return the redactor for the next stream."""
        if self._working is not None:
            await asyncio.wait((self._working,))
        self._pass_on(self._redactor.flush())
        return self._redactor

    async def _work(self) -> None:
        try:
            while self._waiting:
                self._pass_on(await in_thread(partial(self._redactor.feed, self._waiting.popleft())))
        finally:
            self._working = None

    def _pass_on(self, text: str) -> None:
        if text:
            self._write(text)
