"""The program that started this process, as far as the kernel tells it: its first word, its file, and what is in it.

Shells that only pass a command on are looked through. Of an interpreter, the script it runs counts too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os

import msgspec

from bridle.base.peer_process import parent_of

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ash", "ksh"})
_INTERPRETERS = ("node", "python", "bun", "deno", "ruby", "perl")
_MOST_SHELLS = 8
_CHUNK = 1 << 20


class ParentProgram(msgspec.Struct, frozen=True, kw_only=True):
    """`word` is how it was called, `path` the file that runs, `sha256` that of its bytes; `script` and its bytes where
    the file is an interpreter. Empty where the system does not tell."""

    pid: int
    word: str = ""
    path: str = ""
    sha256: str = ""
    script: str = ""
    script_sha256: str = ""

    @property
    def id(self) -> str:
        """What it is known by: another word, another file, another script are another program."""
        seen = f"{self.word}\0{self.sha256}\0{self.script}\0{self.script_sha256}"
        return hashlib.sha256(seen.encode("utf-8", "surrogateescape")).hexdigest()[:12]

    @property
    def name(self) -> str:
        """What people call it."""
        return os.path.basename(self.script or self.word or self.path) or "unknown program"


def parent_program(pid: int | None = None) -> ParentProgram:
    """The one that started this process, or the process `pid` itself."""
    if pid is None:
        pid = _behind_shells(os.getppid())
    folder = f"/proc/{pid}"
    try:
        words = _read(f"{folder}/cmdline").split("\0")
        path = os.readlink(f"{folder}/exe").removesuffix(" (deleted)")
        sha256 = file_digest(f"{folder}/exe")  # the very file that runs, whatever has its name now
    except OSError:
        return ParentProgram(pid=pid)
    script = _script(words[1:], folder) if os.path.basename(path).startswith(_INTERPRETERS) else ""
    digest = ""
    with contextlib.suppress(OSError):
        digest = file_digest(script) if script else ""
    return ParentProgram(
        pid=pid, word=words[0], path=path, sha256=sha256, script=script, script_sha256=digest
    )


def descends_from(pid: int, ancestor: int) -> bool:
    """Whether a process was started by another, by way of any number of others; a process descends from itself."""
    for _ in range(512):
        if pid == ancestor:
            return True
        parent = parent_of(pid)
        if parent is None or parent < 1:
            return False
        pid = parent
    return False


def _behind_shells(pid: int) -> int:
    for _ in range(_MOST_SHELLS):
        try:
            name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        except OSError:
            return pid
        above = parent_of(pid)
        if name not in _SHELLS or above is None or above <= 1:
            return pid
        pid = above
    return pid


def _script(words: list[str], folder: str) -> str:
    """The file an interpreter runs: its first word that is no option, where there is such a file."""
    for word in words:
        if word and not word.startswith("-"):
            path = os.path.join(f"{folder}/cwd", word)
            return os.path.realpath(path) if os.path.isfile(path) else ""
    return ""


def file_digest(path: str) -> str:
    """The SHA-256 of a file. Raises OSError."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def _read(path: str) -> str:
    with open(path, "rb") as file:
        return os.fsdecode(file.read(1 << 20))
