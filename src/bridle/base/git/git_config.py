"""Check that reading a git repository runs only git and shows only that repository.

A repository's own settings can name programs for `git status` to start: file system monitors, converters, pagers,
helpers. They can name files anywhere for git to read, whose lines it then prints in its complaints; a link in the place
of one of git's own files does the same. Only settings known to name neither are accepted; the person's own settings are
theirs and not looked at.
"""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Sequence

MAX_CONFIG_BYTES = 256 * 1024
MAX_INDEX_BYTES = 64 * 1024 * 1024
MAX_SUBMODULE_DEPTH = 4

_SECTION = re.compile(r"\[\s*([A-Za-z0-9.-]+)(?:\s+\"((?:[^\"\\]|\\.)*)\")?\s*\]")
_KEY = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=|$)")
_GITLINK = b"\x00\x00\xe0\x00"

_HARMLESS_TEXT = """
core.: repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf
    eol safecrlf quotepath abbrev sparsecheckout sparsecheckoutcone longpaths protecthfs protectntfs
    preloadindex untrackedcache commitgraph multipackindex bigfilethreshold compression loosecompression
    checkstat trustctime whitespace sharedrepository fscache hidedotfiles
user.: name email useconfigonly signingkey
extensions.: worktreeconfig objectformat refstorage preciousobjects relativeworktrees compatobjectformat noop
remote.*.: url fetch push pushurl mirror tagopt prune prunetags gh-resolved skipdefaultupdate
branch.*.: remote merge rebase pushremote description gh-merge-base github-pr-owner-number vscode-merge-base
    mergeoptions
branch.: autosetupmerge autosetuprebase sort
submodule.*.: url active branch ignore fetchrecursesubmodules shallow
submodule.: active recurse
pull.: rebase ff
push.: default autosetupremote followtags
fetch.: prune prunetags parallel
merge.: ff conflictstyle
rebase.: autosquash autostash updaterefs
commit.: gpgsign
tag.: gpgsign sort
init.: defaultbranch
color.: ui status diff branch
status.: short branch showuntrackedfiles submodulesummary
diff.: renames algorithm colormoved mnemonicprefix noprefix submodule renamelimit context
log.: date decorate abbrevcommit follow
index.: version threads sparse
feature.: manyfiles
gc.: auto pruneexpire
rerere.: enabled
advice.: detachedhead statushints
blame.: ignorerevsfile
lfs.: repositoryformatversion url
lfs.*.: access
receive.: denycurrentbranch
maintenance.: auto strategy
pack.: threads windowmemory
http.: postbuffer
gui.: wmstate geometry
"""
_FILES_FOR = {"blame.ignorerevsfile": frozenset({"blame", "annotate"})}
"""Settings that name a file for these subcommands to read, and are harmless to all others."""
TOLD_FILES = frozenset[str]().union(*_FILES_FOR.values())
LOOKING_HOOKS = ("post-index-change", "reference-transaction")
"""Hooks that run when somebody only looks."""
_TOLD_FROM = frozenset({"info", "rebase-merge", "rebase-apply", "sequencer"})
"""Folders in a git folder out of whose files git prints lines, at least when it complains about them.

So it does of its files beside them, and of `objects/info/alternates`."""


@functools.cache
def _harmless() -> frozenset[str]:
    """Settings that name no program, as `section.key` or `section.*.key`."""
    entries = (line.split(": ", 1) for line in _HARMLESS_TEXT.replace("\n    ", " ").strip().split("\n"))
    return frozenset(prefix + key for prefix, keys in entries for key in keys.split())


def is_harmless_setting(name: str) -> bool:
    """Whether a setting, as it is named on the command line, names no program whatever it holds."""
    section, _, rest = name.partition(".")
    middle, dot, key = rest.rpartition(".")
    return f"{section.lower()}.{'*.' if dot or middle else ''}{key.lower()}" in _harmless()


def is_plain(cwd: str, subcommands: frozenset[str] = frozenset()) -> bool:
    """Whether git, looking at the repository `cwd` is in, starts no program and reads no file that repository names.

    `subcommands` are those of `TOLD_FILES` that look: some settings matter to them alone. True outside any repository.
    Anything unusual is not plain: what cannot be read, what is too large, a folder that is itself laid out like a
    repository.
    """
    harmless = _harmless()
    if subcommands:
        harmless -= {key for key, told in _FILES_FOR.items() if told & subcommands}
    try:
        return _is_plain_from(cwd, harmless)
    except (OSError, ValueError):
        return False


def _is_plain_from(cwd: str, harmless: frozenset[str]) -> bool:
    folder = os.path.realpath(cwd)
    while True:
        if _looks_bare(folder):
            return False
        entry = os.path.join(folder, ".git")
        if os.path.lexists(entry):
            return _is_plain_tree(folder, entry, 0, harmless)
        parent = os.path.dirname(folder)
        if parent == folder:
            return True
        folder = parent


def _looks_bare(folder: str) -> bool:
    return all(os.path.lexists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs"))


def _is_plain_tree(worktree: str, entry: str, depth: int, harmless: frozenset[str]) -> bool:
    git_folder = _git_folder(worktree, entry)
    if git_folder is None or depth > MAX_SUBMODULE_DEPTH:
        return False
    common = _common_folder(git_folder)
    configs = {os.path.join(common, "config"), os.path.join(common, "config.worktree")}
    configs.add(os.path.join(git_folder, "config.worktree"))
    if depth:  # every submodule names its own folder
        harmless |= {f"core.worktree={os.path.realpath(worktree)}"}
    if not all(_is_harmless_config(path, harmless) for path in configs):
        return False
    if any(os.path.lexists(os.path.join(common, "hooks", hook)) for hook in LOOKING_HOOKS):
        return False
    if any(_holds_a_link(folder) for folder in {git_folder, common}):
        return False
    return _are_submodules_plain(worktree, git_folder, depth, harmless)


def _holds_a_link(git_folder: str) -> bool:
    """Whether a file that git tells lines of is a link, or an index is shared: then it may be any file, or anywhere."""
    folders = [git_folder]
    with os.scandir(git_folder) as entries:
        for entry in entries:
            if entry.is_symlink() or entry.name.startswith("sharedindex."):
                return True
            if entry.name in _TOLD_FROM:
                folders.append(entry.path)
    alternates = f"{git_folder}/objects/info"
    return (
        any(_is_link_in(folder) for folder in folders[1:])
        or os.path.islink(alternates)
        or _is_link_in(alternates)
    )


def _is_link_in(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_symlink() for entry in entries)
    except FileNotFoundError:
        return False


def _git_folder(worktree: str, entry: str) -> str | None:
    """Where `.git` leads: a folder, or a file that names one."""
    if os.path.isdir(entry):
        return entry
    text = _read_text(entry)
    if text is None or not text.startswith("gitdir: "):
        return None
    folder = os.path.join(worktree, text.removeprefix("gitdir: ").rstrip("\n"))
    return folder if os.path.isdir(folder) else None


def _common_folder(git_folder: str) -> str:
    named = os.path.join(git_folder, "commondir")
    if not os.path.lexists(named):
        return git_folder
    text = _read_text(named)
    if text is None:
        raise ValueError("commondir cannot be read")
    return os.path.join(git_folder, text.rstrip("\n"))


def _read_text(path: str) -> str | None:
    """A small plain file, or None for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_CONFIG_BYTES:
            return None
        data = file.read(status.st_size + 1)  # no room for more than there is: that is not free
    return data.decode("utf-8", "surrogateescape") if len(data) <= status.st_size else None


def _is_harmless_config(path: str, harmless: frozenset[str]) -> bool:
    if not os.path.lexists(path):
        return True
    text = _read_text(path)
    return text is not None and all(
        key in harmless or (key == "core.worktree" and _worktree_named(written, path) in harmless)
        for key, written in _settings(text)
    )


def _worktree_named(written: str, config: str) -> str:
    """Where a config says that the files are, written like an entry of the harmless settings."""
    named = written.partition("=")[2].strip()
    return f"core.worktree={os.path.realpath(os.path.join(os.path.dirname(config), named))}"


def unproven_settings(text: str) -> frozenset[str]:
    """The settings in a config text that may name a program, as they are written; one, if it is not understood."""
    harmless = _harmless()
    return frozenset(written for key, written in _settings(text) if key not in harmless)


@functools.lru_cache(maxsize=32)
def _settings(text: str) -> Sequence[tuple[str, str]]:
    """Every setting in a config text, as `section.key` or `section.*.key`, and how it is written.

    A text that is not understood is one setting, `?`.
    """
    found: list[tuple[str, str]] = []
    section = header = ""
    for raw in text.removeprefix("\ufeff").split("\n"):
        line = raw.strip(" \t\r\f\v")
        while line.startswith("["):
            match = _SECTION.match(line)
            if match is None:
                return [("?", text)]
            section, header = _section(match), match[0]
            line = line[match.end() :].lstrip()
        if not line or line[0] in "#;":
            continue
        key = _KEY.match(line)
        if key is None or line.endswith("\\"):  # a value that goes on in the next line may hide anything
            return [("?", text)]
        found.append((f"{section}.{key[1].lower()}", f"{header} {line}"))
    return found


def _section(match: re.Match[str]) -> str:
    name = match[1].lower()
    if match[2] is not None:
        return f"{name}.*"
    head, dot, _ = name.partition(".")  # `[remote.origin]` is an old way to write `[remote "origin"]`
    return f"{head}.*" if dot else head


def _are_submodules_plain(worktree: str, git_folder: str, depth: int, harmless: frozenset[str]) -> bool:
    """Git looks into submodules with their own settings in force, so they count too."""
    index = os.path.join(git_folder, "index")
    if not os.path.lexists(index):
        return True
    if not stat.S_ISREG(os.stat(index).st_mode) or os.stat(index).st_size > MAX_INDEX_BYTES:
        return False
    with open(index, "rb") as file:
        data = file.read(MAX_INDEX_BYTES)
    if _GITLINK not in data:
        return True
    paths = _gitlinks(data)
    if paths is None:
        return False
    return all(_is_plain_submodule(os.path.join(worktree, path), depth, harmless) for path in paths)


def _is_plain_submodule(folder: str, depth: int, harmless: frozenset[str]) -> bool:
    entry = os.path.join(folder, ".git")
    return not os.path.lexists(entry) or _is_plain_tree(folder, entry, depth + 1, harmless)


def submodule_folders(worktree: str, git_folder: str) -> list[str]:
    """The folders of submodules in a working tree, there or not. What leads out of it is not one."""
    try:
        indexes = [
            data
            for name in os.listdir(git_folder)
            if (name == "index" or name.startswith("sharedindex."))
            and (data := _index_with_submodules(os.path.join(git_folder, name)))
        ]
        if not indexes:
            return []
        config = _read_text(os.path.join(_common_folder(git_folder), "config")) or ""
        hash_bytes = 32 if "sha256" in config.lower() else 20
        paths = {path for data in indexes for path in _gitlinks(data, hash_bytes) or ()}
    except (OSError, ValueError):
        return []
    folders = (
        os.path.join(worktree, path)
        for path in sorted(paths)
        if os.path.normpath(path) == path and not path.startswith(("/", ".."))
    )
    return [folder for folder in folders if os.path.realpath(folder) == folder]


def is_odd(submodule: str) -> bool:
    """Whether looking at the whole repository would make git run a program that this folder of a submodule names."""
    try:
        return not _is_plain_submodule(submodule, 0, _harmless())
    except (OSError, ValueError):
        return True


def _index_with_submodules(index: str) -> bytes:
    """An index that may name submodules; empty for any other.

    It is read each time, whatever its times say: who has mapped it changes it without them.
    """
    with open(os.open(index, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return b""
        data = file.read(
            min(status.st_size, MAX_INDEX_BYTES)
        )  # no room for more than there is: that is not free
    return data if _GITLINK in data else b""


def _gitlinks(data: bytes, hash_bytes: int = 20) -> list[str] | None:
    """The paths of submodules in an index of version 2 to 4; None for one that is laid out otherwise."""
    entries = _entries(data, hash_bytes)
    return (
        None if entries is None else [os.fsdecode(path) for path, mode, _, _ in entries if mode == _GITLINK]
    )


def committed_contents(git_folder: str) -> dict[str, set[bytes]]:
    """What git has taken up of each file, as the hashes of their contents, paths from the top of the working tree; the
    hash is empty where a merge stopped."""
    try:
        config = _read_text(os.path.join(_common_folder(git_folder), "config")) or ""
        with open(os.path.join(git_folder, "index"), "rb") as file:
            entries = _entries(file.read(MAX_INDEX_BYTES), 32 if "sha256" in config.lower() else 20)
    except (OSError, ValueError):
        return {}
    found: dict[str, set[bytes]] = {}
    for path, _, digest, stage in entries or ():
        found.setdefault(os.fsdecode(path), set()).add(b"" if stage else digest)
    return found


def _entries(data: bytes, hash_bytes: int) -> list[tuple[bytes, bytes, bytes, int]] | None:
    """The path, mode, hash and stage of each file in an index."""
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        return None
    found: list[tuple[bytes, bytes, bytes, int]] = []
    path, at, size = b"", 12, 40 + hash_bytes
    for _ in range(count):
        flags = int.from_bytes(data[at + size : at + size + 2], "big")
        start = at + size + (4 if flags & 0x4000 else 2)
        kept = 0
        if version == 4:  # how much of the path before goes, then what comes in its place
            dropped, start = _number(data, start)
            kept = len(path) - dropped
        end = data.find(b"\x00", start)
        if end < 0 or kept < 0:
            return None
        path = path[:kept] + data[start:end]
        found.append((path, data[at + 24 : at + 28], data[at + 40 : at + size], flags >> 12 & 3))
        at = end + 1 if version == 4 else at + (end - at) // 8 * 8 + 8
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = -1
    while at < len(data):
        byte = data[at]
        value = (value + 1 << 7) + (byte & 0x7F)
        at += 1
        if not byte & 0x80:
            break
    return value, at
