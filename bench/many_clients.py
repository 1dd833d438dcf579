"""What clients of a serving engine get, and what they cost it: many at once, deaf ones, many sessions, its end."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from measure import BRIDLE, PYTHON, Figure, child, in_turns, middle, times, within
from over_http import served as model_server
from served import Served, said, served, turn

from bridle.base.net.websocket_client import SocketClosed, WebSocketClient
from bridle.conformance.exchanges import OpenStream, exchange_at
from bridle.control.service import TICK_S
from bridle.protocol.commands import AttachSession, EndSession
from bridle.protocol.queries import CheckHealth, DescribeSession

CLIENTS = 100
A_SECOND = 100
LASTS_S = 20
DEAF = 20
FLOOD = 40
_LONG = "long " * 40_000
APART_S = 0.0088
"""Between two pieces of an answer: a timer is late by about a millisecond, so that makes a hundred a second."""
_WORDS = "Some words of an answer, about as many as a model gives in a hundredth of a second. "
_EVENT = re.compile(
    rb'"id":(\d+),"kind":"(\w+)","session":"[^"]*","originator":"[^"]*","ts":"[^T]*T(.{12})Z"'
)
_DAY_S = 24 * 3600


class Heard(NamedTuple):
    """What one client had of a turn: the numbers of its events, and how late each piece of the answer was."""

    numbers: list[int]
    late_ms: list[float]

    def take(self, data: bytes) -> None:
        """Notes the events that came."""
        now_s = time.time() % _DAY_S
        for number, kind, stamp in _EVENT.findall(data):
            self.numbers.append(int(number))
            if kind.endswith(b"Delta"):
                hours, minutes, seconds = stamp.split(b":")
                self.late_ms.append((now_s - int(hours) * 3600 - int(minutes) * 60 - float(seconds)) * 1000)


def fan_out() -> list[Figure]:
    """The same turn for one client, then for all: over WebSockets, then as server-sent events."""
    figures: list[Figure] = []
    for name, follow in (("ws", _by_websocket), ("sse", _by_sse)):
        figures += _fan_out(name, follow)
    return figures


Follow = Callable[[Served, str, str, asyncio.Event], Awaitable[Heard]]
"""Follows a session with a token until its turn is over; tells when it does."""


def _fan_out(name: str, follow: Follow) -> list[Figure]:
    with served() as engine:
        model = engine.script("fan.script", _answer(A_SECOND * LASTS_S, APART_S))
        dense = engine.script("dense.script", _answer(A_SECOND * LASTS_S, 0))
        alone_s, _, _ = asyncio.run(_played(engine, model, 1, follow))
        before_mb = engine.size_mb()
        all_s, heard, took_s = asyncio.run(_played(engine, model, CLIENTS, follow))
        grown_mb = engine.size_mb() - before_mb
        dense_alone_s, _, _ = asyncio.run(_played(engine, dense, 1, follow))
        dense_s, packed, packed_s = asyncio.run(_played(engine, dense, CLIENTS, follow))
        engine.end()
    events = len(heard[0].numbers)
    late = [ms for one in heard for ms in one.late_ms]
    rate, packed_rate = events / took_s, len(packed[0].numbers) / packed_s
    how = f"{CLIENTS} clients, {events:,} events in {took_s:.0f} s"
    cost = "{:.1f} s of the engine's CPU less {:.1f} for one client alone, {:.1f} events a tick"
    return [
        Figure(
            name=f"fan-out {name}, received",
            value=min(_received(heard), _received(packed)),
            unit="%",
            target=100,
            at_least=True,
            how=how,
        ),
        Figure(name=f"fan-out {name}, p50", value=middle(late), unit="ms", how=how),
        Figure(
            name=f"fan-out {name}, p99",
            value=within(late, 0.99),
            unit="ms",
            target=250,
            how=f"{how}, at most {max(late):.0f} ms late",
        ),
        Figure(name=f"fan-out {name}, growth", value=grown_mb, unit="MB", target=64, how=how),
        Figure(
            name=f"fan-out {name}, each",
            value=(all_s - alone_s) / (events * CLIENTS) * 1e6,
            unit="µs",
            how=cost.format(all_s, alone_s, rate * TICK_S),
        ),
        Figure(
            name=f"fan-out {name}, each, packed",
            value=(dense_s - dense_alone_s) / (len(packed[0].numbers) * CLIENTS) * 1e6,
            unit="µs",
            how=cost.format(dense_s, dense_alone_s, packed_rate * TICK_S),
        ),
    ]


def _answer(events: int, apart_s: float) -> str:
    """Every other piece is thought: what is of another kind is an event of its own."""
    return f"wait {apart_s}\nthink {_WORDS}\nwait {apart_s}\nsay {_WORDS}\n" * (events // 2)


async def _played(
    engine: Served, model: str, clients: int, follow: Follow
) -> tuple[float, list[Heard], float]:
    """A turn with so many who follow it: the CPU it took the engine, what they had, and how long it lasted."""
    async with engine.client() as owner:
        session = await engine.session(owner, model)
        here = [asyncio.Event() for _ in range(clients)]
        tokens = engine.tokens(session, clients)
        following = [
            asyncio.ensure_future(follow(engine, session, token, is_here))
            for token, is_here in zip(tokens, here, strict=True)
        ]
        for is_here in here:
            await is_here.wait()
        cpu_s, begun = engine.cpu_s(), time.perf_counter()
        await owner.send(said(session))
        heard = await asyncio.gather(*following)
        spent = engine.cpu_s() - cpu_s, list(heard), time.perf_counter() - begun
        await owner.send(EndSession(session=session))
    return spent


async def _by_websocket(engine: Served, session: str, token: str, is_here: asyncio.Event) -> Heard:
    heard, opened = Heard([], []), await engine.websocket(token, session)
    is_here.set()
    frame = b""
    while b'"kind":"TurnEnded"' not in frame:
        heard.take(frame := await opened.receive())
    await opened.close()
    return heard


async def _by_sse(engine: Served, session: str, token: str, is_here: asyncio.Event) -> Heard:
    heard, opened = Heard([], []), await engine.stream(token, session)
    is_here.set()
    await _read(opened, heard, b"event: TurnEnded")
    return heard


async def _read(stream: OpenStream, heard: Heard, last: bytes) -> None:
    """Reads up to an event."""
    held = b""
    async for piece in stream.pieces():
        whole, _, held = (held + piece).rpartition(b"\n\n")
        heard.take(whole)
        if last in whole:
            break
    await stream.close()


def _received(heard: Sequence[Heard]) -> float:
    """How much each had, in hundredths, of everything between the first and the last event that anybody had."""
    everything = set[int]().union(*(one.numbers for one in heard))
    assert max(everything) - min(everything) + 1 == len(everything)
    return 100 * min(len(set(one.numbers)) for one in heard) / len(everything)


def deaf() -> list[Figure]:
    """Clients that do not read, beside one that does: what each costs the engine, and what it is told in the end."""
    with served() as engine:
        asyncio.run(_not_reading(engine, 0))
        without_mb, _ = asyncio.run(_not_reading(engine, 0))
        with_mb, gaps = asyncio.run(_not_reading(engine, DEAF))
        engine.end()
    assert gaps == DEAF, f"{gaps} of {DEAF} were told that they missed something"
    each = (with_mb - without_mb) / DEAF
    flood_mb = FLOOD * len(_LONG) / 1e6
    how = f"{DEAF} that never read {flood_mb:.0f} MB of events: {without_mb:.1f} MB without them, {with_mb:.1f} with"
    return [
        Figure(
            name="a deaf client", value=each, unit="MB", target=1.5, how=f"{how}; each was told of its gap"
        ),
    ]


async def _not_reading(engine: Served, count: int) -> tuple[float, int]:
    """What the engine holds when events have come that so many did not read, and how many heard of a gap when they read
    at last. One that read all the time has missed nothing."""
    async with engine.client() as owner:
        session = await engine.session(owner, engine.script("hold.script", "say Begun.\nwait 600\n"))
        silent = [await engine.stream(token, session) for token in engine.tokens(session, count)]
        stream, heard = await engine.stream(engine.place.token(), session), Heard([], [])
        await owner.send(said(session))
        reading = asyncio.ensure_future(_read(stream, heard, b"event: SessionEnded"))
        for _ in range(FLOOD):
            await owner.send(said(session, _LONG, mode="queue"))
            await asyncio.sleep(0.02)
        size_mb, gaps = engine.size_mb(), 0
        await owner.send(EndSession(session=session))
        await reading
        for deaf_one in silent:
            gaps += b"event: StreamGap" in b"".join([piece async for piece in deaf_one.pieces()])
            await deaf_one.close()
    assert _received([heard]) == 100
    return size_mb, gaps


def sessions() -> list[Figure]:
    """Fifty sessions, in ten of them a turn that speaks and runs commands: what they take, how soon one is heard."""
    steps = (
        f"say {_WORDS * 5}\nwait 0.2\ncall bash\n    command: echo {number}\n---\n" for number in range(30)
    )
    with served() as engine:
        empty_mb = engine.size_mb()
        idle, busy = (
            engine.script("idle.script", "say Yes.\n"),
            engine.script("busy.script", "".join(steps) + "say Yes.\n"),
        )
        size_mb, late_ms, took_s = asyncio.run(_at_work(engine, idle, busy))
        engine.end()
    how = f"50 sessions, 10 turns of 30 steps at once in {took_s:.1f} s"
    return [
        Figure(
            name="50 sessions, 10 turns, size",
            value=size_mb - empty_mb,
            unit="MB",
            how=f"more than {empty_mb:.0f}; {how}",
        ),
        Figure(
            name="50 sessions, asked p99",
            value=within(late_ms, 0.99),
            unit="ms",
            how=f"N={len(late_ms)}, {how}; half of them within {middle(late_ms):.1f} ms",
        ),
    ]


async def _at_work(engine: Served, idle: str, busy: str) -> tuple[float, list[float], float]:
    async with engine.client() as owner, engine.client() as other:
        for _ in range(40):
            session = await engine.session(owner, idle)
            await turn(owner, session)
        working = [await engine.session(owner, busy) for _ in range(10)]
        begun, late_ms = time.perf_counter(), list[float]()
        turns = [asyncio.ensure_future(turn(owner, session)) for session in working]
        while not all(one.done() for one in turns):
            asked = time.perf_counter()
            health = await other.ask(CheckHealth())
            late_ms.append((time.perf_counter() - asked) * 1000)
            assert health.open_sessions == 50
            await asyncio.sleep(0.02)
        await asyncio.gather(*turns)
        return engine.size_mb(), late_ms, time.perf_counter() - begun


def ending() -> list[Figure]:
    """SIGTERM while a hundred follow a turn: all are told, and it is gone."""
    with served() as engine:
        took_s = asyncio.run(_ended(engine))
    how = f"{CLIENTS} clients, half over WebSockets and half as streams, a turn under way; each was told"
    return [Figure(name="SIGTERM to exit", value=took_s, unit="s", target=5, how=how)]


async def _ended(engine: Served) -> float:
    async with engine.client() as owner:
        session = await engine.session(owner, engine.script("long.script", "say Begun.\nwait 600\n"))
        tokens = engine.tokens(session, CLIENTS)
        sockets = [await engine.websocket(token, session) for token in tokens[::2]]
        streams = [await engine.stream(token, session) for token in tokens[1::2]]
        await owner.send(said(session))
        async for envelope in owner.events(session):
            if envelope.kind == "TextDelta":
                break
        ending = asyncio.ensure_future(asyncio.to_thread(engine.end))
        heard = await asyncio.gather(
            *(_reads_end(stream) for stream in streams), *(_hears_end(opened) for opened in sockets)
        )
        assert all(heard), f"{heard.count(False)} were not told"
        return await ending


async def _reads_end(stream: OpenStream) -> bool:
    return b"event: SessionEnded" in b"".join([piece async for piece in stream.pieces()])


async def _hears_end(opened: WebSocketClient) -> bool:
    heard = False
    try:
        while True:
            heard = b'"kind":"SessionEnded"' in await opened.receive() or heard
    except SocketClosed:
        return heard


def warm() -> list[Figure]:
    """`bridle run` through an engine that runs: exec to the model's server having the request."""
    rounds = 15
    with (
        model_server("say Hello from afar.\n") as model,
        served(f'[providers.bench]\nbase_url = "{model.url}"\n') as engine,
    ):

        def run() -> float:
            begun = time.monotonic()
            ran = child([BRIDLE, "run", "-m", "bench:some-model", "hi"], env=engine.env, cwd=engine.cwd)
            assert ran.out == b"Hello from afar.\n", ran
            (at_s,) = model.take(1)
            return at_s - begun

        def least() -> float:
            bare = child([PYTHON, "-c", "pass"], env=engine.env, cwd=engine.cwd)
            return bare.wall_s + asyncio.run(_round_trip(engine))

        least_s, first_s = in_turns(rounds, least, run)
        engine.end()
    of = "a bare Python and a round trip"
    return [times("warm run to first request", first_s, least_s, of=of)]


def attach() -> list[Figure]:
    """A client that connects, attaches and has all there was: a short session, and one of a hundred turns."""
    with served() as engine:
        model = engine.script("yes.script", "say Yes, that is so.\n")
        figures = [_attach(engine, *asyncio.run(_session_of(engine, model, turns))) for turns in (1, 100)]
        engine.end()
    return figures


def _attach(engine: Served, session: str, last: int) -> Figure:
    trip_s, attached_s = in_turns(
        21, lambda: asyncio.run(_round_trip(engine)), lambda: asyncio.run(_attached(engine, session, last))
    )
    return times(f"attach, {last:,} events", attached_s, trip_s, of="a round trip to the engine")


async def _session_of(engine: Served, model: str, turns: int) -> tuple[str, int]:
    """A session with so many turns behind it, and the number of its last event."""
    async with engine.client() as owner:
        session, last = await engine.session(owner, model), 0
        for _ in range(turns):
            last = await turn(owner, session, since=last)
    return session, last


async def _attached(engine: Served, session: str, last: int) -> float:
    begun = time.perf_counter()
    async with engine.client() as client:
        await client.send(AttachSession(session=session))
        details = await client.ask(DescribeSession(session=session))
        assert details.session.id == session
        async for envelope in client.events(session):
            if envelope.id == last:
                return time.perf_counter() - begun
    raise AssertionError("the session ended before its last event came")


async def _round_trip(engine: Served) -> float:
    begun = time.perf_counter()
    exchange = exchange_at(f"unix://{engine.place.socket}")
    answer = await exchange.request("GET", "/v1/handshake", {"X-Bridle-Token": engine.place.token()})
    assert answer.status == 200
    return time.perf_counter() - begun
