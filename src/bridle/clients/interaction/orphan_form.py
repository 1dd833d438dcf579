"""The question what became of a call that Bridle did not see end, on a screen: h n ? z d q. Pure.

Enter says that nobody knows; whoever leaves has decided nothing.
"""

from __future__ import annotations

from typing import Final, Literal

from bridle.clients.interaction.card import Decided
from bridle.clients.interaction.orphan_question import (
    DID_NOT,
    DO_NOT_KNOW,
    HAPPENED,
    LATER,
    orphan_details,
    orphan_headline,
    orphan_lines,
    undo_choice,
)
from bridle.clients.interaction.question_card import Choice, Question, Row
from bridle.protocol.commands import PermissionChoice
from bridle.protocol.questions import OrphanAnswer, OrphanQuestion

_JUDGEMENTS: Final[dict[PermissionChoice, Literal["happened", "did_not", "unknown", "undo", "later"]]] = {
    "once": "happened",
    "pattern": "did_not",
    "deny": "unknown",
    "tool": "undo",
    "always": "later",
}


def orphan_question(question_id: str, asked: OrphanQuestion) -> Question:
    """The question as it is drawn."""
    undo = undo_choice(asked)
    return Question(
        id=question_id,
        about=asked,
        title=orphan_headline(asked),
        body=(Row(""), *map(Row, orphan_lines(asked))),
        choices=(
            Choice("h", "once", HAPPENED),
            Choice("n", "pattern", DID_NOT),
            Choice("?", "deny", DO_NOT_KNOW),
            Choice("z", "tool", undo),
            Choice("q", "always", LATER),
        ),
        answer_rows=(
            f"h  {HAPPENED}     n  {DID_NOT}     ?  {DO_NOT_KNOW} (Enter)",
            f"z  {undo}        d  details        q  {LATER}",
        ),
        inline=True,
        whole=tuple(map(Row, orphan_details(asked))),
        whole_key="d",
        words=False,
        noted_key="?",
    )


def orphan_answer(decided: Decided) -> OrphanAnswer:
    """What the key says; words behind a `?` are for the model, which must look for itself."""
    if decided.stop:
        return OrphanAnswer(judgement="later")
    if decided.note:
        return OrphanAnswer(judgement="unknown", note=decided.note)
    return OrphanAnswer(judgement=_JUDGEMENTS[decided.answer])
