"""The questions of `/undo` on the line: which keys there are, and what each of them answers."""

from __future__ import annotations

from bridle.clients.interaction.questions.question_card import Decided, Question, answer_card, draw_card
from bridle.clients.interaction.questions.question_forms import ask_question
from bridle.protocol.events import QuestionAsked
from bridle.protocol.questions import (
    ConflictQuestion,
    UndoConflict,
    UndoFile,
    UndoPreview,
    UndoQuestion,
)
from tables import table

UNDO = UndoQuestion(
    preview=UndoPreview(
        scope="turn",
        turn=4,
        title="speed up the cart",
        files=(UndoFile(path="src/cart.py", did="changed", becomes="goes back", added=12, removed=4),),
    )
)
CONFLICT = ConflictQuestion(conflict=UndoConflict(path="src/cart.py", since="turn", age_ms=120_000))


def question(asked: UndoQuestion | ConflictQuestion) -> Question:
    return ask_question(QuestionAsked(question_id="q_1", question=asked))


@table(
    ("asked", "line", "expected"),
    [
        (UNDO, "y", "go"),
        (UNDO, "d", "diff"),
        (UNDO, "", "keep"),
        (UNDO, "n", "keep"),
        (UNDO, "not this one please", "keep"),
        (CONFLICT, "s", "skip"),
        (CONFLICT, "o", "overwrite"),
        (CONFLICT, "", "stop"),
    ],
)
def test_every_key_has_one_meaning_and_everything_else_changes_nothing(
    asked: UndoQuestion | ConflictQuestion, line: str, expected: str
) -> None:
    card, _ = draw_card(question(asked), columns=80, rows=24, position="")
    _, outcome = answer_card(card, line, columns=80)
    assert isinstance(outcome, Decided), outcome
    assert outcome.answer.choice == expected  # pyright: ignore[reportAttributeAccessIssue]


def test_the_preview_stands_above_one_line_of_answers() -> None:
    _, show = draw_card(question(UNDO), columns=100, rows=24, position="")
    assert [row.text for row in show.rows] == [
        'Undo turn 4 "speed up the cart"?',
        "  changed   src/cart.py                              +12 −4    goes back",
        "  y undo · d diff · Enter keep",
    ]


def test_a_file_in_the_way_is_named_with_who_changed_it() -> None:
    _, show = draw_card(question(CONFLICT), columns=100, rows=24, position="")
    assert [row.text for row in show.rows] == [
        "src/cart.py changed after this turn (by you, 2 min ago).",
        "  s skip it · o overwrite (your version is kept for /redo) · Enter stop",
    ]


def test_a_redo_does_not_promise_to_keep_what_it_writes_over() -> None:
    asked = ConflictQuestion(conflict=UndoConflict(path="src/cart.py", since="undo"))
    _, show = draw_card(question(asked), columns=100, rows=24, position="")
    assert show.rows[-1].text == "  s skip it · o overwrite (your version is not kept) · Enter stop"


def test_a_file_name_cannot_draw_on_the_screen() -> None:
    file = UndoFile(path="\x1b[2Jx\nUndo nothing?", did="created", becomes="removed")
    asked = UndoQuestion(preview=UndoPreview(scope="turn", turn=1, files=(file,)))
    (row,) = question(asked).form.body
    assert "\x1b" not in row.text
    assert "\n" not in row.text
