"""A program that a project asks to start, as one digest.

Approving `bash scripts/check` means approving that script as it is now. The digest covers the words, the variables, the
folder, the program, every file of the project that the words or variables name, and every script that the words name
outside the project. Packages are pinned by their version only: see `mcp/launch_pins.py`.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from bridle.base.fs.paths import is_beneath
from bridle.base.process.launched_code import file_sha256, find_program, launched_code

SHELL: Final = "/bin/sh"
_FETCHERS: Final = {"npx": 0, "bunx": 0, "pnpx": 0, "uvx": 0, "pipx": 1}
"""Launchers that bring their program from elsewhere, and how many words of their own stand before its name."""


class ProgramLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """What would run. `files` are the project's files among the words, each with its digest; `cwd` is as shown.

    `fetched` names what a launcher would bring from the network: no digest can pin that. `scripts` are files outside
    the project that a launcher would run, each with its digest; `unpinned` says what can be other code the next time.
    """

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = "."
    program: str = ""
    program_digest: str = ""
    files: tuple[tuple[str, str], ...] = ()
    fetched: str = ""
    scripts: tuple[tuple[str, str], ...] = ()
    unpinned: str = ""

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
        for pair in self.scripts:
            yield from pair


def launch_of(
    command: str | Sequence[str], *, root: str, cwd: str, env: Mapping[str, str], search_path: str
) -> ProgramLaunch:
    """Looks at everything `command` would run, and runs nothing. A text is a line for the shell.

    `env` are the variables the project asks for; `search_path` is the PATH the program is found on.
    """
    argv = (SHELL, "-c", command) if isinstance(command, str) else tuple(command)
    program = (
        os.path.realpath(found) if (found := find_program(argv[0], cwd=cwd, search_path=search_path)) else ""
    )
    code = launched_code(argv, cwd=cwd, env=env, search_path=search_path)
    real_root = os.path.realpath(root)
    run = [part for part in code.parts if part.kind != "package" and os.path.isabs(part.name)]
    scripts = [(part.name, part.integrity) for part in run if not is_beneath(part.name, real_root)]
    of_project = {part.name for part in run if is_beneath(part.name, real_root) and part.integrity}
    words = _words(command) if isinstance(command, str) else argv[1:]
    named = {path for word in (*words, *env.values()) for path in _named(word, cwd, root)}
    files = sorted(named | of_project)
    pinned = [(os.path.relpath(path, real_root), file_sha256(path)) for path in files if path != program]
    return ProgramLaunch(
        argv=argv,
        env=tuple(sorted(env.items())),
        cwd=os.path.relpath(cwd, root),
        program=program,
        program_digest=file_sha256(program) if program else "",
        files=tuple(pinned),
        fetched=_fetched((words if isinstance(command, str) else argv) or ("",)),
        scripts=tuple(scripts),
        unpinned="" if isinstance(command, str) else code.unpinned,
    )


def _words(line: str) -> tuple[str, ...]:
    """Roughly the words of a shell line: every one that could be a file will be looked at."""
    try:
        return tuple(shlex.split(line.replace(";", " ").replace("&", " ").replace("|", " ")))
    except ValueError:
        return tuple(line.split())


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
