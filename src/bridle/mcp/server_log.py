"""The log file of one server: what it wrote on its standard error, and what was wrong with what it sent."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from bridle.base.files import private_folder
from bridle.base.redact import StreamRedactor
from bridle.base.tool_names import unique_server_parts
from bridle.base.visible import visible

MOST_BYTES: Final = 1 << 20
"""So much is in the file; what was in it before stays beside it, as `.1`."""
MOST_OF_A_RUN: Final = 8 << 20
"""A server that writes more than this is not written down any further until it is started again."""
_LAST_CHARACTERS: Final = 200
_LAST_BYTES: Final = 4096


def log_path(state_folder: str, server: str) -> str:
    """Where the words of a server of this name are kept."""
    return os.path.join(state_folder, "log", f"mcp-{unique_server_parts([server])[server]}.log")


class ServerLog:
    """Appends to the file of a server, without what it is to `hide`. What cannot be written is let go."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._secrets: tuple[str, ...] = ()
        self._redactor = StreamRedactor()
        self._left = MOST_OF_A_RUN
        self._last = bytearray()

    def hide(self, secrets: Iterable[str]) -> None:
        """From here on these appear in nothing that is written."""
        self._write(self._redactor.flush())
        self._secrets = tuple(dict.fromkeys(value for value in secrets if value))
        self._redactor = StreamRedactor(known=self._secrets)

    def masked(self, words: str) -> str:
        """These words without what is hidden."""
        return StreamRedactor(known=self._secrets).whole(words)

    def begin(self, words: str) -> None:
        """A run of the server begins."""
        self._left = MOST_OF_A_RUN
        self._last.clear()
        self.note(words)

    def hear(self, chunk: bytes) -> None:
        """A piece of what it wrote on its standard error."""
        self._last += chunk
        del self._last[:-_LAST_BYTES]
        self._write(self._redactor.feed(chunk.decode(errors="replace")))

    def note(self, words: str) -> None:
        """A line of our own. Words of the server may be in it."""
        before = self._redactor.flush()
        end = "" if not before or before.endswith("\n") else "\n"
        self._write(f"{before}{end}[bridle] {self.masked(words)}\n")

    def last_line(self) -> str:
        """The last line it wrote, to stand behind why it ended; empty where it wrote none."""
        lines = bytes(self._last).decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return visible(self.masked(last)[:_LAST_CHARACTERS], newlines=False)

    def _write(self, text: str) -> None:
        if not text or self._left <= 0:
            return
        data = visible(text).encode(errors="replace")
        self._left -= len(data)
        if self._left <= 0:
            data = b"[bridle] it writes too much: the rest is left out\n"
        try:
            private_folder(os.path.dirname(self.path))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(self.path, flags, 0o600)
            try:
                if os.fstat(file).st_size + len(data) > MOST_BYTES:
                    os.replace(self.path, f"{self.path}.1")
                    os.close(file)
                    file = os.open(self.path, flags, 0o600)
                os.write(file, data[-MOST_BYTES:])
            finally:
                os.close(file)
        except OSError:
            return
