"""The question about money: what it shows, and which words its keys stand for."""

import pytest

from bridle.clients.line.budgeting import budget_answer, budget_question
from bridle.clients.line.card import Decided, answered, drawn
from bridle.clients.line.questions import Question
from bridle.protocol.events import QuestionAsked

ASKED = QuestionAsked(
    question_id="budget-4-1",
    question="This session has used $4.98 of $5.00. The next request could cost $0.06, so it was not sent.",
    choices=("raise to $10", "go on with work:small", "stop"),
)
UNPRICED = QuestionAsked(
    question_id="budget-1-1",
    question="The cost of work:m is unknown, so the limit of $5.00 cannot be kept.",
    choices=("go on without the limit", "stop"),
)


def question(asked: QuestionAsked) -> Question:
    found = budget_question(asked)
    assert found is not None
    return found


def test_the_question_is_one_sentence_and_one_line_of_answers() -> None:
    _, show = drawn(question(ASKED), columns=100, rows=24)
    assert [row.text for row in show.rows] == [
        "This session has used $4.98 of $5.00. The next request could cost $0.06, so it was not sent.",
        "  r raise to $10 · m go on with work:small · Enter stop",
    ]


@pytest.mark.parametrize(
    ("asked", "typed", "answer"),
    [
        (ASKED, "r", "raise to $10"),
        (ASKED, "m", "go on with work:small"),
        (ASKED, "", "stop"),
        (ASKED, "n", "stop"),
        (ASKED, "make it cheap", "stop"),
        (UNPRICED, "g", "go on without the limit"),
        (UNPRICED, "", "stop"),
    ],
)
def test_a_key_stands_for_the_words_that_were_offered(asked: QuestionAsked, typed: str, answer: str) -> None:
    card, _ = drawn(question(asked), columns=80, rows=24)
    _, outcome = answered(card, typed, columns=80)
    assert isinstance(outcome, Decided)
    assert budget_answer(outcome) == answer


@pytest.mark.parametrize("typed", ["y", "yes", "x"])
def test_no_other_key_answers(typed: str) -> None:
    card, _ = drawn(question(ASKED), columns=80, rows=24)
    _, outcome = answered(card, typed, columns=80)
    assert not isinstance(outcome, Decided)


def test_any_other_question_is_not_about_money() -> None:
    other = QuestionAsked(question_id="q", question="Which?", choices=("raise to $10", "stop"))
    assert budget_question(other) is None
    assert budget_answer(Decided(question=Question(id="call_1", title="Run?"))) is None
