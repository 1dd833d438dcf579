"""Build the mounts of a command and check them before it runs.

Whoever makes mounts finds them by path, and another command that runs at the same time may put a link in the place of
a folder in the workspace just then. What is mounted instead is something else, and the kernel says so: it names every
mount by its device, its place there and where it was put. None of these can be changed for what lies outside.

Where the mounts can be seen from outside (`gate`), `first_difference` compares. Where they cannot, a shell script does
it inside. Nothing is ever put into its text.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from bridle.base.fs.files import private_folder
from bridle.base.fs.paths import is_beneath
from bridle.sandbox.confinement import Confinement

MountKind: TypeAlias = Literal[
    "writable", "read-only", "shown", "masked", "hidden", "empty", "temporary", "room"
]
"""What a path becomes. `shown`: read-only, where it could not be seen otherwise; `masked`: a new empty folder, by which
nothing comes to be there; `temporary`: the scratch folder; `room`: a new empty folder in it, for the mounts below."""

_BLANK: frozenset[MountKind] = frozenset({"masked", "hidden", "empty", "temporary", "room"})
"""Nothing of what was there can be seen below these."""


class Mount(NamedTuple):
    path: str
    kind: MountKind
    is_folder: bool = True
    """Looked at where it matters: of what is hidden, and right in the temporary folder."""
    crossed: bool = False
    """Something below it is shown again, so it must be possible to pass through."""


def mounts_of(confinement: Confinement, *, masks: Literal["masked", "read-only"] = "masked") -> list[Mount]:
    """The whole file system is the first. What stands for something absent may be `read-only` as it is, too."""
    kinds: tuple[tuple[MountKind, Iterable[str]], ...] = (
        ("shown", confinement.shown),
        (masks, confinement.absent),
        ("read-only", (path for path, _ in confinement.filled)),
        ("read-only", confinement.read_only),
        ("writable", confinement.held),
        ("empty", confinement.emptied),
        ("hidden", confinement.hidden),
        ("temporary", confinement.temporary),
        ("writable", confinement.writable),
    )
    wanted: dict[str, MountKind] = {}
    for kind, paths in kinds:
        wanted.update(dict.fromkeys(paths, kind))
    mounts = {"/": Mount("/", "writable" if wanted.pop("/", "") == "writable" else "read-only")}
    way = ["/"]
    for path in sorted(wanted, key=_depth_first):
        while not is_beneath(path, way[-1]):
            way.pop()
        above = mounts[way[-1]]
        kind = wanted[path]
        if _adds_nothing(kind, above.kind, pokes_through=path in confinement.writable):
            continue
        if above.kind in _BLANK:
            _open_way(path, above, mounts)
        matters = kind == "hidden" or above.kind == "temporary"
        mounts[path] = Mount(path, kind, is_folder=not matters or os.path.isdir(path))
        way.append(path)
    return list(mounts.values())


def make_room(mounts: Sequence[Mount], confinement: Confinement) -> None:
    """Makes the folders in the scratch folder on which something will be mounted.

    Later commands cannot put anything else there, because to them it is a mount. What an earlier one did put there,
    before it was one, is moved out of the way.
    """
    if not confinement.scratch:
        return
    private_folder(confinement.scratch)
    for mount in mounts:
        above, _, name = mount.path.rpartition("/")
        if above not in confinement.temporary:
            continue
        place = os.path.join(confinement.scratch, name)
        if os.path.islink(place) or os.path.isdir(place) != mount.is_folder:
            with contextlib.suppress(FileNotFoundError):
                os.rename(place, f"{place}.{os.urandom(4).hex()}")
        if mount.is_folder:
            os.makedirs(place, mode=0o700, exist_ok=True)


def _depth_first(path: str) -> list[str]:
    return path.rstrip("/").split("/")


def _adds_nothing(kind: MountKind, above: MountKind, *, pokes_through: bool) -> bool:
    if above in _BLANK:
        return kind != "shown" and not pokes_through
    return kind == "shown" or (kind in {"read-only", "masked"} and above in {"read-only", "shown"})


def _open_way(path: str, above: Mount, mounts: dict[str, Mount]) -> None:
    """Makes it possible to reach a path below something blank.

    In a scratch folder, which other commands write to at the same time, the way leads through a folder of its own: it
    is a mount, so that nobody can put a link in its place.
    """
    mounts[above.path] = above._replace(crossed=True)
    if above.kind == "temporary":
        first = "/".join(path.split("/")[: above.path.count("/") + 2])
        if first != path:
            mounts[first] = Mount(first, "room", crossed=True)


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
_NEW = frozenset({"tmpfs", "proc", "devpts", "mqueue"})
"""Kinds of file systems that are made for a command alone."""
_READ_ONLY = ("ro,", "ro")
"""How the flags of a mount begin that is not written."""
_PAGE = 16 * 1024


class MountNow(NamedTuple):
    """A mount as it is outside. `root` and `point` are spelled as the kernel does."""

    path: str
    device: str
    root: str
    point: str
    flags: frozenset[str]

    def __str__(self) -> str:
        return f"{self.device}:{self.root}:{self.point}"


class ExpectedMounts(NamedTuple):
    """How the kernel names the mounts of a command if they are those that were meant."""

    writable: frozenset[str]
    """May be there and writable."""
    readable: frozenset[str]
    """May be there, read-only or covered by another."""
    devices: frozenset[str]
    """The devices of this machine."""
    wanted: Mapping[str, str]
    """Must be there, and where; each is in one of the first two as well."""
    blank: frozenset[str]
    """Where something new and empty must be."""


def mounted_now() -> tuple[MountNow, ...]:
    """Every mount of this process, those that cover others later."""
    return _mounted(read_table("/proc/self/mountinfo"))


def read_table(path: str) -> bytes:
    """Return what the kernel lists there, read a page at a time."""
    table = bytearray()
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while page := os.read(fd, _PAGE):
            table += page
    finally:
        os.close(fd)
    return bytes(table)


def expected_mounts(
    mounts: Sequence[Mount], confinement: Confinement, now: Sequence[MountNow]
) -> ExpectedMounts:
    """What the mounts of a command are to look like on this machine."""
    scratch = confinement.scratch
    root, *others = mounts
    holding = {mount.path: mount for mount in now}

    def named(source: str, point: str) -> str:
        return _name(source, point, holding)

    wanted = {named("/", "/"): "/"}
    wanted |= {named(mount.path, mount.path): mount.path for mount in others if mount.kind in _REAL}
    hidden = [mount for mount in others if mount.kind == "hidden"]
    wanted |= {named("/dev/null", mount.path): mount.path for mount in hidden if not mount.is_folder}
    temporary = {
        named(scratch, mount.path): mount.path for mount in others if mount.kind == "temporary" and scratch
    }
    open_ones = [mount.path for mount in others if mount.kind == "writable"]
    beneath = now if root.kind == "writable" else [mount for mount in now if _is_below_any(mount, open_ones)]
    return ExpectedMounts(
        writable=frozenset(
            (
                *map(str, beneath),
                *(named(path, path) for path in open_ones),
                *temporary,
                *(named(f"/dev/{name}", f"/dev/{name}") for name in DEVICES),
            )
        ),
        readable=frozenset((*map(str, now), *wanted)),
        devices=frozenset(mount.device for mount in now),
        wanted=wanted | temporary,
        blank=frozenset(_spelled(mount.path) for mount in others if _is_blank(mount, scratch)),
    )


def first_difference(table: str, expected: ExpectedMounts, *, beneath: str = "") -> str:
    """Where the mounts of a `mountinfo` differ from what was expected; empty if they do not.

    Only mounts at or below `beneath` count, and it stands for the root of the file system.
    """
    writable, readable, devices, wanted, blank = expected
    here, below, length = f" {beneath} ", f" {beneath}/", len(beneath)
    lines = [line.split(" ", 6) for line in table.split("\n") if below in line or here in line]
    names, not_blank = set[str](), set(blank)
    see = names.add
    for number, _above, device, root, point, flags, rest in lines:  # a hundred, for every command
        place = point
        if beneath:
            if not f" {point} ".startswith((below, here)):
                continue
            place = point[length:] or "/"
        name = f"{device}:{root}:{place}"
        see(name)
        if device not in devices:
            if rest.partition("- ")[2].partition(" ")[0] in _NEW:
                not_blank.discard(place)
            elif flags[:3] not in _READ_ONLY:
                return place
        elif name not in writable and (
            name not in readable
            or not (
                flags[:3] in _READ_ONLY
                or _is_replaced(place)
                or any(on[1] == number and on[4] == point for on in lines)
            )
        ):
            return place
    missing = (place for name, place in wanted.items() if name not in names)
    return next(missing, min(not_blank, default=""))


def _is_replaced(place: str) -> bool:
    """Whether a command has one of its own, so that nothing of this machine's can be reached there."""
    return place in {"/dev", "/proc"} or place.startswith(("/dev/", "/proc/"))


def arguments_of_check(
    mounts: Sequence[Mount], confinement: Confinement, now: Sequence[MountNow]
) -> tuple[str, str, str]:
    """The three arguments of `check_mounts` for these mounts."""
    expected = expected_mounts(mounts, confinement, now)
    return _list(expected.writable), _list(expected.readable), _list(expected.devices)


def _is_blank(mount: Mount, scratch: str) -> bool:
    if mount.kind == "hidden":
        return mount.is_folder
    return mount.kind in {"masked", "empty", "room"} or (mount.kind == "temporary" and not scratch)


def _is_below_any(mount: MountNow, folders: Iterable[str]) -> bool:
    return any(mount.path.startswith(f"{folder}/") for folder in folders)


def _name(source: str, point: str, holding: Mapping[str, MountNow]) -> str:
    """How the kernel will name a mount of `source` that is put at `point`."""
    device, root, below = "", "", source
    for path in _self_and_parents(source):
        if mount := holding.get(path):
            device, root, below = mount.device, mount.root.rstrip("/"), source[len(path.rstrip("/")) :]
            break
    return f"{device}:{root + _spelled(below.rstrip('/')) or '/'}:{_spelled(point)}"


def _self_and_parents(path: str) -> Iterator[str]:
    while path != "/":
        yield path
        path = os.path.dirname(path)
    yield "/"


def _list(names: Iterable[str]) -> str:
    return f" {' '.join(sorted(names))} "


def _mounted(table: bytes) -> tuple[MountNow, ...]:
    found: list[MountNow] = []
    for line in os.fsdecode(table).split("\n"):
        if line:
            _id, _parent, device, root, point, flags, *_ = line.split(" ", 6)
            found.append(MountNow(_plain(point), device, root, point, frozenset(flags.split(","))))
    return tuple(found)


def _plain(spelled: str) -> str:
    if "\\" not in spelled:
        return spelled
    raw = re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), os.fsencode(spelled))
    return os.fsdecode(raw)


def _spelled(path: str) -> str:
    return re.sub(r"[ \t\n\\]", lambda match: f"\\{ord(match[0]):03o}", path)
