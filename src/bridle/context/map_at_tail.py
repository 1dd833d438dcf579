"""The repo map at the tail of a conversation: begun beside the first request, added to the first one after it is made.

It is wrapped as text from outside: lines of the project's sources are no instructions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bridle.base.text.untrusted import wrap
from bridle.engine.conversation import Conversation
from bridle.engine.steps import AskModel, Reply, Step
from bridle.protocol.events import ContextAdded
from bridle.protocol.messages import TextBlock

SOURCE: Final = "repo_map"
KIND: Final = "repo-map"
_OPENING: Final = f"<untrusted-{KIND}>"


class MapAtTail:
    """Adds the map once it is made: it is begun beside the first request, which does not wait for it."""

    def __init__(self, make: Callable[[], asyncio.Future[str]]) -> None:
        self._make = make
        self._task: asyncio.Future[str] | None = None

    async def layer(self, step: Step, proceed: AskModel) -> Reply:
        if self._task is None:
            self._task = self._make()
        elif self._task.done() and not _stands_in(step.journal.conversation):
            text = self._task.result()
            if text:
                added = TextBlock(text=wrap(KIND, text))
                step.emit(ContextAdded(source=SOURCE, content=(added,)))
        return await proceed(step)

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task


def _stands_in(conversation: Conversation) -> bool:
    return any(
        isinstance(block, TextBlock) and block.text.startswith(_OPENING)
        for message in conversation.messages
        if message.role == "user"
        for block in message.content
    )
