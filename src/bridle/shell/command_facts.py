"""What is known about a shell script before it runs. Plain data, made by `understand`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from bridle.base.command_class import CommandClass
from bridle.shell.shell_words import Word

ScriptShape: TypeAlias = Literal["simple", "pipeline", "compound"]
"""One command, commands joined by `|` only, or anything more: lists, substitutions, subshells, loops, functions."""

SEVERITY: tuple[CommandClass, ...] = (
    "read_only", "writes", "network", "executes", "destructive", "unparseable",
)  # fmt: skip
"""From harmless to worst; a script is as bad as its worst part."""


class FilesBelow(msgspec.Struct, frozen=True, kw_only=True):
    """Which files below a folder are meant: those named like one of `names`, all where there are none.

    The rest is as in `shell_words.FoundFiles`.
    """

    names: tuple[str, ...] = ()
    bare: bool = False
    tracked: bool = False
    hidden: bool = True
    expanded: bool = False


class PathUse(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder a command names, as the shell would see it: `~` and quotes resolved, relative to `cwd` there.

    `path` is None where the name is not known before the command runs. With `pattern` it is a glob: any file it
    matches may be meant, and folders on the way may be links. With `split` a file name that holds a blank or a wildcard
    becomes other names. With `below` it is a folder, and files below it are meant.
    """

    path: str | None
    access: Literal["read", "write", "delete", "run"]
    pattern: bool = False
    split: bool = False
    below: FilesBelow | None = None


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One simple command of a script, wrappers taken off.

    `words` is its argument list with None where a word is not known. `does` says what it does in a few words for a
    person (`deletes build/`, `runs a script from package.json`). `key` is what a grant for "this program, harmless
    arguments" may hold (`npm test`), None where no such grant makes sense. `uses` names every path it is known to
    touch, `urls` every address. `repository` is a folder whose git settings can make a reading command run programs:
    whoever relies on `command_class` has looked at them (`understand` has). `steered_by` are files that would make it
    run something else if they were there or in a folder above (`understand` has looked). `discloses`: it prints a
    secret, which a person agrees to each time.
    """

    text: str
    words: tuple[str | None, ...]
    command_class: CommandClass
    does: str = ""
    key: str | None = None
    uses: tuple[PathUse, ...] = ()
    urls: tuple[str, ...] = ()
    repository: str | None = None
    steered_by: tuple[str, ...] = ()
    discloses: bool = False


class Understanding(msgspec.Struct, frozen=True, kw_only=True):
    """A whole script: its parts in the order they are written, and the worst they do together.

    `refused` is the end of a sentence when the script must never run, whatever anybody says (`it deletes your home
    folder`), with `refused_rule` as the stable name of why. `problem` says what could not be understood. It
    `discloses` a secret if a part does. `composed` are words that stand nowhere in the text as they will be read.
    `hidden` says why some program it runs cannot be named from the text, nothing where each can.
    """

    command: str
    shape: ScriptShape
    parts: tuple[Part, ...]
    command_class: CommandClass
    refused: str | None = None
    refused_rule: str | None = None
    problem: str | None = None
    discloses: bool = False
    composed: tuple[str, ...] = ()
    hidden: str = ""

    @property
    def read_only(self) -> bool:
        return self.command_class == "read_only"


Understand: TypeAlias = Callable[[str, str], Understanding]
"""What a script does, given its text and the absolute folder it starts in."""


class ScriptContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a script's meaning depends on besides its text: where it starts, whose home `~` is, where programs are.

    `cwd` and `home` are absolute and resolved. `search_path` is the PATH the script runs with; empty means that it was
    not given, and programs are then taken to be the system's. `workspace` is the folder whose files are not the
    person's own, `cwd` where it is empty.
    """

    cwd: str
    home: str
    search_path: str = ""
    workspace: str = ""


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
