"""Questions to people: who may answer, how long they stay open, and what happens when nobody can.

Only a person says yes; an agent may say no. The clock of a question runs only while no person is attached; where nobody
can ever answer, the verdict is no at once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from bridle.base.clock import Clock, Timer
from bridle.engine.journal import Journal
from bridle.protocol.commands import Answer, AnswerPermission, AnswerQuestion
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import IdentityClass, PermissionRequested, QuestionAnswered, QuestionAsked

PERMISSION_TIMEOUT_S = 60.0


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Someone attached. `answers` says whether a question put to this client can be answered at all."""

    id: str
    name: str
    identity: IdentityClass
    answers: bool


class PermissionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: the answer, who gave it, and the reason when nobody did, after waiting in vain for so long."""

    answer: Answer
    answered_by: str | None = None
    note: str = ""
    reason: Literal["PermissionDenied", "PermissionTimeout", "NoApprover"] | None = None
    waited_s: float = 0

    @property
    def allows(self) -> bool:
        return self.answer != "deny"


class GivenAnswer(msgspec.Struct, frozen=True):
    """The words that answered a free question, and the client they came from."""

    answer: str
    by: str


class _Open(msgspec.Struct, frozen=True, kw_only=True):
    """A question that waits. `nobody` is the answer when no person comes."""

    id: str
    future: asyncio.Future[Any]
    nobody: Any
    digest: str = ""


class Questions:
    """The open questions of one session and the people who can answer them.

    A question waits for `timeout_s` while nobody is attached.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        can_be_reached: Callable[[], bool],
        timeout_s: float = PERMISSION_TIMEOUT_S,
    ) -> None:
        self._timeout_s = timeout_s
        self._journal = journal
        self._clock = clock
        self._can_be_reached = can_be_reached
        self._clients: dict[str, Client] = {}
        self._open: dict[str, _Open] = {}
        self._timers: dict[str, Timer] = {}

    def attach(self, client: Client) -> None:
        self._clients[client.id] = client
        if self._someone_is_here():
            self._stop_clocks()

    @property
    def attended(self) -> bool:
        """Whether any client is attached."""
        return bool(self._clients)

    def detach(self, client_id: str) -> None:
        self._clients.pop(client_id, None)
        if not self._someone_is_here():
            for question in self._open.values():
                self._start_clock(question)

    async def ask_permission(self, request: PermissionRequested) -> PermissionAnswer:
        """Puts the question, with its digest, and waits for the answer, for as long as a person is there."""
        if not self._someone_is_here() and not self._can_be_reached():
            return PermissionAnswer(answer="deny", reason="NoApprover")
        request = msgspec.structs.replace(request, digest=_digest(request))
        nobody = PermissionAnswer(answer="deny", reason="PermissionTimeout", waited_s=self._timeout_s)
        return await self._answer_to(request, request.call_id, nobody, digest=request.digest)

    async def ask(self, question_id: str, question: str, choices: tuple[str, ...] = ()) -> str | None:
        """Puts a free question. None when nobody can answer it or nobody came."""
        given = await self.ask_whom(question_id, question, choices)
        return None if given is None else given.answer

    async def ask_whom(
        self, question_id: str, question: str, choices: tuple[str, ...] = ()
    ) -> GivenAnswer | None:
        """The same, with who answered."""
        if not self._someone_is_here() and not self._can_be_reached():
            return None
        asked = QuestionAsked(question_id=question_id, question=question, choices=choices)
        return await self._answer_to(asked, question_id, None)

    async def _answer_to(
        self, event: PermissionRequested | QuestionAsked, number: str, nobody: Any, digest: str = ""
    ) -> Any:
        question = _Open(
            id=number, future=asyncio.get_running_loop().create_future(), nobody=nobody, digest=digest
        )
        self._open[number] = question
        try:
            await self._journal.record(event)
            if not self._someone_is_here():
                self._start_clock(question)
            return await question.future
        finally:
            del self._open[number]
            self._stop_clock(number)

    def answer(self, client: Client, command: AnswerPermission) -> None:
        """Takes an answer. The first one counts; an answer to a closed question is refused, not an error."""
        question = self._open.get(command.call_id)
        if question is None or question.future.done() or question.nobody is None:
            raise CommandRefused("NoSuchQuestion")
        if client.identity == "agent" and command.answer != "deny":
            raise CommandRefused("SelfApproval")
        if command.digest and command.digest != question.digest:
            raise CommandRefused("QuestionChanged")
        reason = "PermissionDenied" if command.answer == "deny" else None
        question.future.set_result(
            PermissionAnswer(answer=command.answer, answered_by=client.id, note=command.note, reason=reason)
        )

    def answer_question(self, client: Client, command: AnswerQuestion) -> None:
        """Takes the answer to a free question; the first one counts."""
        question = self._open.get(command.question_id)
        if question is None or question.future.done() or isinstance(question.nobody, PermissionAnswer):
            raise CommandRefused("NoSuchQuestion")
        if client.identity == "agent":
            raise CommandRefused("SelfApproval")
        self._journal.emit(
            QuestionAnswered(question_id=command.question_id, answer=command.answer, answered_by=client.id)
        )
        question.future.set_result(GivenAnswer(command.answer, client.id))

    def _someone_is_here(self) -> bool:
        return any(client.answers and client.identity == "human" for client in self._clients.values())

    def _start_clock(self, question: _Open) -> None:
        def nobody_came() -> None:
            if not question.future.done():
                question.future.set_result(question.nobody)

        self._stop_clock(question.id)
        self._timers[question.id] = self._clock.call_later(self._timeout_s, nobody_came)

    def _stop_clock(self, number: str) -> None:
        if timer := self._timers.pop(number, None):
            timer.cancel()

    def _stop_clocks(self) -> None:
        for number in list(self._timers):
            self._stop_clock(number)


def _digest(request: PermissionRequested) -> str:
    """Of everything a yes is about: the call, and what is said about it."""
    about = (request.tool, request.input, request.parts, request.offers)
    return hashlib.sha256(msgspec.json.encode(about, order="deterministic")).hexdigest()
