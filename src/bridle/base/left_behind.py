"""Processes that a Bridle started and that still run, though it may be gone. Linux only; elsewhere none are found.

Every process of a call is started with a mark in its environment (`escapees.MARK`), which its children inherit.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from bridle.base.escapees import MARK

_COMMAND_CHARACTERS = 200
_START_TICKS = 19
"""Where the time of birth stands behind the name of the program."""


class LeftBehind(NamedTuple):
    pid: int
    command: str


def left_behind(folder: str, *, since_s: float) -> list[LeftBehind]:
    """The marked processes that work in `folder` or below it and began at `since_s` (epoch) or later."""
    mark = MARK.encode() + b"="
    found: list[LeftBehind] = []
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return found
    for pid in sorted(numbers):
        try:
            where = os.readlink(f"/proc/{pid}/cwd")
            if where != folder and not where.startswith(f"{folder}/"):
                continue
            marked = any(one.startswith(mark) for one in _read(pid, "environ").split(b"\0"))
            if marked and _began_s(pid) >= since_s:
                found.append(LeftBehind(pid, _command(pid)))
        except (OSError, ValueError, IndexError):  # it ended while we looked, or is somebody else's
            continue
    return [process for process in found if process.command]


def _began_s(pid: int) -> float:
    """When a process began, in seconds since the epoch."""
    ticks = int(_read(pid, "stat").rpartition(b")")[2].split()[_START_TICKS])
    with open("/proc/stat", encoding="ascii") as file:
        booted_s = next(int(line.split()[1]) for line in file if line.startswith("btime "))
    return booted_s + ticks / os.sysconf("SC_CLK_TCK")


def _command(pid: int) -> str:
    words = _read(pid, "cmdline").decode("utf-8", "replace").split("\0")
    return " ".join(word for word in words if word)[:_COMMAND_CHARACTERS]


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read(1 << 20)
