"""The question whether a file may be obeyed, as a person at a terminal meets it."""

from __future__ import annotations

import pytest

from bridle.clients.line.card import Card, Decided, Hint, Show, answered, drawn
from bridle.clients.line.questions import Row
from bridle.clients.line.trusting import trust_answer, trust_question
from bridle.protocol.events import QuestionAsked

TITLE = "AGENTS.md wants to tell the model how to work here. It is new to you.  42 lines"
LONG = "\n".join(
    (TITLE, *(f"{number:5}  Rule {number}." for number in range(1, 43)), "! line 17 has hidden characters")
)
KEYS = "  u use it · n not now · v read all · Enter not now"
CHOICES = ("use it", "not now")


def card_of(text: str, *, rows: int = 30) -> tuple[Card, list[Row]]:
    question = trust_question(QuestionAsked(question_id="trust-1", question=text, choices=CHOICES))
    assert question is not None
    card, show = drawn(question, columns=100, rows=rows)
    return card, list(show.rows)


def test_the_first_lines_what_is_odd_and_the_keys_are_shown():
    _, rows = card_of(LONG)
    assert [row.text for row in rows] == [
        TITLE,
        *(f"{number:5}  Rule {number}." for number in range(1, 11)),
        "    …  (v to read all 42)",
        "! line 17 has hidden characters",
        KEYS,
    ]


def test_yes_counts_only_after_everything_was_shown():
    card, _ = card_of(LONG)
    card, outcome = answered(card, "u", columns=100)
    assert isinstance(outcome, Hint)
    while not card.complete:
        card, outcome = answered(card, "v", columns=100)
        assert isinstance(outcome, Show)
    card, outcome = answered(card, "u", columns=100)
    assert isinstance(outcome, Decided)
    assert trust_answer(outcome) == "use it"


@pytest.mark.parametrize("line", ["", "n", "no", "what is this"])
def test_anything_else_is_not_now_at_any_time(line: str):
    _, outcome = answered(card_of(LONG)[0], line, columns=100)
    assert isinstance(outcome, Decided)
    assert trust_answer(outcome) == "not now"


@pytest.mark.parametrize("line", ["y", "a", "p", "t", "yes", "ok"])
def test_the_letters_of_other_questions_mean_nothing_here(line: str):
    _, outcome = answered(card_of(f"{TITLE}\n    1  x")[0], line, columns=100)
    assert isinstance(outcome, Hint)


def test_a_change_is_shown_as_one_and_a_list_is_not_taken_for_it():
    rows = "    1    same\n    2  - old\n    2  + new"
    _, changed = card_of(f"AGENTS.md changed since you trusted it (12 Oct).  +1 \u22121\n{rows}")
    assert [row.style for row in changed[1:4]] == ["plain", "removed", "added"]
    _, new = card_of(f"{TITLE}\n    1  - old")
    assert new[1].style == "plain"


@pytest.mark.parametrize(
    ("number", "choices"), [("call_1", CHOICES), ("trust-1", ("yes", "no")), ("trust-1", ())]
)
def test_no_other_question_looks_like_it(number: str, choices: tuple[str, ...]):
    assert trust_question(QuestionAsked(question_id=number, question=LONG, choices=choices)) is None
