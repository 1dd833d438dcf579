"""A run where somebody sits: questions reach them, the answer is rendered, and elsewhere nothing of it happens."""

from __future__ import annotations

import os
import pty
import subprocess
import termios

import pytest

from cli_kit import BRIDLE, TIMEOUT_S, Place
from cli_terminal import sitting

WRITES = 'call bash {"command": "touch built"}\n---\nsay It is **built**.\n'


@pytest.mark.requirement("D13.15")
def test_a_run_at_a_terminal_asks_and_does_what_the_person_allows(place: Place) -> None:
    with sitting(place, "run", "-m", place.script(WRITES), "build it") as person:
        person.sees("Run this command?", "touch built", "y  yes, once")
        person.looks_for(1.5)
        person.types("y\r")
        assert person.ends() == 0
        assert person.modes == person.modes_found
    assert (place.work / "built").exists()
    lines = person.text.splitlines()
    assert "[scripted] It is built." in [line.rstrip() for line in lines], "Markdown is rendered"
    assert any(line.startswith("bridle: ran      touch built") for line in lines)
    assert any(line.startswith("bridle: done") and "1 file changed" in line for line in lines)


def test_a_no_at_a_terminal_is_told_to_the_model_and_the_run_goes_on(place: Place) -> None:
    with sitting(place, "run", "-m", place.script(WRITES), "build it") as person:
        person.sees("n  no (Enter)")
        person.looks_for(1.5)
        person.types("not today\r")
        assert person.ends() == 0
    assert not (place.work / "built").exists()
    assert 'you said no: "not today"' in person.text


def test_what_was_typed_before_the_question_is_no_answer(place: Place) -> None:
    model = place.script("wait 1\n" + WRITES)
    with sitting(place, "run", "-m", model, "build it") as person:
        person.sees("bridle: model")
        person.types("y\ry\r")
        person.sees("Run this command?")
        person.types("y\r")  # before it has the keyboard: a sentence that was on its way
        person.looks_for(2.0)
        assert not person.over
        assert not (place.work / "built").exists()
        person.types("n\r")
        assert person.ends() == 0
    assert not (place.work / "built").exists()


def test_ctrl_c_at_a_question_refuses_it_and_ends_the_run_as_interrupted(place: Place) -> None:
    with sitting(place, "run", "-m", place.script(WRITES), "build it") as person:
        person.sees("n  no (Enter)")
        person.looks_for(1.5)
        person.types("\x03")
        assert person.ends() == 130
        assert person.modes == person.modes_found
    assert not (place.work / "built").exists()
    assert "stopping…" in person.text


@pytest.mark.parametrize("words", [("--on-ask", "deny"), ("-y",)])
def test_who_says_so_beforehand_is_not_asked(place: Place, words: tuple[str, ...]) -> None:
    with sitting(place, "run", *words, "-m", place.script(WRITES), "build it") as person:
        assert person.ends() == 0
    assert "Run this command?" not in person.text
    assert (place.work / "built").exists() == (words == ("-y",))


def test_an_answer_in_a_file_is_as_it_was_written_and_the_question_is_on_the_terminal(place: Place) -> None:
    """stdin and stderr are a terminal, stdout is a pipe: `bridle run … | less`, `> file`, `--json`."""
    terminal, side = pty.openpty()
    termios.tcsetwinsize(side, (30, 100))
    process = subprocess.Popen(
        [*BRIDLE, "run", "-m", place.script(WRITES), "build it"],
        stdin=side,
        stdout=subprocess.PIPE,
        stderr=side,
        cwd=place.work,
        env=place.environment(TERM="xterm-256color"),
        start_new_session=True,
    )
    os.close(side)
    seen = b""
    try:
        while b"or type what to do" not in seen and b"yes, once" not in seen:
            seen += os.read(terminal, 65536)
        import select
        import time

        until_s = time.monotonic() + 1.5
        while (left_s := until_s - time.monotonic()) > 0:
            if select.select([terminal], [], [], left_s)[0]:
                seen += os.read(terminal, 65536)
        os.write(terminal, b"y\r")
        out, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
        os.close(terminal)
    assert (process.returncode, out) == (0, b"[scripted] It is **built**.\n")
    assert (place.work / "built").exists()


@pytest.mark.requirement("D13.14")
def test_plain_at_a_terminal_prints_raw_markdown_and_no_codes(place: Place) -> None:
    model = place.script("say It is **built**.\n")
    with sitting(place, "run", "--plain", "-m", model, "x") as person:
        assert person.ends() == 0
    assert "[scripted] It is **built**." in person.text
    assert b"\x1b" not in person.bytes


def test_no_color_keeps_the_shape_and_leaves_the_colours_out(place: Place) -> None:
    model = place.script("say Use `make`.\n")
    with sitting(place, "run", "--no-color", "-m", model, "x") as person:
        assert person.ends() == 0
    assert "[scripted] Use make." in person.text
    assert b"\x1b[36m" not in person.bytes


@pytest.mark.requirement("D13.12")
@pytest.mark.parametrize(("option", "seen"), [("--stream", True), ("--no-stream", False)])
def test_what_is_said_between_calls_is_read_where_words_are_streamed(
    place: Place, option: str, seen: bool
) -> None:
    model = place.script("say First I look.\ncall ls {}\n---\nsay Then I answer.\n")
    with sitting(place, "run", option, "-m", model, "x") as person:
        assert person.ends() == 0
    assert ("First I look." in person.text) is seen
    assert person.text.count("Then I answer.") == 1
