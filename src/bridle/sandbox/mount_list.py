"""A confinement as a list of mounts, in the order in which they are made: what lies above comes first."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from bridle.base.files import private_folder
from bridle.base.paths import is_beneath
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
