"""A script that has been read: plain data between `reading` and `judging`."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bridle.shell.command_facts import ScriptShape
from bridle.shell.shell_words import Word

PossibleFolders: TypeAlias = frozenset[str | None]
"""The folders a command may be running in: more than one after a `cd` that may have failed, None for anywhere."""


class Assignment(msgspec.Struct, frozen=True):
    """`name=value` before a command or alone. `value` is None for arrays and elements of arrays."""

    name: str
    value: Word | None


class Redirection(msgspec.Struct, frozen=True):
    """Where input comes from or output goes. `target` is None when only descriptors are moved.

    `body` is the text of a here-document or here-string, None where it is not known.
    """

    operator: str
    target: Word | None = None
    body: str | None = None


class SimpleCommand(msgspec.Struct, eq=False):
    """One simple command as written. Without words it only assigns, redirects or evaluates.

    `fed_by` are the commands whose output it reads through a pipe, `inner` those inside its own substitutions.
    `expands` are wildcards that a loop goes through, in other folders than its own.
    """

    text: str
    folders: PossibleFolders
    words: list[Word] = []
    assignments: list[Assignment] = []
    redirections: list[Redirection] = []
    fed_by: list[SimpleCommand] = []
    inner: list[SimpleCommand] = []
    expands: list[Word] = []
    evaluates: bool = False


class ParsedScript(msgspec.Struct):
    """Every simple command in the order written, and what the whole looks like.

    `defined` are names a function has in it, `multiplies` is set when one of them starts itself more than once.
    `assigned` are texts that variables may hold, as far as they are plain. `composed` are the texts of words that were
    put together from variables: they stand nowhere in the script as they will be read.
    """

    commands: list[SimpleCommand] = []
    shape: ScriptShape = "compound"
    defined: set[str] = set()
    assigned: dict[str, list[str]] = {}
    composed: set[str] = set()
    multiplies: bool = False

    def note(self, name: str, word: Word) -> None:
        """Remembers what a variable may hold."""
        if word.text is not None:
            self.assigned.setdefault(name, []).append(word.text)
