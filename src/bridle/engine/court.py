"""The crash court: what may or may not have happened is put to a person, call by call, before anything else runs.

A question and its answer are events like any others, so who said what stands in the log; the judgement is the call's
one result. Nobody's silence is a judgement: a call that nobody judged stays open, and nothing goes on without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bridle.engine.conversation import OpenCall
from bridle.engine.journal import Journal
from bridle.engine.open_questions import GivenAnswer
from bridle.engine.resume import Judgement, journal_of, judged, orphans
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Notice
from bridle.protocol.questions import OrphanAnswer, OrphanQuestion

JUDGEMENTS: dict[str, Judgement] = {
    "happened": "happened",
    "did_not": "did not happen",
    "unknown": "unknown",
    "undo": "undone",
}

AskWhom = Callable[[str, OrphanQuestion], Awaitable[GivenAnswer | None]]
Present = Callable[[OpenCall, int, int], Awaitable[OrphanQuestion]]
"""Looks at the world for the call, the n-th of so many, and says what is there."""
UndoCall = Callable[[str], Awaitable[None]]
"""Puts back what a call changed. Raises `BridleError` where that cannot be done."""


class CrashCourt:
    """The orphans of one session. `sit` once, before the session takes up work."""

    def __init__(self, journal: Journal, *, ask: AskWhom, present: Present, undo: UndoCall) -> None:
        self._journal = journal
        self._ask = ask
        self._present = present
        self._undo = undo

    async def sit(self) -> bool:
        """Asks about every orphan in order; False when one was left for later, or nobody can answer."""
        found = orphans(self._journal.conversation)
        for number, call in enumerate(found, 1):
            if not await self._judge(call, number, len(found)):
                return False
        await self._journal.durable()
        return True

    async def _judge(self, call: OpenCall, number: int, count: int) -> bool:
        asked = 0
        while True:
            asked += 1
            question = await self._present(call, number, count)
            name = f"orphan-{call.call.call_id}" + (f"-{asked}" if asked > 1 else "")
            given = await self._ask(name, question)
            if (
                given is None
                or not isinstance(given.answer, OrphanAnswer)
                or given.answer.judgement == "later"
            ):
                return False
            if given.answer.judgement == "undo":
                try:
                    await self._undo(call.call.call_id)
                except BridleError as failure:
                    self._journal.emit(Notice(reason=failure.reason, message=failure.message))
                    continue
            result = judged(call, JUDGEMENTS[given.answer.judgement], by=given.by, note=given.answer.note)
            journal_of(call, self._journal).emit(result, originator=given.by)
            return True
