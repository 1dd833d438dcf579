"""The question about money: what it shows, and what its keys mean."""

from bridle.clients.interaction.questions.question_card import Decided, Question, answer_card, draw_card
from bridle.clients.interaction.questions.question_forms import ask_question
from bridle.protocol.events import QuestionAsked
from bridle.protocol.questions import BudgetAnswer, BudgetQuestion
from tables import table

ASKED = BudgetQuestion(
    reason="BudgetExceeded",
    model="work:large",
    cap_usd=5.0,
    spent_usd=4.98,
    could_usd=0.06,
    raise_to_usd=10.0,
    cheaper="work:small",
)
UNPRICED = BudgetQuestion(reason="PriceUnknown", model="work:m", cap_usd=5.0, spent_usd=0.0)


def question(asked: BudgetQuestion) -> Question:
    return ask_question(QuestionAsked(question_id="q_1", question=asked))


@table(
    ("asked", "rows"),
    [
        (
            ASKED,
            [
                "This session has used $4.98 of $5.00. The next request could cost $0.06, so it was not sent.",
                "  r raise to $10 · m go on with work:small · Enter stop",
            ],
        ),
        (
            UNPRICED,
            [
                "The cost of work:m is unknown, so the limit of $5.00 cannot be kept.",
                "  g go on without the limit · Enter stop",
            ],
        ),
    ],
)
def test_the_question_is_one_sentence_and_one_line_of_answers(asked: BudgetQuestion, rows: list[str]) -> None:
    _, show = draw_card(question(asked), columns=100, rows=24)
    assert [row.text for row in show.rows] == rows


@table(
    ("asked", "typed", "choice"),
    [
        (ASKED, "r", "raise"),
        (ASKED, "m", "cheaper"),
        (ASKED, "", "stop"),
        (ASKED, "n", "stop"),
        (ASKED, "make it cheap", "stop"),
        (UNPRICED, "g", "unlimited"),
        (UNPRICED, "", "stop"),
    ],
)
def test_every_key_has_one_meaning(asked: BudgetQuestion, typed: str, choice: str) -> None:
    card, _ = draw_card(question(asked), columns=80, rows=24)
    _, outcome = answer_card(card, typed, columns=80)
    assert isinstance(outcome, Decided)
    assert isinstance(outcome.answer, BudgetAnswer)
    assert outcome.answer.choice == choice


@table("typed", ["y", "yes", "x"])
def test_no_other_key_answers(typed: str) -> None:
    card, _ = draw_card(question(ASKED), columns=80, rows=24)
    _, outcome = answer_card(card, typed, columns=80)
    assert not isinstance(outcome, Decided)
