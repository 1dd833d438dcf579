"""Where the repository of a folder keeps its own files, and which of them make git run programs.

Only what leads back counts: a `.git` file may name any folder, so the repository it names must name it as one of its
working trees before anything of that repository is opened for writing.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from bridle.base.fs.files import read_limited
from bridle.base.fs.paths import follow_links
from bridle.base.fs.placeholders import HERE, is_stand_in, may_be_stand_in

_MAX_BYTES = 256 * 1024
_MOSTLY_BYTES = 8 * 1024
"""Enough for nearly every such file; room for more is not free."""
_MAX_MODULES = 64
_MAX_MODULE_DEPTH = 4
_MAX_WORKTREES = 64
_MAX_PACKS = 64

_SECTION = re.compile(r"\[\s*([A-Za-z0-9.-]+)\s*(?:\"[^\"]*\")?\s*\]")
_VALUE = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)")


class GitPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """One repository, in resolved paths, as it stands on disk."""

    top: str
    """The folder with the `.git` entry; for a bare repository, the repository itself."""
    git_dir: str
    """What belongs to this working tree: the index, HEAD."""
    common: str
    """What all working trees share: objects, branches, hooks, settings. The same folder in most repositories."""
    ours: bool
    """It is certain that this repository is that of `top`."""


class GitFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a repository that say what git does."""

    programs: tuple[str, ...] = ()
    """Folders and files whose content git runs or obeys, there or not."""
    settings: tuple[str, ...] = ()
    """The same, where commands about git's settings may write."""
    new_settings: tuple[str, ...] = ()
    """Settings that are not there; git would stumble over anything that stands in their place."""
    redirections: tuple[str, ...] = ()
    """Not there, and would lead git to other settings altogether; nothing can stand in their place."""
    stand_ins: tuple[tuple[str, bytes], ...] = ()
    """The same, or settings that would count, and a content in their place by which nothing changes."""
    pointers: tuple[str, ...] = ()
    """Files by which other working trees and this repository find each other; they may go, and must not change."""


def find_repository(folder: str) -> GitPlaces | None:
    """The repository that git would use in this resolved folder."""
    for candidate in _self_and_parents(folder):
        entry = os.path.join(candidate, ".git")
        if os.path.lexists(entry):
            found = repository_at(candidate, entry)
            if found is not None and (found.ours or candidate == folder):
                return found
        elif _is_git_dir(candidate):
            return GitPlaces(top=candidate, git_dir=candidate, common=candidate, ours=True)
    return None


def named_repositories(folder: str) -> Iterator[str]:
    """Where a repository of this resolved folder would be, by what it and the folders above it say, there or not."""
    for candidate in _self_and_parents(folder):
        entry = os.path.join(candidate, ".git")
        if os.path.isdir(entry):
            yield follow_links(entry)
        elif (text := _text(entry)) is not None and text.startswith("gitdir:"):
            named = follow_links(os.path.join(candidate, text.removeprefix("gitdir:").strip()))
            yield named
            if os.path.basename(os.path.dirname(named)) == "worktrees":
                yield os.path.dirname(os.path.dirname(named))


def files_of(git: GitPlaces, submodules: Sequence[str] = ()) -> GitFiles:
    """What to look after in a repository; the entries beneath it that there may be many of, up to a limit.

    `submodules` are the folders of those it has; some keep their repository there.
    """
    settings = [os.path.join(git.common, name) for name in ("config", "config.worktree")]
    said = [*_settings(settings[0])]
    programs = [os.path.join(git.common, "hooks"), *_named_in(said, git)]
    programs += _named_in(_settings(settings[1]), git)
    own = [os.path.join(git.common, "commondir")]
    redirections = list[str]()
    if any(key == "core.worktree" or (key == "core.bare" and value != "false") for key, value in said):
        own, redirections = redirections, own  # with a `commondir`, git does not obey these
    pointers: list[str] = []
    if git.git_dir != git.common:
        programs += [os.path.join(git.git_dir, name) for name in ("commondir", "gitdir")]
        settings.append(os.path.join(git.git_dir, "config.worktree"))
    entries = [os.path.join(folder, ".git") for folder in submodules[:_MAX_MODULES]]
    inside = [entry for entry in entries if not os.path.islink(entry) and _is_git_dir(entry)]
    for module in (*_modules(os.path.join(git.common, "modules"), _MAX_MODULE_DEPTH), *inside):
        settings.append(os.path.join(module, "config"))
        programs += [os.path.join(module, "hooks"), *_entry_of_module(module)]
        own.append(os.path.join(module, "commondir"))
    for worktree in _folders(os.path.join(git.common, "worktrees"))[:_MAX_WORKTREES]:
        if worktree != git.git_dir:
            settings.append(os.path.join(worktree, "config.worktree"))
            pointers += [os.path.join(worktree, name) for name in ("commondir", "gitdir")]
            pointers += _entry_of_worktree(worktree)
    there = set(itertools.filterfalse(_is_missing, settings))
    missing = tuple(path for path in settings if path not in there)
    counted = any(key == "extensions.worktreeconfig" and value != "false" for key, value in said)
    empty = {path for path in missing if counted and path.endswith("/config.worktree")}
    return GitFiles(
        programs=tuple(programs),
        settings=tuple(path for path in settings if path in there),
        new_settings=missing,
        redirections=tuple(filter(_is_missing, redirections)),
        stand_ins=(
            *((path, HERE) for path in own if _is_missing(path)),
            *((path, b"") for path in missing if path in empty),
        ),
        pointers=tuple(filter(os.path.lexists, pointers)),
    )


def packs_of(git: GitPlaces) -> list[str]:
    """The packs of a repository and their indexes, the largest first, up to a limit."""
    try:
        with os.scandir(os.path.join(git.common, "objects", "pack")) as entries:
            packs = [(entry.stat().st_size, entry.path) for entry in entries if entry.name.endswith(".pack")]
    except OSError:
        return []
    largest = [path for _, path in sorted(packs, reverse=True)[:_MAX_PACKS]]
    return [path for pack in largest for path in (pack, f"{pack[:-4]}idx") if os.path.isfile(path)]


def repository_at(top: str, entry: str) -> GitPlaces | None:
    """The repository that the `.git` entry of a folder leads to; None if it leads to none."""
    if os.path.isdir(entry):
        folder = follow_links(entry)
        inside = folder == entry or folder.startswith(f"{top}/")
        ours = inside and _is_git_dir(folder)
        if inside and not ours and not os.listdir(folder):
            return None
        return GitPlaces(top=top, git_dir=folder, common=folder, ours=ours)
    named = _text(entry)
    if named is None or not named.startswith("gitdir:"):
        return None
    git_dir = follow_links(os.path.join(top, named.removeprefix("gitdir:").strip()))
    if not os.path.isdir(git_dir):
        return None
    common = _common_of(git_dir)
    ours = _is_worktree(entry, git_dir, common) or (common == git_dir and _is_submodule(top, git_dir))
    return GitPlaces(top=top, git_dir=git_dir, common=common, ours=ours)


def _common_of(git_dir: str) -> str:
    text = _text(os.path.join(git_dir, "commondir"))
    return git_dir if text is None else follow_links(os.path.join(git_dir, text.strip()))


def _is_worktree(entry: str, git_dir: str, common: str) -> bool:
    """Whether the repository knows this `.git` file as that of one of its working trees."""
    if os.path.dirname(git_dir) != os.path.join(common, "worktrees") or not _is_git_dir(common):
        return False
    back = _text(os.path.join(git_dir, "gitdir"))
    return back is not None and follow_links(os.path.join(git_dir, back.strip())) == entry


def _is_submodule(top: str, git_dir: str) -> bool:
    """Whether the repository calls this folder its working tree."""
    if not _is_git_dir(git_dir):
        return False
    return _worktree_of_module(git_dir) == top


def _worktree_of_module(git_dir: str) -> str | None:
    named = [value for key, value in _settings(os.path.join(git_dir, "config")) if key == "core.worktree"]
    return follow_links(os.path.join(git_dir, named[-1])) if named else None


def _entry_of_module(git_dir: str) -> list[str]:
    """The `.git` file of a submodule: git follows it, and what it leads to, also when it is asked about the whole."""
    worktree = _worktree_of_module(git_dir)
    entry = os.path.join(worktree, ".git") if worktree else ""
    return [entry] if os.path.isfile(entry) else []


def _entry_of_worktree(git_dir: str) -> list[str]:
    """The `.git` file of a linked working tree, where it leads back to its own folder in the repository."""
    back = _text(os.path.join(git_dir, "gitdir"))
    entry = os.path.join(git_dir, back.strip()) if back else ""
    named = _text(entry) if entry else None
    if named is None or not named.startswith("gitdir:"):
        return []
    leads_to = os.path.join(os.path.dirname(entry), named.removeprefix("gitdir:").strip())
    return [follow_links(entry)] if follow_links(leads_to) == git_dir else []


def _is_git_dir(folder: str) -> bool:
    return os.path.lexists(os.path.join(folder, "HEAD")) and all(
        os.path.isdir(os.path.join(folder, name)) for name in ("objects", "refs")
    )


def _named_in(settings: Iterable[tuple[str, str]], git: GitPlaces) -> Iterator[str]:
    """Files the settings lead to: other settings, and another folder for hooks."""
    for key, value in settings:
        if key == "core.hookspath" and not value.startswith("~"):
            yield os.path.normpath(os.path.join(git.top, value))
        elif key in {"include.path", "includeif.path"} and not value.startswith("~"):
            yield os.path.normpath(os.path.join(git.common, value))


def _settings(path: str) -> Iterator[tuple[str, str]]:
    """The settings as `section.key` and value, in the form in which git writes them; anything else is left out."""
    section = ""
    for raw in (_text(path) or "").split("\n"):
        line = raw.strip()
        if match := _SECTION.match(line):
            section, line = match[1].lower(), line[match.end() :]
        if value := _VALUE.fullmatch(line):
            yield f"{section}.{value[1].lower()}", value[2].strip().strip('"')


def _modules(folder: str, depth: int) -> list[str]:
    """The repositories of submodules; their names may have slashes."""
    found: list[str] = []
    for child in _folders(folder):
        if len(found) >= _MAX_MODULES:
            break
        if os.path.lexists(os.path.join(child, "config")):
            found.append(child)
        if depth > 0:
            below = os.path.join(child, "modules") if child in found else child
            found += _modules(below, depth - 1)
    return found[:_MAX_MODULES]


def _is_missing(path: str) -> bool:
    """Whether nothing is there, or only what keeps it so."""
    try:
        return may_be_stand_in(os.lstat(path).st_mode) and is_stand_in(path)
    except OSError:
        return True


def _folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _text(path: str) -> str | None:
    """A small plain file; None for anything else."""
    try:
        contents = read_limited(path, _MOSTLY_BYTES)
        if contents.truncated:
            contents = read_limited(path, _MAX_BYTES)
    except OSError:
        return None
    return None if contents.truncated else os.fsdecode(contents.data)


def _self_and_parents(folder: str) -> Iterator[str]:
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent
