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
from bridle.context.skills.skill_records import SkillHead

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_KEPT: Final = 100
_UNSETTLED_NS: Final = 2_000_000_000
"""A file that changed so lately could change again without a new time: what was read of it is not kept."""


# Annotations are values here, not text: decoding would have to compile each of them, at every start.
class IndexedFolder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was found in a folder when these folders and files of it had this signature: a skill, or why it is none."""

    signature: str
    paths: tuple[str, ...]
    head: SkillHead | None = None
    digest: str = ""
    files: dict[str, str] = {}
    size: int = 0
    line: int = 0
    problem: str = ""


def signature_of(folder: str, paths: Iterable[str]) -> str:
    """What changes with every change of these: inode, time of the last change of it, which no program can set back,
    and size. A folder changes when a name in it does; a link is what it leads to. Raises OSError where one is gone."""
    stamps: list[str] = []
    for path in paths:
        found = os.stat(f"{folder}/{path}")
        stamps.append(f"{found.st_ino} {found.st_ctime_ns} {found.st_size}")
    return "\n".join(stamps)


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

    def _is_unsettled(self, signature: str) -> bool:
        newest = max((int(line.split(" ")[1]) for line in signature.split("\n")), default=0)
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
