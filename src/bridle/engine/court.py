"""The crash court: what may or may not have happened is put to a person, call by call, before anything else runs.

A question and its answer are events like any others, so who said what stands in the log; the judgement is the call's
one result. Nobody's silence is a judgement: a call that nobody judged stays open, and nothing goes on without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from bridle.engine.conversation import OpenCall
from bridle.engine.journal import Journal
from bridle.engine.questions import GivenAnswer
from bridle.engine.resume import Judgement, journal_of, judged, orphans
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Notice

HAPPENED = "it happened"
DID_NOT = "it did not"
DO_NOT_KNOW = "I don't know: the model must check before repeating"
UNDO = "undo it"
LATER = "decide later"

PREFIX = "orphan-"
"""What the id of every such question begins with; behind it stands the call."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A call as it is put to a person: what it was, when, what is there now. `undo` names the choice of undoing it."""

    question: str
    undo: str = UNDO


AskWhom = Callable[[str, str, tuple[str, ...]], Awaitable[GivenAnswer | None]]
Present = Callable[[OpenCall, int, int], Awaitable[Case]]
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
            case = await self._present(call, number, count)
            name = f"{PREFIX}{call.call.call_id}" + (f"-{asked}" if asked > 1 else "")
            given = await self._ask(name, case.question, (HAPPENED, DID_NOT, DO_NOT_KNOW, case.undo, LATER))
            if given is None or given.answer == LATER:
                return False
            if given.answer == case.undo:
                try:
                    await self._undo(call.call.call_id)
                except BridleError as failure:
                    self._journal.emit(Notice(reason=failure.reason, message=failure.message))
                    continue
            judgement, note = _read(given.answer, case.undo)
            judgement_of = judged(call, judgement, by=given.by, note=note)
            journal_of(call, self._journal).emit(judgement_of, originator=given.by)
            return True


def _read(answer: str, undo: str) -> tuple[Judgement, str]:
    """The judgement in an answer. Words that are none of the choices are for the model: it must look for itself."""
    known: dict[str, Judgement] = {
        HAPPENED: "happened",
        DID_NOT: "did not happen",
        DO_NOT_KNOW: "unknown",
        undo: "undone",
    }
    return (known[answer], "") if answer in known else ("unknown", answer)
