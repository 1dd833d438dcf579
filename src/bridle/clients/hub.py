"""Runs for a hub of agents: start one, read its stream, decide what it asks, cancel it. Written against `Connection`.

    async with bridle.open_engine() as engine:
        hub = bridle.hub.Hub(engine.connect(name="my hub", answers=True), clock=SystemClock())
        run = await hub.start("fix the test", cwd="/shop", task=HubTask(task_id="42"))
        async for envelope in run.stream():
            ...

A hub decides about tool calls. What else a person could be asked gets the careful answer: nothing is trusted, no
budget is raised, a call whose outcome nobody knows is looked into.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Literal, TypeAlias, assert_never

import msgspec

from bridle.base.clock import Clock, Timer, iso_ms
from bridle.clients.hub_stream import RESULT, ApprovalRequest, HubEnvelope, HubResult, HubStream, HubTask
from bridle.clients.run_result import error_fields
from bridle.protocol import events as e
from bridle.protocol import questions as q
from bridle.protocol.commands import AnswerPermission, AnswerQuestion, CancelTurn, CreateSession, SendInput
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.messages import TextBlock
from bridle.protocol.queries import DescribeSession

Decision: TypeAlias = Literal["allow", "deny"]
OnApproval: TypeAlias = Callable[[ApprovalRequest], Awaitable[Decision]]
APPROVAL_TIMEOUT_S = 60.0
NO_WORDS = "Nobody can answer questions here. Decide by yourself, or say what is missing."


class Hub:
    """Starts runs on one connection. An approval nobody decides for `approval_timeout_s` is a no."""

    def __init__(
        self, connection: Connection, *, clock: Clock, approval_timeout_s: float = APPROVAL_TIMEOUT_S
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._approval_timeout_s = approval_timeout_s
        self._running: dict[str, HubRun] = {}
        self._starting = asyncio.Lock()

    async def start(
        self,
        prompt: str,
        *,
        cwd: str,
        session: str | None = None,
        task: HubTask | None = None,
        model: str | None = None,
    ) -> HubRun:
        """A run in a new session, or in the one of this name: an id, or what the hub calls it, which it goes by then.

        Never raises for what a run may meet: one that cannot begin has a stream with a result alone. A session has one
        run at a time; a second changes nothing in it.
        """
        stream = HubStream(task or HubTask(), self._clock.now_ms)
        async with self._starting:
            try:
                opened = await self._opened(session, cwd=cwd, model=model)
                words = (TextBlock(text=prompt),)
                sent = await self._connection.send(SendInput(session=opened, content=words, mode="reject"))
            except BridleError as failure:
                return HubRun(self._connection, self._clock, stream, failure=failure)
            run = self._running[opened] = HubRun(
                self._connection,
                self._clock,
                stream,
                session=opened,
                own_input=sent.event or 0,
                approval_timeout_s=self._approval_timeout_s,
            )
            return run

    async def run(
        self,
        prompt: str,
        *,
        cwd: str,
        session: str | None = None,
        task: HubTask | None = None,
        model: str | None = None,
        on_approval: OnApproval | None = None,
        sink: Callable[[HubEnvelope], None] = lambda _envelope: None,
    ) -> HubResult:
        """A run to its end. `on_approval` decides, without one everything asked is denied; `sink` hears of all."""
        run = await self.start(prompt, cwd=cwd, session=session, task=task, model=model)
        deciding: list[asyncio.Task[None]] = []
        try:
            async for envelope in run.stream():
                sink(envelope)
                if envelope.event_type == RESULT:
                    return msgspec.convert(envelope.payload, HubResult)
                deciding += [
                    asyncio.create_task(_decide(run, request, on_approval)) for request in run.undecided()
                ]
            raise AssertionError("a stream ends with its result")
        finally:
            for one in deciding:
                one.cancel()
            await asyncio.gather(*deciding, return_exceptions=True)

    async def _opened(self, session: str | None, *, cwd: str, model: str | None) -> str:
        create = CreateSession(cwd=cwd, model=model)
        if session is None:
            return (await self._connection.send(create)).session
        try:
            known = (await self._connection.ask(DescribeSession(session=session))).session.id
        except BridleError as failure:
            if failure.reason != "UnknownSession":
                raise
            named = msgspec.structs.replace(create, aliases=(session,))
            return (await self._connection.send(named)).session
        if known in self._running and not self._running[known].is_over:
            at = iso_ms(self._clock.now_ms())
            raise CommandRefused("TurnInProgress", originator=self._connection.client, ts=at)
        resumed = msgspec.structs.replace(create, resume=known)
        return (await self._connection.send(resumed)).session


class HubRun:
    """One run. Its `stream` is read once; what it asks waits in `pending` meanwhile."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        stream: HubStream,
        *,
        session: str | None = None,
        own_input: int = 0,
        approval_timeout_s: float = APPROVAL_TIMEOUT_S,
        failure: BridleError | None = None,
    ) -> None:
        self.session = session
        self.is_over = failure is not None
        self._connection = connection
        self._clock = clock
        self._stream = stream
        self._own_input = own_input
        self._approval_timeout_s = approval_timeout_s
        self._failure = failure
        self._offered: set[str] = set()
        self._deadlines: dict[str, Timer] = {}
        self._late: set[asyncio.Task[bool]] = set()

    async def stream(self) -> AsyncIterator[HubEnvelope]:
        """What happens, in order; the last one is the result."""
        try:
            error, ended = self._failure, None
            if error is None:
                try:
                    async for envelope in self._own_events():
                        if isinstance(envelope.event, e.TurnEnded) and e.concerns(envelope):
                            ended = envelope.event
                        for told in self._stream.of(envelope):
                            self._watch_approvals()
                            yield told
                except BridleError as failure:
                    error = failure
            fields = _lost() if error is None and ended is None else None
            if error is not None:
                fields = error_fields(error)
            yield self._stream.result(session=self.session, ended=ended, error=fields)
        finally:
            self.is_over = True
            for timer in self._deadlines.values():
                timer.cancel()

    def pending(self) -> tuple[ApprovalRequest, ...]:
        """What waits for a decision, oldest first."""
        return self._stream.pending

    def undecided(self) -> tuple[ApprovalRequest, ...]:
        """What waits and was not given out here before."""
        new = tuple(one for one in self._stream.pending if one.request_id not in self._offered)
        self._offered |= {one.request_id for one in new}
        return new

    async def decide(self, request_id: str, decision: Decision, reason: str = "") -> bool:
        """Answers a request. False where none of this id waits, or another was quicker."""
        request = next((one for one in self._stream.pending if one.request_id == request_id), None)
        if request is None or self.session is None:
            return False
        answer = "once" if decision == "allow" else "deny"
        try:
            await self._connection.send(
                AnswerPermission(
                    session=self.session,
                    call_id=request.call_id,
                    answer=answer,
                    note=reason,
                    digest=self._stream.digest_of(request),
                )
            )
        except BridleError:
            return False
        return True

    async def cancel(self) -> None:
        """Ends the turn; its result follows in the stream. A run that is over stays over."""
        if self.session is not None:
            with suppress(BridleError):
                await self._connection.send(CancelTurn(session=self.session))

    async def _own_events(self) -> AsyncIterator[e.Envelope]:
        """Those of this run's turn, from its input on."""
        assert self.session is not None
        is_own = False
        async for envelope in self._connection.events(self.session, since=self._own_input - 1):
            match envelope.event if e.concerns(envelope) else None:
                case e.TurnStarted(input=number):
                    is_own = number == self._own_input
                case e.QuestionAsked(question_id=question_id, question=question):
                    await self._answer_carefully(question_id, question)
                case _:
                    pass
            yield envelope
            if is_own and e.concerns(envelope) and isinstance(envelope.event, e.TurnEnded):
                return

    async def _answer_carefully(self, question_id: str, question: q.AnyQuestion) -> None:
        answer = careful_answer(question)
        with suppress(BridleError):  # somebody else answered it
            await self._connection.send(
                AnswerQuestion(session=self.session or "", question_id=question_id, answer=answer)
            )

    def _watch_approvals(self) -> None:
        """Each request has a deadline of its own, from the moment it is seen."""
        waiting = {request.request_id for request in self._stream.pending}
        for request_id in self._deadlines.keys() - waiting:
            self._deadlines.pop(request_id).cancel()
        for request_id in waiting - self._deadlines.keys():
            self._deadlines[request_id] = self._clock.call_later(
                self._approval_timeout_s, lambda request_id=request_id: self._give_up(request_id)
            )

    def _give_up(self, request_id: str) -> None:
        reason = f"nobody decided within {self._approval_timeout_s:g} s"
        task = asyncio.ensure_future(self.decide(request_id, "deny", reason))
        self._late.add(task)
        task.add_done_callback(self._late.discard)


async def _decide(run: HubRun, request: ApprovalRequest, on_approval: OnApproval | None) -> None:
    decision: Decision = "deny" if on_approval is None else await on_approval(request)
    await run.decide(request.request_id, decision)


def _lost() -> dict[str, str]:
    return {"name": "SessionEnded", "message": "The session ended before the run did."}


def careful_answer(question: q.AnyQuestion) -> q.AnyAnswer:
    """The answer that lets nothing more happen."""
    match question:
        case q.OpenQuestion():
            return q.WordsAnswer(text=NO_WORDS)
        case q.PlanQuestion():
            return q.PlanAnswer(approve=False)
        case q.TrustQuestion():
            return q.TrustAnswer(use=False)
        case q.BudgetQuestion():
            return q.BudgetAnswer(choice="stop")
        case q.StepLimitQuestion():
            return q.StepLimitAnswer(go_on=False)
        case q.UndoQuestion():
            return q.UndoAnswer(choice="keep")
        case q.ConflictQuestion():
            return q.ConflictAnswer(choice="stop")
        case q.GitQuestion():
            return q.GitAnswer(choice="keep")
        case q.InputQuestion():
            return q.InputAnswer(declined=True)
        case q.SamplingQuestion():
            return q.SamplingAnswer(allow=False)
        case q.OrphanQuestion():
            return q.OrphanAnswer(judgement="unknown")
        case q.TokenQuestion():
            return q.TokenAnswer(allow=False)
        case _:
            assert_never(question)
