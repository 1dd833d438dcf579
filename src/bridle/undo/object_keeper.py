"""A second name for every object of a repository, so that whoever removes the first one destroys nothing.

Objects and packs never change once they are written, and their name says what is in them. Each gets a hard link in a
folder of Bridle's own; where none can be made, on another file system, a copy up to a limit. What is gone and is in
no pack either is lost, and comes back from there, checked against its name.

A file that is overwritten in place is overwritten under both of its names. So some small objects are copied, and with
each look a few objects in turn, and all packs, are asked whether the kernel saw a change: where one changed, all are
compared with their names.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import re
import shutil
import stat
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeAlias

from bridle.base.file_times import is_settled
from bridle.base.files import open_beneath, private_folder
from bridle.engine.undo_records import Lost

COPIED_BYTES = 64 << 20
"""So much of a repository is copied where nothing can be linked."""
MAX_COPIES = 500
_SMALL = 16 << 10
"""So many objects up to this size are copied in any case, the others linked: that is faster."""
MAX_WATCHED = 5_000
"""Of so many files of a repository it is known how the kernel described them."""
_IN_TURN = 32
_HASHED_BYTES = 64 << 20
"""A larger pack is compared by its size and time alone."""
MAX_OBJECTS = 50_000
"""Loose objects of one repository; git itself packs them long before."""
_DAY_S = 24 * 3600
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_PACK = "pack"
_PART = re.compile(r"[0-9a-f]{2}|pack")
_LOOSE = re.compile(r"[0-9a-f]{38}|[0-9a-f]{62}")
_PACKED = re.compile(r"pack-[0-9a-f]{40,64}\.(?:pack|idx|rev|keep|promisor|mtimes)")
_INDEX_BEGINS = b"\377tOc\0\0\0\2"
_FANOUT = len(_INDEX_BEGINS)
_NAMES = _FANOUT + 256 * 4
_CHUNK = 1 << 20

_Signature: TypeAlias = tuple[int, int, int, int]
"""When the kernel saw a change, inode, size, and when it was written."""

Parts: TypeAlias = dict[str, tuple[tuple[int, int] | None, frozenset[str]]]
"""The folders below `objects`: which each is and when it last changed, as no command can set it (None: too recently to
tell), and the names in it."""


class ObjectKeeper:
    """What is kept of the objects of repositories, below `folder`. `objects` is always the resolved folder of them.

    It remembers what it saw: of folders that did not change nothing is read again.
    """

    def __init__(self, folder: str, *, copied_bytes: int = COPIED_BYTES) -> None:
        self._folder = folder
        self._copied_bytes = copied_bytes
        self._copies_left = MAX_COPIES
        self._seen: dict[str, Parts] = {}
        self._signatures: dict[str, dict[str, _Signature]] = {}
        self._turn = 0

    def look(self, objects: str) -> Lost | None:
        """Keeps what is new; returns what went since the last look, or was spoiled. The first look compares with what
        is kept."""
        known: Parts | None = self._seen.get(objects)
        now = _parts(objects, known or {})
        self._seen[objects] = now
        spoiled: set[str] = set()
        if known is None:
            known = {part: (None, names) for part, names in self._kept(objects)}
        else:
            spoiled = self._spoiled(objects, now)
            unchanged = all(now.get(part) is was for part, was in known.items()) and len(now) == len(known)
            if unchanged and not spoiled:
                return None
        went = {
            f"{part}/{name}"
            for part, (_, names) in known.items()
            for name in names - now.get(part, (None, frozenset()))[1]
        }
        lost = self._missing(objects, went | spoiled, _without(spoiled, now) if spoiled else now)
        self._take_new(objects, now, known)
        self._drop(objects, went - lost)
        self._sign(objects, now)
        return self._lost(objects, lost, spoiled)

    def knows(self, objects: str) -> bool:
        """Whether something of this repository is kept."""
        return os.path.isdir(self._store(objects))

    def still_missing(self, lost: Lost) -> Lost | None:
        """Of what was lost, what is not there now either, or not whole."""
        now = _parts(lost.name, {})
        went = {
            name
            for name in lost.names
            if name.split("/")[1] not in now.get(name[: name.index("/")], (None, ()))[1]
            or not _stands_whole(os.path.join(lost.name, name), name)
        }
        now = _without(went, now)
        return self._lost(lost.name, self._missing(lost.name, went, now))

    def holds(self, lost: Lost, number: str) -> bool:
        """Whether an object is among those that were lost."""
        if f"{number[:2]}/{number[2:]}" in lost.names:
            return True
        wanted = bytes.fromhex(number)
        indexes = (name for name in lost.names if name.endswith(".idx"))
        return any(wanted in _Index(os.path.join(self._store(lost.name), name)) for name in indexes)

    def put_back(self, lost: Lost) -> list[str]:
        """Gives back what is still missing; returns the names that cannot be given back: spoiled, or no longer kept."""
        failed: list[str] = []
        store = self._store(lost.name)
        for name in sorted(
            lost.names, key=lambda name: name.endswith(".idx")
        ):  # git takes a pack by its index
            kept = os.path.join(store, name)
            try:
                if not _is_whole(kept, name):
                    failed.append(name)
                    continue
                if os.path.lexists(there := os.path.join(lost.name, name)):
                    if _stands_whole(there, name):
                        continue
                    os.unlink(there)
                _place(kept, lost.name, name)
            except FileExistsError:
                continue
            except OSError:
                failed.append(name)
        return failed

    def forget_old(self, now_ms: int, days: int) -> None:
        """Drops what is no longer in its repository since so many days. The time a file lost its other name counts."""
        for repository in _names(self._folder):
            for part in _names(os.path.join(self._folder, repository)):
                for name in _names(os.path.join(self._folder, repository, part)):
                    path = os.path.join(self._folder, repository, part, name)
                    with contextlib.suppress(OSError):
                        status = os.lstat(path)
                        if status.st_nlink == 1 and status.st_ctime < now_ms / 1000 - days * _DAY_S:
                            os.unlink(path)
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(self._folder, repository, part))
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(self._folder, repository))

    def _store(self, objects: str) -> str:
        return os.path.join(self._folder, hashlib.sha256(os.fsencode(objects)).hexdigest()[:32])

    def _kept(self, objects: str) -> Iterator[tuple[str, frozenset[str]]]:
        store = self._store(objects)
        for part in _names(store):
            yield part, frozenset(_names(os.path.join(store, part)))

    def _spoiled(self, objects: str, now: Parts) -> set[str]:
        """What was overwritten where it is, of what is there. Mostly a few are asked about, and nothing was."""
        signatures = self._signatures.get(objects, {})
        names = [*signatures]
        begin = self._turn % max(len(names), 1)
        self._turn = begin + _IN_TURN
        asked = {*names[begin : self._turn], *names[: max(self._turn - len(names), 0)]}
        asked |= signatures.keys() & {f"{_PACK}/{name}" for name in now.get(_PACK, (None, ()))[1]}
        if all(_signature(objects, name) == signatures[name] for name in asked):
            return set()
        spoiled: set[str] = set()
        for name, before in list(signatures.items()):
            found = _signature(objects, name)
            if found == before:
                continue
            if found is None:
                del signatures[name]  # it went, which is seen elsewhere
                continue
            signatures[name] = found
            if (
                found[1:] != before[1:]
                if found[2] > _HASHED_BYTES
                else not _stands_whole(os.path.join(objects, name), name)
            ):
                spoiled.add(name)
        return spoiled

    def _sign(self, objects: str, now: Parts) -> None:
        """Notes how the kernel describes what is there, after the links were made: that is a change, too."""
        signatures = self._signatures.setdefault(objects, {})
        for part, (_, names) in now.items():
            for name in names:
                path = f"{part}/{name}"
                if path not in signatures:
                    if len(signatures) >= MAX_WATCHED:
                        return
                    if (found := _signature(objects, path)) is not None:
                        signatures[path] = found

    def _lost(self, objects: str, names: set[str], spoiled: Collection[str] = ()) -> Lost | None:
        if not names:
            return None
        store = self._store(objects)
        kept = {
            name
            for name in names
            if os.path.lexists(path := os.path.join(store, name))
            and (name not in spoiled or _stands_whole(path, name))
        }
        return Lost(os.fsencode(objects), tuple(sorted(kept)), unkept=len(names - kept))

    def _take_new(self, objects: str, now: Parts, known: Parts) -> None:
        store = self._store(objects)
        for part, (_, names) in now.items():
            if now[part] is known.get(part):
                continue
            folder = os.path.join(store, part)
            new = names.difference(_names(folder))
            if new:
                private_folder(folder)
                for name in new:
                    self._take(os.path.join(objects, part, name), os.path.join(folder, name))

    def _take(self, path: str, kept: str) -> None:
        """A copy of what is small, else a link, or a copy while there is room; what can be neither is not kept."""
        if self._copies_left > 0 and os.path.basename(os.path.dirname(path)) != _PACK:
            with contextlib.suppress(OSError):
                if _copy_small(path, kept):
                    self._copies_left -= 1
                    return
        try:
            os.link(path, kept, follow_symlinks=False)
            return
        except OSError:
            pass
        with contextlib.suppress(OSError):
            size = os.lstat(path).st_size
            if size <= self._copied_bytes:
                _copy(path, kept)
                self._copied_bytes -= size

    def _drop(self, objects: str, names: Iterable[str]) -> None:
        """What git packed, or packed anew, is in another file now; the old one would only take room."""
        store = self._store(objects)
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(store, name))

    def _missing(self, objects: str, went: set[str], now: Parts) -> set[str]:
        """Of the files that went, those with an object that is nowhere else."""
        if not went:
            return set()
        packs = now.get(_PACK, (None, frozenset()))[1]
        with contextlib.ExitStack() as opened:
            indexes = [
                opened.enter_context(_Index(os.path.join(objects, _PACK, name)))
                for name in packs
                if name.endswith(".idx") and f"{name[:-3]}pack" in packs
            ]
            missing: set[str] = set()
            stems: set[str] = set()
            for name in went:
                part, rest = name.split("/")
                if part == _PACK:
                    stems.add(rest.split(".")[0])
                elif not any(bytes.fromhex(part + rest) in index for index in indexes):
                    missing.add(name)
            for stem in stems:
                if {f"{stem}.pack", f"{stem}.idx"} <= packs:
                    continue
                with _Index(os.path.join(self._store(objects), _PACK, f"{stem}.idx")) as old:
                    if not old.is_within(indexes, now):
                        missing.update(name for name in went if name.startswith(f"{_PACK}/{stem}."))
        return missing


class _Index:
    """The names of the objects of a pack, sorted, as its index has them. One that cannot be read is empty."""

    def __init__(self, path: str) -> None:
        self._data: mmap.mmap | None = None
        self._width = 20
        self._count = 0
        try:
            fd = os.open(path, _READ)
        except OSError:
            return
        try:
            data = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        except (OSError, ValueError):
            return
        finally:
            os.close(fd)
        if len(data) > _NAMES and data[:_FANOUT] == _INDEX_BEGINS:
            self._data = data
            self._count = int.from_bytes(data[_NAMES - 4 : _NAMES], "big")
            self._width = 32 if len(os.path.basename(path)) > len("pack-.idx") + 40 else 20

    def __enter__(self) -> _Index:
        return self

    def __exit__(self, *_: object) -> None:
        if self._data is not None:
            self._data.close()

    def __contains__(self, number: bytes) -> bool:
        return number in self.beginning_with(number[0])

    def is_within(self, others: list[_Index], now: Parts) -> bool:
        """Whether every object of this pack is in one of the others, or lies loose."""
        if self._data is None:
            return False
        for first in range(256):
            rest = self.beginning_with(first)
            for other in others:
                rest -= other.beginning_with(first)
            if rest:
                part = f"{first:02x}"
                loose = now.get(part, (None, frozenset()))[1]
                if any(number.hex()[2:] not in loose for number in rest):
                    return False
        return True

    def beginning_with(self, first: int) -> set[bytes]:
        data, width = self._data, self._width
        if data is None:
            return set()
        at = _FANOUT + 4 * first
        begin = int.from_bytes(data[at - 4 : at], "big") if first else 0
        end = min(int.from_bytes(data[at : at + 4], "big"), self._count)
        names = data[_NAMES + begin * width : _NAMES + end * width]
        return {names[i : i + width] for i in range(0, len(names), width)}


def _parts(objects: str, known: Parts) -> Parts:
    """What lies in the folders below `objects`. Of a folder that did not change it is what is known."""
    found: Parts = {}
    try:
        where = open_beneath(objects, _ENTER)
    except OSError:
        return found
    try:
        now_ns = time.time_ns()
        with os.scandir(where) as entries:
            for entry in entries:  # hundreds of times per command: hence so plain
                part = entry.name
                status = entry.stat(follow_symlinks=False)
                described = (status.st_ino, status.st_ctime_ns)
                old = known.get(part)
                if old is not None and old[0] == described:
                    found[part] = old
                elif _PART.fullmatch(part) and sum(len(names) for _, names in found.values()) < MAX_OBJECTS:
                    settled = is_settled(status.st_ctime_ns, now_ns)
                    found[part] = (described if settled else None, _objects_in(part, where))
    except OSError:
        pass  # it went away while we were looking
    finally:
        os.close(where)
    return found


def _objects_in(part: str, where: int) -> frozenset[str]:
    pattern = _PACKED if part == _PACK else _LOOSE
    try:
        fd = os.open(part, _ENTER, dir_fd=where)
    except OSError:
        return frozenset()
    try:
        return frozenset(name for name in os.listdir(fd) if pattern.fullmatch(name))
    except OSError:
        return frozenset()
    finally:
        os.close(fd)


def _without(names: Collection[str], now: Parts) -> Parts:
    gone: dict[str, set[str]] = {}
    for name in names:
        part, rest = name.split("/")
        gone.setdefault(part, set()).add(rest)
    return now | {part: (None, now[part][1] - left) for part, left in gone.items() if part in now}


def _signature(objects: str, name: str) -> _Signature | None:
    try:
        status = os.lstat(f"{objects}/{name}")
    except OSError:
        return None
    return status.st_ctime_ns, status.st_ino, status.st_size, status.st_mtime_ns


def _stands_whole(path: str, name: str) -> bool:
    try:
        return _is_whole(path, name)
    except OSError:
        return False


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _copy_small(path: str, to: str) -> bool:
    """Copies an object if it is small. One that was torn by a crash shows when it is to be given back."""
    source = os.open(path, _READ)
    try:
        data = os.read(source, _SMALL + 1)
    finally:
        os.close(source)
    if not data or len(data) > _SMALL:
        return False
    target = os.open(to, _NEW, 0o444)
    try:
        return os.write(target, data) == len(data)
    finally:
        os.close(target)


def _copy(path: str, to: str | tuple[str, int]) -> None:
    name, where = to if isinstance(to, tuple) else (to, None)
    temporary = os.path.join(os.path.dirname(name), f".{os.urandom(12).hex()}.tmp")
    source = os.open(path, _READ)
    try:
        with (
            os.fdopen(os.open(temporary, _NEW, 0o444, dir_fd=where), "wb") as target,
            os.fdopen(os.dup(source), "rb") as data,
        ):
            shutil.copyfileobj(data, target, _CHUNK)
        os.link(temporary, name, src_dir_fd=where, dst_dir_fd=where)
    finally:
        os.close(source)
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=where)


def _place(kept: str, objects: str, name: str) -> None:
    """Puts a kept file where it belongs, through no link. Raises `FileExistsError` where something stands."""
    part, rest = name.split("/")
    with contextlib.suppress(FileExistsError):
        os.mkdir(os.path.join(objects, part))
    where = open_beneath(os.path.join(objects, part), _ENTER)
    try:
        try:
            os.link(kept, rest, dst_dir_fd=where, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:
            _copy(kept, (rest, where))
    finally:
        os.close(where)


def _is_whole(path: str, name: str) -> bool:
    """Whether a file holds what its name says: an object its digest, a pack and its index the one at their end."""
    part, rest = name.split("/")
    fd = os.open(path, _READ)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return False
        if part != _PACK:
            return _digest_of_object(file.read, len(part + rest)) == part + rest
        if not rest.endswith((".pack", ".idx", ".rev")):
            return True
        width = 32 if len(rest.split(".")[0]) > len("pack-") + 40 else 20
        digest = hashlib.sha256() if width == 32 else hashlib.sha1(usedforsecurity=False)
        left = os.fstat(fd).st_size - width
        while left > 0 and (data := file.read(min(_CHUNK, left))):
            digest.update(data)
            left -= len(data)
        return left == 0 and file.read() == digest.digest()


def _digest_of_object(read: Callable[[int], bytes], digits: int) -> str:
    digest = hashlib.sha256() if digits == 64 else hashlib.sha1(usedforsecurity=False)
    unpacked = zlib.decompressobj()
    try:
        while data := read(_CHUNK):
            while data:
                digest.update(unpacked.decompress(data, _CHUNK))
                data = unpacked.unconsumed_tail
        digest.update(unpacked.flush())
    except zlib.error:
        return ""
    return digest.hexdigest() if unpacked.eof else ""
