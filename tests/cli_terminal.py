"""A person at a real terminal: what they see of a running Bridle, what they type, how it ends."""

from __future__ import annotations

import codecs
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cli_kit import BRIDLE, TIMEOUT_S, Place
from clients.line.line_kit import Glass
from hosted import can_be_hosted

COLUMNS, ROWS = 100, 30
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)
"""Makes the terminal on stdin the one whose Ctrl-C reaches the program, as a shell does."""


class Sitting:
    """A person in front of a running program: what they see, what they type, how it ends."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int, columns: int = COLUMNS) -> None:
        self.process = process
        self.bytes = b""
        self.modes_found = termios.tcgetattr(terminal)
        self.over = False
        self._terminal = terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._glass = Glass(columns)

    @property
    def text(self) -> str:
        return self._glass.text

    @property
    def modes(self) -> list[Any]:
        return termios.tcgetattr(self._terminal)

    def types(self, text: str) -> None:
        os.write(self._terminal, text.encode("utf-8", "surrogateescape"))

    def sees(self, *texts: str, within_s: float = TIMEOUT_S) -> None:
        self.waits(lambda: all(text in self.text for text in texts), " and ".join(texts), within_s=within_s)

    def waits(self, condition: Callable[[], bool], what: str, *, within_s: float = TIMEOUT_S) -> None:
        """Reads until it is so. Fails when time is up or the program has gone."""
        deadline_s = time.monotonic() + within_s
        while not condition():
            assert not self.over, f"ended before it showed {what}:\n{self.text}"
            assert self._read(deadline_s), f"never showed {what}:\n{self.text}"

    def looks_for(self, seconds: float) -> None:
        """Reads what comes meanwhile, as somebody who looks at the screen and leaves the keys alone."""
        until_s = time.monotonic() + seconds
        while not self.over and self._read(until_s):
            pass

    def ends(self, *, within_s: float = TIMEOUT_S) -> int:
        """The exit code, when no process has this terminal open any more."""
        deadline_s = time.monotonic() + within_s
        while not self.over:
            assert self._read(deadline_s), f"still there:\n{self.text}"
        return self.process.wait(TIMEOUT_S)

    def hangs_up(self) -> None:
        """Closes the window."""
        os.close(self._terminal)
        self._terminal = -1

    def close(self) -> None:
        if self._terminal >= 0:
            self.hangs_up()

    def _read(self, until_s: float) -> bool:
        """Takes in what the program wrote next; False when nothing came in time."""
        if not select.select((self._terminal,), (), (), max(0, until_s - time.monotonic()))[0]:
            return False
        data = b""
        with suppress(OSError):  # Linux says so when the last holder of the terminal has gone
            data = os.read(self._terminal, 65536)
        self.over = not data
        self.bytes += data
        self._glass.write(self._decoder.decode(data))
        return True


@contextmanager
def sitting(place: Place, *words: str, columns: int = COLUMNS, **env: str) -> Generator[Sitting]:
    """`bridle WORDS…` at a terminal of its own. Whatever happens, it is gone afterwards."""
    place.prepare(words)
    also = {"TERM": "xterm-256color", **env}
    if place.real_program or not can_be_hosted(also):
        environment = place.environment(**also)
        with at_terminal(*BRIDLE, *words, cwd=place.work, env=environment, columns=columns) as person:
            yield person
        return
    terminal, side = _open_terminal(columns)
    process = place.start(words, env=also, stdin=side, stdout=side, stderr=side, terminal=True)
    with _seated(process, terminal, side, columns) as person:
        yield person


@contextmanager
def at_terminal(*argv: str, cwd: Path, env: Mapping[str, str], columns: int = COLUMNS) -> Generator[Sitting]:
    """Any program at a terminal of its own, the same way."""
    terminal, side = _open_terminal(columns)
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", TAKE_TERMINAL, *argv],
        stdin=side,
        stdout=side,
        stderr=side,
        cwd=cwd,
        env=env,
        start_new_session=True,
    )
    with _seated(process, terminal, side, columns) as person:
        yield person


def _open_terminal(columns: int) -> tuple[int, int]:
    terminal, side = pty.openpty()
    termios.tcsetwinsize(side, (ROWS, columns))
    return terminal, side


@contextmanager
def _seated(process: subprocess.Popen[bytes], terminal: int, side: int, columns: int) -> Generator[Sitting]:
    os.close(side)
    person = Sitting(process, terminal, columns)
    try:
        yield person
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
        person.close()
