"""Looking once more at the mounts of a command before it runs: they are exactly those that were meant.

Whoever makes mounts finds them by path, and another command that runs at the same time may put a link in the place of
a folder in the workspace just then. What is mounted instead is something else, and the kernel says so: it names every
mount by its device, its place there and where it was put. None of these can be changed for what lies outside.

The comparison is a shell script, because it has to run inside. Nothing is ever put into its text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bridle.safety.sandbox.confinement import Confinement
from bridle.safety.sandbox.mounts import Mount

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""What is in a command's own /dev."""

CHECK = r"""
is_covered() { # whether something is mounted on mount $1 where it stands, at $2
  while read -r id parent device root point rest; do
    [ "$parent $point" != "$1 $2" ] || return 0
  done </proc/self/mountinfo
  return 1
}
check_mounts() { # $1: may be written, $2: stands on this machine, $3: the devices of this machine
  while read -r number above device root point options rest; do
    case $3 in *" $device "*) ;; *) continue ;; esac
    case $1 in *" $device:$root:$point "*) continue ;; esac
    case $2 in
      *" $device:$root:$point "*)
        case $options in ro | ro,*) continue ;; esac
        case $point in /dev | /dev/* | /proc | /proc/*) continue ;; esac
        place=$point
        if is_covered "$number" "$place"; then continue; fi
        ;;
      *)
        place=$point
        case $options/${rest##*- } in ro/cgroup* | ro,*/cgroup*) continue ;; esac
        ;;
    esac
    echo "sandbox: $place was changed by another command in this moment; nothing was run" >&2
    exit 125
  done </proc/self/mountinfo
}
"""
"""Ends with 125 where a mount is none of the expected ones. Needs /proc.

A device that is not one of this machine's was made for the command. What another mount covers cannot be reached; nor
can what stood in /dev and /proc before. Control groups are named differently from inside.
"""

_REAL = frozenset({"writable", "read-only", "shown"})
"""Kinds of mounts that show what is there."""


class Now(NamedTuple):
    """A mount as it is outside. `root` and `point` are spelled as the kernel does."""

    path: str
    device: str
    root: str
    point: str
    flags: frozenset[str]

    def __str__(self) -> str:
        return f"{self.device}:{self.root}:{self.point}"


def mounted_now() -> list[Now]:
    """Every mount of this process, those that cover others later."""
    found: list[Now] = []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            _id, _parent, device, root, point, flags, *_ = (os.fsdecode(field) for field in line.split(b" "))
            found.append(Now(_plain(point), device, root, point, frozenset(flags.split(","))))
    return found


def arguments_of_check(
    mounts: Sequence[Mount], confinement: Confinement, now: Sequence[Now]
) -> tuple[str, str, str]:
    """The three arguments of `check_mounts` for these mounts."""
    root, *others = mounts
    wanted = [now] if root.kind == "writable" else []
    wanted += [_beneath(mount.path, now) for mount in others if mount.kind == "writable"]
    allowed = {
        *(str(mount) for group in wanted for mount in group),
        *_names((mount.path for mount in others if mount.kind == "writable"), now),
        *(_name(confinement.scratch, path, now) for path in confinement.temporary if confinement.scratch),
        *_names((f"/dev/{name}" for name in DEVICES), now),
    }
    readable = {
        *map(str, now),
        *_names((mount.path for mount in others if mount.kind in _REAL), now),
        *(_name("/dev/null", mount.path, now) for mount in others if mount.kind == "hidden"),
    }
    return _list(allowed), _list(readable), _list({mount.device for mount in now})


def _beneath(folder: str, now: Iterable[Now]) -> list[Now]:
    return [mount for mount in now if mount.path.startswith(f"{folder}/")]


def _names(paths: Iterable[str], now: Sequence[Now]) -> Iterator[str]:
    return (_name(path, path, now) for path in paths)


def _name(source: str, point: str, now: Sequence[Now]) -> str:
    """How the kernel will name a mount of `source` that is put at `point`."""
    holding = Now("/", "", "/", "/", frozenset())
    for mount in now:
        around = source == mount.path or source.startswith(f"{mount.path.rstrip('/')}/")
        if around and len(mount.path) >= len(holding.path):
            holding = mount
    below = source[len(holding.path.rstrip("/")) :]
    root = f"{holding.root.rstrip('/')}{_spelled(below)}" or "/"
    return f"{holding.device}:{root}:{_spelled(point)}"


def _list(names: Iterable[str]) -> str:
    return f" {' '.join(sorted(names))} "


def _plain(spelled: str) -> str:
    raw = re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), os.fsencode(spelled))
    return os.fsdecode(raw)


def _spelled(path: str) -> str:
    return re.sub(r"[ \t\n\\]", lambda match: f"\\{ord(match[0]):03o}", path)
