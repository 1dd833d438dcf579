"""Every kind of question as it is drawn, and what the person's answer to it means. Pure."""

from __future__ import annotations

from typing import Final, assert_never

from bridle.base.lookalikes import mark_lookalikes
from bridle.base.phrases import counted
from bridle.base.visible import visible
from bridle.clients.interaction.budget_form import budget_answer, budget_question
from bridle.clients.interaction.card import Decided
from bridle.clients.interaction.git_form import git_answer, git_question
from bridle.clients.interaction.input_form import input_answer, input_question
from bridle.clients.interaction.orphan_form import orphan_answer, orphan_question
from bridle.clients.interaction.question_card import Question, Row
from bridle.clients.interaction.sampling_form import sampling_answer, sampling_question
from bridle.clients.interaction.token_form import token_question
from bridle.clients.interaction.trust_form import trust_answer, trust_question
from bridle.clients.interaction.undo_form import (
    conflict_answer,
    conflict_question,
    undo_answer,
    undo_question,
)
from bridle.protocol.events import QuestionAsked
from bridle.protocol.questions import (
    AnyAnswer,
    AnyQuestion,
    BudgetQuestion,
    ConflictQuestion,
    GitQuestion,
    InputQuestion,
    OpenQuestion,
    OrphanQuestion,
    PlanAnswer,
    PlanQuestion,
    SamplingQuestion,
    StepLimitAnswer,
    StepLimitQuestion,
    TokenAnswer,
    TokenQuestion,
    TrustQuestion,
    UndoQuestion,
    WordsAnswer,
)

_GO_AHEAD: Final = "go ahead"
_GO_ON: Final = "go on"


def asked_question(asked: QuestionAsked) -> Question:
    """The question as it is drawn."""
    name, question = asked.question_id, asked.question
    match question:
        case OpenQuestion():
            return _in_words(name, question, question.text, question.choices)
        case PlanQuestion(plan=plan):
            return _in_words(name, question, f"Carry out this plan?\n{plan}", (_GO_AHEAD, "keep planning"))
        case StepLimitQuestion(steps=steps, more=more):
            words = f"{counted(steps, 'step')} done and still working. Go on for {more} more?"
            return _in_words(name, question, words, (_GO_ON, "stop here"))
        case TrustQuestion():
            return trust_question(name, question)
        case BudgetQuestion():
            return budget_question(name, question)
        case UndoQuestion():
            return undo_question(name, question)
        case ConflictQuestion():
            return conflict_question(name, question)
        case GitQuestion():
            return git_question(name, question)
        case OrphanQuestion():
            return orphan_question(name, question)
        case InputQuestion():
            return input_question(name, question)
        case SamplingQuestion():
            return sampling_question(name, question)
        case TokenQuestion():
            return token_question(name, question)
        case _:
            assert_never(question)


def given_answer(about: AnyQuestion, decided: Decided) -> AnyAnswer:
    """What the person's answer says about this question."""
    match about:
        case OpenQuestion():
            return WordsAnswer(text=decided.words)
        case PlanQuestion():
            approve = decided.words == _GO_AHEAD
            return PlanAnswer(approve=approve, note="" if approve else decided.words)
        case StepLimitQuestion():
            return StepLimitAnswer(go_on=decided.words == _GO_ON)
        case TrustQuestion():
            return trust_answer(decided.answer)
        case BudgetQuestion():
            return budget_answer(about, decided.answer)
        case UndoQuestion():
            return undo_answer(decided.answer)
        case ConflictQuestion():
            return conflict_answer(decided.answer)
        case GitQuestion():
            return git_answer(about, decided)
        case OrphanQuestion():
            return orphan_answer(decided)
        case InputQuestion():
            return input_answer(about, decided)
        case SamplingQuestion():
            return sampling_answer(decided)
        case TokenQuestion():
            return TokenAnswer(allow=False)
        case _:
            assert_never(about)


def _in_words(question_id: str, about: AnyQuestion, text: str, choices: tuple[str, ...]) -> Question:
    """A question that any words answer."""
    marked = mark_lookalikes(text, prose=True)
    lines = [Row(visible(line)) for line in marked.splitlines()] or [Row("")]
    return Question(
        id=question_id,
        about=about,
        title=lines[0].text,
        body=tuple(lines[1:]),
        options=tuple(visible(mark_lookalikes(choice), newlines=False) for choice in choices),
    )
