"""The stored fold and transcript of a session.

The fold is kept now and then, and whenever a compaction made it small, so that coming back to a long session reads
only its end, after a crash too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from bridle.engine.conversation import Conversation
from bridle.protocol.errors import StoreError
from bridle.protocol.events import Notice

if TYPE_CHECKING:
    from bridle.engine.store_ports import OpenLog

FOLD_EVERY = 1_000
"""After this many new events the fold of a log is kept."""
_OF_ALL = 10
"""While a session runs, also not before a tenth of its events is new: keeping costs as much as there is."""


class Transcript(Protocol):
    """What is written of a session beside its log. Both return why it could not be."""

    def prepare(self) -> str | None: ...
    def catch_up(self) -> str | None: ...


class KeptFold:
    """Keeps the fold of one open session; it is kept up to event `kept_until`. `say` hears once that a transcript
    cannot be written."""

    def __init__(
        self,
        log: OpenLog,
        conversation: Conversation,
        kept_until: int,
        *,
        transcript: Transcript | None = None,
        say: Callable[[Notice], object] = lambda _notice: None,
    ) -> None:
        self._log = log
        self._conversation = conversation
        self._kept_until = kept_until
        self._epoch = conversation.epoch
        self._transcript = transcript
        self._say = say
        self._said = False

    def notices(self) -> tuple[Notice, ...]:
        """What is to be said when the session begins: whoever runs one turn is gone when it was transcribed."""
        problem = None if self._transcript is None else self._transcript.prepare()
        self._said = problem is not None
        return () if problem is None else (_not_written(problem),)

    async def after_turn(self) -> None:
        """Keep the fold if enough is new, or less is left of it. On a full disk, a later turn does."""
        if self._transcript is not None:
            await self._transcribe(self._transcript)
        last = self._conversation.last_id
        enough = last - self._kept_until >= max(FOLD_EVERY, last // _OF_ALL)
        if not enough and self._epoch == self._conversation.epoch:
            return
        if (folded := self._conversation.folded()) is not None:
            try:
                await asyncio.to_thread(self._log.keep_fold, last, folded)
            except StoreError as failure:
                if failure.reason != "NoSpace":
                    raise
                return
            self._kept_until, self._epoch = last, self._conversation.epoch

    async def at_close(self) -> None:
        if self._transcript is not None:
            await asyncio.to_thread(self._transcript.catch_up)
        last = self._conversation.last_id
        if last - self._kept_until < FOLD_EVERY:
            return
        if (folded := self._conversation.folded()) is not None:
            await asyncio.to_thread(self._log.keep_fold, last, folded)

    async def _transcribe(self, transcript: Transcript) -> None:
        problem = await asyncio.to_thread(transcript.catch_up)
        if problem is not None and not self._said:
            self._say(_not_written(problem))
        self._said = problem is not None


def _not_written(problem: str) -> Notice:
    message = f"The transcript cannot be written ({problem}). The session itself is kept."
    return Notice(reason="TranscriptNotWritten", message=message)
