"""The question what to do when a request could cost too much, in words. Pure."""

from __future__ import annotations

from bridle.base.phrases import dollars
from bridle.base.visible import visible
from bridle.protocol.errors import sentence
from bridle.protocol.questions import BudgetQuestion


def budget_words(question: BudgetQuestion) -> str:
    data = {
        "model": question.model,
        "cap": dollars(question.cap_usd),
        "spent": dollars(question.spent_usd),
        "could": dollars(question.could_usd),
        "next": "",
    }
    return visible(sentence(question.reason, data), newlines=False)
