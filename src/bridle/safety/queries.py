"""What there is to decide about a call: its risk, its files, and whether it is harmless.

*Quiet* means that nobody needs to be asked for the sake of what the call does: it reads inside the session's folders,
it is a command of which every part is proven to only read there, or it is about nothing at all. A file that looks like
it holds secrets is never quiet, nor is one of Bridle's own. Looks at the file system, changes nothing.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

import msgspec

from bridle.base.regex import compiled_later
from bridle.engine.tools import Subject, ToolCall
from bridle.protocol.events import CommandPart, Risk, Verdict
from bridle.safety.paths import PathRefused, SessionFolders, is_beneath_any, is_inside_same_folder, resolve
from bridle.safety.patterns import consists_of, is_plain
from bridle.safety.sensitive import SECRET_FILES, is_policy_file, is_secret_like
from bridle.safety.shell.facts import Below, Part, PathUse, Understanding

Understand: TypeAlias = Callable[[str, str], Understanding]
"""What a script does, given its text and the absolute folder it starts in."""

MAX_MATCHES = 200
"""A pattern that means more files than this is about files nobody knows."""
_NO_FILE = compiled_later(r"/dev/(?:null|zero|full|u?random|tty|std(?:in|out|err)|fd/\d+)")
_SEARCHING = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "diff"})
"""Programs that show what files below a folder hold, which no other harmless one does by itself."""
MAX_WALKED = 20_000
MAX_INDEX_BYTES = 16 * 1024 * 1024
"""How many files a search is followed through; where there are more, which ones it finds is not known."""
MAX_GLANCED = 2_000
GLANCE_DEPTH = 2
"""How far a folder is looked through for secrets before a search in it is called quiet."""
_NOT_OURS = frozenset(
    {".git", "node_modules", ".venv", "venv", "vendor", "target", "dist", "build", "__pycache__", ".tox"}
)
_ODD_NAME = compiled_later(r"[\s'\"\\\x00-\x20\x7f-\xa0]")
_SPLITS = compiled_later(r"[\s*?\[\\]")
_RECURSIVE = compiled_later(r"-[A-Za-z]*[rR]|--(?:dereference-)?recursive$|--directories=recurse$")
_SHOWS_HIDDEN = compiled_later(r"-[A-Za-z]*(?:\.|uu|U|a)|--(?:hidden|unrestricted|no-ignore|all)")
_GIT_FILLS = frozenset(
    {"checkout", "switch", "restore", "clone", "pull", "merge", "rebase", "reset", "apply", "am", "stash", "worktree",
     "cherry-pick", "revert", "submodule"}
)  # fmt: skip
"""Subcommands of git that put files into the workspace."""
_SEARCH_FILTERS = frozenset({"--include", "--glob", "--iglob", "-g"})

# Why somebody is asked, in a few words; "it" is the call or its file.
ESCALATES = "it asks to run outside the sandbox"
UNREADABLE = "Bridle could not read this command"
CHANGES_POLICY = "it changes what later runs obey"
DELETES = "it deletes files"
HARMFUL = "it may do harm"
SECRETIVE = "it may hold secrets"
RUNS_CODE = "it runs code"
CONNECTS = "it connects to the network"
OUTSIDE = "it is outside this folder"
CHANGES = "it changes files"
UNKNOWN_FILES = "its files are not known before it runs"
RUNS_ITS_OWN = "it runs what it wrote, linked or copied itself"


class PathName(msgspec.Struct, frozen=True, kw_only=True):
    """A file as rules see it: absolute, and relative when it is in the workspace."""

    absolute: str
    relative: str | None = None

    @property
    def shown(self) -> str:
        return self.relative or self.absolute


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a decision looks at.

    `script` is what is known of a command and `unproven` those of its parts that are not proven harmless; `separable`
    says that the command is its parts and nothing besides, so that rules may speak about each of them. `workdir` is
    where it starts, if that is not the workspace. `policy_file`: it would change what later runs obey. `secret`: a file
    looks like it holds some. `escalates`: it wants out of the sandbox, which only a person grants. `must_ask` says why
    a person is asked whatever else would allow it. `hides` says why a rule about programs cannot tell what it runs; it
    is looked for only where there are such rules. `concern` says in a few words why somebody might be asked.
    """

    tool: str
    risk: Risk
    command: str | None = None
    workdir: str = ""
    script: Understanding | None = None
    unproven: tuple[Part, ...] = ()
    separable: bool = False
    paths: tuple[PathName, ...] = ()
    unknown_paths: bool = False
    quiet: bool = False
    policy_file: bool = False
    secret: bool = False
    escalates: bool = False
    must_ask: str = ""
    hides: str = ""
    concern: str = ""
    agent_default: Verdict | None = None

    @property
    def exceptional(self) -> bool:
        """Whether only a yes to exactly this call may be remembered, if any."""
        return self.policy_file or self.secret or self.asks_anew or self.risk == "dangerous"

    @property
    def asks_anew(self) -> bool:
        """Whether a person is asked each time: no grant and no rule says yes for them."""
        return self.escalates or bool(self.must_ask or self.hides)

    @property
    def key(self) -> str | None:
        """The program and subcommand of a command that is one program with plain arguments and no more."""
        if self.script is None or self.script.shape != "simple" or not self.separable or self.exceptional:
            return None
        key = self.script.parts[0].key if len(self.script.parts) == 1 else None
        return self._where_it_starts(key) if key is not None else None

    @property
    def subjects(self) -> tuple[str, ...]:
        """What a remembered yes to exactly this is about: the command, or each of the files."""
        if self.command is not None:
            return (self._where_it_starts(self.command),)
        return tuple(path.shown for path in self.paths)

    def _where_it_starts(self, command: str) -> str:
        """The command as it would be typed in the workspace: `make` in another folder runs another Makefile."""
        if not self.workdir:
            return command
        from shlex import quote

        return f"cd {quote(self.workdir)} && {command}"

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.script.parts if self.script is not None else ()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where calls are made: the session's folders, Bridle's own, which are nobody's business, and what is secret."""

    folders: SessionFolders
    protected: tuple[str, ...] = ()
    secret_files: tuple[str, ...] = SECRET_FILES

    def holds_secrets(self, *names: str) -> bool:
        """Whether one of a file's names looks like it holds secrets."""
        return any(is_secret_like(name, self.secret_files) for name in names)

    def name(self, resolved: str) -> PathName:
        inside = self.folders.place(resolved) == "workspace"
        return PathName(absolute=resolved, relative=self.folders.shown(resolved) if inside else None)

    def is_ours(self, resolved: str) -> bool:
        return is_inside_same_folder(resolved, self.protected)


class _Touched(msgspec.Struct, frozen=True, kw_only=True):
    """A file a command is known to touch: where it really is (None: not known), and what is to be said about it."""

    access: str
    resolved: str | None
    outside: bool = False
    secret: bool = False
    harmless: bool = False


def query_of(
    call: ToolCall,
    place: Place,
    *,
    understand: Understand | None,
    agent_default: Verdict | None,
    named: bool = False,
) -> Query:
    """What there is to decide about a guarded call. With `named` somebody needs every program of a command by name."""
    command = next((subject.value for subject in call.subjects if subject.kind == "command"), None)
    query = (
        _file_query(call, place)
        if command is None
        else _command_query(call, command, place, understand, named=named)
    )
    return msgspec.structs.replace(query, agent_default=agent_default, must_ask=call.must_ask)


def shown_parts(script: Understanding | None) -> tuple[CommandPart, ...]:
    """The parts of a command as a question shows them; what is the same in each turn of a loop is shown once."""
    if script is None:
        return ()
    return tuple(
        dict.fromkeys(
            CommandPart(text=part.text, command_class=part.command_class, does=part.does)
            for part in script.parts
        )
    )


# Calls about files, or about nothing


def _file_query(call: ToolCall, place: Place) -> Query:
    paths = [subject for subject in call.subjects if subject.kind == "path"]
    names = tuple(place.name(subject.resolved) for subject in paths)
    policy_file = any(
        subject.access == "write" and is_policy_file(name.shown)
        for subject, name in zip(paths, names, strict=True)
    )
    secret = any(place.holds_secrets(subject.value, subject.resolved) for subject in paths)
    outside = any(place.folders.place(subject.resolved) == "outside" for subject in paths)
    risk = call.definition.risk
    reads_inside = risk == "read" and not (outside or secret)
    return Query(
        tool=call.name,
        risk="dangerous" if policy_file else risk,
        paths=names,
        quiet=reads_inside or not (call.mutating or call.subjects),
        policy_file=policy_file,
        secret=secret,
        concern=_file_concern(risk, policy_file=policy_file, secret=secret, outside=outside),
    )


def _file_concern(risk: Risk, *, policy_file: bool, secret: bool, outside: bool) -> str:
    if policy_file:
        return CHANGES_POLICY
    if secret:
        return SECRETIVE
    if outside:
        return OUTSIDE
    match risk:
        case "write":
            return CHANGES
        case "shell":
            return RUNS_CODE
        case "network":
            return CONNECTS
        case "dangerous":
            return HARMFUL
        case "read":
            return ""


# Commands


def _command_query(
    call: ToolCall, command: str, place: Place, understand: Understand | None, *, named: bool
) -> Query:
    escalates = bool(getattr(call.args, "escalate", ""))
    cwd = _starting_folder(call.subjects, place)
    workdir = place.folders.shown(cwd) if cwd != place.folders.workspace else ""
    if understand is None:
        return Query(
            tool=call.name,
            risk=call.definition.risk,
            command=command,
            workdir=workdir,
            escalates=escalates,
            concern=ESCALATES if escalates else RUNS_CODE,
        )
    script = understand(command, cwd)
    touched = [[*_touched(part, cwd, place)] for part in script.parts]
    files = [file for part in touched for file in part]
    policy_file = any(_changes_policy(file, place) for file in files)
    dangerous = policy_file or script.command_class in ("destructive", "unparseable")
    unproven = tuple(
        part for part, uses in zip(script.parts, touched, strict=True) if not _is_harmless(part, uses)
    )
    return Query(
        tool=call.name,
        risk="dangerous" if dangerous else _command_risk(call.definition.risk, script),
        command=command,
        workdir=workdir,
        script=script,
        unproven=unproven,
        separable=all(map(is_plain, script.parts)) and consists_of(command, [p.text for p in script.parts]),
        paths=tuple(place.name(file.resolved) for file in files if file.resolved is not None),
        unknown_paths=any(file.resolved is None for file in files),
        quiet=script.read_only and not unproven and not escalates,
        policy_file=policy_file,
        secret=any(file.secret for file in files),
        escalates=escalates,
        hides=(script.hidden or _runs_its_own(script.parts, touched)) if named else "",
        concern=ESCALATES if escalates else _command_concern(script, files, policy_file=policy_file),
    )


def _runs_its_own(parts: Sequence[Part], touched: Sequence[Sequence[_Touched]]) -> str:
    """Whether a command runs a file that it wrote, linked or copied itself, or may have."""
    files = [file for uses in touched for file in uses]
    written = [file.resolved for file in files if file.access == "write"]
    written += [None for part, uses in zip(parts, touched, strict=True) if _writes_unnamed(part, uses)]
    if not written:
        return ""
    known = [path for path in written if path is not None]
    for file in files:
        if file.access == "run" and (
            None in written or file.resolved is None or is_beneath_any(file.resolved, known)
        ):
            return RUNS_ITS_OWN
    made = {os.path.basename(path) for path in known}
    ran = {(part.words[0] or "").rpartition("/")[2] for part in parts if part.words}
    unheard_of = None in written and any(not _is_known(name) for name in ran)
    return RUNS_ITS_OWN if unheard_of or made & ran else ""


def _writes_unnamed(part: Part, uses: Sequence[_Touched]) -> bool:
    """Whether it puts files somewhere without naming them: an archive, a checkout, a download."""
    if any(file.access in ("write", "delete") for file in uses) or not part.words:
        return False
    from bridle.safety.shell.programs import FETCHERS

    program = (part.words[0] or "").rpartition("/")[2]
    if program == "git":
        return any(word in _GIT_FILLS for word in part.words[1:])
    return part.command_class == "writes" or program in FETCHERS


def _is_known(program: str) -> bool:
    from bridle.safety.shell.programs import BUILTINS, have_subcommands, programs, wrappers

    return (
        program in BUILTINS or program in programs() or program in wrappers() or program in have_subcommands()
    )


def _starting_folder(subjects: Iterable[Subject], place: Place) -> str:
    return next((subject.resolved for subject in subjects if subject.kind == "path"), place.folders.workspace)


def _command_risk(declared: Risk, script: Understanding) -> Risk:
    return "network" if script.command_class == "network" else declared


def _touched(part: Part, cwd: str, place: Place) -> Iterator[_Touched]:
    for use in part.uses:
        if use.below is not None and use.path is not None:
            yield from _found(use, use.path, use.below, cwd, place)
            continue
        for path in _meant(use, cwd):
            yield _file(path, use, cwd, place)
    program = (part.words[0] or "").rpartition("/")[2] if part.words else ""
    if program in _SEARCHING or (program == "git" and "--no-index" in part.words):
        sought = [*_sought(part.words)]
        secret = any(place.holds_secrets(name) or fnmatchcase(".env", name) for name in sought)
        secret = secret or (not sought and _comes_by_secrets(part, program, cwd, place))
        if secret or _searches_ours(part, cwd, place):
            yield _Touched(access="read", resolved=None, secret=secret)


def _sought(words: Sequence[str | None]) -> Iterator[str]:
    """The names of the files that a search is limited to, as its options have them; those it leaves out are not."""
    for word, following in zip(words, (*words[1:], None), strict=True):
        option, equals, value = (word or "").partition("=")
        if option in _SEARCH_FILTERS:
            name = value if equals else following or ""
        elif option.startswith("-g"):
            name = option.removeprefix("-g")
        else:
            continue
        if not name.startswith("!"):
            yield name.rpartition("/")[2]


def _searches_ours(part: Part, cwd: str, place: Place) -> bool:
    """Whether a search through folders may come by Bridle's own: nobody runs Bridle in their home folder for that."""
    roots = _searched(part, cwd)
    return any(is_beneath_any(os.path.realpath(folder), roots) for folder in place.protected)


def _searched(part: Part, cwd: str) -> set[str]:
    named = (os.path.join(cwd, use.path) for use in part.uses if use.path is not None)
    return set(map(os.path.realpath, named)) or {cwd}


def _comes_by_secrets(part: Part, program: str, cwd: str, place: Place) -> bool:
    """Whether a search through folders would show what a file holds that looks like it holds secrets.

    Only so far as a glance goes: dependencies and deep folders are not looked through.
    """
    options = [word for word in part.words if word is not None and word.startswith("-")]
    skips_hidden = program in ("rg", "ag") and not any(_SHOWS_HIDDEN.match(option) for option in options)
    if program not in ("rg", "ag", "git") and not any(_RECURSIVE.match(option) for option in options):
        return False
    roots = {cwd} if program == "git" else _searched(part, cwd)
    return any(_holds_a_secret(root, place, skips_hidden=skips_hidden) for root in roots)


def _holds_a_secret(root: str, place: Place, *, skips_hidden: bool) -> bool:
    folders, left = [(root, 0)], MAX_GLANCED
    while folders:
        folder, depth = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return False
                    if skips_hidden and entry.name.startswith("."):
                        continue
                    if not entry.is_dir(follow_symlinks=False):
                        if place.holds_secrets(entry.path):
                            return True
                    elif depth < GLANCE_DEPTH and entry.name not in _NOT_OURS:
                        folders.append((entry.path, depth + 1))
        except OSError:
            continue
    return False


def tracked_files(folder: str) -> list[str] | None:
    """What git knows of a repository, from its index; None where that is not read here, or lies elsewhere."""
    try:
        with open(f"{folder}/.git/index", "rb") as file:
            data = file.read(MAX_INDEX_BYTES)
        if data[:4] != b"DIRC" or data[4:8] not in (b"\0\0\0\2", b"\0\0\0\3") or len(data) == MAX_INDEX_BYTES:
            return None
        found: list[str] = []
        at = 12
        for _ in range(int.from_bytes(data[8:12], "big")):
            start = at + (64 if data[at + 60] & 0x40 else 62)
            end = data.index(b"\0", start)
            found.append(os.fsdecode(data[start:end]))
            at += (end - at + 8) // 8 * 8
    except (OSError, ValueError, IndexError):
        return None
    return None if b"link" in data[at:] or b"sdir" in data[at:] else found


def _found(use: PathUse, path: str, below: Below, cwd: str, place: Place) -> Iterator[_Touched]:
    """The folder a search goes through, and what it may find there that is not simply a file of that folder.

    Links, what looks like it holds secrets, and names that would be read as something else.
    """
    folder = _file(path, use, cwd, place)
    yield folder
    if not folder.harmless or folder.resolved is None:
        return

    @functools.cache
    def leads_elsewhere(parent: str) -> bool:
        return os.path.realpath(parent) != parent

    root = folder.resolved
    tracked = tracked_files(root) if below.tracked else None
    names = (
        _names_below(root, hidden=below.hidden) if tracked is None else ((name, False) for name in tracked)
    )
    for count, (name, is_folder) in enumerate(names):
        last = name.rpartition("/")[2]
        fits = not below.names or any(fnmatchcase(last.lower(), wanted.lower()) for wanted in below.names)
        odd = use.split and (fits or is_folder) and _is_odd(name, expanded=below.expanded)
        if count >= MAX_WALKED or odd or (below.bare and name.startswith("-")):
            yield _Touched(access=use.access, resolved=None)
            return
        path = f"{root}/{name}"
        beside = tracked is not None and leads_elsewhere(os.path.dirname(path))
        if fits and not is_folder and (beside or os.path.islink(path) or place.holds_secrets(path)):
            yield _file(path, use, cwd, place)


def _is_odd(name: str, *, expanded: bool) -> bool:
    """Whether a name becomes another, or several, on its way from one program to the next."""
    return _ODD_NAME.search(name) is not None or (expanded and _SPLITS.search(name) is not None)


def _names_below(root: str, *, hidden: bool) -> Iterator[tuple[str, bool]]:
    """Everything below a folder, relative to it, and whether it is a folder; links are not followed."""
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(f"{root}/{folder}") as entries:
                for entry in entries:
                    if not hidden and entry.name.startswith("."):
                        continue
                    is_folder = entry.is_dir(follow_symlinks=False)
                    yield folder + entry.name, is_folder
                    if is_folder:
                        folders.append(f"{folder}{entry.name}/")
        except OSError:
            continue


def _meant(use: PathUse, cwd: str) -> Sequence[str | None]:
    """The files a command means by a name: one, those a pattern fits now, or nobody knows which."""
    if use.path is None or not use.pattern:
        return (use.path,)
    from glob import iglob
    from itertools import islice

    try:
        found = list(islice(iglob(use.path, root_dir=cwd), MAX_MATCHES + 1))
    except (OSError, ValueError, re.error):
        return (None,)
    if len(found) > MAX_MATCHES or (use.split and any(map(_SPLITS.search, found))):
        return (None,)
    return (use.path, *found)


def _file(path: str | None, use: PathUse, cwd: str, place: Place) -> _Touched:
    if path is None:
        return _Touched(access=use.access, resolved=None)
    if use.access != "delete" and _NO_FILE.fullmatch(path):
        return _Touched(access=use.access, resolved=path, harmless=True)
    try:
        resolved = resolve(path, cwd)
    except PathRefused:
        return _Touched(access=use.access, resolved=None)
    changes = use.access in ("write", "delete")
    outside = place.folders.place(resolved) == "outside"
    secret = place.holds_secrets(path, resolved)
    return _Touched(
        access=use.access,
        resolved=resolved,
        outside=outside,
        secret=secret,
        harmless=not (changes or outside or secret or place.is_ours(resolved)),
    )


def _changes_policy(file: _Touched, place: Place) -> bool:
    if file.access not in ("write", "delete") or file.resolved is None:
        return False
    return is_policy_file(place.name(file.resolved).shown) or place.is_ours(file.resolved)


def _is_harmless(part: Part, files: Sequence[_Touched]) -> bool:
    return part.command_class == "read_only" and all(file.harmless for file in files)


def _command_concern(script: Understanding, files: Sequence[_Touched], *, policy_file: bool) -> str:
    """The worst of what is known, in a few words."""
    worst = script.command_class
    if worst == "unparseable":
        return UNREADABLE
    if policy_file:
        return CHANGES_POLICY
    if worst == "destructive":
        return DELETES if any(file.access == "delete" for file in files) else HARMFUL
    if any(file.secret for file in files):
        return SECRETIVE
    if worst == "executes":
        return RUNS_CODE
    if worst == "network":
        return CONNECTS
    if any(file.outside for file in files):
        return OUTSIDE
    if worst == "writes":
        return CHANGES
    return UNKNOWN_FILES if any(file.resolved is None for file in files) else ""
