"""Instruction files: where they are, in which order they count, and what they say.

Global first, then every one from the root of the repository down to the working folder, then the project's own
`.bridle/` copy, in each folder by the order of their names in the settings; a later text wins. Finding them reads
files and obeys none. A project's file that is a link out of the project is found, and never read: it would show the
model whatever it leads to.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from bridle.base.files import read_limited, repository_root

MAX_BYTES = 64 * 1024
DEFAULT_SOURCES = ("AGENTS.md",)


class InstructionFile(msgspec.Struct, frozen=True, kw_only=True):
    """A text that wants to tell the model how to work. `shown` is its path as people read it.

    `root` is the project it belongs to, `data` the very bytes of its text. `owner` is named only where the file is not
    the person's own; `outside` is a link out of the project, of which nothing was read.
    """

    path: str
    shown: str
    scope: Literal["global", "project"]
    text: str
    sha256: str
    truncated: bool = False
    root: str = ""
    data: bytes = b""
    changed_ms: int | None = None
    owner: str = ""
    outside: bool = False


def find_instruction_files(
    cwd: str, *, config_folder: str, sources: Sequence[str] = DEFAULT_SOURCES
) -> tuple[InstructionFile, ...]:
    """Every instruction file there is for `cwd`, in the order they count. What cannot be read is not there."""
    found: list[InstructionFile] = []
    root = repository_root(cwd)
    for name in sources:
        found += _read(os.path.join(config_folder, name), f"{name} (yours)", "global")
    for folder in (*_from_root_down(cwd), os.path.join(cwd, ".bridle")):
        for name in sources:
            path = os.path.join(folder, name)
            found += _read(path, os.path.relpath(path, cwd), "project", root)
    return tuple(found)


def instruction_text(files: Iterable[InstructionFile]) -> str:
    """The files as one part of the system text, each under its name."""
    parts = [f"# Instructions from {file.shown}\n\n{file.text.strip()}" for file in files]
    return "\n\n".join(parts)


def _from_root_down(cwd: str) -> list[str]:
    root = repository_root(cwd)
    folders: list[str] = []
    for folder in _upwards(cwd):
        folders.append(folder)
        if folder == root:
            break
    return folders[::-1]


def _upwards(folder: str) -> Iterator[str]:
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _read(
    path: str, shown: str, scope: Literal["global", "project"], root: str = ""
) -> list[InstructionFile]:
    if root and _leads_outside(path, root):
        return [
            InstructionFile(path=path, shown=shown, scope=scope, text="", sha256="", root=root, outside=True)
        ]
    try:
        contents = read_limited(path, MAX_BYTES)
        facts = os.stat(path)
    except (OSError, ValueError):
        return []
    text = contents.data.decode("utf-8", "replace")
    if not text.strip():
        return []
    return [
        InstructionFile(
            path=path,
            shown=shown,
            scope=scope,
            text=text,
            sha256=hashlib.sha256(contents.data).hexdigest(),
            truncated=contents.truncated,
            root=root,
            data=contents.data,
            changed_ms=facts.st_mtime_ns // 1_000_000,
            owner="" if facts.st_uid == os.geteuid() else _user(facts.st_uid),
        )
    ]


def _leads_outside(path: str, root: str) -> bool:
    """Whether something stands there and is really somewhere else."""
    if not os.path.lexists(path):
        return False
    return os.path.commonpath((os.path.realpath(path), os.path.realpath(root))) != os.path.realpath(root)


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
