"""What is kept of the skills in a folder between two starts: a small file in the state folder, made anew when in doubt.

Nothing in it says that a person agreed to anything.
"""

import binascii
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import msgspec

from bridle._version import __version__
from bridle.base.files import private_folder, read_limited, write_atomic
from bridle.context.skills.skill_records import NO_FILES, SkillHead

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_KEPT: Final = 100
MAX_FILES_OF_PLACE: Final = 4_000
MAX_BYTES_OF_PLACE: Final = 64 * 1024 * 1024
"""What is read of all skills of a folder together, where somebody else may have filled it."""
_UNSETTLED_NS: Final = 2_000_000_000
"""A file that changed so lately could change again without a new time: what was read of it is not kept."""


# Annotations are values here, not text: decoding would have to compile each of them, at every start.
class IndexedFolder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was found in a folder when these folders and files of it had this signature: a skill, or why it is none.

    `files` are their digests, packed: `count` of them, which together have `size` bytes.
    """

    signature: tuple[int, ...]
    paths: tuple[str, ...]
    head: SkillHead | None = None
    digest: str = ""
    files: msgspec.Raw = NO_FILES
    count: int = 0
    size: int = 0
    line: int = 0
    problem: str = ""


def signature_of(folder: str, paths: Iterable[str]) -> tuple[int, ...]:
    """What changes with every change of these: inode, and time of the last change of it, which no program can set back
    and which comes with every other size. A folder changes when a name in it does; a link is what it leads to. Raises
    OSError where one is gone."""
    stamps: list[int] = []
    below = folder + "/"
    for path in paths:
        found = os.stat(below + path)
        stamps += (found.st_ino, found.st_ctime_ns)
    return tuple(stamps)


class PlaceFull(Exception):
    """A folder holds more than is read of one."""


class Room:
    """How much more of a place is read."""

    def __init__(self) -> None:
        self._files, self._bytes = MAX_FILES_OF_PLACE, MAX_BYTES_OF_PLACE

    def take(self, files: int, size: int) -> None:
        """Raises `PlaceFull` where there is no room for so much."""
        self._files -= files
        self._bytes -= size
        if self._files < 0 or self._bytes < 0:
            raise PlaceFull


class _Kept(msgspec.Struct, frozen=True):
    version: str
    place: str
    folders: dict[str, IndexedFolder]


class IndexedFolders:
    """What is kept of one place. `save` writes it where something was read anew."""

    def __init__(self, state_folder: str, place: str, now_ms: int) -> None:
        name = f"{binascii.crc32(os.fsencode(place)):08x}.index"
        self._path = os.path.join(state_folder, "skills", name)
        self._place = place
        self._now_ns = now_ms * 1_000_000
        self._kept: dict[str, IndexedFolder] = {}
        self._used: dict[str, IndexedFolder] = {}
        with suppress(OSError, msgspec.MsgspecError, ValueError):
            kept = msgspec.msgpack.decode(read_limited(self._path, MAX_BYTES).data, type=_Kept)
            if (kept.version, kept.place) == (__version__, place):
                self._kept = kept.folders

    def get(self, name: str, folder: str) -> IndexedFolder | None:
        """What is kept of a folder of this name, if everything it was read from is as it was."""
        found = self._kept.get(name)
        try:
            if found is None or found.signature != signature_of(folder, found.paths):
                return None
        except OSError:
            return None
        self._used[name] = found
        return found

    def put(self, name: str, found: IndexedFolder) -> None:
        if not self._is_unsettled(found.signature):
            self._used[name] = found

    def _is_unsettled(self, signature: tuple[int, ...]) -> bool:
        newest = max(signature[1::2], default=0)
        return newest > self._now_ns - _UNSETTLED_NS

    def save(self) -> None:
        """A disk that is full or read-only costs time at the next start, and nothing else."""
        if self._used == self._kept:
            return
        with suppress(OSError):
            private_folder(os.path.dirname(self._path))
            kept = _Kept(__version__, self._place, self._used)
            write_atomic(self._path, msgspec.msgpack.encode(kept), durable=False)
            self._thin_out()

    def _thin_out(self) -> None:
        folder = os.path.dirname(self._path)
        files = sorted(os.scandir(folder), key=lambda file: file.stat().st_mtime_ns, reverse=True)
        for file in files[MAX_KEPT:]:
            os.unlink(file.path)
