"""Questions to people: how long they stay open, and what happens when nobody can answer.

Who may answer is decided before an answer comes here. The clock of a question runs only while no person is here who
could answer it; where nobody can ever answer, the verdict is no at once. A call may need the yes of several people:
each name counts once, whoever attaches with it, and a single no is enough. Where several agents work, people have the
questions of one of them before them, in the order in which they came; the others wait, and are not open yet.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from copy import copy
from itertools import takewhile
from typing import Any, Literal

import msgspec

from bridle.base.clock import Clock, Timer
from bridle.engine.journal import Journal
from bridle.engine.stopwatch import Measured, Stopwatch
from bridle.protocol.codec import payload_of, with_payload
from bridle.protocol.commands import AnswerPermission, AnswerQuestion, AnswerTrust, PermissionChoice
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import (
    PERSON,
    Approval,
    ApprovalGiven,
    CommandStamp,
    Envelope,
    IdentityClass,
    PermissionRequested,
    QuestionAnswered,
    QuestionAsked,
)
from bridle.protocol.questions import AnyAnswer, AnyQuestion, TrustAnswer, TrustQuestion, about

PERMISSION_TIMEOUT_S = 60.0
REMEMBERED_ANSWERS = 200
"""Of so many questions it is known who answered them, for whoever is late."""


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Someone attached. `answers` says whether a question put to this client can be answered at all.

    `person` is the name its token gives: people are told apart by it, and without one all are the same. Who is `here`
    while following counts as present only with an open stream of events. A `guest` is bound to the sessions its token
    names.
    """

    id: str
    name: str
    identity: IdentityClass
    answers: bool
    person: str = ""
    here: Literal["attached", "following"] = "attached"
    guest: bool = False

    @property
    def can_say_yes(self) -> bool:
        return self.answers and self.identity == "human"

    @property
    def called(self) -> str:
        """What people read: the name of the token, or else of the program."""
        return self.person or self.name

    @property
    def key(self) -> str:
        """What this person's yes counts by."""
        return self.person.casefold()


class PermissionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: the answer, who gave it, and the reason when nobody did, after waiting in vain for so long."""

    answer: PermissionChoice
    answered_by: str | None = None
    answered_name: str = ""
    note: str = ""
    reason: Literal["PermissionDenied", "PermissionTimeout", "NoApprover", "MorePeopleNeeded"] | None = None
    waited_s: float = 0
    approvals: tuple[Approval, ...] = ()
    stamp: CommandStamp | None = None

    @property
    def allows(self) -> bool:
        return self.answer != "deny"


class GivenAnswer(msgspec.Struct, frozen=True):
    """What answered a question, and the client it came from."""

    answer: AnyAnswer
    by: str


class _Open(msgspec.Struct, kw_only=True):
    """A waiting question of the invocation of `journal`. `nobody` is the answer when no person comes, `number` its
    event once recorded. `keys` says which people must say yes."""

    id: str
    journal: Journal
    future: asyncio.Future[Any]
    nobody: Any
    digest: str = ""
    question: AnyQuestion | None = None
    number: int | None = None
    keys: int = 1
    approvals: dict[str, Approval] = {}

    def waits_for(self, client: Client) -> bool:
        """Whether this client could still bring it further."""
        return client.can_say_yes and client.key not in self.approvals


class _Place(msgspec.Struct, eq=False):
    """A place in the line of questions, of an invocation: its `turn` has come when only its own are before it."""

    whose: str | None
    turn: asyncio.Event


class Questions:
    """The open questions of one session, as one invocation asks them. A question waits for `timeout_s` while nobody
    is here who could answer it."""

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
        self._answered: dict[str, str] = {}
        self._line: list[_Place] = []

    def within(self, journal: Journal) -> Questions:
        """The questions of another invocation: to the same people, with its stamp, answered wherever those answer."""
        other = copy(self)
        other.journal = journal
        return other

    def attach(self, client: Client) -> None:
        """Somebody is here, who may be able to answer."""
        self._clients[client.id] = client
        for question in self._open.values():
            if question.waits_for(client):
                self._stop_clock(question.id)

    def detach(self, client_id: str) -> None:
        if self._clients.pop(client_id, None) is not None:
            for question in self._open.values():
                if question.id not in self._timers and not self._someone_may_answer(question):
                    self._start_clock(question)

    async def pending(self, since: int) -> list[Envelope]:
        """The questions that wait and were put before `since`, for whoever joins: as they were, without an id, since
        they are told a second time."""
        numbers = sorted(
            question.number
            for question in self._open.values()
            if question.number is not None and question.number <= since and not question.future.done()
        )
        again = [await self.journal.stored(number) for number in numbers]
        return [
            with_payload(msgspec.structs.replace(stored, id=None), payload_of(stored)) for stored in again
        ]

    def can_be_answered(self) -> bool:
        """Whether a question would reach a person, now or later."""
        return self._someone_is_here() or self._can_be_reached()

    async def ask_permission(
        self, request: PermissionRequested, is_open: Callable[[], bool] = lambda: True
    ) -> PermissionAnswer | None:
        """Ask, with the digest, and wait while a person is there. None where the question waited for others and one
        of them settled it (`is_open`)."""
        people = {client.key for client in self._clients.values() if client.can_say_yes}
        if len(people) < request.keys and not self._can_be_reached():
            return PermissionAnswer(answer="deny", reason="MorePeopleNeeded" if people else "NoApprover")
        request = msgspec.structs.replace(request, digest=_digest(request))
        nobody = PermissionAnswer(answer="deny", reason="PermissionTimeout", waited_s=self._timeout_s)
        async with self._turn():
            if not is_open():
                return None
            return await self._put(request, request.call_id, nobody, digest=request.digest, keys=request.keys)

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
        async with self._turn():
            return await self._put(asked, question_id, None, question=question)

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """Begins when the questions that other invocations put before are settled. Who is stopped leaves the line."""
        place = _Place(self.journal.invocation.id, asyncio.Event())
        self._line.append(place)
        self._call_next()
        try:
            await place.turn.wait()
            yield
        finally:
            self._line.remove(place)
            self._call_next()

    def _call_next(self) -> None:
        for place in takewhile(lambda one: one.whose == self._line[0].whose, self._line):
            place.turn.set()

    async def _put(
        self,
        event: PermissionRequested | QuestionAsked,
        number: str,
        nobody: Any,
        *,
        digest: str = "",
        question: AnyQuestion | None = None,
        keys: int = 1,
    ) -> Any:
        waiting = _Open(
            id=number,
            journal=self.journal,
            future=asyncio.get_running_loop().create_future(),
            nobody=nobody,
            digest=digest,
            question=question,
            keys=keys,
        )
        if not self._open:
            self._waits.append(self._stopwatch.measure(PERSON))
        self._open[number] = waiting
        try:
            waiting.number = await self.journal.record(event)
            if not self._someone_may_answer(waiting):
                self._start_clock(waiting)
            return await waiting.future
        finally:
            del self._open[number]
            if not self._open:
                self._waits.pop().end()
            self._stop_clock(number)

    def answer(
        self, client: Client, command: AnswerPermission, stamp: CommandStamp | None = None
    ) -> int | None:
        """Take an answer; the first one counts. Where several people must say yes, the event that notes one of them
        is returned, and a single no decides."""
        question = self._open.get(command.call_id)
        if question is None or question.future.done():
            raise self._too_late(command.call_id)
        if question.nobody is None:
            raise CommandRefused("NoSuchQuestion")
        if command.digest and command.digest != question.digest:
            raise CommandRefused("QuestionChanged")
        says_no = command.answer == "deny"
        if not says_no and question.keys > 1:
            given = self._one_of_several(client, question, stamp)
            if given is not None:
                return given
        self._remember(command.call_id, client)
        question.future.set_result(
            PermissionAnswer(
                answer=command.answer,
                answered_by=client.id,
                answered_name=client.person,
                note=command.note,
                reason="PermissionDenied" if says_no else None,
                approvals=tuple(question.approvals.values()),
                stamp=stamp,
            )
        )
        return None

    def _one_of_several(self, client: Client, question: _Open, stamp: CommandStamp | None) -> int | None:
        """Takes one yes; the event that says so where others are still needed. Where none can come, that is a no."""
        if client.key in question.approvals:
            raise CommandRefused("AlreadyApproved", name=client.called, keys=question.keys)
        by = Approval(client=client.id, name=client.person)
        question.approvals = {**question.approvals, client.key: by}
        given = len(question.approvals)
        if given >= question.keys:
            return None
        number = question.journal.emit(
            ApprovalGiven(call_id=question.id, by=by, given=given, keys=question.keys, stamp=stamp),
            originator=client.id,
        )
        approvals = tuple(question.approvals.values())
        question.nobody = PermissionAnswer(
            answer="deny", reason="MorePeopleNeeded", waited_s=self._timeout_s, approvals=approvals
        )
        if not self._someone_may_answer(question):
            if self._can_be_reached():
                self._start_clock(question)
            else:
                question.future.set_result(msgspec.structs.replace(question.nobody, waited_s=0))
        return number

    def answer_question(
        self, client: Client, command: AnswerQuestion, stamp: CommandStamp | None = None
    ) -> int:
        """Takes the answer to a question; the first one counts, and only one that is about the same thing."""
        waiting = self._open.get(command.question_id)
        if waiting is None or waiting.future.done():
            raise self._too_late(command.question_id)
        if waiting.question is None:
            raise CommandRefused("NoSuchQuestion")
        asked, answered = about(waiting.question), about(command.answer)
        if asked != answered:
            raise CommandRefused("WrongAnswer", asked=asked, answered=answered)
        self._remember(command.question_id, client)
        number = waiting.journal.emit(
            QuestionAnswered(
                question_id=command.question_id,
                answer=command.answer,
                answered_by=client.id,
                answered_name=client.person,
                stamp=stamp,
            )
        )
        waiting.future.set_result(GivenAnswer(command.answer, client.id))
        return number

    def answer_trust(self, client: Client, command: AnswerTrust, stamp: CommandStamp | None = None) -> int:
        """The same for whoever names what is to be trusted, and the content they have seen, instead of the question."""
        for number, waiting in self._open.items():
            asked = waiting.question
            if isinstance(asked, TrustQuestion) and (asked.path, asked.sha256) == (
                command.path,
                command.sha256,
            ):
                answer = TrustAnswer(use=command.trusted)
                return self.answer_question(
                    client, AnswerQuestion(session=command.session, question_id=number, answer=answer), stamp
                )
        raise CommandRefused("NoSuchQuestion")

    def _remember(self, question_id: str, client: Client) -> None:
        self._answered[question_id] = client.called
        while len(self._answered) > REMEMBERED_ANSWERS:
            del self._answered[next(iter(self._answered))]

    def _too_late(self, question_id: str) -> CommandRefused:
        if name := self._answered.get(question_id):
            return CommandRefused("AlreadyAnswered", name=name)
        return CommandRefused("NoSuchQuestion")

    def _someone_is_here(self) -> bool:
        return any(client.can_say_yes for client in self._clients.values())

    def _someone_may_answer(self, question: _Open) -> bool:
        return any(question.waits_for(client) for client in self._clients.values())

    def _start_clock(self, question: _Open) -> None:
        def nobody_came() -> None:
            if not question.future.done():
                question.future.set_result(question.nobody)

        self._stop_clock(question.id)
        self._timers[question.id] = self._clock.call_later(self._timeout_s, nobody_came)

    def _stop_clock(self, number: str) -> None:
        if timer := self._timers.pop(number, None):
            timer.cancel()


def _digest(request: PermissionRequested) -> str:
    """Of everything a yes is about: the call, and what is said about it."""
    about = (request.tool, request.input, request.parts, request.offers, request.changes, request.handoff)
    return hashlib.sha256(msgspec.json.encode(about, order="deterministic")).hexdigest()
