"""The questions of `/undo` on the line: which keys there are, and what each of them answers."""

from __future__ import annotations

import pytest

from bridle.clients.line.card import Decided, answered, drawn
from bridle.clients.line.undoing import undo_answer, undo_question
from bridle.protocol.events import QuestionAsked

PREVIEW = 'Undo turn 4 "speed up the cart"?\n  changed   src/cart.py   +12 −4    goes back'
UNDO = QuestionAsked(
    question_id="undo-1", question=PREVIEW, choices=("undo", "show the diff", "keep everything as it is")
)
CONFLICT = QuestionAsked(
    question_id="undo-conflict-1",
    question="src/cart.py changed after this turn (by you, 2 min ago).",
    choices=("skip it", "overwrite it", "stop"),
)


def answer_to(asked: QuestionAsked, line: str) -> str | None:
    question = undo_question(asked)
    assert question is not None
    card, _ = drawn(question, columns=80, rows=24, position="")
    _, outcome = answered(card, line, columns=80)
    assert isinstance(outcome, Decided), outcome
    return undo_answer(outcome)


@pytest.mark.parametrize(
    ("asked", "line", "expected"),
    [
        (UNDO, "y", "undo"),
        (UNDO, "d", "show the diff"),
        (UNDO, "", "keep everything as it is"),
        (UNDO, "n", "keep everything as it is"),
        (UNDO, "not this one please", "keep everything as it is"),
        (CONFLICT, "s", "skip it"),
        (CONFLICT, "o", "overwrite it"),
        (CONFLICT, "", "stop"),
    ],
)
def test_every_key_has_one_meaning_and_everything_else_changes_nothing(
    asked: QuestionAsked, line: str, expected: str
) -> None:
    assert answer_to(asked, line) == expected


def test_the_preview_stands_above_one_line_of_answers() -> None:
    question = undo_question(UNDO)
    assert question is not None
    _, show = drawn(question, columns=80, rows=24, position="")
    assert [row.text for row in show.rows] == [*PREVIEW.split("\n"), "  y undo · d diff · Enter keep"]


def test_a_file_name_cannot_draw_on_the_screen() -> None:
    asked = QuestionAsked(
        question_id="undo-2", question="Undo turn 1?\n  created   \x1b[2Jx", choices=UNDO.choices
    )
    question = undo_question(asked)
    assert question is not None
    assert "\x1b" not in question.body[0].text


def test_other_questions_are_left_to_others() -> None:
    assert (
        undo_question(QuestionAsked(question_id="steps-1", question="Go on?", choices=("a", "b", "c")))
        is None
    )
    assert undo_question(QuestionAsked(question_id="undo-3", question="Undo?", choices=("a",))) is None
