"""Show one question at a time, in order."""

from __future__ import annotations

from bridle.clients.interaction.effects import CloseQuestion, Effect, PutQuestion
from bridle.clients.interaction.questions.question_card import FormAnswer, PermissionAnswer, Question
from bridle.protocol.commands import AnswerPermission, AnswerQuestion, AnyCommand


class QuestionQueue:
    """Open questions. Each change says what to send and what to put in front of the person."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._open: list[Question] = []
        self._asked: str | None = None
        self._nobody = False

    @property
    def is_asking(self) -> bool:
        return self._asked is not None

    def note(self, question: Question) -> None:
        """A question of the past: it is asked by `ask_first` if it is open then."""
        self._open.append(question)

    def drop(self, question_id: str) -> bool:
        """Takes a question from the list; whether it was there."""
        before = len(self._open)
        self._open = [question for question in self._open if question.id != question_id]
        return len(self._open) < before

    def drop_of(self, invocation: str | None) -> None:
        """The same for all that an agent put, None the main one."""
        self._open = [question for question in self._open if question.invocation != invocation]

    def ask_first(self) -> list[Effect]:
        """The first open question comes forward, if none has; where nobody is left, the answer to all is no."""
        if self._nobody:
            refused = [self._command(one, one.form.later or one.form.refusal) for one in self._open]
            self._open.clear()
            return [*refused]
        if self._asked is not None or not self._open:
            return []
        first, total = self._open[0], len(self._open)
        self._asked = first.id
        return [PutQuestion(first, f"1 of {total}" if total > 1 else "")]

    def arrived(self, question: Question) -> list[Effect]:
        """One that is there already came again, for whoever joined meanwhile."""
        if all(one.id != question.id for one in self._open):
            self._open.append(question)
        return self.ask_first()

    def answer(self, question: Question, answer: FormAnswer | None) -> list[Effect]:
        """Send the answer to the question in front, and bring the next one forward. A late answer is ignored.

        Without an answer the question is refused, or left open where only text answers it.
        """
        if question.id != self._asked:
            return []
        self.drop(question.id)
        self._asked = None
        form = question.form
        if answer is None and not form.open:
            answer = form.later or form.refusal
        return [*([] if answer is None else [self._command(question, answer)]), *self.ask_first()]

    def settled(self, question_id: str, why: str = "") -> list[Effect]:
        """The question is no longer open, whoever answered; `why` is for a person who has it in front of them."""
        self.drop(question_id)
        closed: list[Effect] = []
        if self._asked == question_id:
            self._asked = None
            closed.append(CloseQuestion(question_id, why))
        return [*closed, *self.ask_first()]

    def forget_of(self, invocation: str | None) -> list[Effect]:
        """The agent that put them is done, None the main one, and its questions with it."""
        self.drop_of(invocation)
        closed: list[Effect] = []
        if self._asked is not None and all(question.id != self._asked for question in self._open):
            closed.append(CloseQuestion(self._asked))
            self._asked = None
        return [*closed, *self.ask_first()]

    def forget_all(self) -> list[Effect]:
        """Nobody here can answer them any more: they went with what asked, or the person goes elsewhere."""
        self._open.clear()
        asked, self._asked = self._asked, None
        return [] if asked is None else [CloseQuestion(asked)]

    def nobody_is_left(self) -> list[Effect]:
        """Nobody can answer any more: every question, open or to come, is answered with no."""
        self._nobody = True
        asked, self._asked = self._asked, None
        return [*([] if asked is None else [CloseQuestion(asked)]), *self.ask_first()]

    def _command(self, question: Question, answer: FormAnswer) -> AnyCommand:
        if not isinstance(answer, PermissionAnswer):
            return AnswerQuestion(session=self._session, question_id=question.id, answer=answer)
        return AnswerPermission(
            session=self._session,
            call_id=question.id,
            answer=answer.choice,
            note=answer.note,
            digest=question.digest,
        )
