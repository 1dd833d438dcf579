"""Disks that are cut short, changed, full or read-only, and clocks that jump: noticed, said, and survived."""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import traps
from case import Place, Result, check_log, check_seen, come_back, forked, resume, seen, work

import bridle.sessions.archive.kept_fold as folding
from bridle.base.clock import SystemClock
from bridle.engine.journal import Journal
from bridle.protocol.errors import BridleError
from bridle.sessions.repair import repair

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_RDONLY, _MS_REMOUNT, _MS_REC, _MS_PRIVATE = 1, 32, 16384, 1 << 18
_SMALL = b"size=2m"
_NOTICED = frozenset({"LogDamaged", "LogsLost", "StoreDamaged", "StoreWrongKey", "StoreUnwritable"})


def _killed(place: Place, result: Result, chance: random.Random) -> None:
    """A run that was killed somewhere late, so that there is something to spoil."""
    point = chance.choice(
        ("outcome committed", "intent committed", "before tip", "turn ended", "stream committed")
    )

    def dying() -> None:
        folding.FOLD_EVERY = 1
        traps.POINTS[point](traps.Trap(chance.randint(2, 6)), chance.random())
        asyncio.run(work(place, result.seed, lasting=False))

    ended, _ = forked(dying)
    result.killed = os.WIFSIGNALED(ended)


# Bytes


def cut_wal(place: Place, result: Result) -> None:
    """The end of the write-ahead log is gone, as after a power cut on a disk that lied."""
    chance = random.Random(f"cut {result.seed}")
    _killed(place, result, chance)
    wal = Path(place.data) / "sessions.db-wal"
    size = wal.stat().st_size if wal.exists() else 0
    if size > 64:
        os.truncate(wal, chance.randrange(0 if chance.random() < 0.1 else 33, size))
    _noticed_or_whole(place, result)


def flipped_byte(place: Place, result: Result) -> None:
    """One bit of the database, or of its write-ahead log, is another."""
    chance = random.Random(f"flip {result.seed}")
    _killed(place, result, chance)
    names = [name for name in ("sessions.db", "sessions.db-wal") if (Path(place.data) / name).exists()]
    path = Path(place.data) / chance.choice(names)
    data = bytearray(path.read_bytes())
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
    _noticed_or_whole(place, result)


def _noticed_or_whole(place: Place, result: Result) -> None:
    """Either everything that was seen is there, or the next run says what is wrong; and a repair leads on."""
    did = place.did()
    ended, said = forked(lambda: asyncio.run(resume(place, result.seed)))
    reason = said.get("failed")
    if reason is None and ended == 0:
        check_seen(place, result)
        check_log(place, result, said["sent"])
        result.ready_ms.append(said["ready_ms"])
    elif reason not in _NOTICED:
        result.broken.append(f"not said in words: {said.get('message', ended)}")
    else:
        _repaired(place, result)
    if place.did() != did:
        result.repeated += 1
        result.broken.append(f"something was done again: {did} became {place.did()}")


def _repaired(place: Place, result: Result) -> None:
    """Whatever is wrong with the file, a repair puts it aside, and what is whole goes on or a new session begins."""

    def mend() -> dict[str, Any]:
        database = place.store().shelf.database
        report = repair.repair(database)
        again = repair.examine(database)
        return {"whole": again.whole, "damaged": len(report.damaged), "said": repair.words(report)}

    ended, said = forked(mend)
    if ended != 0 or said.get("failed") or not said.get("whole"):
        result.broken.append(f"repair failed: {said or ended}")
        return
    ended, said = forked(lambda: asyncio.run(resume(place, result.seed)))
    if ended != 0 or said.get("failed") not in (None, "NoSessionHere"):
        result.broken.append(f"after the repair: {said.get('message', ended)}")


# Room


def full_disk(place: Place, result: Result) -> None:
    """The disk is full from some call on; then there is room again."""
    if not _own_mounts():
        return
    chance = random.Random(f"full {result.seed}")
    _mount(str(place.home), _SMALL)
    filling = place.home / "filling"
    try:
        ended, said = forked(lambda: _until_full(place, result, filling, chance))
        result.killed = False
        if ended != 0 or said.get("failed") not in (None, "NoSpace"):
            result.broken.append(f"a full disk was not said in words: {said.get('message', ended)}")
        filling.unlink(missing_ok=True)
        come_back(place, result)
    finally:
        _unmount(str(place.home))


def _until_full(place: Place, result: Result, filling: Path, chance: random.Random) -> None:
    left = chance.randint(1, 6)
    inner = Journal.emit

    def emit(self: Journal, event: Any, **more: Any) -> int:
        nonlocal left
        left -= type(event).__name__ in ("ToolCallStarted", "StepStarted")
        if left == 0:
            left = -1
            _fill(filling)
        return inner(self, event, **more)

    Journal.emit = emit
    asyncio.run(work(place, result.seed, lasting=False))


def _fill(path: Path) -> None:
    for size in (1 << 16, 1 << 12, 1):
        try:
            with path.open("ab", buffering=0) as file:
                while file.write(bytes(size)) == size:
                    pass
        except OSError:
            continue


def read_only_disk(place: Place, result: Result) -> None:
    """What is stored can be read; nothing runs, which is said; afterwards it goes on."""
    if not _own_mounts():
        return
    chance = random.Random(f"read-only {result.seed}")
    _mount(str(place.home), b"size=16m")
    try:
        _killed(place, result, chance)
        _remount(str(place.home), read_only=True)
        ended, said = forked(lambda: _read(place))
        if ended != 0 or said.get("failed"):
            result.broken.append(f"reading failed: {said.get('message', ended)}")
        else:
            check_seen_by(said["stored"], place, result)
        ended, said = forked(lambda: asyncio.run(resume(place, result.seed)))
        if ended != 0 or said.get("failed") != "StoreUnwritable":
            result.broken.append(f"a read-only disk was not said in words: {said or ended}")
        _remount(str(place.home), read_only=False)
        come_back(place, result)
    finally:
        _unmount(str(place.home))


def _read(place: Place) -> dict[str, Any]:
    store = place.store()
    try:
        return {"stored": {row.id: sum(1 for _ in store.events(row.id)) for row in store.list()}}
    except BridleError as failure:
        return {"failed": failure.reason, "message": failure.message}
    finally:
        store.close()


def check_seen_by(stored: dict[str, int], place: Place, result: Result) -> None:
    last = max(seen(place), default=0)
    if last > max(stored.values(), default=0):
        result.broken.append(f"read-only: {last} events were seen, {stored} can be read")


# Time


class JumpingClock(SystemClock):
    """The time of day jumps to and fro by years; time that passes goes on as it does."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def now_ms(self) -> int:
        return super().now_ms() + self._chance.choice((0, 0, 0, 1, -1)) * self._chance.randrange(10**11)


def jumping_clock(place: Place, result: Result) -> None:
    chance = random.Random(f"clock {result.seed}")

    def dying() -> None:
        traps.POINTS[chance.choice(("outcome committed", "turn ended", "mid-stream"))](
            traps.Trap(chance.randint(1, 4)), 0.0
        )
        asyncio.run(work(place, result.seed, lasting=False, clock=JumpingClock(chance)))

    ended, said = forked(dying)
    result.killed = os.WIFSIGNALED(ended)
    if said.get("failed"):
        result.broken.append(f"the run failed by itself: {said['message']}")
    come_back(place, result)


# Mounts of our own


def _own_mounts() -> bool:
    """Gives this process mounts nobody else sees; False where the system does not let us."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWNS) != 0:
        if libc.unshare(_CLONE_NEWNS | _CLONE_NEWUSER) != 0:
            return False
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    return libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) == 0


def _mount(path: str, options: bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", path.encode(), b"tmpfs", 0, options) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)


def _remount(path: str, *, read_only: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    flags = _MS_REMOUNT | (_MS_RDONLY if read_only else 0)
    if libc.mount(b"none", path.encode(), b"tmpfs", flags, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)


def _unmount(path: str) -> None:
    ctypes.CDLL(None).umount2(path.encode(), 2)


FAULTS: dict[str, Callable[[Place, Result], None]] = {
    "write-ahead log cut": cut_wal,
    "a bit flipped": flipped_byte,
    "disk full": full_disk,
    "disk read-only": read_only_disk,
    "clock jumps": jumping_clock,
}
