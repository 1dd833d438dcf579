"""Whether something of a workspace may be obeyed, on a screen: the first lines, what is odd about them, u n v. Pure."""

from __future__ import annotations

from typing import Final

from bridle.base.line_diff import DiffLine
from bridle.clients.interaction.question_card import Choice, Question, Row, RowStyle
from bridle.clients.interaction.trust_question import numbered, trust_words
from bridle.protocol.commands import PermissionChoice
from bridle.protocol.questions import TrustAnswer, TrustQuestion

_GLIMPSE: Final = 10
_STYLES: Final[dict[str, RowStyle]] = {"+": "added", "-": "removed"}


def trust_question(question_id: str, asked: TrustQuestion) -> Question:
    """The question as it is drawn."""
    words = trust_words(asked)
    return Question(
        id=question_id,
        about=asked,
        title=words.title,
        body=tuple(_row(line, asked.compared) for line in words.body),
        context=words.warnings,
        choices=(
            Choice("u", "once", "use it"),
            Choice("n", "deny", "not here" if asked.offered else "not now"),
            Choice("no", "deny"),
            Choice("v", "deny", "read all"),
        ),
        inline=True,
        glimpse=_GLIMPSE,
        last_words="Enter not here" if asked.offered else "Enter not now",
        words=False,
    )


def trust_answer(answer: PermissionChoice) -> TrustAnswer:
    return TrustAnswer(use=answer != "deny")


def _row(line: DiffLine | str, compared: bool) -> Row:
    if isinstance(line, str):
        return Row(line)
    return Row(numbered(line, compared=compared), _STYLES.get(line.mark, "plain"))
