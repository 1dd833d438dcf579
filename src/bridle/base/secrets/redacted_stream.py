"""Redact a stream of text without blocking the event loop."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from bridle.base.secrets.redact import StreamRedactor
from bridle.base.threads import in_thread

AT_ONCE = 4 * 1024
"""Looking for secrets in more characters than this may take longer than the loop should wait."""


class RedactedStream:
    """Passes text on to `write`, in order and without secrets; what is long is looked through in a thread.

    `known` are values to be masked whatever they look like.
    """

    def __init__(self, write: Callable[[str], object], *, known: Iterable[str] = ()) -> None:
        self._redactor = StreamRedactor(known=known)
        self._write = write
        self._waiting: deque[str] = deque()
        self._working: asyncio.Task[None] | None = None

    def feed(self, text: str) -> asyncio.Future[None] | None:
        """Whoever has more is to wait for what this returns."""
        if self._working is None:
            if len(text) <= AT_ONCE:
                self._pass_on(self._redactor.feed(text))
                return None
            self._working = asyncio.ensure_future(self._work())
        self._waiting.append(text)
        return self._working

    async def end(self) -> StreamRedactor:
        """Returns, when everything is passed on, the redactor between streams."""
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
