"""What the log costs: appending, the barrier before a call that changes something, and coming back to a long one."""

# The commit has no public door of its own.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator

from measure import Figure, in_turns, middle, of_rounds, scratch, times

from bridle.base.clock import SystemClock
from bridle.base.ids import Ids
from bridle.config.folders import folders
from bridle.conformance.harness import harness
from bridle.engine.bus import Bus
from bridle.engine.conversation import Conversation
from bridle.engine.ports import ModelDone, ModelPart, ModelRequest, ModelText
from bridle.engine.steps import encode
from bridle.protocol import events as e
from bridle.protocol.codec import encode_envelope, encode_payload
from bridle.protocol.messages import TextBlock
from bridle.providers.scripted import ScriptedWire
from bridle.sessions.log import writer
from bridle.sessions.log.session_log import StoredLog
from bridle.sessions.store import SessionStore

EVENTS = 100_000
BACKLOG = 10_000
APPEND = 4
"""Beside plain rows there are a chain, encryption, the lease and the tip."""
STEPS_PER_TURN = 20
_CLIENT = "cli_" + "0" * 26
_SHA = "0" * 64
_WORDS = e.TextDelta(text="a few words, as a model says them")


# Appending


def append() -> list[Figure]:
    """Ten events in one commit, against ten plain rows in SQLite; and with the way to the writer's thread and back."""
    with scratch() as folder:
        store = _store(folder)
        log = store.create(folder, profile="default")
        waited, free, appended = asyncio.run(_append_rates(log))
        assert sum(1 for _ in store.events(log.session)) == appended, "every event is in the log"
        log.verify()
        log.close()
        store.close()
    with scratch() as folder:
        commit = _commits(folder)
    return [
        commit,
        of_rounds(
            "append, commit waited for", waited, "k/s", None, "200 commits of 10, seen from the event loop"
        ),
        of_rounds("append, free running", free, "k/s", None, "4,000 events, one wait at the end"),
    ]


def _commits(folder: str) -> Figure:
    """The writer's own commit of ten rows. No other door leads to it without a thread."""
    rounds, commits = 21, 25
    store = _store(folder)
    log = store.create(folder, profile="default")
    tail, connection, last = log._tail, store._database.connect(), 0
    plain = sqlite3.connect(os.path.join(folder, "plain.db"), isolation_level=None)
    plain.execute("pragma journal_mode=wal")
    plain.execute("pragma synchronous=normal")
    plain.execute("create table events (id integer primary key, session text, payload blob)")

    def ours() -> float:
        nonlocal last
        took_s = 0.0
        for _ in range(commits):
            rows = [_row(tail, log.session, number) for number in range(last + 1, last + 11)]
            begun = time.perf_counter()
            writer._commit(connection, [], rows, [tail])
            took_s += time.perf_counter() - begun
            last += 10
        return took_s / commits

    def alone() -> float:
        rows = [(log.session, encode_payload(_WORDS))] * 10
        begun = time.perf_counter()
        for _ in range(commits):
            plain.execute("begin")
            plain.executemany("insert into events (session, payload) values (?, ?)", rows)
            plain.execute("commit")
        return (time.perf_counter() - begun) / commits

    theirs_s, ours_s = in_turns(rounds, alone, ours)
    plain.close()
    connection.close()
    assert sum(1 for _ in store.events(log.session)) == last
    log.verify()
    log.close()
    store.close()
    of = f"SQLite with the same ten rows in plain; {10 / middle(ours_s) / 1000:.0f} k/s"
    return times("append, 10 per commit", ours_s, theirs_s, of=of, target=APPEND)


def _row(tail: writer.LogTail, session: str, number: int) -> writer._Row:
    envelope = envelope_of(session, number, _WORDS, 1)
    return writer._Row(tail, envelope, encode_payload(_WORDS))


async def _append_rates(log: StoredLog) -> tuple[list[float], list[float], int]:
    """Thousands of events a second."""
    waited: list[float] = []
    free: list[float] = []
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(200):
            for _ in range(10):
                _append(log, _WORDS)
            await log.committed()
        waited.append(2 / (time.perf_counter() - begun))
        begun = time.perf_counter()
        for _ in range(4_000):
            _append(log, _WORDS)
        await log.committed()
        free.append(4 / (time.perf_counter() - begun))
    return waited, free, log.last_id


def barrier() -> list[Figure]:
    """An intent on the disk, against 4 KB appended to a file beside the database and synced."""
    rounds = 300
    sync = getattr(os, "fdatasync", os.fsync)
    with scratch() as folder, asyncio.Runner() as runner:
        store = _store(folder)
        log = store.create(folder, profile="default")
        fd = os.open(os.path.join(folder, "raw"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

        def raw() -> float:
            begun = time.perf_counter()
            os.write(fd, bytes(4096))
            sync(fd)
            return time.perf_counter() - begun

        raw_s, durable_s = in_turns(rounds, raw, lambda: runner.run(_intent_kept(log)))
        assert log.last_id == rounds + 1
        os.close(fd)
        log.close()
        store.close()
    return [times("durable barrier", durable_s, raw_s, of="4 KB appended and synced", target=2)]


async def _intent_kept(log: StoredLog) -> float:
    begun = time.perf_counter()
    _append(log, _intent(f"call_{log.last_id:026}", log.last_id))
    await log.durable()
    return time.perf_counter() - begun


# Coming late


def backlog() -> list[Figure]:
    """A client that comes late: everything it missed, as it goes over a wire."""
    took: list[float] = []
    with scratch() as folder:
        store = _store(folder)
        log = store.create(folder, profile="default")
        for _ in range(BACKLOG):
            _append(log, _WORDS)
        for _ in range(5):
            begun = time.perf_counter()
            assert asyncio.run(_sent(log)) == BACKLOG
            took.append(time.perf_counter() - begun)
        log.close()
        store.close()
    how = f"N=5, {BACKLOG:,} events from the log, each as the bytes of a frame"
    return [Figure(name="backlog of a late client", value=BACKLOG / middle(took) / 1000, unit="k/s", how=how)]


async def _sent(log: StoredLog) -> int:
    bus = Bus(log.last_id + 1)
    bus.close()
    return len([encode_envelope(envelope) async for envelope in bus.follow(log, 0)])


# Resuming


def resume() -> list[Figure]:
    """A log of 100,000 events: all of it verified, all of it folded, and a session taken up again."""
    with scratch() as home:
        where = folders({"BRIDLE_HOME": home})
        session = asyncio.run(_write_long_log(where.data, home))
        verified = _verified(where.data, session)
        folded, messages = _folded(where.data, session)
        first, *resumed = [asyncio.run(_resumed(home, session)) for _ in range(4)]
    how = f"N=3, {EVENTS:,} events"
    return [
        Figure(name="resume, whole log verified", value=verified, unit="s", target=0.5, how=how),
        Figure(
            name="resume to first request",
            value=middle(resumed),
            unit="s",
            target=0.15,
            how="N=3, from CreateSession to the model being asked; fold kept, the last 1,000 events verified",
        ),
        Figure(
            name="resume, no fold kept",
            value=first,
            unit="s",
            how="N=1, as after a crash: every event is read",
        ),
        Figure(
            name="fold and encode",
            value=folded,
            unit="s",
            how=f"{how}, {messages:,} messages read, folded, encoded",
        ),
    ]


def _verified(folder: str, session: str) -> float:
    took: list[float] = []
    store = _store(folder)
    log = store.open(session)
    for _ in range(3):
        begun = time.perf_counter()
        log.verify()
        took.append(time.perf_counter() - begun)
    log.close()
    store.close()
    return middle(took)


def _folded(folder: str, session: str) -> tuple[float, int]:
    took: list[float] = []
    conversation = Conversation()
    for _ in range(3):
        store = _store(folder)
        begun = time.perf_counter()
        conversation = Conversation.of(store.events(session))
        body = encode(conversation, ScriptedWire())
        took.append(time.perf_counter() - begun)
        store.close()
        assert conversation.last_id >= EVENTS
        assert len(body) > 1_000_000
        assert not conversation.turn_is_open
    return middle(took), len(conversation.messages)


async def _resumed(home: str, session: str) -> float:
    """Seconds from asking for the session to its first request. Each time leaves a few events more."""
    model = _FirstRequest()
    begun = time.perf_counter()
    async with harness(model, home=home, resume=session) as resumed:
        events = await resumed.ask("go on")
    ended = events[-1]
    assert isinstance(ended, e.TurnEnded)
    assert ended.stop == "end_turn", ended
    assert len(model.asked_s) == 1, "a resumed session asks once"
    return model.asked_s[0] - begun


class _FirstRequest:
    """Notes when it was asked and ends the turn."""

    name = "bench"
    wire = ScriptedWire()

    def __init__(self) -> None:
        self.asked_s: list[float] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        self.asked_s.append(time.perf_counter())
        yield ModelText("ok")
        yield ModelDone("end_turn")


async def _write_long_log(folder: str, cwd: str) -> str:
    store = _store(folder)
    log = store.create(cwd, profile="default")
    for number, (event, turn) in enumerate(_long_session(log.log, cwd), 1):
        _append(log, event, turn)
        if number % 5_000 == 0:
            await log.committed()
    assert log.last_id >= EVENTS
    log.close()
    store.close()
    return log.session


def _long_session(log_id: str, cwd: str) -> Iterator[tuple[e.DurableEvent, int | None]]:
    """Events as real turns leave them, each with its turn: at least `EVENTS` of them, the last turn ended."""
    yield e.SessionCreated(log=log_id, cwd=cwd, profile="default", mode="auto", resumed=False), None
    yield e.ModelChanged(provider="bench", model="scripted"), None
    count, turn, step = 2, 0, 0
    while count < EVENTS:
        turn += 1
        question = (TextBlock(text=f"Question {turn}: what does this do, and why?"),)
        yield e.InputAccepted(content=question, mode="queue"), None
        yield e.TurnStarted(input=count + 1), turn
        count += 2
        if turn == 1:
            yield e.PrefixSet(provider="bench", model="scripted", system="You are a bench."), turn
            count += 1
        for _ in range(STEPS_PER_TURN):
            step += 1
            for event in _step(step):
                yield event, turn
                count += 1
        yield e.StepStarted(step=step + 1, provider="bench", model="scripted"), turn
        yield e.TextDelta(text="That is all."), turn
        yield e.StepEnded(step=step + 1, stop="end_turn", text_sha256=_SHA), turn
        yield e.TurnEnded(stop="end_turn", steps=STEPS_PER_TURN + 1), turn
        step, count = step + 1, count + 4


def _step(step: int) -> Iterator[e.DurableEvent]:
    call_id, arguments = f"call_{step:026}", {"command": f"sed -n {step},{step + 9}p module.py"}
    yield e.StepStarted(step=step, provider="bench", model="scripted")
    for words in ("Let me look at ", f"lines {step} and following ", "of that module first."):
        yield e.TextDelta(text=words)
    call = e.RequestedCall(call_id=call_id, wire_id=f"c{step}_0", tool="bash", input=arguments)
    yield e.StepEnded(step=step, stop="tool_use", text_sha256=_SHA, calls=(call,))
    yield e.ToolCallRequested(call_id=call_id, tool="bash", input=arguments, step=step)
    yield e.PermissionDecided(call_id=call_id, tool="bash", verdict="allow", decided_by="mode", rule="auto")
    yield _intent(call_id, step)
    result = "".join(f"    value_{line} = compute({line})\n" for line in range(6))
    yield e.ToolResult(call_id=call_id, tool="bash", outcome="ok", content=result, duration_ms=3)


def _intent(call_id: str, number: int) -> e.ToolCallStarted:
    arguments = {"command": f"sed -n {number},{number + 9}p module.py"}
    return e.ToolCallStarted(call_id=call_id, tool="bash", input=arguments, mutating=True, input_sha256=_SHA)


def _append(log: StoredLog, event: e.DurableEvent, turn: int | None = 1) -> None:
    log.append(envelope_of(log.session, log.last_id + 1, event, turn), encode_payload(event))


def envelope_of(session: str, number: int, event: e.DurableEvent, turn: int | None) -> e.Envelope:
    return e.Envelope(
        id=number,
        kind=type(event).__name__,
        session=session,
        originator=_CLIENT,
        ts_ms=1_700_000_000_000 + number,
        event=event,
        turn=turn,
    )


def _store(folder: str) -> SessionStore:
    clock = SystemClock()
    return SessionStore(folder, ids=Ids(clock.now_ms, os.urandom), clock=clock)
