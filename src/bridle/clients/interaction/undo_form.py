"""The questions of `/undo` and `/redo`, on a screen: y d and Enter; for a file changed since, s o and Enter. Pure."""

from __future__ import annotations

from bridle.clients.interaction.question_card import Choice, Question, Row
from bridle.clients.interaction.undo_question import conflict_words, undo_headline, undo_lines
from bridle.protocol.commands import PermissionChoice
from bridle.protocol.questions import ConflictAnswer, ConflictQuestion, UndoAnswer, UndoQuestion


def undo_question(question_id: str, asked: UndoQuestion) -> Question:
    """The question as it is drawn."""
    return Question(
        id=question_id,
        about=asked,
        title=undo_headline(asked.preview),
        body=tuple(map(Row, undo_lines(asked.preview))),
        choices=(
            Choice("y", "once", "redo" if asked.preview.redo else "undo"),
            Choice("d", "pattern", "diff"),
            Choice("n", "deny"),
        ),
        inline=True,
        last_words="Enter keep",
    )


def undo_answer(answer: PermissionChoice) -> UndoAnswer:
    match answer:
        case "once":
            return UndoAnswer(choice="go")
        case "pattern":
            return UndoAnswer(choice="diff")
        case _:
            return UndoAnswer(choice="keep")


def conflict_question(question_id: str, asked: ConflictQuestion) -> Question:
    """The question as it is drawn. What a redo writes over comes back by nothing."""
    kept = "not kept" if asked.conflict.since == "undo" else "kept for /redo"
    return Question(
        id=question_id,
        about=asked,
        title=f"{conflict_words(asked.conflict)}.",
        choices=(
            Choice("s", "once", "skip it"),
            Choice("o", "pattern", f"overwrite (your version is {kept})"),
            Choice("n", "deny"),
        ),
        inline=True,
        last_words="Enter stop",
    )


def conflict_answer(answer: PermissionChoice) -> ConflictAnswer:
    match answer:
        case "once":
            return ConflictAnswer(choice="skip")
        case "pattern":
            return ConflictAnswer(choice="overwrite")
        case _:
            return ConflictAnswer(choice="stop")
