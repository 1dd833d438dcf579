"""The question what became of a call that Bridle did not see end: h n ? z d q. Pure.

It arrives as plain text: a sentence, the call with what is there now, and below `details:` everything about it. Enter
says that nobody knows; whoever leaves has decided nothing.
"""

from __future__ import annotations

from typing import Final

from bridle.base.visible import visible
from bridle.clients.line.card import Decided
from bridle.clients.line.questions import Choice, Question, Row
from bridle.protocol.events import QuestionAsked

_PREFIX: Final = "orphan-"
_DETAILS: Final = "details:"
_CHOICES: Final = 5


def court_question(asked: QuestionAsked) -> Question | None:
    """The question as it is drawn; None for one that is about something else."""
    if not asked.question_id.startswith(_PREFIX) or len(asked.choices) != _CHOICES:
        return None
    title, *lines = visible(asked.question).split("\n")
    cut = lines.index(_DETAILS) if _DETAILS in lines else len(lines)
    happened, did_not, unknown, undo, later = (visible(words, newlines=False) for words in asked.choices)
    return Question(
        id=asked.question_id,
        title=title,
        body=tuple(Row(line) for line in lines[:cut]),
        choices=(
            Choice("h", "once", happened),
            Choice("n", "pattern", did_not),
            Choice("?", "deny", unknown),
            Choice("z", "tool", undo),
            Choice("q", "always", later),
        ),
        options=asked.choices,
        answer_rows=(
            f"h  {happened}     n  {did_not}     ?  {unknown} (Enter)",
            f"z  {undo}        d  details        q  {later}",
        ),
        inline=True,
        whole=tuple(Row(line) for line in lines[cut + 1 :]),
        whole_key="d",
    )


def judgement(decided: Decided) -> str | None:
    """The answer in the words the engine offered, or the person's own; None for any other question."""
    question = decided.question
    if not question.id.startswith(_PREFIX) or len(question.options) != _CHOICES:
        return None
    *_, later = question.options
    if decided.stop:
        return later
    if decided.note:
        return decided.note
    chosen = next(number for number, choice in enumerate(question.choices) if choice.answer == decided.answer)
    return question.options[chosen]
