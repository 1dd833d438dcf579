"""Tags of a project's source files, stored by content.

Files are found as a search finds them: without what `.gitignore` names and what nobody may see into. What a file
defines is worked out by a program of its own (`tag_program`); a file that holds it up is passed over, and it begins
again behind that. What is kept is names and single lines of source.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

import msgspec

from bridle.base.fs.files import open_beneath, private_folder, read_limited, write_atomic
from bridle.tools.search.file_search import Start
from bridle.tools.search.folder_walk import ALWAYS_SKIPPED, BUILD_OUTPUT, IgnoreRules, walk
from bridle.tools.search.map_ranking import FileTags

MAX_FILES: Final = 5_000
MAX_FILE_BYTES: Final = 256 * 1024
MAX_CACHE_BYTES: Final = 64 * 1024 * 1024
MAX_PASSED_OVER: Final = 10
"""So many files may hold the program up before a call makes do with what it has."""
VERSION: Final = 1

_PROGRAM: Final = os.path.join(os.path.dirname(__file__), "tag_program.py")
_KILLED: Final = frozenset(
    code
    for number in (signal.SIGPROF, signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)
    for code in (-number, 128 + number)
)
"""How it ends where a file takes too long or too much. Where all of them together do, the next call goes on."""
_NOTHING: Final = FileTags()
# fmt: off
LANGUAGES: Final = {
    ".py": "python", ".pyi": "python", ".js": "javascript", ".jsx": "javascript", ".mjs": "javascript",
    ".cjs": "javascript", ".ts": "typescript", ".mts": "typescript", ".cts": "typescript", ".tsx": "tsx",
    ".rs": "rust", ".go": "go", ".java": "java", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp",
    ".hpp": "cpp", ".hh": "cpp", ".rb": "ruby",
}
# fmt: on
"""The language of a file by the end of its name."""


class _Known(msgspec.Struct, frozen=True, array_like=True):
    """A file as it was when it was read last, and the digest of what it held."""

    size: int
    mtime_ns: int
    ctime_ns: int
    sha256: str


class _Kept(msgspec.Struct, kw_only=True):
    version: int = VERSION
    files: dict[str, _Known] = {}
    tags: dict[str, FileTags] = {}


class RepoTags(msgspec.Struct, frozen=True, kw_only=True):
    """The tags by path. `unread` files are not looked at yet, `too_many`: there are more files than are looked at."""

    tags: dict[str, FileTags]
    unread: int = 0
    too_many: bool = False


class _Source(msgspec.Struct, frozen=True):
    path: str
    size: int
    mtime_ns: int
    ctime_ns: int


class TagIndex:
    """The tags of one folder. `shows` says whether the content of an absolute path may be seen."""

    def __init__(self, folder: str, cache_folder: str, shows: Callable[[str], bool]) -> None:
        self._folder = folder
        self._shows = shows
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:24]
        self._cache_folder = cache_folder
        self._cache = os.path.join(cache_folder, f"{name}.msgpack")

    async def tags(self, start: Start) -> RepoTags:
        """What is known, and what the program finds out before its time is up. `start` starts it; raises what that
        raises, and OSError where the folder cannot be read."""
        stop = threading.Event()
        try:
            kept = await asyncio.to_thread(self._read)
            sources, too_many = await asyncio.to_thread(self._sources, stop)
            missing = await asyncio.to_thread(self._refresh, kept, sources)
        finally:
            stop.set()  # a thread cannot be cancelled; it notices
        try:
            if missing:
                await self._work_out(kept, missing, start)
        finally:
            listed = {source.path for source in sources}
            if missing or len(kept.files) != len(listed):
                self._forget_others(kept, listed)
                await asyncio.shield(asyncio.to_thread(self._write, kept))
        tags = {
            source.path: kept.tags[known.sha256]
            for source in sources
            if (known := kept.files.get(source.path)) is not None and known.sha256 in kept.tags
        }
        return RepoTags(tags=tags, unread=len(sources) - len(tags), too_many=too_many)

    # What there is

    def _sources(self, stop: threading.Event) -> tuple[list[_Source], bool]:
        rules = IgnoreRules(self._folder, self._folder)
        found: list[_Source] = []
        skipped = ALWAYS_SKIPPED | BUILD_OUTPUT
        for path, entry in walk(self._folder, skipped=skipped, rules=rules, should_stop=stop.is_set):
            if os.path.splitext(path)[1].lower() not in LANGUAGES or not _is_plain(path):
                continue
            if rules.ignores(path.split("/"), is_folder=False):
                continue
            try:
                if not entry.is_file(follow_symlinks=False):
                    continue
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if status.st_size > MAX_FILE_BYTES or not self._shows(os.path.join(self._folder, path)):
                continue
            if len(found) == MAX_FILES:
                return found, True
            found.append(_Source(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
        return found, False

    def _refresh(self, kept: _Kept, sources: list[_Source]) -> list[_Source]:
        """The files whose content nobody has looked at yet."""
        missing: list[_Source] = []
        for source in sources:
            known = kept.files.get(source.path)
            if known is None or (known.size, known.mtime_ns, known.ctime_ns) != _stamp(source):
                digest = self._digest(source)
                known = kept.files[source.path] = _Known(*_stamp(source), digest)
            if known.sha256 not in kept.tags:
                missing.append(source)
        return missing

    def _digest(self, source: _Source) -> str:
        try:
            fd = open_beneath(os.path.join(self._folder, source.path), os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return ""
        try:
            return hashlib.sha256(read_limited(fd, MAX_FILE_BYTES).data).hexdigest()
        except (OSError, ValueError):
            return ""
        finally:
            os.close(fd)

    # Finding out

    async def _work_out(self, kept: _Kept, missing: list[_Source], start: Start) -> None:
        for _ in range(MAX_PASSED_OVER):
            done, code = await self._run(kept, missing, start)
            if done < len(missing):
                if code not in _KILLED:
                    return  # its time is up, or it cannot work here at all
                stuck = kept.files[missing[done].path]
                kept.tags[stuck.sha256] = _NOTHING  # whatever it is, it takes too long
                done += 1
            missing = missing[done:]
            if not missing:
                return

    async def _run(self, kept: _Kept, missing: list[_Source], start: Start) -> tuple[int, int]:
        """How many of the files the program has answered for, and how it ended."""
        words = [(LANGUAGES[os.path.splitext(one.path)[1].lower()], one.path) for one in missing]
        stdin = b"".join(part.encode() + b"\0" for pair in words for part in pair)
        answers = _Answers()
        process = await start([sys.executable, "-I", _PROGRAM], self._folder, stdin, answers.feed)
        try:
            code = await process.wait()
        finally:
            await process.stop()
        for source, answer in zip(missing, answers.found, strict=False):
            known = kept.files[source.path]
            digest = answer.get("sha256") or known.sha256
            kept.files[source.path] = msgspec.structs.replace(known, sha256=digest)
            kept.tags[digest] = _decoded(answer)
        return min(len(answers.found), len(missing)), code

    # What is kept

    def _read(self) -> _Kept:
        try:
            data = read_limited(self._cache, MAX_CACHE_BYTES).data
            kept = msgspec.msgpack.decode(data, type=_Kept)
        except (OSError, ValueError, msgspec.MsgspecError):
            return _Kept()
        return kept if kept.version == VERSION else _Kept()

    def _write(self, kept: _Kept) -> None:
        with contextlib.suppress(OSError):
            private_folder(self._cache_folder)
            write_atomic(self._cache, msgspec.msgpack.encode(kept), durable=False)

    def _forget_others(self, kept: _Kept, listed: set[str]) -> None:
        kept.files = {path: known for path, known in kept.files.items() if path in listed}
        used = {known.sha256 for known in kept.files.values()}
        kept.tags = {digest: tags for digest, tags in kept.tags.items() if digest in used}


class _Answers:
    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self.found += (msgspec.json.decode(line, type=dict[str, Any]) for line in lines)


def _decoded(answer: dict[str, Any]) -> FileTags:
    try:
        return msgspec.convert([answer.get("defs", ()), answer.get("refs", {})], FileTags)
    except msgspec.ValidationError:
        return _NOTHING


def _stamp(source: _Source) -> tuple[int, int, int]:
    return source.size, source.mtime_ns, source.ctime_ns


def _is_plain(path: str) -> bool:
    return path.isprintable()
