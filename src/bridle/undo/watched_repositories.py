"""The repositories that undo looks after beside the folders of a session: those that are there, and those that were."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from bridle.base.fs.paths import is_beneath_any
from bridle.undo.file_tree import WatchedFolders
from bridle.undo.object_links import ObjectLinks


class FoundRepository(Protocol):
    """A repository that git would use in a folder: what its working trees share, and whether it surely is theirs."""

    @property
    def common(self) -> str: ...
    @property
    def ours(self) -> bool: ...


def watched_folders(
    roots: Iterable[str],
    *,
    kept_objects: str,
    apart: Sequence[str],
    find_repository: Callable[[str], FoundRepository | None],
) -> WatchedFolders:
    """The folders of a session with the repositories they belong to; `apart` are Bridle's own, as they are named."""
    roots = tuple(dict.fromkeys(roots))
    found = map(find_repository, roots)
    repositories = dict.fromkeys(git.common for git in found if git is not None and git.ours)
    return WatchedFolders(
        roots=roots,
        kept_objects=kept_objects,
        repositories=tuple(path for path in repositories if not is_beneath_any(path, roots)),
        apart=tuple(map(os.path.realpath, apart)),
    )


def with_destroyed(
    watched: WatchedFolders, named_repositories: Callable[[str], Iterable[str]]
) -> WatchedFolders:
    """With the repositories elsewhere that are none any more, and that were looked after when they were.

    `named_repositories` are those a folder and the ones above it name, there or not.
    """
    objects = ObjectLinks(watched.kept_objects)
    named = dict.fromkeys(
        (*watched.repositories, *(path for root in watched.roots for path in named_repositories(root)))
    )
    known = (path for path in named if objects.knows(os.path.join(path, "objects")))
    elsewhere = tuple(path for path in known if not is_beneath_any(path, watched.roots))
    return msgspec.structs.replace(watched, repositories=elsewhere)
