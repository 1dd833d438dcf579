"""`bridle serve` as a person runs it, and requests to it over its socket."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bridle.base.engine_place import EnginePlace, connected_socket
from bridle.config.folders import folders
from cli_kit import BRIDLE, TIMEOUT_S, Place


class Reply(NamedTuple):
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ServedPlace:
    """The place of a running engine."""

    def __init__(self, place: Place) -> None:
        self.home = place
        self.place = EnginePlace(folders(place.environment()).runtime)
        self.token = self.place.token()

    def ask(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Reply:
        """One request over the socket, from this process."""
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"X-Bridle-Token: {self.token if token is None else token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        with connected_socket(self.place.socket) as opened:
            opened.settimeout(TIMEOUT_S)
            opened.sendall(head.encode() + data)
            return read_reply(opened)

    @property
    def port(self) -> int:
        """Where it listens beside its socket; 0 where it does not."""
        note = self.place.found()
        return int(note.url.rpartition(":")[2]) if note is not None and note.url else 0

    def ask_port(self, path: str) -> Reply:
        """One request over TCP, from this process."""
        host = f"127.0.0.1:{self.port}"
        with socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S) as opened:
            opened.sendall(
                f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
                f"X-Bridle-Token: {self.token}\r\n\r\n".encode()
            )
            return read_reply(opened)


class ServingProcess(ServedPlace):
    """One that is a program of its own, and what it said at its start."""

    def __init__(self, place: Place, process: subprocess.Popen[bytes], lines: list[str]) -> None:
        super().__init__(place)
        self.process = process
        self.lines = lines

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT_S)


def read_reply(opened: socket.socket) -> Reply:
    said = b""
    while piece := opened.recv(65536):
        said += piece
    head, _, body = said.partition(b"\r\n\r\n")
    return Reply(int(head.split()[1]), body)


@contextmanager
def serving(place: Place, *words: str, through: Sequence[str] = (), **env: str) -> Iterator[ServingProcess]:
    """`bridle serve`, from when it answers, started by another program if there is one. Whatever happens, it is gone
    afterwards."""
    process = subprocess.Popen(
        [*through, *BRIDLE, "serve", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=place.work,
        env=place.environment(**env),
    )
    try:
        lines: list[str] = []
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line.decode().rstrip())
            if "End: Ctrl-C" in lines[-1]:
                break
        else:
            raise AssertionError("\n".join(lines))
        served = ServingProcess(place, process, lines)
        assert served.ask("GET", "/v1/handshake").status == 200
        yield served
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=TIMEOUT_S)


class EngineHost:
    """Starts engines in a tenth of the time that a program of its own takes (`engine_host`)."""

    def __init__(self) -> None:
        program = os.path.join(os.path.dirname(__file__), "engine_host.py")
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def order(self, **what: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=TIMEOUT_S)


class PlaceWithEngine(Place):
    """A place in which an engine listens from the first run on: what is run there goes through it."""

    def __init__(self, root: Path, host: EngineHost) -> None:
        super().__init__(root)
        self._host = host
        self._said = root / "engine.stderr"
        self._lines: Any = None
        self._engine = 0

    def prepare(self, words: Sequence[str]) -> None:
        is_for_engines = not words or words[0] == "run" or words[0].startswith("-")
        if self._engine or not is_for_engines:
            return
        os.mkfifo(self._said)
        self._engine = self._host.order(cwd=str(self.home), env=self.environment(), stderr=str(self._said))
        self._lines = self._said.open(encoding="utf-8")
        for line in self._lines:
            if "End: Ctrl-C" in line:
                return
        raise AssertionError("the engine ended")

    def verify(self, session: str) -> None:
        """Whoever leaves a session leaves it open in the engine, which ends before others may open its log."""
        self.close()
        super().verify(session)

    def close(self) -> None:
        """Ends the engine, in order and without a word of trouble."""
        if self._engine:
            code = self._host.order(stop=self._engine)
            self._engine = 0
            said = self._lines.read()
            self._lines.close()
            self._said.unlink()
            assert (code, said) == (0, "bridle: ending; again to leave at once\n")


def in_work(place: Place, name: str, text: str) -> str:
    path = os.path.join(place.work, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path
