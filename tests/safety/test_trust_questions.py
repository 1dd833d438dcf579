"""What a person reads before they agree: who wants what, all of it, and what is odd about it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.questions.trust_form import trust_lines, trust_words
from bridle.protocol.questions import TrustQuestion
from bridle.safety.trust.launches import ProgramLaunch
from bridle.safety.trust.trust_questions import ApprovedBefore, ReviewedText, file_question, launch_question
from effort import examples
from tables import table

NOW_MS = 1_792_000_000_000  # 14 October 2026
DAY_MS = 86_400_000


def asked(text: str, **facts: object) -> list[str]:
    return told(file_question(ReviewedText(shown="AGENTS.md", text=text, **facts), now_ms=NOW_MS))


def told(question: TrustQuestion) -> list[str]:
    words = trust_words(question)
    return [words.title, *trust_lines(question), *words.warnings]


def test_a_new_file_is_shown_whole_with_its_age_and_a_foreign_owner():
    lines = asked("# Shop\nRun `make test`.\n", changed_ms=NOW_MS - 3 * DAY_MS, owner="ana")
    assert lines == [
        (
            "AGENTS.md wants to tell the model how to work here. It is new to you.  "
            "2 lines, changed 3 days ago by ana"
        ),
        "    1  # Shop",
        "    2  Run `make test`.",
    ]


@table(
    ("minutes", "age"),
    [(0, "just now"), (1, "1 minute ago"), (119, "1 hour ago"), (60 * 48, "2 days ago"), (-5, "just now")],
)
def test_ages_are_told_in_their_largest_unit(minutes: int, age: str):
    assert asked("x", changed_ms=NOW_MS - minutes * 60_000)[0].endswith(f"  1 line, changed {age}")


def test_hidden_characters_are_written_out_and_counted_by_line():
    lines = asked("one\nt\u200bw\u200bo\r\nthr\u202eee\n")
    assert lines[1:] == [
        "    1  one",
        "    2  t⟨U+200B⟩w⟨U+200B⟩o",
        "    3  thr⟨U+202E⟩ee",
        "! line 2 has hidden characters (shown as ⟨U+200B⟩), 2 of them",
        "! line 3 has hidden characters (shown as ⟨U+202E⟩)",
    ]


def test_many_odd_lines_are_not_listed_without_end():
    assert asked("\u200b\n" * 30)[-1] == "! and 20 more lines with hidden characters"


@pytest.mark.requirement("G1.21", "G1.23")
def test_a_changed_file_is_shown_as_the_change():
    before = ApprovedBefore(approved_ms=NOW_MS - 2 * DAY_MS, text="# Shop\nBe kind.\n")
    assert asked("# Shop\nBe kind.\nBe brief.\nBe quick.\n", before=before) == [
        "AGENTS.md changed since you trusted it (12 Oct).  +2 \u22120",
        "    1    # Shop",
        "    2    Be kind.",
        "    3  + Be brief.",
        "    4  + Be quick.",
    ]


@pytest.mark.requirement("G1.24")
def test_a_change_of_something_to_type_is_pointed_out():
    before = ApprovedBefore(approved_ms=NOW_MS, text="Run `make`.\n")
    assert asked("Run `curl x | sh`.\n", before=before)[-1] == "! the change touches code or commands"


def test_a_change_nobody_can_see_is_still_said():
    before = ApprovedBefore(approved_ms=NOW_MS, text="one\ntwo\n")
    assert asked("one\r\ntwo\r\n", before=before)[1:] == [
        "    …    only line ends or characters that a screen does not show changed"
    ]


def test_without_a_copy_of_what_was_trusted_the_whole_file_is_shown():
    lines = asked("one\ntwo\n", before=ApprovedBefore(approved_ms=NOW_MS - 400 * DAY_MS))
    assert lines == [
        "AGENTS.md changed since you trusted it (9 Sep 2025).  2 lines",
        "    1  one",
        "    2  two",
    ]


def test_settings_say_what_they_want():
    lines = asked('mode = "x"\n', kind="config", wishes=("allow bash(npm test*)", 'set model = "a:b"'))
    assert lines[0] == (
        'This project\'s settings want to: allow bash(npm test*), set model = "a:b". It is new to you.  1 line'
    )


@pytest.mark.requirement("G39.4")
def test_a_hook_is_shown_with_its_command_and_its_text():
    lines = asked("#!/bin/sh\nexit 0\n", kind="hook", runs="scripts/check --all", when="PreToolUse happens")
    assert lines == [
        (
            "This project wants to run a program when PreToolUse happens: scripts/check --all. "
            "It will run with your rights.  2 lines"
        ),
        "    1  #!/bin/sh",
        "    2  exit 0",
    ]


def test_a_program_is_shown_with_everything_around_it():
    launch = ProgramLaunch(
        argv=("npx", "-y", "server-github"),
        env=(("TOKEN", "a\u200bb"),),
        program="/usr/bin/npx",
        files=(("scripts/x.js", "d" * 64),),
        fetched="server-github",
    )
    question = launch_question(
        launch, kind="mcp_server", name="mcp_servers.github", trusted_ms=None, now_ms=NOW_MS
    )
    assert told(question) == [
        "This project wants to run a program when Bridle starts: npx -y server-github. It will run with your rights.",
        "    command  npx",
        "             -y",
        "             server-github",
        "    variable TOKEN=a⟨U+200B⟩b",
        "    folder   .",
        "    program  /usr/bin/npx",
        "    file     scripts/x.js",
        "! it brings server-github from the network, as it is then",
    ]


@settings(max_examples=examples(80), deadline=None)
@given(st.text(max_size=60), st.one_of(st.none(), st.text(max_size=60)), st.text(min_size=1, max_size=8))
def test_whatever_a_file_says_it_forges_no_line_and_hides_nothing(text: str, before: str | None, name: str):
    file = ReviewedText(
        shown=name,
        text=text,
        before=None if before is None else ApprovedBefore(approved_ms=0, text=before),
    )
    title, *rows = told(file_question(file, now_ms=NOW_MS))
    assert all(visible(row, newlines=False) == row for row in (title, *rows))
    assert title.startswith(visible(name, newlines=False))
    assert all(row.startswith(("  ", "! ")) for row in rows)
    if before is None:
        shown = [row[7:] for row in rows if not row.startswith("! ")]
        assert "\n".join(shown) == visible(text.replace("\r\n", "\n")).replace("\t", "    ").removesuffix(
            "\n"
        )
