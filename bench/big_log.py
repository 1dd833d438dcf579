"""A log of a million events and a gigabyte, against one of a tenth: what people wait for must not grow with it."""

# How a session is taken up again is measured as beside it.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import logs
from measure import BRIDLE, Figure, child, in_turns, scratch, times

from bridle.app.user.stored_keys import session_store
from bridle.clients.interaction.session.opening import list_stored_sessions
from bridle.config.folders import folders
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.engine.conversation import Conversation
from bridle.protocol import events as e
from bridle.protocol.codec import encode_payload
from bridle.protocol.messages import TextBlock
from bridle.providers.script import say
from bridle.sessions.archive.stored_archive import bring_up_to_date
from bridle.sessions.store import SessionStore

EVENTS = 1_000_000
SMALLER = 10
SESSIONS = 40
"""So many short sessions lie beside the long one."""
TITLE = "The long one"
STEPS_PER_TURN = 10
TURNS_PER_SUMMARY = 15
"""About what a model can read at once."""
RESULT_BYTES = (500, 1_900, 25_000)
ROUNDS = 9
FLAT = 1.3
RARE, COMMON = "chrysanthemum", "measure"
SEARCHED = (RARE, COMMON, COMMON[:4], f"{COMMON} lines")
"""A word that was said once, one that was said in every step, how that begins, and two such words."""


class Made(NamedTuple):
    """What a home holds, and what it took."""

    events: int
    size_mb: float
    written_s: float
    searchable_s: float

    def __str__(self) -> str:
        took = f"written in {self.written_s:.0f} s, first search {self.searchable_s:.0f} s"
        return f"{self.events:,} events, {self.size_mb:,.0f} MB ({took})"


def flat() -> list[Figure]:
    """Coming back to it, listing sessions, and searching for words that were said seldom and all the time."""
    with scratch() as small, scratch() as large:
        tenth, whole = _make(small, EVENTS // SMALLER), _make(large, EVENTS)

        def ratio(name: str, measured: Callable[[str], float]) -> Figure:
            return _ratio(f"big log, {name}", measured, small, large)

        figures = [
            ratio("open", _opened),
            ratio("list to pick from", _picked),
            ratio("sessions list", lambda home: _command(home, "list", "--all")),
            *(ratio(f"search {words}", partial(_searched, words=words)) for words in SEARCHED),
        ]
    how = f"{whole}, against {tenth}"
    return [*figures, Figure(name="big log, size", value=whole.size_mb / 1000, unit="GB", how=how)]


def _ratio(name: str, measured: Callable[[str], float], small: str, large: str) -> Figure:
    before_s, after_s = in_turns(ROUNDS, lambda: measured(small), lambda: measured(large))
    return times(name, after_s, before_s, of="a tenth of it", target=FLAT)


# What people wait for, in CPU time: what else the machine does is not in it


def _opened(home: str) -> float:
    with closing(_store(home)) as store:
        session = store.find(TITLE).id
    begun = time.process_time()
    asyncio.run(logs._resumed(home, session))
    return time.process_time() - begun


def _picked(home: str) -> float:
    return asyncio.run(_listed(home))


async def _listed(home: str) -> float:
    async with harness(scripted(say("ok")), home=home) as session:
        begun = time.process_time()
        listed = await list_stored_sessions(
            session.connection, here=home, home=home, now_ms=time.time_ns() // 1_000_000
        )
        spent_s = time.process_time() - begun
    assert len(listed) == SESSIONS + 2, "the long one, those beside it, and the one that asks"
    return spent_s


def _searched(home: str, words: str) -> float:
    return _command(home, "search", "--all", words)


def _command(home: str, *words: str) -> float:
    ran = child([BRIDLE, "sessions", *words], env=_env(home), cwd=home)
    assert ran.out.count(b"\n") >= 2, ran.out
    return ran.cpu_s


# How it is made


def _make(home: str, events: int) -> Made:
    begun = time.perf_counter()
    with closing(_store(home)) as store:
        for number in range(SESSIONS):
            _write(store, home, f"A short one, {number}", 200)
        _write(store, home, TITLE, events)
        written_s = time.perf_counter() - begun
        begun = time.perf_counter()
        bring_up_to_date(store.shelf)
        searchable_s = time.perf_counter() - begun
    data = Path(folders(_env(home)).data)
    size = sum(file.stat().st_size for file in data.iterdir() if file.is_file())
    return Made(events, size / 1e6, written_s, searchable_s)


def _write(store: SessionStore, cwd: str, title: str, events: int) -> None:
    """A session of at least so many events, with its fold as a run leaves it."""
    log = store.create(cwd, profile="default")
    conversation, kept = Conversation(), (0, b"")
    for event, turn in _session(log.log, cwd, events):
        envelope = logs.envelope_of(log.session, log.last_id + 1, event, turn)
        log.append(envelope, encode_payload(event))
        conversation.apply(envelope)
        if isinstance(event, e.TurnEnded):
            kept = (conversation.last_id, conversation.folded() or b"") if log.last_id >= events else kept
            asyncio.run(log.committed())
    log.keep_fold(*kept)
    log.close()
    store.rename(log.session, title)


def _session(log_id: str, cwd: str, events: int) -> Iterator[tuple[e.DurableEvent, int | None]]:
    chance = random.Random(events)
    said = [_words(chance, 30) for _ in range(500)]
    results = [_words(chance, size // 7) for size in RESULT_BYTES for _ in range(50)]
    yield e.SessionCreated(log=log_id, cwd=cwd, profile="default", mode="auto", resumed=False), None
    yield e.ModelChanged(provider="bench", model="scripted"), None
    count, turn, step = 2, 0, 0
    while count < events:
        turn += 1
        words = f"Question {turn} about {RARE if turn == 100 else 'it'}: {chance.choice(said)}"
        yield e.InputAccepted(content=(TextBlock(text=words),), mode="queue"), None
        yield e.TurnStarted(input=count + 1), turn
        count += 2
        if turn == 1:
            yield e.PrefixSet(provider="bench", model="scripted", system="You are a bench."), turn
            count += 1
        elif turn % TURNS_PER_SUMMARY == 0:
            yield e.Compacted(summary=chance.choice(said), kept_from=count), turn
            count += 1
        for _ in range(STEPS_PER_TURN):
            step += 1
            for event in _step(step, chance.choice(said), f"{step} {chance.choice(results)}"):
                yield event, turn
                count += 1
        yield e.TurnEnded(stop="end_turn", steps=STEPS_PER_TURN), turn
        count += 1


def _step(step: int, words: str, result: str) -> Iterator[e.DurableEvent]:
    call_id, arguments = f"call_{step:026}", {"command": f"sed -n {step},{step + 9}p module.py"}
    yield e.StepStarted(step=step, provider="bench", model="scripted")
    for part in (f"Let me {COMMON} lines {step} and following. ", words):
        yield e.TextDelta(text=part)
    call = e.RequestedCall(call_id=call_id, wire_id=f"c{step}_0", tool="bash", input=arguments)
    yield e.StepEnded(step=step, stop="tool_use", text_sha256=logs._SHA, calls=(call,))
    yield e.ToolCallRequested(call_id=call_id, tool="bash", input=arguments, step=step)
    yield e.PermissionDecided(call_id=call_id, tool="bash", verdict="allow", decided_by="mode", rule="auto")
    yield logs._intent(call_id, step)
    yield e.ToolResult(call_id=call_id, tool="bash", outcome="ok", content=result, duration_ms=3)


def _words(chance: random.Random, count: int) -> str:
    """Made-up words, some of them often and most of them seldom."""
    return " ".join(f"w{int(chance.paretovariate(0.6)) % 50_000:x}" for _ in range(count))


def _env(home: str) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "BRIDLE_HOME": home,
        "HOME": os.path.join(home, "person"),
    }


def _store(home: str) -> SessionStore:
    return session_store(_env(home))
