"""Questions to people: who may answer, how long they stay open, and what happens when nobody can.

Only a person says yes; an agent may say no. The clock of a question runs only while no person is attached; where nobody
can ever answer, the verdict is no at once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Literal

import msgspec

from bridle.base.clock import Clock, Timer
from bridle.engine.journal import Journal
from bridle.engine.tools import ToolCall
from bridle.protocol.commands import Answer, AnswerPermission
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import IdentityClass, PermissionRequested

PERMISSION_TIMEOUT_S = 60.0


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Someone attached. `answers` says whether a question put to this client can be answered at all."""

    id: str
    name: str
    identity: IdentityClass
    answers: bool


class PermissionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: the answer, who gave it, and the reason when nobody did."""

    answer: Answer
    answered_by: str | None = None
    note: str = ""
    reason: Literal["PermissionDenied", "PermissionTimeout", "NoApprover"] | None = None

    @property
    def allows(self) -> bool:
        return self.answer != "deny"


class _Open(msgspec.Struct, frozen=True, kw_only=True):
    call_id: str
    digest: str
    future: asyncio.Future[PermissionAnswer]


class Questions:
    """The open questions of one session and the people who can answer them."""

    def __init__(self, *, journal: Journal, clock: Clock, can_be_reached: Callable[[], bool]) -> None:
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

    def detach(self, client_id: str) -> None:
        self._clients.pop(client_id, None)
        if not self._someone_is_here():
            for question in self._open.values():
                self._start_clock(question)

    async def ask_permission(self, call: ToolCall, why: str) -> PermissionAnswer:
        """Puts the question and waits for the answer, for as long as a person is there."""
        if not self._someone_is_here() and not self._can_be_reached():
            return PermissionAnswer(answer="deny", reason="NoApprover")
        request = PermissionRequested(
            call_id=call.id,
            tool=call.name,
            input=call.input,
            risk=call.definition.risk,
            why=why,
            subjects=tuple(subject.value for subject in call.subjects),
            digest=_digest(call),
        )
        question = _Open(
            call_id=call.id,
            digest=request.digest,
            future=asyncio.get_running_loop().create_future(),
        )
        self._open[call.id] = question
        self._journal.emit(request)
        if not self._someone_is_here():
            self._start_clock(question)
        try:
            return await question.future
        finally:
            del self._open[call.id]
            self._stop_clock(call.id)

    def answer(self, client: Client, command: AnswerPermission) -> None:
        """Takes an answer. The first one counts; an answer to a closed question is refused, not an error."""
        question = self._open.get(command.call_id)
        if question is None or question.future.done():
            raise CommandRefused("NoSuchQuestion")
        if client.identity == "agent" and command.answer != "deny":
            raise CommandRefused("SelfApproval")
        if command.digest and command.digest != question.digest:
            raise CommandRefused("QuestionChanged")
        reason = "PermissionDenied" if command.answer == "deny" else None
        question.future.set_result(
            PermissionAnswer(answer=command.answer, answered_by=client.id, note=command.note, reason=reason)
        )

    def _someone_is_here(self) -> bool:
        return any(client.answers and client.identity == "human" for client in self._clients.values())

    def _start_clock(self, question: _Open) -> None:
        def nobody_came() -> None:
            if not question.future.done():
                question.future.set_result(PermissionAnswer(answer="deny", reason="PermissionTimeout"))

        self._stop_clock(question.call_id)
        self._timers[question.call_id] = self._clock.call_later(PERMISSION_TIMEOUT_S, nobody_came)

    def _stop_clock(self, call_id: str) -> None:
        if timer := self._timers.pop(call_id, None):
            timer.cancel()

    def _stop_clocks(self) -> None:
        for call_id in list(self._timers):
            self._stop_clock(call_id)


def _digest(call: ToolCall) -> str:
    return hashlib.sha256(msgspec.json.encode((call.name, call.input), order="deterministic")).hexdigest()
