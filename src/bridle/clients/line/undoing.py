"""The questions of `/undo` and `/redo`: y d and Enter, and for a file that changed since: s o and Enter. Pure.

They arrive as plain text: a headline and the lines of the preview, or one sentence about one file.
"""

from __future__ import annotations

from typing import Final

from bridle.base.visible import visible
from bridle.clients.line.card import Decided
from bridle.clients.line.questions import Choice, Question, Row
from bridle.protocol.events import QuestionAsked

_PREFIX: Final = "undo-"
_CONFLICT: Final = "undo-conflict-"
_CHOICES: Final = 3


def undo_question(asked: QuestionAsked) -> Question | None:
    """The question as it is drawn; None for one that is about something else."""
    if not asked.question_id.startswith(_PREFIX) or len(asked.choices) != _CHOICES:
        return None
    title, *lines = visible(asked.question).split("\n")
    if asked.question_id.startswith(_CONFLICT):
        choices = (
            Choice("s", "once", "skip it"),
            Choice("o", "pattern", "overwrite (your version is kept for /redo)"),
        )
        last_words = "Enter stop"
    else:
        choices = (
            Choice("y", "once", visible(asked.choices[0], newlines=False)),
            Choice("d", "pattern", "diff"),
        )
        last_words = "Enter keep"
    return Question(
        id=asked.question_id,
        title=title,
        body=tuple(Row(line) for line in lines),
        choices=(*choices, Choice("n", "deny")),
        options=asked.choices,
        inline=True,
        last_words=last_words,
    )


def undo_answer(decided: Decided) -> str | None:
    """The answer in the words the engine offered; None for any other question."""
    question = decided.question
    if not question.id.startswith(_PREFIX) or len(question.options) != _CHOICES:
        return None
    first, second, keep = question.options
    return {"once": first, "pattern": second}.get(decided.answer, keep)
