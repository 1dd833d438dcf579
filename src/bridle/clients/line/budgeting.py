"""The question what to do when a request could cost too much: r m, and Enter stops. Pure.

It arrives as a sentence and its choices; the last of them stops, the others go on.
"""

from __future__ import annotations

from typing import Final

from bridle.base.visible import visible
from bridle.clients.line.card import Decided
from bridle.clients.line.questions import Choice, Question
from bridle.protocol.commands import Answer
from bridle.protocol.events import QuestionAsked

_PREFIX: Final = "budget-"
_KEYS: Final[tuple[tuple[str, str, Answer], ...]] = (
    ("raise to ", "r", "once"),
    ("go on with ", "m", "pattern"),
    ("go on without ", "g", "once"),
)


def budget_question(asked: QuestionAsked) -> Question | None:
    """The question as it is drawn; None for one that is about something else."""
    if not asked.question_id.startswith(_PREFIX) or not asked.choices:
        return None
    going_on = tuple(
        Choice(key, answer, visible(words, newlines=False))
        for words in asked.choices
        for beginning, key, answer in _KEYS
        if words.startswith(beginning)
    )
    return Question(
        id=asked.question_id,
        title=visible(asked.question, newlines=False),
        choices=(*going_on, Choice("n", "deny")),
        options=asked.choices,
        inline=True,
        last_words=f"Enter {visible(asked.choices[-1], newlines=False)}",
    )


def budget_answer(decided: Decided) -> str | None:
    """The answer in the words the engine offered; None for any other question."""
    question = decided.question
    if not question.id.startswith(_PREFIX) or not question.options:
        return None
    chosen = next((choice.words for choice in question.choices if choice.answer == decided.answer), "")
    return next(
        (words for words in question.options if chosen and visible(words, newlines=False) == chosen),
        question.options[-1],
    )
