"""The question whether something of a workspace may be obeyed: the first lines, what is odd about them, u n v. Pure.

It arrives as plain text: a sentence, numbered lines, and last the lines that begin with `!`.
"""

from __future__ import annotations

from typing import Final

from bridle.base.visible import visible
from bridle.clients.line.card import Decided
from bridle.clients.line.questions import Choice, Question, Row, RowStyle
from bridle.protocol.events import QuestionAsked

_PREFIX: Final = "trust-"
_USE: Final = "use it"
_NOT_NOW: Final = "not now"
_GLIMPSE: Final = 10
_CHANGED: Final = " changed since you trusted it ("


def trust_question(asked: QuestionAsked) -> Question | None:
    """The question as it is drawn; None for one that is about something else."""
    if not asked.question_id.startswith(_PREFIX) or asked.choices != (_USE, _NOT_NOW):
        return None
    title, *lines = visible(asked.question).split("\n")
    changed = _CHANGED in title
    return Question(
        id=asked.question_id,
        title=title,
        body=tuple(Row(line, _style(line, changed)) for line in lines if not line.startswith("! ")),
        context=tuple(line for line in lines if line.startswith("! ")),
        choices=(
            Choice("u", "once", _USE),
            Choice("n", "deny", _NOT_NOW),
            Choice("v", "deny", "read all"),
        ),
        inline=True,
        glimpse=_GLIMPSE,
        last_words="Enter not now",
    )


def trust_answer(decided: Decided) -> str | None:
    """The answer in the words the engine offered; None for any other question."""
    if not decided.question.id.startswith(_PREFIX):
        return None
    return _USE if decided.answer != "deny" else _NOT_NOW


def _style(line: str, changed: bool) -> RowStyle:
    """A change is numbered like `   12  + text`; the text of a new file is not taken for one."""
    mark = line[7:9] if changed and line[:5].strip().isdigit() else ""
    return "added" if mark == "+ " else "removed" if mark == "- " else "plain"
