"""What a model over HTTP costs: a first request, a run, a delta. The server is another process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

from measure import BRIDLE, PYTHON, ROOT, Child, Figure, child, interleaved, middle, plain_env, scratch
from turns import Spent, ended_well, now

from bridle.base.clock import SystemClock
from bridle.base.http import HttpConnections, StreamedResponse
from bridle.conformance.harness import HarnessSession, harness, of_kind
from bridle.engine.ports import ModelPart, ModelRequest
from bridle.protocol.events import TextDelta
from bridle.providers.endpoints import Endpoint
from bridle.providers.openai_chat import ChatWire
from bridle.providers.remote import RemoteModel

_CHAT = "POST /v1/chat/completions"
_KEY_ENV = "BENCH_SERVER_KEY"
_KEY = "bench" * 4
_TOKEN = "words "
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
    rounds = 9
    arrived_s: dict[str, list[float]] = {"given": [], "stored": []}
    with scratch() as home, scratch() as other, scratch() as cwd, served("say Hello from afar.\n") as server:
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

        def run(key: str, env: dict[str, str]) -> Child:
            begun = time.monotonic()
            ran = child([BRIDLE, "run", "-m", "bench:some-model", "hi"], env=env, cwd=cwd)
            (at_s,) = server.take(1)
            arrived_s[key].append(at_s - begun)
            return ran

        bare, runs, with_stored = interleaved(
            rounds,
            lambda: child([PYTHON, "-c", "pass"], env=given, cwd=cwd),
            lambda: run("given", given),
            lambda: run("stored", stored),
        )
    assert [one.out for one in runs + with_stored] == [b"Hello from afar.\n"] * rounds * 2
    floor, floor_cpu = middle([one.wall_s for one in bare]), middle([one.cpu_s for one in bare])
    first, cpu = middle(arrived_s["given"][1:]), middle([one.cpu_s for one in runs])
    by_login = middle(arrived_s["stored"][1:])
    how = f"N={rounds}, bare Python {floor * 1000:.1f} ms wall, {floor_cpu * 1000:.1f} ms CPU"
    return [
        Figure(name="http, exec to first request", value=first / floor, unit="x", target=9, how=how),
        Figure(name="http, one-turn run, CPU", value=cpu, unit="s", target=0.12, how=how),
        Figure(name="http, CPU ratio", value=cpu / floor_cpu, unit="x", how=how),
        Figure(
            name="http, first with a login",
            value=by_login / first,
            unit="x",
            target=1.3,
            how=f"N={rounds}, a stored key against one in the environment",
        ),
    ]


def configure(home: str, url: str) -> None:
    folder = os.path.join(home, "config")
    os.makedirs(folder)
    with open(os.path.join(folder, "config.toml"), "w", encoding="utf-8") as file:
        file.write(f'[providers.bench]\nbase_url = "{url}"\nkey_env = "{_KEY_ENV}"\n')


# Inside the engine


def deltas() -> list[Figure]:
    """Own CPU per one-token delta: sent in bursts, and one by one, beside a reader that reads each and forgets it."""
    burst_us, burst_reads = asyncio.run(_per_delta(BURST, pace=0))
    paced_us, paced_reads = asyncio.run(_per_delta(PACED, pace=PACE))
    bare_us = asyncio.run(_bare_read())
    assert burst_reads < BURST / 20, f"a burst comes in few reads, this one in {burst_reads}"
    how = "N=3 turns of {:,} deltas in {:,} reads, less a turn of one"
    burst_how, paced_how = how.format(BURST, burst_reads), how.format(PACED, paced_reads)
    return [
        Figure(name="http delta, burst", value=burst_us, unit="µs", target=8, how=burst_how),
        Figure(name="http delta, paced", value=paced_us, unit="µs", target=130, how=paced_how),
        Figure(
            name="http delta, paced ratio",
            value=paced_us / bare_us,
            unit="x",
            how=f"to an asyncio stream that reads and forgets: {bare_us:.0f} µs",
        ),
    ]


async def _bare_read() -> float:
    """Microseconds of own CPU for one read of a paced answer that nobody looks into."""
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
    return spent / reads * 1e6


def _paced_answer(count: int, pace: int) -> str:
    return f"pace {pace}\nchunk {len(_TOKEN)}\nsay {_TOKEN * count}\n"


async def _per_delta(count: int, *, pace: int) -> tuple[float, int]:
    """Microseconds per delta, and the reads they came in."""
    one, _ = await _turn_cpu(1, pace)
    many, reads = await _turn_cpu(count, pace)
    return (many - one) / count * 1e6, reads


async def _turn_cpu(count: int, pace: int) -> tuple[float, int]:
    spent: list[float] = []
    reads = 0
    with served("---\n".join([_paced_answer(count, pace)] * 4)) as server:
        async with session_with(server) as (session, model):
            for number in range(4):
                already, before = model.reads, time.process_time()
                events = await session.ask("go")
                if number:
                    spent.append(time.process_time() - before)
                reads = model.reads - already
                assert ended_well(events), events[-1]
                heard = "".join(delta.text for delta in of_kind(events, TextDelta))
                assert heard == (_TOKEN * count).rstrip(), "a delta was lost or changed"
        server.take(4)
    return middle(spent), reads


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
    def wire(self) -> ChatWire:
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
