"""What a search is asked for, and what it writes, read until there is enough: lines that match, or names of files.

Which of them may be seen is asked here, of each file once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from itertools import chain, groupby, islice
from typing import NamedTuple

import msgspec

from bridle.base.path_patterns import PathPattern, anywhere
from bridle.engine.tools import SearchSight
from bridle.tools.folder_walk import IgnoreRules
from bridle.tools.search_patterns import SearchPattern

MAX_FILE_BYTES = 10 << 20
MAX_UNSEEN_BYTES = 4 << 20
"""So much of the names of files waits until they are looked at."""
GATHER_S, SMALL_BYTES, MAX_SMALL_PIECES = 0.003, 4096, 32
"""Output of which more pieces are small trickles, and is left to gather for so long."""
MAX_UNSORTED = 2000
MAX_UNSORTED_BYTES = 8 << 20
"""So many answers are taken as they come, from all cores, and sorted here; a quarter where they do not trickle. Where
there are more, a search that goes by path, on one core, comes to the first of them sooner."""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for, and where.

    `folder` is resolved; `file` is one name in it, or None for all that is below. `top` contains `folder`; its
    `.gitignore` counts. Of the answers at most `limit` are kept: matching lines, or files if only they count. `sight`
    says what may be seen; None: everything. A file asked for by name was allowed.
    """

    pattern: SearchPattern
    folder: str
    top: str
    file: str | None = None
    glob: str | None = None
    only_files: bool = False
    limit: int
    sight: SearchSight | None = None

    def shows(self, path: str) -> bool:
        return self.sight is None or self.file is not None or self.sight.shows(self.absolute(path))

    def absolute(self, path: str) -> str:
        return f"{self.folder.rstrip('/')}/{path}"


class Match(NamedTuple):
    """A matching line and where in it, in bytes, the match begins; for files only their number of lines."""

    path: str
    number: int
    line: bytes = b""
    start: int = 0


class SearchAnswer(NamedTuple):
    """`more`: there are others behind the last. `left_out`: files that may not be seen; not said if there is more."""

    matches: tuple[Match, ...]
    more: bool
    left_out: tuple[str, ...] = ()


def sorted_by_path(paths: Iterable[str]) -> tuple[str, ...]:
    """Folder by folder, as the answers come."""
    return tuple(sorted(paths, key=_parts))


def _parts(path: str) -> list[bytes]:
    return os.fsencode(path).split(b"/")


class _Text(msgspec.Struct):
    """Text, or bytes that are none, as ripgrep writes them."""

    text: str | None = None
    bytes: str | None = None

    @property
    def raw(self) -> bytes:
        if self.text is not None:
            return self.text.encode()
        import base64  # only needed for what is not UTF-8

        return base64.b64decode(self.bytes or "")


class _Submatch(msgspec.Struct):
    start: int


class _Data(msgspec.Struct):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None
    submatches: list[_Submatch] = []
    binary_offset: int | None = None


class _Message(msgspec.Struct):
    type: str
    data: _Data


class ListedNames:
    """Reads the names of files, and keeps those of files nobody may see into.

    Names are looked at when somebody wants to know, for a search that finds more than it shows does not.
    """

    def __init__(self, wanted: Search) -> None:
        self.enough = asyncio.Event()
        self._wanted = wanted
        self._unseen = bytearray()
        self._hidden: list[str] = []

    def feed(self, chunk: bytes) -> None:
        self._unseen += chunk
        if len(self._unseen) > MAX_UNSEEN_BYTES:
            self._look()

    def left_out(self) -> tuple[str, ...]:
        self._look()
        searched = SearchedFiles(self._wanted)
        return sorted_by_path(path for path in self._hidden if searched.has(path))

    def _look(self) -> None:
        names, _, rest = bytes(self._unseen).rpartition(b"\0")
        self._unseen[:] = rest
        for name in os.fsdecode(names).split("\0") if names else ():
            path = name.removeprefix("./")
            if not self._wanted.shows(path):
                self._hidden.append(path)


class SearchedFiles:
    """What ripgrep is not told: rules above the folder, and the glob, which for it would undo the rules."""

    def __init__(self, wanted: Search) -> None:
        self._wanted = wanted
        self.rules = IgnoreRules(wanted.folder, wanted.top)
        self._glob = PathPattern(anywhere(wanted.glob)) if wanted.glob is not None else None

    def has(self, path: str) -> bool:
        if self._wanted.file is not None:
            return True
        parts = path.split("/")
        return not self.rules.leaves_out(parts) and (self._glob is None or self._glob.matches(parts))

    def shows(self, path: str) -> bool:
        """Whether it is searched and may be seen."""
        return self.has(path) and self._wanted.shows(path)


class CollectedMatches:
    """Reads what a search writes, until there is enough. `by_path`: in that order; it is brought into it otherwise,
    and only of the first of all it is asked whether they may be shown."""

    def __init__(self, wanted: Search, *, by_path: bool = True, more: asyncio.Event | None = None) -> None:
        self.enough = asyncio.Event()
        self._more = more or asyncio.Event()
        self._by_path = by_path
        self.anything = False
        self._small_pieces = 0
        self._wanted = wanted
        self._searched = SearchedFiles(wanted)
        self._decode = msgspec.json.Decoder(_Message).decode
        self._buffer = bytearray()
        self._kept: list[Match] = []
        self._open: list[Match] = []  # of a file that may turn out to be binary
        self._bytes = 0
        self._passed_over = ""

    def feed(self, chunk: bytes) -> asyncio.Future[None] | None:
        """What comes in many small pieces is left to gather for a moment, which gives its time to the search."""
        self.anything = True
        self._take(chunk)
        if len(chunk) > SMALL_BYTES:
            return None
        self._small_pieces += 1
        if not self._trickles():
            return None
        loop = asyncio.get_running_loop()
        gathered: asyncio.Future[None] = loop.create_future()
        loop.call_later(GATHER_S, gathered.set_result, None)
        return gathered

    def _trickles(self) -> bool:
        return self._small_pieces > MAX_SMALL_PIECES

    def _take(self, chunk: bytes) -> None:
        self._buffer += chunk
        while not self.enough.is_set() and (end := self._buffer.find(b"\n", self._name_end())) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            if self._wanted.only_files:
                self._count(line)
            else:
                self._message(line)

    def answer(self) -> SearchAnswer:
        matches = [*self._kept, *self._open]
        if not self._by_path:
            matches.sort(key=lambda match: _parts(match.path))
            of_files = groupby(matches, key=lambda match: match.path)
            shown = chain.from_iterable(of_file for path, of_file in of_files if self._searched.shows(path))
            matches = list(islice(shown, self._wanted.limit + 1))
        return SearchAnswer(tuple(matches[: self._wanted.limit]), len(matches) > self._wanted.limit)

    def _name_end(self) -> int:
        """Where to look for the end of the line: behind the name, which may have line ends itself."""
        return max(self._buffer.find(b"\0"), 0) if self._wanted.only_files else 0

    def _count(self, line: bytes) -> None:
        name, _, count = line.rpartition(b"\0")
        path = os.fsdecode(name.removeprefix(b"./"))
        if not self._by_path or self._searched.shows(path):
            self._kept.append(Match(path, int(count)))
            self._stop_when_enough()

    def _message(self, line: bytes) -> None:
        if line.startswith(b'{"type":"begin"'):
            return
        message = self._decode(line)
        data = message.data
        if message.type == "end":
            if data.binary_offset is None:
                self._kept += self._open
            self._open = []
        elif message.type == "match" and data.path is not None and data.lines is not None:
            path = os.fsdecode(data.path.raw.removeprefix(b"./"))
            if path == self._passed_over:
                return
            if self._by_path and not self._open and not self._searched.shows(path):
                self._passed_over = path
                return
            start = data.submatches[0].start if data.submatches else 0
            text = data.lines.raw.rstrip(b"\r\n")
            self._bytes += len(text)
            self._open.append(Match(path, data.line_number or 0, text, start))
            self._stop_when_enough()

    def _stop_when_enough(self) -> None:
        found = len(self._kept) + len(self._open)
        if not self._by_path:
            if len(self._kept) > self._wanted.limit // 2:
                self._more.set()
            most = MAX_UNSORTED if self._trickles() else MAX_UNSORTED // 4
            if found > most or self._bytes > MAX_UNSORTED_BYTES:
                self.enough.set()
            return
        if found <= self._wanted.limit:
            return
        if self._open and self._is_binary(self._open[0].path):  # it would have been dropped at its end
            self._passed_over = self._open[0].path
            self._open = []
            return
        self.enough.set()

    def _is_binary(self, path: str) -> bool:
        try:
            with open(os.path.join(self._wanted.folder, path), "rb") as file:
                return b"\0" in file.read(MAX_FILE_BYTES)
        except OSError:
            return False
