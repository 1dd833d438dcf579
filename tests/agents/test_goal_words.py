"""The words of `/goal`: options as a shell reads them, then the goal as it was written."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.agents.goal_words import GoalWords, parse_goal
from bridle.protocol.errors import BridleError
from tables import table


def test_options_come_first_and_the_rest_stays_as_it_was_written() -> None:
    words = """--check 'pytest -q "a b"' --rounds=3 --timeout 90  make  "it" --check pass\n  today """
    assert parse_goal(words) == GoalWords(
        text='make  "it" --check pass\n  today', command='pytest -q "a b"', rounds=3, time_s=90.0
    )


def test_two_dashes_end_the_options() -> None:
    assert parse_goal("--check true -- --rounds is a word here") == GoalWords(
        text="--rounds is a word here", command="true"
    )


@table(
    ("words", "problem"),
    [
        ("--chek x y", '"--chek"'),
        ("--check", "needs a value"),
        ("--check '' y", "needs a value"),
        ("--check 'x y", "quote"),
        ("--check a --check b y", "twice"),
        ("--rounds 0 y", "--rounds"),
        ("--rounds 99999999999999999999 y", "--rounds"),
        ("--rounds ² y", "--rounds"),
        ("--timeout soon y", "--timeout"),
        ("--timeout -1 y", "--timeout"),
        ("--timeout nan y", "--timeout"),
    ],
)
def test_what_means_nothing_is_named(words: str, problem: str) -> None:
    with pytest.raises(BridleError) as refused:
        parse_goal(words)
    assert refused.value.reason == "GoalNotBegun"
    assert problem in refused.value.message


@given(
    command=st.text(min_size=1).filter(str.strip),
    text=st.text(min_size=1).map(str.strip).filter(bool),
    rounds=st.integers(1, 1000),
)
def test_any_command_and_any_goal_come_through_as_they_are(command: str, text: str, rounds: int) -> None:
    words = f"--rounds {rounds} --check {shlex.quote(command)} -- {text}"
    assert parse_goal(words) == GoalWords(text=text, command=command, rounds=rounds)


@given(st.text())
def test_no_words_break_it(words: str) -> None:
    try:
        parse_goal(words)
    except BridleError as refused:
        assert refused.reason == "GoalNotBegun"
