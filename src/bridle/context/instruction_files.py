"""Instruction files: where they are, in which order they count, and what they say.

Global first, then every one from the root of the repository down to the working folder, then the project's own
`.bridle/` copy, in each folder by the order of their names in the settings; a later text wins. A name may be a path
below its folder, and its last part a pattern (`.cursor/rules/*.mdc`). Finding them reads files and obeys none. A
project's file that is a link out of the project, or looks like it holds secrets, is found, and never read: it would
show the model whatever it leads to.
"""

from __future__ import annotations

import hashlib
import os
import pwd
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias

import msgspec

from bridle.base.fs.files import first_entries, read_limited, repository_root
from bridle.base.fs.path_patterns import BadPathPattern, PathPattern, anywhere
from bridle.base.secrets.secret_files import is_secret_like
from bridle.base.text.terminal_text import visible

# --- description: how tests are written globs: tests/**/*.py, *.spec.ts alwaysApply: false --- Obeyed is what
# is documented: `alwaysApply: true` and a file without a header count always, `globs` when a file they name
# is touched. A rule with neither waits there for a person or a model to choose it, and is not used here.


RuleUse: TypeAlias = Literal["always", "with its files", "by hand"]
MAX_GLOBS: Final = 50
_RULE: Final = "---"


def read_rule(text: str) -> tuple[str, RuleUse, tuple[str, ...]]:
    """What the model reads, when it counts, and for which files. Whatever the text is, it is read as something."""
    lines = text.removeprefix("\ufeff").splitlines()
    ends = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _RULE), None)
    if not lines or lines[0].rstrip() != _RULE or ends is None:
        return text, "always", ()
    header, body = lines[1:ends], "\n".join(lines[ends + 1 :])
    globs = tuple(dict.fromkeys(filter(_is_pattern, _globs(header))))[:MAX_GLOBS]
    if _value(header, "alwaysApply").casefold() == "true":
        return body, "always", ()
    return body, "with its files" if globs else "by hand", globs


def rule_names(globs: tuple[str, ...], path: str) -> bool:
    """Whether one of the patterns names this file, a path below the project."""
    parts = path.split("/")
    return any(PathPattern(anywhere(glob)).matches(parts) for glob in globs)


def _value(header: list[str], key: str) -> str:
    for line in header:
        name, colon, value = line.partition(":")
        if colon and name.strip() == key:
            return _bare(value)
    return ""


def _globs(header: list[str]) -> list[str]:
    """Comma-separated in one line, in brackets, or one a line with a dash. A comma inside `{a,b}` belongs to it."""
    found: list[str] = []
    inside = False
    for line in header:
        if inside and line.lstrip().startswith("- "):
            found.append(_bare(line.lstrip()[2:]))
            continue
        name, colon, value = line.partition(":")
        inside = bool(colon) and name.strip() == "globs"
        if inside:
            value = value.strip()
            if value.startswith("[") and value.endswith("]"):
                value = value[1:-1]
            found += map(_bare, _split(value))
    return [one.removeprefix("./") for one in found if one]


def _split(value: str) -> list[str]:
    parts, depth = [""], 0
    for sign in value:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if sign == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _bare(value: str) -> str:
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _is_pattern(glob: str) -> bool:
    try:
        PathPattern(anywhere(glob))
    except BadPathPattern:
        return False
    return True


MAX_BYTES: Final = 64 * 1024
MAX_FILES_A_PATTERN: Final = 50
"""Of the files that one pattern names in one folder, so many are looked at, by name."""
DEFAULT_SOURCES: Final = ("AGENTS.md",)
FALLBACK_SOURCES: Final = (
    "CLAUDE.md",
    ".cursorrules",
    ".cursor/rules/*.mdc",
    "GEMINI.md",
    ".windsurfrules",
    ".github/copilot-instructions.md",
)
"""Instruction files of other agents: never used unless somebody lists them or says yes to them."""
_WELL_KNOWN: Final = frozenset(map(os.path.basename, (*DEFAULT_SOURCES, *FALLBACK_SOURCES)))
TEXT_SUFFIXES: Final = (".md", ".mdc", ".txt")
OUTSIDE: Final = "is a link that leads out of this project"
HOLDS_SECRETS: Final = "looks like it holds secrets"
NOT_TEXT: Final = "is no text"
UNSEEN_NAME: Final = "has characters in its name that do not show"


class InstructionFile(msgspec.Struct, frozen=True, kw_only=True):
    """A text that wants to tell the model how to work. `shown` is its path as people read it.

    `root` is the project it belongs to, `data` the very bytes of its text, `body` what of it the model reads. `owner`
    is named only where the file is not the person's own. `problem` says, as a clause, why it can never be used:
    nothing of it was read. `applies` `with its files`: only once a file was touched that one of `globs` names.
    `imported_by` is the file that named it with `@`, `depth` how many such steps it is away.
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
    problem: str = ""
    source: str = ""
    body: str = ""
    applies: Literal["always", "with its files", "by hand"] = "always"
    globs: tuple[str, ...] = ()
    imported_by: str = ""
    depth: int = 0


def find_instruction_files(
    cwd: str, *, config_folder: str, sources: Sequence[str] = DEFAULT_SOURCES
) -> tuple[InstructionFile, ...]:
    """Every instruction file there is for `cwd`, in the order they count. What cannot be read is not there."""
    found: list[InstructionFile] = []
    root = repository_root(cwd)
    for source in filter(_is_text_name, sources):
        for path in _named(config_folder, source):
            found += read_instructions(path, f"{os.path.relpath(path, config_folder)} (yours)", source=source)
    for folder in (*prefix_folders(cwd), os.path.join(cwd, ".bridle")):
        found += files_in(folder, sources, cwd=cwd, root=root)
    return tuple(found)


def files_in(folder: str, sources: Sequence[str], *, cwd: str, root: str) -> Iterator[InstructionFile]:
    """The instruction files of one folder of a project, by the order of their names in the settings."""
    for source in sources:
        for path in _named(folder, source):
            yield from read_instructions(path, os.path.relpath(path, cwd), root=root, source=source)


def prefix_folders(cwd: str) -> list[str]:
    """The folders whose instruction files count from the beginning: from the root of the repository down to `cwd`."""
    root = repository_root(cwd)
    folders: list[str] = []
    for folder in _upwards(cwd):
        folders.append(folder)
        if folder == root:
            break
    return folders[::-1]


def instruction_text(files: Iterable[InstructionFile]) -> str:
    """The files as one part of what the model reads, each under its name."""
    return "\n\n".join(f"{heading(file.shown)}\n\n{(file.body or file.text).strip()}" for file in files)


def heading(shown: str) -> str:
    """The line an instruction file begins with where the model reads it."""
    return f"# Instructions from {shown}"


def read_instructions(path: str, shown: str, *, root: str = "", source: str = "") -> list[InstructionFile]:
    """The file as it is now: none where nothing readable stands there. Without a `root` it is the person's own."""
    file = InstructionFile(
        path=path,
        shown=shown,
        scope="project" if root else "global",
        text="",
        sha256="",
        root=root,
        source=source,
    )
    if root and (problem := _why_unread(path, root)):
        return [msgspec.structs.replace(file, problem=problem, shown=visible(shown, newlines=False))]
    try:
        contents = read_limited(path, MAX_BYTES)
        facts = os.stat(path)
    except (OSError, ValueError):
        return []
    text = contents.data.decode("utf-8", "replace")
    if not text.strip():
        return []
    body, applies, globs = text, "always", ()
    if path.endswith(".mdc"):
        body, applies, globs = read_rule(text)
    return [
        msgspec.structs.replace(
            file,
            text=text,
            sha256=hashlib.sha256(contents.data).hexdigest(),
            truncated=contents.truncated,
            data=contents.data,
            changed_ms=facts.st_mtime_ns // 1_000_000,
            owner="" if facts.st_uid == os.geteuid() else _user(facts.st_uid),
            body=body,
            applies=applies,
            globs=globs,
        )
    ]


def leads_outside(path: str, root: str) -> bool:
    """Whether something stands there and is really somewhere else."""
    if not os.path.lexists(path):
        return False
    return os.path.commonpath((os.path.realpath(path), os.path.realpath(root))) != os.path.realpath(root)


def _why_unread(path: str, root: str) -> str:
    """Why what stands there is not even read, as a clause.

    The model reads the name too, and trust is in the content: a name must not be able to say anything of its own.
    """
    if not os.path.relpath(path, root).isprintable() and os.path.lexists(path):
        return UNSEEN_NAME
    if leads_outside(path, root):
        return OUTSIDE
    real = os.path.realpath(path)
    names = {os.path.basename(path), os.path.basename(real)}
    if names <= _WELL_KNOWN or not os.path.isfile(real):
        return ""
    return HOLDS_SECRETS if any(map(is_secret_like, (path, real))) else ""


def _named(folder: str, source: str) -> list[str]:
    """The paths that a name of the settings stands for in a folder. It never leads above the folder."""
    if os.path.isabs(source) or ".." in source.split("/"):
        return []
    place, name = os.path.split(source)
    if "*" not in name and "?" not in name and "[" not in name:
        return [os.path.join(folder, source)]
    inside = os.path.join(folder, place)
    try:
        names = [one.name for one in first_entries(inside)]
    except OSError:
        return []
    return [os.path.join(inside, one) for one in names if fnmatchcase(one, name)][:MAX_FILES_A_PATTERN]


def _is_text_name(source: str) -> bool:
    """A folder of the person's own holds more than instructions; only what is named like a text counts there."""
    return source.endswith(TEXT_SUFFIXES)


def _upwards(folder: str) -> Iterator[str]:
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
