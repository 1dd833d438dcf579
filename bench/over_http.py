"""What a model over HTTP costs: a first request, a run, a delta. The server is another process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

from measure import (
    BRIDLE,
    PYTHON,
    ROOT,
    Child,
    Figure,
    child,
    cpus,
    in_turns,
    of_rounds,
    plain_env,
    scratch,
    times,
    walls,
)
from turns import Spent, ended_well, now

from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections, StreamedResponse
from bridle.conformance.harness import HarnessSession, harness, of_kind
from bridle.engine.ports import ModelPart, ModelRequest, Wire
from bridle.protocol.events import TextDelta
from bridle.providers.endpoints import Endpoint
from bridle.providers.remote import RemoteModel

_CHAT = "POST /v1/chat/completions"
_KEY_ENV = "BENCH_SERVER_KEY"
_KEY = "bench" * 4
_TOKEN = "words "
_HELLO = "Hello from afar."
BURST = 20_000
PACED = 4_000
PACE = 2_000
"""Deltas a second. The server cannot keep it, for a timer is late; what counts is that every delta is a write."""


class Server:
    """A model server in its own process. `take` returns when the next requests had come, in monotonic seconds."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._told = process.stdout
        self.url = self._told.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.url

    def take(self, count: int) -> list[float]:
        lines = [self._told.readline().split(maxsplit=1) for _ in range(count)]
        assert all(what.strip() == _CHAT for _, what in lines), lines
        return [float(at_s) for at_s, _ in lines]


@contextmanager
def served(script: str) -> Generator[Server]:
    """A server that plays `script`. At the end, no request may be left that nobody has taken."""
    with scratch() as folder:
        path = os.path.join(folder, "it.script")
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        argv = [PYTHON, os.path.join(ROOT, "bench", "model_server.py"), path]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield Server(process)
        finally:
            rest, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert rest == "", f"more requests than expected: {rest}"


# The command line


def one_turn() -> list[Figure]:
    """`bridle run hi` with a configured endpoint: exec to the server having its request, and the whole run."""
    rounds = 11
    with scratch() as home, scratch() as other, scratch() as cwd, served(f"say {_HELLO}\n") as server:
        given, stored = plain_env(home) | {_KEY_ENV: _KEY}, plain_env(other)
        for env in (given, stored):
            configure(env["BRIDLE_HOME"], server.url)
        subprocess.run(
            [BRIDLE, "login", "bench", "--no-check"],
            input=_KEY,
            text=True,
            env=stored,
            check=True,
            capture_output=True,
        )
        bridle = [BRIDLE, "run", "-m", "bench:some-model", "hi"]

        def run(argv: list[str], env: dict[str, str]) -> tuple[Child, float]:
            begun = time.monotonic()
            ran = child(argv, env=env, cwd=cwd)
            assert ran.out == f"{_HELLO}\n".encode(), ran.out
            (at_s,) = server.take(1)
            return ran, at_s - begun

        bare, floor, with_given, with_stored = in_turns(
            rounds,
            lambda: (child([PYTHON, "-c", "pass"], env=given, cwd=cwd), 0.0),
            lambda: run(floor_argv(server), given),
            lambda: run(bridle, given),
            lambda: run(bridle, stored),
        )
    bare_runs, floor_runs, runs = ([ran for ran, _ in some] for some in (bare, floor, with_given))
    floor_s, given_s, stored_s = ([at_s for _, at_s in some] for some in (floor, with_given, with_stored))
    return [
        times("http, exec to first request", given_s, floor_s, of="the floor", target=2),
        times("http, one-turn run, CPU", cpus(runs), cpus(floor_runs), of="the floor", target=2),
        times("http, first request to bare", given_s, walls(bare_runs), of="a bare Python", target=9),
        times("http, CPU to bare", cpus(runs), cpus(bare_runs), of="a bare Python", target=10),
        times("http, first with a login", stored_s, given_s, of="a key in the environment", target=1.3),
    ]


def floor_argv(server: Server) -> list[str]:
    """The least that is an agent, at this server."""
    host, port = server.url.removeprefix("http://").removesuffix("/v1").split(":")
    return [PYTHON, os.path.join(ROOT, "bench", "floor.py"), host, port]


def configure(home: str, url: str) -> None:
    folder = os.path.join(home, "config")
    os.makedirs(folder)
    with open(os.path.join(folder, "config.toml"), "w", encoding="utf-8") as file:
        file.write(f'[providers.bench]\nbase_url = "{url}"\nkey_env = "{_KEY_ENV}"\n')


# Inside the engine


def deltas() -> list[Figure]:
    """Own CPU per one-token delta: sent in bursts, and one by one, beside a reader that reads each and forgets it."""
    rounds = 3
    burst, paced, bare = in_turns(
        rounds,
        lambda: asyncio.run(_per_delta(BURST, pace=0)),
        lambda: asyncio.run(_per_delta(PACED, pace=PACE)),
        lambda: asyncio.run(_bare_read()),
    )
    reads = max(burst, key=lambda one: one[1])[1]
    assert reads < BURST / 20, f"a burst comes in few reads, this one in {reads}"
    (burst_us, burst_how), (paced_us, paced_how) = (
        ([us for us, _ in some], f"{count:,} deltas in {some[-1][1]:,} reads, less a turn of one")
        for some, count in ((burst, BURST), (paced, PACED))
    )
    return [
        of_rounds("http delta, burst", burst_us, "µs", 8, burst_how),
        of_rounds("http delta, paced", paced_us, "µs", 130, paced_how),
        times(
            "http delta, paced ratio",
            [us / 1e6 for us in paced_us],
            [us / 1e6 for us, _ in bare],
            of="an asyncio stream that reads and forgets",
        ),
    ]


async def _bare_read() -> tuple[float, int]:
    """Microseconds of own CPU for one read of a paced answer that nobody looks into, and how many reads it took."""
    body = b'{"model":"m","messages":[{"role":"user","content":"go"}],"stream":true}'
    head = f"{_CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with served(_paced_answer(PACED, PACE)) as server:
        host, port = server.url.removeprefix("http://").removesuffix("/v1").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head + body)
        reads, last, before = 0, b"", time.process_time()
        while not last.endswith(b"0\r\n\r\n"):
            last = await reader.read(64 * 1024)
            reads += 1
        spent = time.process_time() - before
        writer.close()
        server.take(1)
    assert reads > PACED / 2, reads
    return spent / reads * 1e6, reads


def _paced_answer(count: int, pace: int) -> str:
    return f"pace {pace}\nchunk {len(_TOKEN)}\nsay {_TOKEN * count}\n"


async def _per_delta(count: int, *, pace: int) -> tuple[float, int]:
    """Microseconds per delta, and the reads they came in."""
    one, _ = await _turn_cpu(1, pace)
    many, reads = await _turn_cpu(count, pace)
    return (many - one) / count * 1e6, reads


async def _turn_cpu(count: int, pace: int) -> tuple[float, int]:
    """The second turn of a session."""
    with served("---\n".join([_paced_answer(count, pace)] * 2)) as server:
        async with session_with(server) as (session, model):
            await session.ask("go")
            already, before = model.reads, time.process_time()
            events = await session.ask("go")
            spent, reads = time.process_time() - before, model.reads - already
        server.take(2)
    assert ended_well(events), events[-1]
    heard = "".join(delta.text for delta in of_kind(events, TextDelta))
    assert heard == (_TOKEN * count).rstrip(), "a delta was lost or changed"
    return spent, reads


@asynccontextmanager
async def session_with(server: Server, **options: Any) -> AsyncGenerator[tuple[HarnessSession, _Watched]]:
    connections = _Counting(env={}, clock=SystemClock())
    try:
        model = _Watched(server.url, connections)
        async with harness(model, **options) as session:
            yield session, model
    finally:
        await connections.close()


class _Watched:
    """The real provider; notes when it is asked, and how many reads its answers took."""

    def __init__(self, url: str, connections: _Counting) -> None:
        endpoint = Endpoint(name="bench", base_url=url, key_env=_KEY_ENV)
        self._inner = RemoteModel(endpoint, lambda: _KEY, connections)
        self._connections = connections
        self.asked: list[Spent] = []

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def wire(self) -> Wire:
        return self._inner.wire

    @property
    def reads(self) -> int:
        return self._connections.reads

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        self.asked.append(now())
        return self._inner.stream(request)


class _Counting(HttpConnections):
    """Connections that count the reads of their answers, which costs well under a microsecond each."""

    reads = 0

    async def post_stream(self, url: str, **options: Any) -> StreamedResponse:
        return cast("StreamedResponse", _Counted(await super().post_stream(url, **options), self))


class _Counted:
    """An answer; what the provider uses of it."""

    def __init__(self, answer: StreamedResponse, connections: _Counting) -> None:
        self._answer = answer
        self._connections = connections
        self.status = answer.status
        self.headers = answer.headers
        self.read = answer.read
        self.close = answer.close
        self.finish = answer.finish

    def __aiter__(self) -> _Counted:
        return self

    async def __anext__(self) -> bytes:
        self._connections.reads += 1
        return await self._answer.__anext__()
