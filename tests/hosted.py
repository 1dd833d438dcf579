"""Start `bridle` as a fork of one process that has everything imported (`program_host`)."""

from __future__ import annotations

import functools
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HOST = os.path.join(os.path.dirname(__file__), "program_host.py")
AT_START = ("PYTHON", "LANG", "LC_", "INSIDE_BRIDLE")
"""Variables that Python, or a look at `/proc/PID/environ`, takes from the start of the process: a fork has none."""


class ProgramHost:
    """The fork server of this process."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", HOST],
                stdin=theirs,
                env={"PATH": os.environ.get("PATH", os.defpath), "HOME": os.devnull, "LANG": "C.UTF-8"},
            )

    def start(self, order: Mapping[str, Any], fds: Sequence[int]) -> int:
        with self._lock:
            socket.send_fds(self._orders, [json.dumps(order).encode()], fds)
            return int(self._orders.recv(64))

    def wait(self, pid: int) -> int:
        """Return the exit code of a command that has ended."""
        with self._lock:
            self._orders.send(json.dumps({"wait": pid}).encode())
            return int(self._orders.recv(64))


@functools.cache
def program_host() -> ProgramHost:
    return ProgramHost()


class Hosted(subprocess.Popen[bytes]):
    """A `Popen` of `bridle WORDS…` whose process is a fork of the host."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        terminal: bool = False,
        start_new_session: bool = False,
        **streams: Any,
    ) -> None:
        self._terminal = terminal
        self._over = -1
        super().__init__(
            list(words), cwd=cwd, env=env, start_new_session=start_new_session or terminal, **streams
        )

    def _execute_child(self, *given: Any) -> None:
        words, cwd, env, own_session = given[0], given[5], given[6], given[21]
        read, to_child, from_child, write, from_errors, errors = given[10:16]
        inherited = [fd if fd != -1 else own for own, fd in enumerate((read, write, errors))]
        order = {
            "argv": words,
            "cwd": os.fspath(cwd),
            "env": dict(env),
            "terminal": self._terminal,
            "own_session": own_session,
        }
        self.pid = program_host().start(order, inherited)
        self._over = os.pidfd_open(self.pid)
        self._child_created = True
        for ours, theirs in ((to_child, read), (from_child, write), (from_errors, errors)):
            if ours != -1 and theirs != -1:
                os.close(theirs)
        if (nothing := getattr(self, "_devnull", None)) is not None:
            os.close(nothing)
            del self._devnull

    def _internal_poll(self, *_given: Any, **_known: Any) -> int | None:
        self._end(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if not self._end(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self.returncode

    def _end(self, timeout: float | None) -> bool:
        if self.returncode is None and select.select([self._over], [], [], timeout)[0]:
            self.returncode = program_host().wait(self.pid)
            os.close(self._over)
        return self.returncode is not None


def can_be_hosted(env: Mapping[str, str]) -> bool:
    """Whether a fork gives what a start with these variables would give."""
    return not any(name.startswith(AT_START) for name in env)
