"""What a compaction dropped and kept, in words: when it happens, and when somebody asks what went."""

import msgspec
import pytest

from bridle.clients.interaction.render.usage import Contents
from bridle.clients.interaction.view import SessionView
from bridle.protocol import events as e
from bridle.protocol.messages import TextBlock
from rows_kit import told
from tables import table

SYSTEM = "Do good work.\n\n# Instructions from AGENTS.md\n\nUse tabs."
COUNTS = "About 145k → 17k tokens in a request; 80 messages dropped, 42 kept, the summary has about 3k."
NINE_TURNS = e.Compacted(
    summary="What happened.",
    kept_from=200,
    also_kept=(3, 7),
    dropped=e.Stretch(first_event=1, last_event=199, first_turn=1, last_turn=9, messages=80, tokens=131_000),
    kept=e.Stretch(first_event=200, last_event=320, first_turn=10, last_turn=15, messages=40, tokens=9_000),
    pins=2,
    tokens_before=145_000,
    tokens_after=17_000,
    summary_tokens=3_000,
)


def told_of(compacted, **options):
    return told(e.PrefixSet(provider="p", model="m", system=SYSTEM), compacted, **options)


@pytest.mark.requirement("D7.24")
def test_a_compaction_says_what_went_and_what_stayed():
    line = "Summarised turns 1-9: 131k → 3k. Kept: AGENTS.md, 2 pinned rules, the last 6 turns."
    assert told_of(NINE_TURNS) == [line]
    assert told_of(NINE_TURNS, compaction_hint="/context shows what went.") == [
        f"{line} /context shows what went."
    ]
    asked = msgspec.structs.replace(NINE_TURNS, why="asked")
    assert told_of(asked) == [
        line,
        COUNTS,
    ]


def test_a_compaction_inside_a_turn_says_so():
    within = msgspec.structs.replace(
        NINE_TURNS,
        dropped=e.Stretch(first_turn=3, last_turn=5, tokens=900),
        kept=e.Stretch(first_turn=5, last_turn=5, messages=4),
        pins=0,
        summary_tokens=80,
    )
    (line,) = told_of(within)
    assert (
        line
        == "Summarised turns 3-4 and the beginning of turn 5: 900 → 80. Kept: AGENTS.md, the end of turn 5."
    )
    one = msgspec.structs.replace(within, dropped=e.Stretch(first_turn=5, last_turn=5, tokens=900))
    assert told_of(one)[0].startswith("Summarised the beginning of turn 5: 900 → 80.")


def test_results_that_were_left_out_are_counted():
    cleared = e.Compacted(
        summary="", kept_from=0, cleared=("a", "b"), tokens_before=40_000, tokens_after=9_000
    )
    assert told_of(cleared) == [
        "Left out 2 old tool results: 40k → 9k. Kept: AGENTS.md, everything that was said."
    ]


def test_pinned_words_are_shown_as_pinned():
    pin = e.ContextAdded(source="pin", content=(TextBlock(text="Keep:"), TextBlock(text="never touch main")))
    assert told(pin) == ["pinned   never touch main"]


def test_the_context_shows_what_went_and_what_stands_in_its_place():
    contents = Contents()
    for event in (e.PrefixSet(provider="p", model="m", system=SYSTEM), NINE_TURNS):
        contents.take(event)
    lines = contents.lines(200_000)
    assert lines[-3:] == [
        f"Summarised turns 1-9: 131k → 3k. {COUNTS}",
        "Bridle wrote in its place:",
        "  What happened.",
    ]
    assert contents.tokens == pytest.approx(NINE_TURNS.tokens_after, abs=3)
    contents.take(msgspec.structs.replace(NINE_TURNS, by="model"))
    assert "The model wrote in its place:" in contents.lines(200_000)


@table("end", [NINE_TURNS, e.Cancelled(by="cli"), e.Notice(reason="EngineFault", message="!")])
def test_while_a_summary_is_written_something_runs_that_can_be_stopped(end: e.AnyEvent):
    view = SessionView("cli")
    running: list[bool] = []
    for number, event in enumerate((e.Notice(reason="Compacting", message="…"), end), 1):
        view.take(e.Envelope(id=number, kind="any", session="s", originator="cli", ts_ms=0, event=event))
        running.append(view.running)
    assert running == [True, False]
