"""What hands learned elsewhere: options of other agents, keys typed as arguments, words that only look alike."""

from __future__ import annotations

import os

import pytest

from cli_kit import Place
from secret_kit import Noise


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--dangerously-skip-permissions",),
            (
                'There is no option "--dangerously-skip-permissions" here. Yes to questions of one run: -y. '
                "No questions at all: --mode yolo. See: bridle help"
            ),
        ),
        (
            ("run", "--full-auto", "x"),
            (
                'There is no option "--full-auto" here. Without questions, in the sandbox: --mode auto. '
                "See: bridle help run"
            ),
        ),
        (
            ("run", "--allowedTools", "Bash", "x"),
            (
                'There is no option "--allowedTools" here. What runs without a question: --allow RULE. '
                "See: bridle help run"
            ),
        ),
        (
            ("run", "--approval-mode=yolo", "x"),
            'There is no option "--approval-mode" here. Here it is --mode. See: bridle help run',
        ),
        (
            ("run", "--zzz-permissions", "x"),
            'There is no option "--zzz-permissions" here. See: bridle help run',
        ),
        (("deploy",), 'No command "deploy". As a prompt: bridle -- deploy'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_option_of_another_agent_is_answered_with_ours_and_a_far_word_with_none(
    place: Place, words: tuple[str, ...], sentence: str
) -> None:
    ran = place.bridle(*words)
    assert (ran.code, ran.out, ran.story) == (2, "", [sentence])
    assert os.listdir(place.home) == []


@pytest.mark.parametrize("words", [("-m", "demo", "-p", "hi"), ("run", "-p", "-m", "demo", "hi")])
def test_print_means_run_wherever_it_stands(place: Place, words: tuple[str, ...]) -> None:
    ran = place.bridle(*words)
    assert ran.code == 0
    assert ran.out.startswith("[scripted] ")


def test_continue_and_print_together_go_on_with_the_newest_session(place: Place) -> None:
    place.bridle("run", "-m", "demo", "one")
    assert place.bridle("--continue", "-p", "two").code == 0
    (row,) = place.sessions()
    assert row.turns == 2


@pytest.mark.parametrize(
    "words",
    [("login", "openai", "KEY"), ("login", "KEY"), ("run", "--api-key", "KEY", "x"), ("run", "--api-key=KEY", "x"),
     ("run", "-m", "KEY", "x"), ("KEY",), ("models", "a", "KEY"), ("run", "--mode", "KEY", "x")],
    ids=" ".join,
)  # fmt: skip
def test_a_key_given_as_an_argument_is_refused_and_not_repeated(place: Place, words: tuple[str, ...]) -> None:
    key = "sk-" + "proj-" + Noise(7)(48)
    ran = place.bridle(*(word.replace("KEY", key) for word in words))
    assert ran.code in (2, 4)
    assert key not in ran.out + ran.err
    assert key[-20:] not in ran.out + ran.err


@pytest.mark.parametrize("words", [("login", "openai"), ("run", "-m", "demo", "x", "--api-key")])
def test_whoever_gives_a_key_as_an_argument_is_told_where_it_belongs(
    place: Place, words: tuple[str, ...]
) -> None:
    ran = place.bridle(*words, "a-key-of-no-known-shape")
    assert ran.code == 2
    (line,) = ran.story
    assert "of-no-known-shape" not in line
    assert "bridle login" in line
    assert "history" in line
