"""Cutting output to a size a model can read, and keeping the rest where it can be asked for.

Up to 32 KB pass whole, or what else a call has room for. Of more, as much of the beginning and of the end stays, with a
line between them that says how to read the rest, and what of it was kept. Memory and disk are bounded whatever a call
prints.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import msgspec

from bridle.base.fs.files import private_folder
from bridle.base.fs.sealed_file import SealedWriter, unsealed
from bridle.engine.tools import RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.display_values import ShownEdit
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.queries import OutputPart

if TYPE_CHECKING:
    from bridle.protocol.display_values import AnyShown, EditedFile

WHOLE_BYTES = 32 * 1024
DIFF_CHARACTERS = 40 * 1024
"""The diffs of a call share so many; one of our own tools always fits."""
PART_BYTES = 4_000_000
"""So much of a kept output is handed out at once."""
MAX_SPILL_BYTES = 64_000_000
"""So much of one output is kept: a command that prints without end must not fill the disk."""
MAX_SESSION_BYTES = 4 * MAX_SPILL_BYTES
"""So much is kept for a session; then the oldest outputs give way."""

_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


class Spill:
    """Where outputs too long to show are kept: one private, encrypted file per call, made when it is first needed.

    `key` is asked for when something is written or read, and may raise `BridleError`.
    """

    def __init__(
        self,
        folder: str,
        key: Callable[[], bytes],
        *,
        max_bytes: int = MAX_SPILL_BYTES,
        max_session_bytes: int = MAX_SESSION_BYTES,
    ) -> None:
        self._folder = folder
        self._key = key
        self.max_bytes = max_bytes
        self._max_session_bytes = max_session_bytes

    def open(self, call_id: str) -> SealedWriter:
        """A new file for this call. Raises OSError, and what the key raises."""
        path = self._path(call_id)
        if path is None:
            raise OSError(f"not the id of a call: {call_id!r}")
        key = self._key()
        private_folder(self._folder)
        self._make_room()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        return SealedWriter(fd, key, call_id)

    def keep(self, call_id: str, text: str) -> None:
        """Keeps a whole text at once. Blocks: use a thread. Raises OSError, and what the key raises."""
        writer = self.open(call_id)
        try:
            writer.write(text.encode("utf-8", "replace")[: self.max_bytes])
        finally:
            writer.close()

    def read(self, call_id: str) -> Generator[bytes] | None:
        """What this call printed, piece by piece; None when it kept nothing. Raises what the key raises; reading it,
        OSError, and ValueError where it is not what was written.
        """
        path = self._path(call_id)
        return unsealed(path, self._key(), call_id) if path is not None and os.path.isfile(path) else None

    def _make_room(self) -> None:
        """Lets the oldest outputs go until one more can be kept."""
        with os.scandir(self._folder) as entries:
            kept = sorted((entry.stat().st_mtime_ns, entry.stat().st_size, entry.path) for entry in entries)
        over = sum(size for _, size, _ in kept) + self.max_bytes - self._max_session_bytes
        for _, size, path in kept:
            if over <= 0:
                break
            os.unlink(path)
            over -= size

    def _path(self, call_id: str) -> str | None:
        if _CALL_ID.fullmatch(call_id) is None:  # it may come from a model; it must stay one plain name
            return None
        return os.path.join(os.path.realpath(self._folder), f"output-{call_id}")


def _usual_room(_call: ToolCall) -> int:
    return WHOLE_BYTES


def capped(spill: Spill, room_of: Callable[[ToolCall], int] = _usual_room) -> ToolLayer:
    """What a call streams and what it returns become one text of bounded size, and what is shown is bounded too.

    `room_of` says how many bytes of a call's output stay. The stream is still passed on live. When the call is cut
    short, what came so far is left in `partial`.
    """

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        collected = _Collected(lambda: spill.open(call.id), spill.max_bytes, room_of(call))

        def write(text: str) -> None:
            collected.add(text)
            call.write(text)

        try:
            output = await proceed(msgspec.structs.replace(call, write=write))
            collected.add(output.content)
        except BaseException:
            if collected.total:
                call.partial.append(collected.text(call.id))
            raise
        finally:
            collected.close()
        metadata = output.metadata
        if collected.is_long:
            metadata = {**metadata, "truncated": True, "output_bytes": collected.total}
        return msgspec.structs.replace(
            output, content=collected.text(call.id), shown=_bounded(output.shown), metadata=metadata
        )

    return layer


def _bounded(shown: AnyShown | None) -> AnyShown | None:
    """The same with as many diffs as there is room for; a file says that its own is left out."""
    if shown is None:
        return None
    if not isinstance(shown, ShownEdit) or sum(len(file.diff) for file in shown.files) <= DIFF_CHARACTERS:
        return shown
    room = DIFF_CHARACTERS
    files: list[EditedFile] = []
    for file in shown.files:
        room -= len(file.diff)
        fits = room >= 0 or not file.diff
        files.append(file if fits else msgspec.structs.replace(file, diff="", cut=True))
    return ShownEdit(files=tuple(files))


class _Collected:
    """The beginning and the end of a stream of text, and all of it in a file once it is long."""

    def __init__(self, open_spill: Callable[[], SealedWriter], max_bytes: int, whole_bytes: int) -> None:
        self.total = 0
        self._whole_bytes = whole_bytes
        self._end_bytes = whole_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._open_spill = open_spill
        self._file: SealedWriter | None = None
        self._kept = 0
        self._room = max_bytes
        self._problem = ""

    @property
    def is_long(self) -> bool:
        return self.total > self._whole_bytes

    def add(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        was_long = self.is_long
        self.total += len(data)
        if not self.is_long:
            self._head += data
            return
        if not was_long:
            self._begin_spill()
        self._keep(data)
        self._head += data[: max(self._end_bytes - len(self._head), 0)]
        self._tail += data
        if len(self._tail) > 2 * self._end_bytes:  # moved now and then, not with every piece
            del self._tail[: -self._end_bytes]

    def text(self, call_id: str) -> str:
        """The whole, or head, marker and tail, each cut between characters."""
        if not self.is_long:
            return self._head.decode()
        head = bytes(self._head[: self._end_bytes]).decode("utf-8", "ignore")
        tail = bytes(self._tail[-self._end_bytes :]).lstrip(_CONTINUATION).decode("utf-8", "ignore")
        left_out = self.total - len(head.encode()) - len(tail.encode())
        return f"{head}\n[… {left_out} bytes left out; {self._where(call_id)}]\n{tail}"

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as problem:
                self._fail(problem)

    def _begin_spill(self) -> None:
        self._tail += self._head
        try:
            self._file = self._open_spill()
        except (OSError, BridleError) as problem:
            why = problem.message if isinstance(problem, BridleError) else problem.strerror or problem
            self._problem = f"they could not be kept ({why})"
        self._keep(bytes(self._head))
        del self._head[self._end_bytes :]

    def _keep(self, data: bytes) -> None:
        """Appends to the file; a disk that is full costs the rest of the output, never the call."""
        if self._file is None or not self._room:
            return
        data = data[: self._room]
        try:
            self._file.write(data)
        except OSError as problem:
            self._fail(problem)
            return
        self._room -= len(data)
        self._kept += len(data)

    def _fail(self, problem: OSError) -> None:
        self._problem = f"not all could be kept ({problem.strerror or problem})"
        self._room = 0

    def _where(self, call_id: str) -> str:
        if not self._kept:
            return self._problem
        how = f'read_file with path "output:{call_id}", offset and limit shows '
        if self._kept == self.total and not self._problem:
            return f"{how}them"
        told = f"; {self._problem}" if self._problem else ""
        return f"{how}the first {self._kept} of all {self.total} bytes, the rest was not kept{told}"


def read_part(spill: Spill, call_id: str, offset: int) -> OutputPart:
    """What a call printed, from a byte on. Blocks: use a thread. Raises `BridleError`."""
    pieces = spill.read(call_id)
    if pieces is None:
        return OutputPart()
    data, before = bytearray(), 0
    try:
        for piece in pieces:
            data += piece[max(offset - before, 0) :]
            before += len(piece)
            if len(data) > PART_BYTES:
                break
    except (OSError, ValueError) as problem:
        raise CommandRefused("OutputUnreadable", problem=str(problem)) from None
    finally:
        pieces.close()
    part = bytes(data[:PART_BYTES])
    while len(data) > PART_BYTES and part and data[len(part)] in _CONTINUATION:
        part = part[:-1]  # between two characters
    text = part.decode("utf-8", "replace")
    return OutputPart(text=text, next_offset=offset + len(part) if len(data) > len(part) else None)


_CONTINUATION = bytes(range(0x80, 0xC0))
