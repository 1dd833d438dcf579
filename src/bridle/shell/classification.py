"""What is being found out about one simple command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from posixpath import join
from typing import Literal

import msgspec

from bridle.base.command_class import CommandClass
from bridle.shell.command_facts import SEVERITY, FilesBelow, PathUse, PossibleFolders
from bridle.shell.programs import Program
from bridle.shell.shell_words import OPEN_DESCRIPTOR, FoundFiles, Word

_NOBODYS = frozenset(
    {"-", "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/full"}
)
ENDLESS = frozenset({"/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"})
"""Devices that give without end, or wait: who reads them reads a file like any other that is not of the workspace."""
_RANK = {name: rank for rank, name in enumerate(SEVERITY)}


def worse(first: CommandClass, second: CommandClass) -> CommandClass:
    return first if _RANK[first] >= _RANK[second] else second


class Classification(msgspec.Struct):
    """Grows while a command is looked at; its class only ever gets worse. `start` is where the script began.

    `assigned` and `spoken` are texts that variables may hold and that come in through a pipe: not sure enough to allow
    anything, sure enough to refuse.
    """

    name: str
    words: Sequence[Word]
    folders: PossibleFolders
    start: str
    home: str
    command_class: CommandClass = "read_only"
    does: str = ""
    uses: list[PathUse] = []
    urls: list[str] = []
    repository: str | None = None
    subcommand: str = ""
    whole_folders: bool = False
    keyless: bool = False
    steered_by: list[str] = []
    assigned: Mapping[str, Sequence[str]] = {}
    spoken: Sequence[str] = ()

    def at_least(self, command_class: CommandClass, does: str = "") -> None:
        """What it does is told by the worst that is known of it; without words for that, by the program's own."""
        if _RANK[command_class] > _RANK[self.command_class]:
            self.command_class, self.does = command_class, does

    def unproven(self, why: str) -> None:
        """It may do anything the program can do; `why` is the end of a sentence. No grant covers that."""
        self.keyless = True
        self.at_least("executes", f"runs {shown_name(self.name)}; {why}")

    def use_named(self, path: str, access: Literal["read", "write", "delete", "run"]) -> None:
        """Notes a path that no word of the command names."""
        for folder in sorted(self.folders, key=str):
            self.uses.append(PathUse(path=self._from_start(path, folder), access=access))

    def use(self, word: Word, access: Literal["read", "write", "delete", "run"]) -> None:
        """Notes a path the command touches, as seen from where the script started."""
        if word.found is not None and access == "read":
            self._use_found(word.found)
            return
        if word.text is None:
            if not word.starts.startswith(OPEN_DESCRIPTOR):
                self.uses.append(PathUse(path=None, access=access))
            return
        if not word.text or word.text.startswith("/dev/fd/"):
            return
        if word.text in _NOBODYS and not (access == "read" and word.text in ENDLESS):
            return
        for folder in sorted(self.folders, key=str):
            path = self._from_start(word.text, folder)
            split = word.glob and word.split
            self.uses.append(PathUse(path=path, access=access, pattern=word.glob, split=split))

    def _use_found(self, found: FoundFiles) -> None:
        below = FilesBelow(
            names=found.names,
            bare=found.bare,
            tracked=found.tracked,
            hidden=found.hidden,
            expanded=found.expanded,
        )
        for folder in sorted(self.folders, key=str):
            for root in found.folders:
                path = self._from_start(root, folder)
                self.uses.append(
                    PathUse(path=path, access="read", split=not found.parted_by_nul, below=below)
                )

    def _from_start(self, path: str, folder: str | None) -> str | None:
        if path.startswith("/") or folder == self.start:
            return path
        if folder is None:
            return None
        if folder.startswith(self.start.rstrip("/") + "/"):
            folder = folder[len(self.start.rstrip("/")) + 1 :]
        return join(folder, path)

    def places(self, word: Word) -> list[str]:
        """Every absolute path a known word may mean."""
        if word.text is None:
            return []
        return [join(folder, word.text) for folder in self.folders if folder is not None] or (
            [word.text] if word.text.startswith("/") else []
        )

    def phrase(self, program: Program) -> str:
        if self.does:
            return self._filled(self.does)
        if program.does:
            return self._filled(program.does)
        match self.command_class:
            case "read_only":
                return self._filled("reads {}")
            case "writes":
                return self._filled("writes {}")
            case "network":
                return "connects to the network"
            case "destructive":
                return self._filled("deletes {}")
            case _:
                return f"runs {shown_name(self.name)}"

    def _filled(self, phrase: str) -> str:
        if "{}" not in phrase:
            return phrase
        objects = self._objects()
        if objects:
            return phrase.format(objects).strip()
        return "only reads" if phrase == "reads {}" else phrase.format("files").strip()

    def _objects(self) -> str:
        if self.urls:
            return _several([host_of(url) for url in self.urls])
        worst = {"destructive": "delete", "writes": "write", "executes": "run"}.get(self.command_class, "")
        chosen = [use for use in self.uses if use.access == worst] or self.uses
        return _several([self._shown(use) for use in chosen])

    def _shown(self, use: PathUse) -> str:
        if use.path is None:
            return "files not known yet"
        is_folder = self.whole_folders and not use.pattern and "." not in use.path.rpartition("/")[2]
        return f"{use.path}/" if is_folder and not use.path.endswith("/") else use.path


def shown_name(name: str) -> str:
    return name if name.isprintable() and len(name) <= 40 else "a program"


def host_of(url: str) -> str:
    """The host an address names, without what could be a password in it."""
    rest = url.partition("://")[2] or url
    return rest.partition("/")[0].partition("?")[0].rpartition("@")[2] or "the network"


def _several(names: Sequence[str]) -> str:
    distinct = [name if name.isprintable() else ascii(name) for name in dict.fromkeys(names)]
    distinct = [name if len(name) <= 60 else name[:57] + "…" for name in distinct]
    if len(distinct) <= 2:
        return " and ".join(distinct)
    return f"{distinct[0]}, {distinct[1]} and {len(distinct) - 2} more"
