"""How commands end when the world around them does: signals, closed streams, output that cannot be written."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from bridle.protocol.events import TurnEnded
from cli_kit import BRIDLE, TIMEOUT_S, Place, Ran, SignOfLife
from effort import sample

pytestmark = pytest.mark.real_program

VERBS: dict[str, tuple[tuple[str, ...], int, bool]] = {
    "run": (("run", "-m", "demo", "hello"), 0, True),
    "run as json": (("run", "--json", "-m", "demo", "hello"), 0, True),
    "run as a stream": (("run", "--stream-json", "-m", "demo", "hello"), 0, True),
    "a run that cannot be": (("run", "-m", "nope:x", "hello"), 2, False),
    "talk": ((), 2, False),
    "resume": (("-r",), 2, False),
    "sessions": (("sessions",), 0, True),
    "config": (("config",), 0, True),
    "config edit": (("config", "edit"), 2, False),
    "a setting that is not set": (("config", "get", "model"), 1, False),
    "models": (("models",), 0, True),
    "doctor": (("doctor", "--offline"), 0, True),
    "help": (("--help",), 0, True),
    "a page nobody wrote": (("help", "nope"), 2, False),
    "a word that is no verb": (("bogus",), 2, False),
}
"""Words, the exit code, and whether there is an answer on stdout."""
INTERRUPTED = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from bridle.cli import main
main(["run", "-m", "demo", "hello"])
"""
"""Gets a Ctrl-C when it begins to import a module."""


def shell(place: Place, words: tuple[str, ...], ending: str) -> Ran:
    """`bridle WORDS…` with its streams arranged by a shell; what it says to those that are left."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {ending}', "sh", *BRIDLE, *words],
        cwd=place.work,
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


# Signals


@pytest.mark.requirement("C22")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGHUP, 129), (signal.SIGTERM, 130), (signal.SIGINT, 130)]
)
def test_a_signal_ends_the_turn_and_the_exit_code_says_which(
    place: Place, life: SignOfLife, number: signal.Signals, code: int
) -> None:
    model = place.script(f'call bash {{"command": "{life.hold}; echo begun; sleep 600"}}\n')
    with place.started("run", "-y", "--stream-json", "-m", model, "x") as running:
        running.until("ToolCallProgress")
        ran = running.signal(number)
    last = json.loads(ran.out.splitlines()[-1])
    assert (ran.code, last["eventType"], last["exit_code"]) == (code, "run.result", code)
    assert (last["reason"], last["error"]["name"]) == ("cancelled", "cancelled")
    assert "Traceback" not in ran.err
    assert life.ends_within(5)
    session = place.only_session()
    place.verify(session)
    ends = [one.event for one in place.events(session) if isinstance(one.event, TurnEnded)]
    assert [end.stop for end in ends] == ["cancelled"]


def test_a_run_that_was_told_to_outlive_the_terminal_does(place: Place) -> None:
    (place.work / "go").write_text("", encoding="utf-8")
    model = place.script('call bash {"command": "kill -HUP $PPID; echo done"}\n---\nsay Still here.\n')
    ran = shell(place, ("run", "-y", "-s", "off", "-m", model, "x"), "")
    assert ran.code == 129
    again = subprocess.run(
        [
            "/bin/sh",
            "-c",
            'trap "" HUP; exec "$@"',
            "sh",
            *BRIDLE,
            "run",
            "-y",
            "-s",
            "off",
            "-m",
            model,
            "x",
        ],
        cwd=place.work,
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (again.returncode, again.stdout) == (0, b"[scripted] Still here.\n")


@pytest.mark.parametrize(
    "module", ["msgspec", "argparse", "bridle.cli.command_line", "bridle.app.engine", "apsw"]
)
def test_ctrl_c_while_bridle_starts_is_no_traceback(place: Place, module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module],
        cwd=place.work,
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


# Streams


@pytest.mark.requirement("C22")
@pytest.mark.parametrize("closed", sample([">&-", "<&- >&- 2>&-", "<&-", "2>&-"], 2))
@pytest.mark.parametrize("name", VERBS)
def test_a_closed_stream_is_no_reason_for_another_end(place: Place, name: str, closed: str) -> None:
    words, code, _ = VERBS[name]
    ran = shell(place, words, closed)
    assert ran.code == code
    assert "Traceback" not in ran.out + ran.err
    if closed == "2>&-":
        assert "bridle: " not in ran.out, "the story is not the answer"


@pytest.mark.requirement("C22")
@pytest.mark.parametrize("name", VERBS)
def test_output_that_has_no_room_is_one_sentence_and_a_failure(place: Place, name: str) -> None:
    words, code, answers = VERBS[name]
    ran = shell(place, words, "> /dev/full")
    assert "Traceback" not in ran.err
    assert ran.code == ((code or 1) if answers else code)
    assert ran.err.count("The output cannot be written (No space left on device)") == answers


@pytest.mark.parametrize("name", VERBS)
def test_a_story_that_has_no_room_changes_nothing(place: Place, name: str) -> None:
    words, code, answers = VERBS[name]
    ran = shell(place, words, "2> /dev/full")
    assert (ran.code, bool(ran.out)) == (code, answers)


def test_an_answer_that_could_not_be_written_is_in_the_session(place: Place) -> None:
    ran = shell(place, ("run", "-m", "demo", "hello"), "> /dev/full")
    session = place.only_session()
    assert ran.err.splitlines()[-1].endswith(f"It is in the session: {session}.")
    assert "This is the scripted model" in place.bridle("sessions", "show", session).out
    place.verify(session)


def test_an_export_that_has_no_room_is_said_to(place: Place) -> None:
    place.bridle("run", "-m", "demo", "hello")
    ran = shell(place, ("sessions", "export", place.only_session()), "> /dev/full")
    assert (ran.code, ran.err) == (1, "bridle: The output cannot be written (No space left on device)\n")
