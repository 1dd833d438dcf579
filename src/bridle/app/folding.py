"""The fold of a log, kept now and then, so that coming back to a long session reads only its end, after a crash too."""

from __future__ import annotations

import asyncio

from bridle.engine.conversation import Conversation
from bridle.sessions.log import StoredLog

FOLD_EVERY = 1_000
"""After this many new events the fold of a log is kept."""
_OF_ALL = 10
"""While a session runs, also not before a tenth of its events is new: keeping costs as much as there is."""


class KeptFold:
    """What is kept of one open session; `kept_until` is the event up to which that was done before."""

    def __init__(self, log: StoredLog, conversation: Conversation, kept_until: int) -> None:
        self._log = log
        self._conversation = conversation
        self._kept_until = kept_until

    async def after_turn(self) -> None:
        """Keeps it if enough is new. The commit is waited for in another thread."""
        last = self._conversation.last_id
        if last - self._kept_until < max(FOLD_EVERY, last // _OF_ALL):
            return
        if (folded := self._conversation.folded()) is not None:
            await asyncio.to_thread(self._log.keep_fold, last, folded)
            self._kept_until = last

    def at_close(self) -> None:
        """The same at the end of a run, when nobody waits. Blocks for a commit."""
        last = self._conversation.last_id
        if last - self._kept_until < FOLD_EVERY:
            return
        if (folded := self._conversation.folded()) is not None:
            self._log.keep_fold(last, folded)
