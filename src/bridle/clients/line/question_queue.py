"""The questions of a session, one in front of the person at a time, in the order they came."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridle.base.clock import Clock
from bridle.clients.interaction.card import Decided, Show
from bridle.clients.interaction.question_card import Question
from bridle.clients.interaction.question_forms import given_answer
from bridle.clients.line.key_router import Desk
from bridle.clients.line.terminal import Terminal
from bridle.protocol.commands import AnswerPermission, AnswerQuestion, AnyCommand


class Asking:
    """Open questions. `take_keys` handles what was typed until now, `show` prints, `send` hands an answer over."""

    def __init__(
        self,
        desk: Desk,
        terminal: Terminal,
        clock: Clock,
        *,
        take_keys: Callable[[], None],
        show: Callable[[Show], None],
        send: Callable[[AnyCommand], None],
    ) -> None:
        self._desk = desk
        self._terminal = terminal
        self._clock = clock
        self._take_keys = take_keys
        self._show = show
        self._send = send
        self._open: list[tuple[str, Question]] = []
        self._nobody = False

    def arrived(self, session: str, question: Question) -> None:
        self._open.append((session, question))
        if len(self._open) == 1:
            self._ask()

    def decided(self, decided: Decided) -> None:
        """The person has answered; the next question comes forward."""
        session = self._without(decided.question.id)
        if session is not None and (decided.question.choices or not decided.stop):
            self._send(_command(session, decided))
        self._ask()

    def settled(self, question_id: str) -> bool:
        """The question is no longer open, whoever answered; True if it was the one in front of the person."""
        card = self._desk.card
        in_front = card is not None and card.question.id == question_id
        self._without(question_id)
        if in_front:
            self._desk.close()
        if self._desk.card is None:
            self._ask()
        return in_front

    def forget_all(self) -> None:
        """The turn is over, and its questions with it."""
        self._open.clear()
        self._desk.close()

    def nobody_is_left(self) -> None:
        """No key can come any more: every question, open or to come, is answered with no."""
        self._nobody = True
        self._desk.close()
        self._ask()

    def _without(self, question_id: str) -> str | None:
        """Takes a question from the list and returns its session."""
        found = next((session for session, question in self._open if question.id == question_id), None)
        self._open = [entry for entry in self._open if entry[1].id != question_id]
        return found

    def _ask(self) -> None:
        """Draws the first open question. What was typed until now is taken first: it was not meant for it."""
        if self._nobody:
            for session, question in self._open:
                self._send(_command(session, Decided(question=question, stop=True)))
            self._open.clear()
        if not self._open:
            return
        self._take_keys()
        question = self._open[0][1]
        reader = self._terminal.look.reader
        if reader:
            question = msgspec.structs.replace(question, title=f"Question: {question.title}")
        total = len(self._open)
        show = self._desk.ask(
            question,
            now_s=self._clock.monotonic(),
            columns=0 if reader else self._terminal.columns,
            rows=0 if reader else self._terminal.rows,
            position=f"1 of {total}" if total > 1 else "",
        )
        self._show(show)
        self._terminal.notify(f"Bridle needs you: {question.title}")


def _command(session: str, decided: Decided) -> AnyCommand:
    question = decided.question
    if question.about is not None:
        answer = given_answer(question.about, decided)
        return AnswerQuestion(session=session, question_id=question.id, answer=answer)
    return AnswerPermission(
        session=session,
        call_id=question.id,
        answer=decided.answer,
        note=decided.note,
        digest=question.digest,
    )
