"""Parse server-sent events from bytes, by the WHATWG rules.

Owns the framing only. One `SseFrameBuffer` belongs to one response; reconnecting, and deciding what a frame
means, are the reader's business.
"""

from typing import Final, NamedTuple, NoReturn

DEFAULT_MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
LARGEST_RETRY_MS: Final = 2**53 - 1
"""A longer wait saturates here: the largest integer every JSON reader holds exactly."""

_BOM: Final = b"\xef\xbb\xbf"


class SseFrame(NamedTuple):
    """One dispatched frame.

    `event` is None when the frame names none (readers treat that as "message"). `id` is the event id *in
    force*: an id stays until a later one replaces it, so this is what a reader sends as Last-Event-ID after
    this frame; None means no id was ever given, "" that the server cleared it. `retry` is the reconnection
    time in milliseconds if this very frame set one.
    """

    event: str | None
    data: str
    id: str | None
    retry: int | None


class SseFrameTooLarge(Exception):
    """A frame grew past the limit. `completed` holds the frames the same feed finished before it."""

    def __init__(self, max_frame_bytes: int, completed: list[SseFrame]) -> None:
        super().__init__(f"a server-sent frame is larger than {max_frame_bytes} bytes")
        self.max_frame_bytes = max_frame_bytes
        self.completed = completed


class SseFrameBuffer:
    """Collects the bytes of one event stream, in chunks cut anywhere.

    The frames returned, and whether the limit is hit, depend on the bytes alone, never on the cuts. The size
    of a frame is its data lines plus the line being read; memory is that of the unfinished frame. A frame in
    whose middle the stream ends is never delivered.
    """

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self.last_event_id: str | None = None
        """The id in force after the last blank line, also of frames without data."""
        self.retry: int | None = None
        """The last reconnection time the server asked for, in milliseconds."""
        self._max_frame_bytes = max_frame_bytes
        self._too_large = False
        self._head: bytes | None = b""  # what may yet become a byte order mark; None once decided
        self._after_cr = False  # the last line ended in CR: an LF coming first belongs to it
        self._line_parts: list[bytes] = []
        self._line_size = 0
        self._data: list[str] = []
        self._data_size = 0
        self._event: str | None = None
        self._id: str | None = None
        self._frame_retry: int | None = None

    def feed(self, chunk: bytes) -> list[SseFrame]:
        """Take the next bytes; return the frames they complete.

        Raises `SseFrameTooLarge`, and from then on always: the rest of such a stream has no meaning.
        """
        if self._too_large:
            self._fail([])
        if self._head is not None:
            chunk = self._without_bom(self._head + chunk)
        if self._after_cr or b"\r" in chunk:
            chunk = self._unified(chunk)
        frames: list[SseFrame] = []
        if chunk:
            self._read_lines(chunk, frames)
        return frames

    def _without_bom(self, head: bytes) -> bytes:
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(_BOM)

    def _unified(self, chunk: bytes) -> bytes:
        """The chunk with every line end as LF. A CR ends its line at once; no frame waits for more."""
        if not chunk:
            return chunk
        if self._after_cr:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _read_lines(self, chunk: bytes, frames: list[SseFrame]) -> None:
        """Read the chunk line by line, minding the limit, and keep its last, unfinished line."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            lines[0] = b"".join(self._line_parts) + lines[0]
            self._line_parts.clear()
            self._line_size = 0
        for line in lines:
            if not line:
                self._dispatch(frames)
                continue
            if self._data_size + len(line) > self._max_frame_bytes:
                self._fail(frames)
            if self._read_field(line.decode("utf-8", "replace")):
                self._data_size += len(line) + 1
        if rest:
            self._line_parts.append(rest)
            self._line_size += len(rest)
            if self._data_size + self._line_size > self._max_frame_bytes:
                self._fail(frames)

    def _read_field(self, line: str) -> bool:
        """Apply one field and say whether it was data. A comment is a field without a name: ignored."""
        name, _, value = line.partition(":")
        if value[:1] == " ":
            value = value[1:]
        if name == "data":
            self._data.append(value)
            return True
        if name == "event":
            self._event = value or None
        elif name == "id":
            if "\0" not in value:
                self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry = self._frame_retry = _saturated(value)
        return False

    def _dispatch(self, frames: list[SseFrame]) -> None:
        """End the frame at its blank line. Without a data line it delivers nothing, but its id holds."""
        self.last_event_id = self._id
        if self._data:
            frames.append(SseFrame(self._event, "\n".join(self._data), self._id, self._frame_retry))
            self._data.clear()
            self._data_size = 0
        self._event = None
        self._frame_retry = None

    def _fail(self, completed: list[SseFrame]) -> NoReturn:
        self._too_large = True
        self._line_parts.clear()
        self._data.clear()
        raise SseFrameTooLarge(self._max_frame_bytes, completed)


def _saturated(digits: str) -> int:
    digits = digits.lstrip("0") or "0"
    return LARGEST_RETRY_MS if len(digits) > 16 else min(int(digits), LARGEST_RETRY_MS)
