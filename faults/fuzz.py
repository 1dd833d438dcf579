"""The real program, killed at any moment; and a log of 100,000 events that has to be ready at once."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from case import (
    Place,
    Result,
    check_log,
    check_seen,
    count_orphans,
    environment,
    forked,
    resume,
    seen,
    seen_line,
)

from bridle.engine.conversation import Conversation
from bridle.protocol.codec import decode_envelope

BRIDLE = (sys.executable, "-m", "bridle")
LONGEST_S = 1.6
MOST_LINES = 150
"""They take longer than this, and print more."""
READY_MS = 500.0
BENCH = str(Path(__file__).resolve().parent.parent / "bench")


def any_moment(place: Place, result: Result) -> None:
    """`bridle run`, killed after a time nobody chose, and taken up again by another `bridle run`.

    Whoever reads what it prints is the witness. Every other run is killed some time after its start, the rest so many
    lines later: on a slow machine too all of the work is reached.
    """
    chance = random.Random(f"any {result.seed}")
    model = _script(place, "it.script", _work(chance))
    back = _script(place, "back.script", "---\n".join(["say I am back.\n"] * 40))
    life = place.hold_life()
    running = _bridle(place, "run", "-q", "-y", "--stream-json", "-m", model, "begin")
    assert running.stdout is not None
    read: list[bytes] = []
    try:
        if result.seed % 2:
            _ends_within(running, chance.uniform(0.05, LONGEST_S))
        else:
            read += itertools.islice(running.stdout, chance.randint(1, MOST_LINES))
            _ends_within(running, chance.uniform(0.0, 0.02))
    finally:
        running.kill()
        read += running.stdout
        running.communicate()
        result.killed = running.returncode == -signal.SIGKILL
    _note_what_was_seen(place, read)
    count_orphans(life, result, place)
    os.close(life)
    store = place.store()
    rows = store.list()
    store.close()
    if not rows:
        if place.did() or seen(place):
            result.broken.append("something was done or seen, and there is no session")
        return
    did = place.did()
    for _ in range(2):
        begun = time.perf_counter()
        again = _bridle(
            place, "run", "--stream-json", "-c", "-m", back, "--on-orphan", "mark-unknown", "go on"
        )
        with again:
            assert again.stdout is not None
            for line in again.stdout:
                if json.loads(line).get("eventType") == "TurnStarted":
                    result.ready_ms.append((time.perf_counter() - begun) * 1000)
                    break
            again.stdout.read()
            assert again.stderr is not None
            said = again.stderr.read().decode()
        if again.returncode != 0:
            result.broken.append(f"resume ended with {again.returncode}: {said[-1000:]}")
            return
    check_log(place, result, [])
    check_seen(place, result)
    if place.did() != did:
        result.repeated += 1
        result.broken.append(f"resuming did something: {did} became {place.did()}")


def _work(chance: random.Random) -> str:
    parts: list[str] = []
    for number in range(1, 16):
        pause = chance.choice((0, 0, 0.05, 0.3))
        parts.append(
            f"chunk 8\npace 200\nsay {'words and ' * chance.randint(1, 6)}\n"
            f"call bash\n    command: exec 9>alive; echo {number} >> did/b{number}; sleep {pause}; echo ok\n"
            'call read_file {"path": "long.txt"}\n'
        )
    return "---\n".join([*parts, "say done\n"])


def _script(place: Place, name: str, text: str) -> str:
    (place.work / name).write_text(text)
    return f"demo:{name}"


def _bridle(place: Place, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*BRIDLE, *words],
        cwd=place.work,
        env=dict(environment(place)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _note_what_was_seen(place: Place, lines: list[bytes]) -> None:
    """What the program has printed of its events was seen by whoever reads it."""
    with open(place.witness, "wb") as file:
        for line in lines:
            if line.endswith(b"\n") and (printed := msgspec.json.decode(line, type=_Printed)).event:
                envelope = decode_envelope(printed.event)
                if envelope.id is not None:
                    file.write(seen_line(envelope))


class _Printed(msgspec.Struct, frozen=True):
    event: msgspec.Raw = msgspec.Raw()


def long_log(place: Place, result: Result) -> None:
    """100,000 events of a session that was killed: the next run is ready within half a second.

    The log is as a run leaves it: its fold was kept when a tenth of its events were still to come.
    """
    ended, said = forked(lambda: _write_long_log(place), within_s=90)
    if ended != 0 or said.get("failed"):
        result.broken.append(f"the log could not be written: {said.get('message', ended)}")
        return
    for _ in range(3):
        ended, said = forked(lambda: asyncio.run(resume(place, 1)))
        if ended != 0 or said.get("failed"):
            result.broken.append(f"resume failed: {said.get('message', ended)}")
            return
        result.ready_ms.append(said["ready_ms"])
    if result.ready_ms[0] > READY_MS:
        result.broken.append(f"ready after {result.ready_ms[0]:.0f} ms, not {READY_MS:.0f}")


def _write_long_log(place: Place) -> None:
    sys.path.insert(0, BENCH)
    import logs

    session = asyncio.run(logs._write_long_log(place.data, str(place.work)))
    store = place.store()
    conversation, kept = Conversation(), (0, b"")
    for envelope in store.events(session):
        conversation.apply(envelope)
        if conversation.last_id >= logs.EVENTS * 0.9 and envelope.kind == "TurnEnded":
            kept = (conversation.last_id, conversation.folded() or b"")
            break
    log = store.open(session)
    log.keep_fold(*kept)
    log.close()
    store.close()
