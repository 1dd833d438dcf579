"""The question what to do when a request could cost too much, on a screen: r m, and Enter stops. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bridle.base.visible import visible
from bridle.clients.interaction.budget_question import budget_words
from bridle.clients.interaction.question_card import Choice, Question
from bridle.protocol.commands import PermissionChoice
from bridle.protocol.questions import BudgetAnswer, BudgetQuestion


def budget_question(question_id: str, asked: BudgetQuestion) -> Question:
    """The question as it is drawn."""
    return Question(
        id=question_id,
        about=asked,
        title=budget_words(asked),
        choices=(*_going_on(asked), Choice("n", "deny")),
        inline=True,
        last_words="Enter stop",
    )


def budget_answer(asked: BudgetQuestion, answer: PermissionChoice) -> BudgetAnswer:
    match answer:
        case "once":
            return BudgetAnswer(choice="raise" if asked.raise_to_usd is not None else "unlimited")
        case "pattern":
            return BudgetAnswer(choice="cheaper")
        case _:
            return BudgetAnswer(choice="stop")


def _going_on(asked: BudgetQuestion) -> Iterator[Choice]:
    if asked.raise_to_usd is not None:
        yield Choice("r", "once", f"raise to ${asked.raise_to_usd:g}")
    if asked.cheaper is not None:
        yield Choice("m", "pattern", f"go on with {visible(asked.cheaper, newlines=False)}")
    if asked.reason == "PriceUnknown":
        yield Choice("g", "once", "go on without the limit")
