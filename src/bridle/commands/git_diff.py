"""`/diff`: what changed in the repository a session works in. It only looks, and only people ask for it."""

from __future__ import annotations

import os
from collections.abc import Callable

from bridle.base.git.git_repository import GitFailed, Repository
from bridle.base.git.git_status import ChangedPath
from bridle.engine.slash_command import SlashEvent
from bridle.protocol.errors import UsageError
from bridle.protocol.events import ContextAdded, Notice
from bridle.protocol.messages import TextBlock

MAX_DIFF_BYTES = 32 * 1024
MAX_NAMES = 20
"""How many file names stand in one list."""


async def show_changes(
    path: str, *, repository: Repository, cwd: str, shows: Callable[[str], bool]
) -> SlashEvent:
    """`/diff [git] [path]`: `git diff HEAD`, shown and put into the conversation.

    A person's client has `/diff` alone for what a turn changed, so `git` may be said everywhere.

    `shows` says whether the content of an absolute path may be seen; changed files it hides are named and left out.
    """
    try:
        lead, _, rest = path.partition(" ")
        text = await changes_text(repository, _absolute(cwd, rest.strip() if lead == "git" else path), shows)
    except GitFailed as failure:
        raise UsageError(f"{failure.problem[0].upper()}{failure.problem[1:]}.") from None
    if not text:
        return Notice(reason="NoChanges", message="Nothing has changed since the last commit.")
    return ContextAdded(source="diff", content=(TextBlock(text=text),))


async def changes_text(
    repository: Repository, below: str, shows: Callable[[str], bool], *, known_only: bool = False
) -> str:
    """What changed at or below the path `below`, or anywhere; empty where nothing did. `known_only`: in files that git
    knows."""
    root = await repository.root()

    def is_meant(change: ChangedPath) -> bool:
        path = os.path.join(root, change.path)
        return not below or path == below or path.startswith(f"{below}/")

    def may_be_seen(change: ChangedPath) -> bool:
        return all(shows(os.path.join(root, path)) for path in (change.path, change.before) if path)

    changes = list(filter(is_meant, (await repository.status()).changes))
    known = [change for change in changes if not change.untracked]
    seen = list(filter(may_be_seen, known))
    parts: list[str] = []
    if seen:
        every = not below and len(seen) == len(known)
        paths = [os.path.join(root, path) for change in seen for path in (change.path, change.before) if path]
        diff = await repository.diff(paths=() if every else paths, max_bytes=MAX_DIFF_BYTES)
        parts.append(f"Changes since the last commit (git diff HEAD):\n\n{diff.text}".rstrip("\n"))
        if diff.truncated:
            parts.append(f"There is more: this is the beginning, {MAX_DIFF_BYTES // 1024} KB.")
    parts += _listed("Changed, not shown because it may hold secrets", [c for c in known if c not in seen])
    new = [] if known_only else [change for change in changes if change.untracked]
    parts += _listed("New, not known to git", new)
    return "\n\n".join(parts)


def _absolute(cwd: str, path: str) -> str:
    return os.path.normpath(os.path.join(cwd, path)) if path else ""


def _listed(lead: str, changes: list[ChangedPath]) -> list[str]:
    if not changes:
        return []
    names = ", ".join(change.path for change in changes[:MAX_NAMES])
    more = len(changes) - MAX_NAMES
    return [f"{lead}: {names}{f' and {more} more' if more > 0 else ''}"]
