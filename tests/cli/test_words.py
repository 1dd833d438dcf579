"""What people type first: version, help, and words that are nearly right."""

import os
import subprocess

import pytest

from bridle._version import __version__
from bridle.cli.help import PAGES
from cli_kit import BRIDLE, Place

TOPICS = [topic for topic in PAGES if topic]


@pytest.mark.parametrize("word", ["--version", "-v"])
def test_the_version_is_one_line(place: Place, word: str) -> None:
    assert place.bridle(word) == (0, f"bridle {__version__}\n", "")


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",)])
def test_without_a_command_the_overview_is_shown_and_nothing_is_made(
    place: Place, words: tuple[str, ...]
) -> None:
    assert place.bridle(*words) == (0, PAGES[""], "")
    assert os.listdir(place.home) == []


@pytest.mark.parametrize("topic", TOPICS)
def test_every_help_page_of_the_overview_exists(place: Place, topic: str) -> None:
    assert place.bridle("help", topic) == (0, PAGES[topic], "")
    assert f"bridle help {topic}" in PAGES[""]


@pytest.mark.parametrize(
    ("words", "topic"), [(("run", "--help"), "run"), (("sessions", "list", "-h"), "sessions")]
)
def test_help_asked_of_a_command_is_its_page(place: Place, words: tuple[str, ...], topic: str) -> None:
    assert place.bridle(*words) == (0, PAGES[topic], "")


def test_help_pages_fit_a_screen() -> None:
    for text in PAGES.values():
        assert len(text.splitlines()) <= 24
        assert max(map(len, text.splitlines())) <= 120


@pytest.mark.requirement("C22")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("sesions",), 'No command "sesions". Did you mean sessions? As a prompt: bridle run sesions'),
        (("rnu", "x"), "No command \"rnu\". Did you mean run? As a prompt: bridle run 'rnu x'"),
        (("modles",), 'No command "modles". As a prompt: bridle run modles'),
        (("--bogus",), "A command comes before --bogus. See: bridle help"),
        (("run", "--bogus", "x"), "unrecognized arguments: --bogus. See: bridle help"),
        (("run", "-m"), "argument -m/--model: expected one argument. See: bridle help run"),
        (
            ("run", "--max-steps", "0", "x"),
            'argument --max-steps/--max-turns: "0" is not a whole number above 0. See: bridle help run',
        ),
        (("sessions", "show"), "the following arguments are required: id. See: bridle help sessions"),
        (("sessions", "export"), "Which session? bridle sessions export ID"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_word_that_means_nothing_gets_one_sentence_and_exit_2(
    place: Place, words: tuple[str, ...], sentence: str
) -> None:
    ran = place.bridle(*words)
    assert (ran.code, ran.out, ran.story) == (2, "", [sentence])
    assert os.listdir(place.home) == []


def test_a_wrong_choice_names_the_right_ones(place: Place) -> None:
    ran = place.bridle("run", "--mode", "wild", "x")
    assert ran.code == 2
    (line,) = ran.story
    assert all(mode in line for mode in ("strict", "default", "safe", "auto", "yolo", "plan"))


@pytest.mark.requirement("D13.4", "C22")
@pytest.mark.parametrize("words", [("--version",), ("help",), ("sessions", "list")])
def test_a_closed_stdout_is_no_reason_for_a_traceback(place: Place, words: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *BRIDLE, *words],
        env=place.environment(),
        cwd=place.work,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
