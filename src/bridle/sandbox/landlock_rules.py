"""A confinement as rules that only ever add: this path and everything below it may be read, or written.

Nothing can be taken away below a path that was allowed. So where something must stay closed, the folders on the way to
it are carved: instead of such a folder, everything in it but the closed path is allowed, one by one. A carved folder
can be entered, but nothing can be created in it or removed from it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from bridle.sandbox.confinement import Confinement

LandlockAccess: TypeAlias = Literal["none", "read", "write", "device"]

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  the C library knows no other place
_SEMAPHORE = "sem."
_SETTLED_NS = 100_000_000
"""A folder that changed this shortly before it was listed may have changed again without a new time."""

Identity: TypeAlias = tuple[int, int, int] | None
"""Which file a path leads to, and when its listing changed where that matters; None: there is nothing."""


class LandlockRule(NamedTuple):
    path: str
    access: LandlockAccess


class Rules(NamedTuple):
    """`listed` and `named` are what the rules were made from, as it was just before."""

    allowed: tuple[LandlockRule, ...]
    listed: Mapping[str, Identity]
    named: Mapping[str, Identity]
    settled: bool


def rules_of(confinement: Confinement) -> Rules:
    """Reads the folders that have to be carved; what cannot be listed stays closed."""
    now = time.time_ns()
    shared_memory = _identity(_SHARED_MEMORY, listed=True)
    walk = _Walk(_places(confinement), {_SHARED_MEMORY: shared_memory})
    walk.visit("/", "read")
    changes = [identity[2] for identity in walk.listed.values() if identity is not None]
    return Rules(tuple(walk.allowed), walk.listed, walk.named, all(at < now - _SETTLED_NS for at in changes))


def still_hold(rules: Rules) -> bool:
    """Whether making them again would make the same ones, for the same files."""
    return (
        rules.settled
        and all(_identity(path, listed=True) == seen for path, seen in rules.listed.items())
        and all(_identity(path) == seen for path, seen in rules.named.items())
    )


def _identity(path: str, *, listed: bool = False) -> Identity:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns if listed else 0


def _places(confinement: Confinement) -> dict[str, LandlockAccess]:
    """What is to be done where; the deeper place decides, and of two for the same path the last."""
    places: dict[str, LandlockAccess] = {"/dev": "none"}
    places |= {os.path.join("/dev", name): "device" for name in _DEVICES}
    places[_SHARED_MEMORY] = "write" if _is_unused(_SHARED_MEMORY) else "none"
    places |= dict.fromkeys(confinement.temporary, "none")
    places |= dict.fromkeys(confinement.shown, "read")
    places |= dict.fromkeys(confinement.writable, "write")
    if confinement.scratch:
        places[confinement.scratch] = "write"
    places |= dict.fromkeys(confinement.hidden, "none")
    places |= dict.fromkeys(confinement.emptied, "none")
    return places


def _is_unused(folder: str) -> bool:
    """Whether nobody keeps shared memory there that a command could tamper with."""
    try:
        return all(name.startswith(_SEMAPHORE) for name in os.listdir(folder))
    except OSError:
        return False


class _Walk:
    """Goes down from the root to every place, and allows as much at once as can be allowed."""

    def __init__(self, places: Mapping[str, LandlockAccess], listed: dict[str, Identity]) -> None:
        self.allowed: list[LandlockRule] = []
        self.listed = listed
        self.named = {place: _identity(place) for place in places}
        self._places = places

    def visit(self, path: str, inherited: LandlockAccess) -> None:
        access = self._places.get(path, inherited)
        below = [place for place in self._places if _lies_below(place, path)]
        if access == "none":
            self._visit_nearest(below, access)
        elif any(self._places[place] == "none" for place in below):
            self._carve(path, access, below)
        else:
            self.allowed.append(LandlockRule(path, access))
            self._visit_nearest(below, access)

    def _visit_nearest(self, below: list[str], access: LandlockAccess) -> None:
        for place in below:
            if not any(_lies_below(place, other) for other in below):
                self.visit(place, access)

    def _carve(self, path: str, access: LandlockAccess, below: list[str]) -> None:
        self.listed[path] = _identity(path, listed=True)
        on_the_way = {_step_towards(place, path) for place in below}
        for child in _entries(path):
            if child in on_the_way:
                self.visit(child, access)
            else:
                self.allowed.append(LandlockRule(child, access))


def _entries(folder: str) -> Iterator[str]:
    """What is in a folder. Not the symbolic links: what they lead to has its own rules."""
    try:
        with os.scandir(folder) as entries:
            yield from (entry.path for entry in entries if not entry.is_symlink())
    except OSError:  # it is not ours to read, or has just gone
        return


def _lies_below(path: str, folder: str) -> bool:
    return path != folder and path.startswith(folder if folder == "/" else f"{folder}/")


def _step_towards(path: str, folder: str) -> str:
    """The entry of `folder` on the way to `path`."""
    start = 1 if folder == "/" else len(folder) + 1
    end = path.find("/", start)
    return path if end < 0 else path[:end]
