"""Questions to people: how long they stay open, and what happens when nobody can answer.

Who may answer is decided before an answer comes here. The clock of a question runs only while no person is attached;
where nobody can ever answer, the verdict is no at once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from bridle.base.clock import Clock, Timer
from bridle.engine.journal import Journal
from bridle.engine.stopwatch import Measured, Stopwatch
from bridle.protocol.commands import AnswerPermission, AnswerQuestion, AnswerTrust, PermissionChoice
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import PERSON, IdentityClass, PermissionRequested, QuestionAnswered, QuestionAsked

if TYPE_CHECKING:
    from bridle.protocol.questions import AnyAnswer, AnyQuestion

PERMISSION_TIMEOUT_S = 60.0


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Someone attached. `answers` says whether a question put to this client can be answered at all."""

    id: str
    name: str
    identity: IdentityClass
    answers: bool


class PermissionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: the answer, who gave it, and the reason when nobody did, after waiting in vain for so long."""

    answer: PermissionChoice
    answered_by: str | None = None
    note: str = ""
    reason: Literal["PermissionDenied", "PermissionTimeout", "NoApprover"] | None = None
    waited_s: float = 0

    @property
    def allows(self) -> bool:
        return self.answer != "deny"


class GivenAnswer(msgspec.Struct, frozen=True):
    """What answered a question, and the client it came from."""

    answer: AnyAnswer
    by: str


class _Open(msgspec.Struct, frozen=True, kw_only=True):
    """A question that waits, put by the invocation of `journal`. `nobody` is the answer when no person comes."""

    id: str
    journal: Journal
    future: asyncio.Future[Any]
    nobody: Any
    digest: str = ""
    question: AnyQuestion | None = None


class Questions:
    """The open questions of one session and the people who can answer them, as one invocation puts them.

    A question waits for `timeout_s` while nobody is attached.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        can_be_reached: Callable[[], bool],
        timeout_s: float = PERMISSION_TIMEOUT_S,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._stopwatch = stopwatch or Stopwatch(clock)
        self._waits: list[Measured] = []  # one while anything is open, whoever asks
        self.journal = journal
        self._clock = clock
        self._can_be_reached = can_be_reached
        self._clients: dict[str, Client] = {}
        self._open: dict[str, _Open] = {}
        self._timers: dict[str, Timer] = {}

    def within(self, journal: Journal) -> Questions:
        """The questions of another invocation: to the same people, with its stamp, answered wherever those answer."""
        from copy import copy  # most sessions have no children

        other = copy(self)
        other.journal = journal
        return other

    def attach(self, client: Client) -> None:
        self._clients[client.id] = client
        if self._someone_is_here():
            self._stop_clocks()

    def detach(self, client_id: str) -> None:
        self._clients.pop(client_id, None)
        if not self._someone_is_here():
            for question in self._open.values():
                self._start_clock(question)

    def can_be_answered(self) -> bool:
        """Whether a question would reach a person, now or later."""
        return self._someone_is_here() or self._can_be_reached()

    async def ask_permission(self, request: PermissionRequested) -> PermissionAnswer:
        """Puts the question, with its digest, and waits for the answer, for as long as a person is there."""
        if not self.can_be_answered():
            return PermissionAnswer(answer="deny", reason="NoApprover")
        request = msgspec.structs.replace(request, digest=_digest(request))
        nobody = PermissionAnswer(answer="deny", reason="PermissionTimeout", waited_s=self._timeout_s)
        return await self._answer_to(request, request.call_id, nobody, digest=request.digest)

    async def ask(self, question_id: str, question: AnyQuestion) -> AnyAnswer | None:
        """Puts a question; the answer is about the same. None when nobody can answer it or nobody came."""
        given = await self.ask_whom(question_id, question)
        return None if given is None else given.answer

    async def ask_whom(self, question_id: str, question: AnyQuestion) -> GivenAnswer | None:
        """The same, with who answered."""
        if not self.can_be_answered():
            return None
        if self.journal.invocation.id is not None:  # two invocations may use the same name for theirs
            question_id = f"{question_id}@{self.journal.invocation.id}"
        asked = QuestionAsked(question_id=question_id, question=question)
        return await self._answer_to(asked, question_id, None, question=question)

    async def _answer_to(
        self,
        event: PermissionRequested | QuestionAsked,
        number: str,
        nobody: Any,
        *,
        digest: str = "",
        question: AnyQuestion | None = None,
    ) -> Any:
        waiting = _Open(
            id=number,
            journal=self.journal,
            future=asyncio.get_running_loop().create_future(),
            nobody=nobody,
            digest=digest,
            question=question,
        )
        if not self._open:
            self._waits.append(self._stopwatch.measure(PERSON))
        self._open[number] = waiting
        try:
            await self.journal.record(event)
            if not self._someone_is_here():
                self._start_clock(waiting)
            return await waiting.future
        finally:
            del self._open[number]
            if not self._open:
                self._waits.pop().end()
            self._stop_clock(number)

    def answer(self, client: Client, command: AnswerPermission) -> None:
        """Takes an answer. The first one counts; an answer to a closed question is refused, not an error."""
        question = self._open.get(command.call_id)
        if question is None or question.future.done() or question.nobody is None:
            raise CommandRefused("NoSuchQuestion")
        if command.digest and command.digest != question.digest:
            raise CommandRefused("QuestionChanged")
        reason = "PermissionDenied" if command.answer == "deny" else None
        question.future.set_result(
            PermissionAnswer(answer=command.answer, answered_by=client.id, note=command.note, reason=reason)
        )

    def answer_question(self, client: Client, command: AnswerQuestion) -> None:
        """Takes the answer to a question; the first one counts, and only one that is about the same thing."""
        waiting = self._open.get(command.question_id)
        if waiting is None or waiting.question is None or waiting.future.done():
            raise CommandRefused("NoSuchQuestion")
        from bridle.protocol.questions import about  # most runs ask nothing

        asked, answered = about(waiting.question), about(command.answer)
        if asked != answered:
            raise CommandRefused("WrongAnswer", asked=asked, answered=answered)
        waiting.journal.emit(
            QuestionAnswered(question_id=command.question_id, answer=command.answer, answered_by=client.id)
        )
        waiting.future.set_result(GivenAnswer(command.answer, client.id))

    def answer_trust(self, client: Client, command: AnswerTrust) -> None:
        """The same for whoever names what is to be trusted, and the content they have seen, instead of the question."""
        from bridle.protocol.questions import TrustAnswer, TrustQuestion

        for number, waiting in self._open.items():
            asked = waiting.question
            if isinstance(asked, TrustQuestion) and (asked.path, asked.sha256) == (
                command.path,
                command.sha256,
            ):
                answer = TrustAnswer(use=command.trusted)
                self.answer_question(
                    client, AnswerQuestion(session=command.session, question_id=number, answer=answer)
                )
                return
        raise CommandRefused("NoSuchQuestion")

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
    about = (request.tool, request.input, request.parts, request.offers, request.changes)
    return hashlib.sha256(msgspec.json.encode(about, order="deterministic")).hexdigest()
