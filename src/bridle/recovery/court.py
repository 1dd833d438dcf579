"""The crash court: what may or may not have happened is put to a person, call by call, before anything else runs.

A question and its answer are events like any others, so who said what stands in the log; the judgement is the call's
one result. Nobody's silence is a judgement: a call that nobody judged stays open, and nothing goes on without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Literal, Protocol, TypeVar

import msgspec

from bridle.base.clock import iso_ms
from bridle.base.threads import to_the_end
from bridle.engine.conversation import OpenCall
from bridle.engine.journal import Journal
from bridle.engine.open_questions import GivenAnswer
from bridle.engine.resume import Judgement, journal_of, judged, orphans
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import Notice, UndoApplied
from bridle.protocol.questions import OrphanAnswer, OrphanQuestion
from bridle.recovery.evidence import InterruptedRun, findings, input_of

JUDGEMENTS: dict[str, Judgement] = {
    "happened": "happened",
    "did_not": "did not happen",
    "unknown": "unknown",
    "undo": "undone",
}

AskWhom = Callable[[Journal, str, OrphanQuestion], Awaitable[GivenAnswer | None]]
"""Puts a question in the name of whose journal it is."""


class UndoPlan(Protocol):
    """How far a call can be undone."""

    @property
    def does_something(self) -> bool: ...

    def of(self, fate: Literal["conflict", "impossible"], /) -> Sequence[object]:
        """The files whose way back is blocked so."""
        ...


PlanT = TypeVar("PlanT", bound=UndoPlan)


class CallUndo(Protocol[PlanT]):
    """What knows the files a call changed."""

    async def plan(self, what: str, /) -> PlanT | None:
        """The undo of the call of this id; None where it changed nothing. Raises `BridleError` for one not known."""
        ...

    async def apply(self, plan: PlanT, /) -> UndoApplied | None:
        """Puts the files back; the event that records it, None where none was changed."""
        ...


class CrashCourt(Generic[PlanT]):
    """The orphans of one session. `sit` once, before the session takes up work; `undo_work` makes what undoes the calls
    of whoever worked in a folder."""

    def __init__(
        self,
        journal: Journal,
        *,
        run: InterruptedRun,
        ask: AskWhom,
        undo_work: Callable[[str], CallUndo[PlanT]],
    ) -> None:
        self._journal = journal
        self._run = run
        self._ask = ask
        self._undo_work = undo_work

    async def sit(self) -> bool:
        """Asks about every orphan in order; False when one was left for later, or nobody can answer."""
        found = orphans(self._journal.conversation)
        for number, call in enumerate(found, 1):
            if not await self._judge(call, number, len(found)):
                return False
        await self._journal.durable()
        return True

    async def _judge(self, call: OpenCall, number: int, count: int) -> bool:
        asked, journal = 0, journal_of(call, self._journal)
        while True:
            asked += 1
            question = await self._question(call, number, count)
            name = f"orphan-{call.call.call_id}" + (f"-{asked}" if asked > 1 else "")
            given = await self._ask(journal, name, question)
            if (
                given is None
                or not isinstance(given.answer, OrphanAnswer)
                or given.answer.judgement == "later"
            ):
                return False
            if given.answer.judgement == "undo":
                try:
                    await to_the_end(self._undo(call))
                except BridleError as failure:
                    self._journal.emit(Notice(reason=failure.reason, message=failure.message))
                    continue
            result = judged(call, JUDGEMENTS[given.answer.judgement], by=given.by, note=given.answer.note)
            journal.emit(result, originator=given.by)
            return True

    async def _question(self, call: OpenCall, number: int, count: int) -> OrphanQuestion:
        return OrphanQuestion(
            tool=call.call.tool,
            input=input_of(call),
            started_ms=call.started_ms,
            stopped_ms=max(self._run.stopped_ms, call.started_ms),
            number=number,
            count=count,
            now=tuple(await findings(call, self._run)),
            not_undoable=await _not_undoable(self._work_of(call), call),
        )

    def _work_of(self, call: OpenCall) -> CallUndo[PlanT]:
        return self._undo_work(journal_of(call, self._journal).conversation.cwd)

    async def _undo(self, call: OpenCall) -> None:
        """Not to be cut short: files that were put back are in the log."""
        work = self._work_of(call)
        plan = await _plan(work, call.call.call_id)
        applied = None if plan is None else await work.apply(plan)
        if applied is None:
            raise BridleError("NotUndoable", problem="nothing it changed is known")
        self._journal.emit(applied)


async def refusal(calls: Sequence[OpenCall], run: InterruptedRun, *, session: str) -> CommandRefused:
    """Why a session does not go on where nobody shall be asked: the orphans, in words and as data."""
    return CommandRefused(
        "OrphanedCalls",
        count=len(calls),
        calls="; ".join(f"{call.call.tool} {msgspec.json.encode(input_of(call)).decode()}" for call in calls),
        id=session,
        orphans=[
            {
                "call_id": call.call.call_id,
                "tool": call.call.tool,
                "input": input_of(call),
                "started": iso_ms(call.started_ms),
                "now": await findings(call, run),
            }
            for call in calls
        ],
    )


async def _not_undoable(work: CallUndo[PlanT], call: OpenCall) -> str:
    """Why a call cannot be undone, in a few words; empty where it can."""
    command = input_of(call).get("command")
    if call.call.tool == "bash" and isinstance(command, str) and "push" in command.split():
        return "for a push"
    plan = await _plan(work, call.call.call_id)
    if plan is None:
        return "here: it changed no file that is known"
    if plan.of("conflict") or plan.of("impossible"):
        return "here: its files changed since"
    return "" if plan.does_something else "here: everything is as it was before"


async def _plan(work: CallUndo[PlanT], call_id: str) -> PlanT | None:
    try:
        return await work.plan(call_id)
    except BridleError:
        return None
