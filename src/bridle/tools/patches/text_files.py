"""Read text files for editing, and keep their line endings and encoding.

NotEditable   the file is there and is no text these tools change

A byte order mark stays out of the text and is put back when it is written, so nobody can lose it.
"""

from __future__ import annotations

import os
import stat

import msgspec

from bridle.base.fs.files import open_beneath, read_limited
from bridle.base.secrets.redact import lines_within_secrets, redact

MAX_BYTES = 1 << 20

MASK = "«redacted:"
WRITES_MASK = "it holds a secret that you see masked; writing the mask would lose it; use bash"
_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"


class NotEditable(Exception):
    """`problem` reads as the end of a sentence."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class TextFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file without its byte order mark, and the mode it has."""

    text: str
    bom: str = ""
    mode: int | None = None

    def encoded(self, text: str) -> bytes:
        """`text` as this file would hold it."""
        return (self.bom + text).encode()


def read_text(resolved_path: str) -> TextFile:
    """Raises `NotEditable` for a folder, a device, a binary file and one over 1 MB; OSError as usual."""
    fd = open_beneath(resolved_path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise NotEditable("it is a folder")
        if not stat.S_ISREG(status.st_mode):
            raise NotEditable("it is not a regular file")
        contents = read_limited(fd, MAX_BYTES)
    finally:
        os.close(fd)
    if contents.truncated:
        raise NotEditable("it has more than 1 MB; use bash to change it")
    if b"\0" in contents.data:
        raise NotEditable("it is a binary file")
    try:
        text = contents.data.decode()
    except UnicodeDecodeError:
        raise NotEditable("it is not valid UTF-8; use bash to change it") from None
    bom = _BOM if text.startswith(_BOM) else ""
    return TextFile(text=text.removeprefix(bom), bom=bom, mode=stat.S_IMODE(status.st_mode))


def secret_lines(data: bytes) -> frozenset[bytes]:
    """The lines of a file, without their ends, that are in the middle of a secret."""
    lines = data.decode(errors="surrogateescape").replace("\r\n", "\n").split("\n")
    return frozenset(line.encode(errors="surrogateescape") for line in lines_within_secrets(lines))


def newline_of(text: str) -> str:
    """How most lines of `text` end."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf * 2 > text.count("\n") else "\n"


def is_all_crlf(text: str) -> bool:
    crlf = text.count("\r\n")
    return crlf > 0 and crlf == text.count("\n")


def would_lose_secret(old: str, new: str) -> bool:
    """Whether `new` has a mask where `old` has the secret that was masked when the file was read."""
    return new.count(MASK) > old.count(MASK) and redact(old) != old


def is_storable(text: str) -> bool:
    """Whether the text can be written at all; half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
