"""The question whether a file may be obeyed, as a person at a terminal meets it."""

from __future__ import annotations

from typing import Any

from bridle.base.text.line_diff import DiffLine
from bridle.clients.interaction.questions.question_card import (
    Card,
    Decided,
    Hint,
    Row,
    Show,
    answer_card,
    draw_card,
)
from bridle.clients.interaction.questions.question_forms import ask_question
from bridle.protocol.events import QuestionAsked
from bridle.protocol.questions import HiddenCharacters, TrustAnswer, TrustQuestion
from tables import table

NOW_MS = 1_792_000_000_000

TITLE = "AGENTS.md wants to tell the model how to work here. It is new to you.  42 lines"
KEYS = "  u use it · n not now · v read all · Enter not now"


def asked(*lines: DiffLine, **facts: Any) -> TrustQuestion:
    return TrustQuestion(
        kind="instructions",
        path="AGENTS.md",
        sha256="0" * 64,
        asked_ms=NOW_MS,
        lines=lines,
        line_count=len(lines),
        **facts,
    )


LONG = asked(
    *(DiffLine(" ", number, f"Rule {number}.") for number in range(1, 43)),
    hidden=(HiddenCharacters(line=17, code=0x200B),),
    hidden_lines=1,
)


def card_of(question: TrustQuestion, *, rows: int = 30) -> tuple[Card, list[Row]]:
    asked = ask_question(QuestionAsked(question_id="q_1", question=question))
    card, show = draw_card(asked, columns=100, rows=rows)
    return card, list(show.rows)


def test_the_first_lines_what_is_odd_and_the_keys_are_shown():
    _, rows = card_of(LONG)
    assert [row.text for row in rows] == [
        TITLE,
        *(f"{number:5}  Rule {number}." for number in range(1, 11)),
        "    …  (v to read all 42)",
        "! line 17 has hidden characters (shown as ⟨U+200B⟩)",
        KEYS,
    ]


def test_yes_counts_only_after_everything_was_shown():
    card, _ = card_of(LONG)
    card, outcome = answer_card(card, "u", columns=100)
    assert isinstance(outcome, Hint)
    while not card.complete:
        card, outcome = answer_card(card, "v", columns=100)
        assert isinstance(outcome, Show)
    card, outcome = answer_card(card, "u", columns=100)
    assert isinstance(outcome, Decided)
    assert outcome.answer == TrustAnswer(use=True)


@table("line", ["", "n", "no"])
def test_a_no_is_not_now_at_any_time(line: str):
    _, outcome = answer_card(card_of(LONG)[0], line, columns=100)
    assert isinstance(outcome, Decided)
    assert outcome.answer == TrustAnswer(use=False)


@table("line", ["y", "a", "p", "t", "yes", "ok", "fix the total", "/memory"])
def test_letters_of_other_questions_and_words_for_the_model_answer_nothing_here(line: str):
    _, outcome = answer_card(card_of(asked(DiffLine(" ", 1, "x")))[0], line, columns=100)
    assert outcome == Hint("The answers are u n v. Nothing was answered.")


def test_a_change_is_shown_as_one_and_a_list_is_not_taken_for_it():
    change = DiffLine(" ", 1, "same"), DiffLine("-", 2, "old"), DiffLine("+", 2, "new")
    _, changed = card_of(asked(*change, compared=True, trusted_ms=NOW_MS, added=1, removed=1))
    assert [row.style for row in changed[1:4]] == ["plain", "removed", "added"]
    assert [row.text for row in changed[1:4]] == ["    1    same", "    2  - old", "    2  + new"]
    _, new = card_of(asked(DiffLine(" ", 1, "- old")))
    assert new[1] == Row("    1  - old")
