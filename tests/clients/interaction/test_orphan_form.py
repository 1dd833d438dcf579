"""The crash court on the screen: what it shows, and what its keys mean."""

import time

from bridle.clients.interaction.questions.question_card import (
    Decided,
    Hint,
    Question,
    Show,
    answer_card,
    draw_card,
)
from bridle.clients.interaction.questions.question_forms import ask_question
from bridle.protocol.events import QuestionAsked
from bridle.protocol.questions import OrphanAnswer, OrphanQuestion
from tables import table

STARTED_MS = 1_792_000_327_000
ASKED = OrphanQuestion(
    tool="bash",
    input={"command": "git push origin main"},
    started_ms=STARTED_MS,
    stopped_ms=STARTED_MS + 9_000,
    now=("origin/main is at 4f2c1aa, the commit made in this session: it looks done",),
    not_undoable="for a push",
)


def question(asked: OrphanQuestion = ASKED) -> Question:
    return ask_question(QuestionAsked(question_id="q_1", question=asked))


def clock(ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(ms / 1000))


def test_the_screen_is_word_for_word() -> None:
    stopped = clock(ASKED.stopped_ms)[:5]
    _, show = draw_card(question(), columns=110, rows=24)
    assert [row.text for row in show.rows] == [
        f"Bridle stopped without warning at {stopped}. One action may or may not have happened.",
        "",
        f"  bash   git push origin main        started {clock(STARTED_MS)}, no end recorded",
        "  now    origin/main is at 4f2c1aa, the commit made in this session: it looks done",
        "",
        "  h  it happened     n  it did not     ?  I don't know: the model must check before repeating (Enter)",
        "  z  undo it (not possible for a push)        d  details        q  decide later",
    ]


def test_no_width_parts_a_key_from_its_word() -> None:
    words = {
        "h": "it happened",
        "n": "it did not",
        "?": "I don't know",
        "z": "undo it",
        "d": "details",
        "q": "decide",
    }
    for columns in range(30, 130):
        _, show = draw_card(question(), columns=columns, rows=24)
        foot = [row.text for row in show.rows]
        for key, word in words.items():
            assert any(f" {key}  {word}" in row for row in foot), (columns, key)
        assert all(len(row.text) <= columns for row in show.rows[-3:])


@table(
    ("typed", "answer"),
    [
        ("h", OrphanAnswer(judgement="happened")),
        ("n", OrphanAnswer(judgement="did_not")),
        ("?", OrphanAnswer(judgement="unknown")),
        ("", OrphanAnswer(judgement="unknown")),
        ("z", OrphanAnswer(judgement="undo")),
        ("q", OrphanAnswer(judgement="later")),
        ("? only the first half", OrphanAnswer(judgement="unknown", note="only the first half")),
    ],
)
def test_every_key_has_one_meaning_and_words_are_for_the_model(typed: str, answer: OrphanAnswer) -> None:
    card, _ = draw_card(question(), columns=80, rows=24)
    _, outcome = answer_card(card, typed, columns=80)
    assert isinstance(outcome, Decided)
    assert outcome.answer == answer


@table("typed", ["y", "yes", "ok", "v", "x", "no", "it worked I think", "h n"])
def test_no_other_key_answers_and_no_words_do(typed: str) -> None:
    card, _ = draw_card(question(), columns=80, rows=24)
    _, outcome = answer_card(card, typed, columns=80)
    assert not isinstance(outcome, Decided)


def test_a_wrong_key_is_told_every_key_there_is() -> None:
    card, _ = draw_card(question(), columns=80, rows=24)
    _, outcome = answer_card(card, "x", columns=80)
    assert outcome == Hint("The answers are h n ? z q d. Nothing was answered.")


def test_details_show_everything_about_the_call_and_answer_nothing() -> None:
    card, _ = draw_card(question(), columns=110, rows=24)
    _, outcome = answer_card(card, "d", columns=110)
    assert isinstance(outcome, Show)
    assert "  command: git push origin main" in [row.text for row in outcome.rows]


def test_whoever_leaves_has_decided_nothing() -> None:
    assert question().form.later == OrphanAnswer(judgement="later")
