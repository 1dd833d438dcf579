"""`bridle serve` as a person runs it, and requests to it over its socket."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bridle.base.net.engine_place import EnginePlace, connected_socket
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
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    if through:
        process = subprocess.Popen(
            [*through, *BRIDLE, "serve", *words], cwd=place.work, env=place.environment(**env), **quiet
        )
    else:
        process = place.start(("serve", *words), env=env, **quiet)
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


class PlaceWithEngine(Place):
    """A place in which an engine listens from the first run on: what is run there goes through it."""

    def __init__(self, root: Path, *, real_program: bool = False) -> None:
        super().__init__(root, real_program=real_program)
        self._engine: subprocess.Popen[bytes] | None = None

    def prepare(self, words: Sequence[str]) -> None:
        is_for_engines = not words or words[0] == "run" or words[0].startswith("-")
        if self._engine is not None or not is_for_engines:
            return
        self._engine = self.start(
            ("serve",),
            cwd=self.home,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert self._engine.stderr is not None
        for line in self._engine.stderr:
            if b"End: Ctrl-C" in line:
                return
        raise AssertionError("the engine ended")

    def verify(self, session: str) -> None:
        """Whoever leaves a session leaves it open in the engine, which ends before others may open its log."""
        self.close()
        super().verify(session)

    def close(self) -> None:
        """Ends the engine, in order and without a word of trouble."""
        if self._engine is not None:
            self._engine.terminate()
            _, said = self._engine.communicate(timeout=TIMEOUT_S)
            code, self._engine = self._engine.returncode, None
            assert (code, said) == (0, b"bridle: ending; again to leave at once\n")


def in_work(place: Place, name: str, text: str) -> str:
    path = os.path.join(place.work, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path
