"""`.bridle-secrets/env` of a project: keys of providers that belong to the project and are not in it.

It counts only if it is a private file of the person who runs Bridle, they agreed to this very content, and git ignores
it. Otherwise nothing of it is used, and one sentence says why. What the shell sets goes before it. It is never laid
over an environment: a provider finds the variable that its key is in, and nothing else is looked for.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from bridle.base.fs.files import open_beneath, read_limited
from bridle.base.fs.paths import PROJECT_SECRETS_FILE as FILE
from bridle.base.text.terminal_text import visible
from bridle.protocol.events import Notice

MAX_BYTES = 64 * 1024
SHOWN_NAMES = 6
_LINE = r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)"


class Unusable(Exception):
    """Why the file does not count, as one clause."""


class ProjectKeys(msgspec.Struct, frozen=True):
    """What such a file gives: variables, or else why it gives none. Its text never shows a value."""

    values: Mapping[str, str] = {}
    problem: str = ""

    def __repr__(self) -> str:
        return f"ProjectKeys({sorted(self.values)}, {self.problem!r})"

    def notice(self) -> Notice:
        """What a person is told when a session begins."""
        if self.problem:
            return Notice(reason="SecretsFileIgnored", message=f"{FILE} is not used: {self.problem}.")
        names = list(self.values)[:SHOWN_NAMES]
        more = len(self.values) - len(names)
        listed = ", ".join(names) + (f" and {more} more" if more else "")
        return Notice(reason="SecretsFileUsed", message=f"Keys of this project are in {FILE}: {listed}.")


async def project_keys(
    root: str, *, is_agreed: Callable[[bytes], bool], is_ignored: Callable[[str], Awaitable[bool]]
) -> ProjectKeys:
    """What the file of the project in the resolved folder `root` gives.

    `is_agreed` says whether a person agreed to this very content; `is_ignored` asks git about a path below `root`.
    """
    try:
        data = read_private(root)
        values = parse(data)
        if not is_agreed(data):
            raise Unusable(f"you have not agreed to what is in it (bridle trust ack {FILE})")
        if _is_repository(root) and not await is_ignored(FILE):
            raise Unusable(f"git does not ignore it (add {os.path.dirname(FILE)}/ to .gitignore)")
    except Unusable as problem:
        return ProjectKeys(problem=str(problem))
    return ProjectKeys(values)


def _is_repository(root: str) -> bool:
    return os.path.lexists(os.path.join(root, ".git"))


def read_private(root: str) -> bytes:
    """The bytes of the file, through no link. Raises `Unusable` where anybody else could have read or written them."""
    try:
        fd = open_beneath(os.path.join(root, FILE), os.O_RDONLY | os.O_NONBLOCK)
    except OSError as problem:
        linked = problem.errno in {errno.ELOOP, errno.ENOTDIR}
        raise Unusable("it is behind a link" if linked else problem.strerror or "it cannot be read") from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise Unusable("it is not a file")
        if found.st_uid != os.geteuid():
            raise Unusable("it belongs to somebody else")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise Unusable(f"others can read it (chmod 600 {FILE})")
        contents = read_limited(fd, MAX_BYTES)
    finally:
        os.close(fd)
    if contents.truncated:
        raise Unusable("it is too large")
    return contents.data


def parse(data: bytes) -> dict[str, str]:
    """`NAME=value` lines; blank lines and those that begin with `#` say nothing, and nothing is expanded. Pure.

    `export` may stand in front; quotes around a whole value go. Of two lines with one name the later counts. Raises
    `Unusable`, without the text: it may be a secret.
    """
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise Unusable("it is not UTF-8 text") from None
    values: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = re.fullmatch(_LINE, text)
        if match is None or "\0" in text:
            raise Unusable(f"line {number} of it is not NAME=value")
        values[match[1]] = _unquoted(match[2])
    return {name: value for name, value in values.items() if value}


def _unquoted(value: str) -> str:
    quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value


def without_values(data: bytes) -> str:
    """The file as it is shown to a person: names, and of each value only how long it is."""
    return "".join(
        f"{visible(name, newlines=False)}=… ({len(value)} characters)\n"
        for name, value in parse(data).items()
    )
