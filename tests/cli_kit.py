"""Bridle as a user runs it: an empty home, a folder to work in, nothing else of ours around it.

A command is a fork of a process that has everything imported (`hosted`). `real_program` starts the program itself:
where the process is what is tested, and in a test with the mark of that name.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bridle.app.user.stored_keys import session_store
from bridle.protocol.events import Envelope
from bridle.sessions.log.database import Database
from bridle.sessions.store import SessionRow, SessionStore
from hosted import Hosted, can_be_hosted

# A warning inside Bridle is an error there too, and shows as one on stderr.
BRIDLE = (sys.executable, "-W", "error", "-m", "bridle")
TIMEOUT_S = 120
_DURATION = re.compile(r"^(ran .*?)   \d+\.\d s(?=   |$)")


class Ran(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def stream(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def story(self) -> list[str]:
        """The lines on stderr, without the prefix all of them have and without how long a call took."""
        lines = self.err.splitlines()
        assert [line for line in lines if not line.startswith("bridle: ")] == []
        return [_DURATION.sub(r"\1", line.removeprefix("bridle: ")) for line in lines]


class Place:
    """A home and a working folder. Every command gets both, and of our environment only the PATH."""

    def __init__(self, root: Path, *, real_program: bool = False) -> None:
        self.real_program = real_program
        self.home = root / "home"
        self.work = root / "work"
        self.home.mkdir()
        self.work.mkdir()

    @property
    def data(self) -> Path:
        return self.home / ".local/share/bridle"

    def environment(self, **also: str) -> dict[str, str]:
        path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
        return {"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8", **also}

    def prepare(self, words: Sequence[str]) -> None:
        """Called before `bridle WORDS…` starts."""

    def script(self, text: str, name: str = "it.script") -> str:
        """Writes a script into the working folder; returns the model that plays it."""
        (self.work / name).write_text(text, encoding="utf-8")
        return f"demo:{name}"

    def bridle(
        self,
        *words: str,
        stdin: str = "",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        around: Sequence[str] = (),
        pass_fds: Sequence[int] = (),
    ) -> Ran:
        """Runs `bridle WORDS…` to its end, by the program `around` it where there is one."""
        self.prepare(words)
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        if around or pass_fds:
            process = subprocess.Popen(
                [*around, *BRIDLE, *words],
                pass_fds=pass_fds,
                cwd=cwd or self.work,
                env=self.environment(**(env or {})),
                **streams,
            )
        else:
            process = self.start(words, cwd=cwd, env=env or {}, **streams)
        try:
            out, err = process.communicate(stdin.encode(), timeout=TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
        return Ran(process.returncode, out.decode(), err.decode())

    def start(
        self,
        words: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        **how: Any,
    ) -> subprocess.Popen[bytes]:
        """Start `bridle WORDS…`."""
        environment = self.environment(**(env or {}))
        if self.real_program or not can_be_hosted(env or {}):
            return subprocess.Popen([*BRIDLE, *words], cwd=cwd or self.work, env=environment, **how)
        return Hosted(words, cwd=cwd or self.work, env=environment, **how)

    @contextmanager
    def started(self, *words: str) -> Iterator[Running]:
        """The same, while it runs. Whatever happens, it is gone afterwards."""
        self.prepare(words)
        process = self.start(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            yield Running(process)
        finally:
            process.kill()
            process.communicate(timeout=TIMEOUT_S)

    def sessions(self) -> list[SessionRow]:
        """Every stored session, newest first."""
        with self._store() as store:
            return store.list()

    def only_session(self) -> str:
        (row,) = self.sessions()
        return row.id

    def events(self, session: str) -> list[Envelope]:
        """What is stored of a session; ids are checked on the way."""
        with self._store() as store:
            envelopes = list(store.events(session))
        assert [envelope.id for envelope in envelopes] == list(range(1, len(envelopes) + 1))
        return envelopes

    def verify(self, session: str) -> None:
        """Raises unless the stored log is whole: every digest, every link, and its end."""
        with self._store() as store, closing(store.open(session)) as log:
            log.verify()

    def database(self) -> Database:
        """The database of the stored sessions, to be opened with the key that Bridle keeps for it."""
        with self._store() as store:
            return store.shelf.database

    def _store(self) -> closing[SessionStore]:
        return closing(session_store(self.environment()))


class Running:
    """A command in the middle of its work, with `--stream-json` on its stdout."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.printed: list[dict[str, Any]] = []

    def until(self, kind: str) -> dict[str, Any]:
        """Reads the stream up to the first line of a kind and returns that one."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(json.loads(line))
            if self.printed[-1]["eventType"] == kind:
                return self.printed[-1]
        assert self.process.stderr is not None
        raise AssertionError(f"the stream ended before {kind}: {self.process.stderr.read().decode()}")

    def signal(self, number: signal.Signals) -> Ran:
        """Sends a signal and waits for the end."""
        self.process.send_signal(number)
        return self.end()

    def stop_reading(self) -> None:
        """The reader of its stdout goes away."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.stdout = None

    def end(self) -> Ran:
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        return Ran(self.process.returncode, (out or b"").decode(), err.decode())


class SignOfLife:
    """A named pipe that commands hold open while they live: when its last holder dies, the reading end knows.

    Unlike a process number it cannot come to mean somebody else, and nobody has to ask again and again.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "alive"
        os.mkfifo(path)
        self.hold = f"exec 9>{path.name}"
        self._reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def ends_within(self, seconds: float) -> bool:
        """Whether every process that ran `hold` is gone, now or so much later. One must have begun."""
        ready, _, _ = select.select([self._reading], [], [], seconds)
        return bool(ready) and os.read(self._reading, 1) == b""

    def close(self) -> None:
        os.close(self._reading)


def guardians(engine: int) -> list[int]:
    """The children of an engine that are there to end what it leaves behind."""
    children = Path(f"/proc/{engine}/task/{engine}/children").read_text().split()
    return [int(pid) for pid in children if b"bridle-guardian" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def kill_together(engine: subprocess.Popen[bytes]) -> None:
    """Kills an engine and its guardian; neither gets a moment in which the other is already gone."""
    os.kill(engine.pid, signal.SIGSTOP)
    (guardian,) = guardians(engine.pid)
    os.kill(guardian, signal.SIGKILL)
    engine.kill()
    engine.wait()


def kinds(envelopes: list[Envelope]) -> list[str]:
    return [envelope.kind for envelope in envelopes]
