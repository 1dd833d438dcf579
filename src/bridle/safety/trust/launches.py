"""A program somebody wants to start, as one digest: what is called, with what around it, and what it will really run.

Agreeing to `bash scripts/check` means agreeing to that script as it is now. So the digest covers the words, the
variables, the folder, the program the first word leads to, and every file of the project that the words or variables
name: whatever launches them (npx, uvx, python, node, sh, bash), a file that changes makes it another launch.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

SHELL: Final = "/bin/sh"
_FETCHERS: Final = {"npx": 0, "bunx": 0, "pnpx": 0, "uvx": 0, "pipx": 1}
"""Launchers that bring their program from elsewhere, and how many words of their own stand before its name."""


class ProgramLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """What would run. `files` are the project's files among the words, each with its digest; `cwd` is as shown.

    `fetched` names what a launcher would bring from the network: no digest can pin that.
    """

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = "."
    program: str = ""
    program_digest: str = ""
    files: tuple[tuple[str, str], ...] = ()
    fetched: str = ""

    @property
    def digest(self) -> str:
        """Two launches have the same one exactly if nothing of this differs."""
        hashed = hashlib.sha256()
        for part in self._parts():
            data = os.fsencode(part)
            hashed.update(b"%d:%s" % (len(data), data))
        return hashed.hexdigest()

    @property
    def shown(self) -> str:
        """The command as a person would type it."""
        return self.argv[2] if self.argv[:2] == (SHELL, "-c") else shlex.join(self.argv)

    def _parts(self) -> Iterator[str]:
        yield from ("launch 1", str(len(self.argv)), *self.argv, str(len(self.env)))
        for pair in (*self.env, (self.program, self.program_digest), *self.files):
            yield from pair
        yield self.cwd


def launch_of(
    command: str | Sequence[str], *, root: str, cwd: str, env: Mapping[str, str], search_path: str
) -> ProgramLaunch:
    """Looks at everything `command` would run, and runs nothing. A text is a line for the shell.

    `env` are the variables the project asks for; `search_path` is the PATH the program is found on.
    """
    argv = (SHELL, "-c", command) if isinstance(command, str) else tuple(command)
    program = _found(argv[0], cwd, search_path)
    words = _words(command) if isinstance(command, str) else argv[1:]
    files = sorted({path for word in (*words, *env.values()) for path in _named(word, cwd, root)})
    pinned = [(os.path.relpath(path, root), file_digest(path)) for path in files if path != program]
    return ProgramLaunch(
        argv=argv,
        env=tuple(sorted(env.items())),
        cwd=os.path.relpath(cwd, root),
        program=program,
        program_digest=file_digest(program) if program else "",
        files=tuple(pinned),
        fetched=_fetched((words if isinstance(command, str) else argv) or ("",)),
    )


def file_digest(path: str) -> str:
    """The digest of a regular file's content; empty for anything that cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return ""
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return hashlib.file_digest(file, "sha256").hexdigest()


def _words(line: str) -> tuple[str, ...]:
    """Roughly the words of a shell line: every one that could be a file will be looked at."""
    try:
        return tuple(shlex.split(line.replace(";", " ").replace("&", " ").replace("|", " ")))
    except ValueError:
        return tuple(line.split())


def _found(word: str, cwd: str, search_path: str) -> str:
    if "/" in word:
        candidates: Iterable[str] = (os.path.join(cwd, word),)
    else:
        folders = [folder for folder in search_path.split(os.pathsep) if os.path.isabs(folder)]
        candidates = (os.path.join(folder, word) for folder in folders)
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.realpath(path)
    return ""


def _named(word: str, cwd: str, root: str) -> Iterator[str]:
    """The project's files that a word means: as a path, as the value of an option, as a module of Python."""
    value = word.partition("=")[2] if word.startswith("-") else word
    module = value.replace(".", "/")
    for name in (value, f"{module}.py", f"{module}/__main__.py"):
        path = os.path.realpath(os.path.join(cwd, name)) if name and "\0" not in name else ""
        if path.startswith(os.path.join(os.path.realpath(root), "")) and os.path.isfile(path):
            yield path


def _fetched(words: Sequence[str]) -> str:
    own = _FETCHERS.get(os.path.basename(words[0]))
    if own is None:
        return ""
    return next((word for word in words[1 + own :] if not word.startswith("-")), "")
