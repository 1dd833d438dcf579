"""The crash court on the screen: what it shows, and which words its keys stand for."""

import pytest

from bridle.clients.line.card import Decided, Show, answered, drawn
from bridle.clients.line.judging import court_question, judgement
from bridle.clients.line.questions import Question
from bridle.engine import court
from bridle.protocol.events import QuestionAsked

NOT_POSSIBLE = f"{court.UNDO} (not possible for a push)"
ASKED = QuestionAsked(
    question_id=f"{court.PREFIX}call_1",
    question=(
        "Bridle stopped without warning at 14:32. One action may or may not have happened.\n"
        "\n"
        "  bash   git push origin main        started 14:32:07, no end recorded\n"
        "  now    origin/main is at 4f2c1aa, the commit made in this session: it looks done\n"
        "details:\n"
        "  command: git push origin main"
    ),
    choices=(court.HAPPENED, court.DID_NOT, court.DO_NOT_KNOW, NOT_POSSIBLE, court.LATER),
)


def question(asked: QuestionAsked = ASKED) -> Question:
    found = court_question(asked)
    assert found is not None
    return found


def test_the_screen_is_word_for_word() -> None:
    _, show = drawn(question(), columns=110, rows=24)
    assert [row.text for row in show.rows] == [
        "Bridle stopped without warning at 14:32. One action may or may not have happened.",
        "",
        "  bash   git push origin main        started 14:32:07, no end recorded",
        "  now    origin/main is at 4f2c1aa, the commit made in this session: it looks done",
        "",
        "  h  it happened     n  it did not     ?  I don't know: the model must check before repeating (Enter)",
        "  z  undo it (not possible for a push)        d  details        q  decide later",
    ]


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("h", court.HAPPENED),
        ("n", court.DID_NOT),
        ("?", court.DO_NOT_KNOW),
        ("", court.DO_NOT_KNOW),
        ("z", NOT_POSSIBLE),
        ("q", court.LATER),
        ("only the first half of it", "only the first half of it"),
    ],
)
def test_a_key_stands_for_the_words_that_were_offered(typed: str, answer: str) -> None:
    card, _ = drawn(question(), columns=80, rows=24)
    _, outcome = answered(card, typed, columns=80)
    assert isinstance(outcome, Decided)
    assert judgement(outcome) == answer


@pytest.mark.parametrize("typed", ["y", "yes", "ok", "v", "x"])
def test_no_other_key_answers(typed: str) -> None:
    card, _ = drawn(question(), columns=80, rows=24)
    _, outcome = answered(card, typed, columns=80)
    assert not isinstance(outcome, Decided)


def test_details_show_everything_about_the_call_and_answer_nothing() -> None:
    card, _ = drawn(question(), columns=110, rows=24)
    _, outcome = answered(card, "d", columns=110)
    assert isinstance(outcome, Show)
    assert "  command: git push origin main" in [row.text for row in outcome.rows]


def test_whoever_leaves_has_decided_nothing() -> None:
    assert judgement(Decided(question=question(), stop=True)) == court.LATER


def test_other_questions_are_left_to_others() -> None:
    other = QuestionAsked(question_id="ask-1", question="Which?", choices=("a", "b"))
    assert court_question(other) is None
    assert judgement(Decided(question=Question(id="ask-1", title="Which?"))) is None
