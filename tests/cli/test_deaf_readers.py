"""A reader that reads nothing: a run still ends by its deadline and by signals, and is whole in the log."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bridle.protocol.events import TurnEnded
from cli_kit import BRIDLE, TIMEOUT_S, Place, SignOfLife
from effort import sample

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fills a pipe the way Linux can")

PAGE = 4096
DEAF_S = 20
FORMS = {"text": (), "stream": ("--stream-json",), "json": ("--json",)}
CHATTY = 'say words and more words\ncall bash {"command": "echo begun; sleep 600"}\n'


@contextmanager
def nobody_reads() -> Iterator[tuple[int, int]]:
    """A pipe with no room for one more byte, and its reading end."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PAGE)
    os.write(writing, b" " * PAGE)
    try:
        yield writing, reading
    finally:
        os.close(reading)
        os.close(writing)


@contextmanager
def started(place: Place, *words: str, **streams: int) -> Iterator[subprocess.Popen[bytes]]:
    given = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        **streams,
    }
    process = subprocess.Popen([*BRIDLE, *words], cwd=place.work, env=place.environment(), **given)
    try:
        yield process
    finally:
        process.kill()
        process.wait(TIMEOUT_S)


def endings(place: Place) -> list[str]:
    session = place.only_session()
    place.verify(session)
    return [one.event.stop for one in place.events(session) if isinstance(one.event, TurnEnded)]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("form", sample(FORMS))
def test_the_deadline_ends_a_run_that_nobody_reads(place: Place, stream: str, form: str) -> None:
    model = place.script(CHATTY)
    words = ("run", "-y", *FORMS[form], "--timeout", "1", "-m", model, "x")
    with nobody_reads() as (pipe, _), started(place, *words, **{stream: pipe}) as process:
        assert process.wait(DEAF_S) == 124
    assert endings(place) == ["cancelled"]


@pytest.mark.parametrize("number", sample([signal.SIGINT, signal.SIGTERM]))
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("form", sample(["text", "stream"]))
def test_a_signal_ends_a_run_that_nobody_reads(
    place: Place, life: SignOfLife, number: signal.Signals, stream: str, form: str
) -> None:
    begun = place.work / "begun"
    os.mkfifo(begun)
    model = place.script(f'say words\ncall bash {{"command": "{life.hold}; echo go > begun; sleep 600"}}\n')
    words = ("run", "-y", *FORMS[form], "-m", model, "x")
    with nobody_reads() as (pipe, _), started(place, *words, **{stream: pipe}) as process:
        with open(os.open(begun, os.O_RDONLY | os.O_NONBLOCK)) as waiting:
            assert select.select([waiting], [], [], TIMEOUT_S)[0]
        process.send_signal(number)
        assert process.wait(DEAF_S) == 130
    assert life.ends_within(5)
    assert endings(place) == ["cancelled"]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_run_that_is_done_and_not_read_ends_by_its_deadline(place: Place, stream: str) -> None:
    model = place.script("say all of it\n")
    words = ("run", "--timeout", "2", "-m", model, "x")
    with nobody_reads() as (pipe, _), started(place, *words, **{stream: pipe}) as process:
        assert process.wait(DEAF_S) == 124
    assert endings(place) == ["end_turn"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_done_and_not_read_ends_by_a_signal(place: Place, number: signal.Signals) -> None:
    model = place.script("say all of it\n")
    read_story, story = os.pipe()
    words = ("run", "-m", model, "x")
    with nobody_reads() as (pipe, _), started(place, *words, stdout=pipe, stderr=story) as process:
        os.close(story)
        with os.fdopen(read_story) as lines:
            assert any("done" in line for line in lines)
            process.send_signal(number)
            assert process.wait(DEAF_S) == 130
    assert endings(place) == ["end_turn"]


def test_a_run_that_says_more_than_is_kept_for_a_reader_ends_by_its_deadline(place: Place) -> None:
    model = place.script(f"chunk 4\nsay {'ten words ' * 4_000}\n")
    words = ("run", "--stream-json", "--timeout", "3", "-m", model, "x")
    with nobody_reads() as (pipe, reading), started(place, *words, stdout=pipe) as process:
        assert process.wait(DEAF_S) == 124
        kept = os.read(reading, 2 * PAGE)
    assert kept.strip() == b"", "nothing came through"
    assert endings(place) == ["end_turn"]


@pytest.mark.parametrize("form", FORMS)
def test_a_slow_reader_gets_everything(place: Place, form: str) -> None:
    """More than the pipe and what is held for it: the run waits for its reader and loses nothing."""
    answer = "ten words " * 4_000
    reads = 'call read_file {"path": "it.script", "limit": 1}\n'
    model = place.script("---\n".join([f"chunk 8\nsay {answer}\n{reads}", f"chunk 8\nsay {answer}\n"]))
    with nobody_reads() as (pipe, reading):
        words = ("run", *FORMS[form], "-m", model, "x")
        with started(place, *words, stdout=pipe) as process:
            os.dup2(reading, pipe)  # the only writer is the run
            got = b"".join(iter(lambda: os.read(reading, PAGE), b""))
            assert process.wait(DEAF_S) == 0
    lines = got[PAGE:].decode().splitlines()
    last = lines[-1] if form == "text" else json.loads(lines[-1])["finalResponse"]
    assert last.strip().endswith(answer.strip())
    if form == "stream":
        shown = [json.loads(line)["event"]["id"] for line in lines[:-1]]
        kept = len(place.events(place.only_session())) - 1  # the end of the session comes behind the run
        assert [number for number in shown if number is not None] == list(range(1, kept + 1))
