"""What a call did to a repository that undo takes back: what went, or no longer is what git can read.

Commits, new branches and everything git moved on purpose stay. Objects are kept by `object_links`; here are the
small files that say what they mean: HEAD, branches, tags, the index, settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha1, sha256

from bridle.engine.undo_records import Change, Seen, State

GIT = ".git"
_INSIDE = f"/{GIT}/"
_OF_A_WORKTREE = re.compile(r"worktrees/[^/]+/")
_LASTING = re.compile(
    r"HEAD|index|sharedindex\.[0-9a-f]+|packed-refs|config(?:\.worktree)?|description|commondir|gitdir|objects/info/alternates"
    r"|refs/(?!bisect/|rewritten/).+|logs/.+|info/.+|hooks/.+"
)
"""What git keeps for good. Everything else comes and goes with its work: merges, rebases, locks."""
_FOLDERS = frozenset({"", "objects", "objects/pack", "objects/info", "refs", "refs/heads", "refs/tags"})
_RECORDS = re.compile(r"HEAD|packed-refs|logs/HEAD|refs/.+")
_REF = re.compile(rb"(?:ref: refs/[^\s]+|(?!0+\s*\Z)[0-9a-f]{40}(?:[0-9a-f]{24})?)\s*")
_PACKED_REF = re.compile(r"([0-9a-f]{40,64}) (refs/[^\s]+)")
_NUMBER = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NEW_REF_MODE = 0o644

Content = Callable[[bytes], bytes | None]
"""The stored content with this digest."""
Keep = Callable[[bytes, bytes], None]
"""Takes a content and its digest into the store."""
Tree = Mapping[str, Seen]


class Repositories:
    """The repositories in two looks at a workspace; `extra` lie outside of it. `content` returns what files held,
    `is_lost` tells whether an object went."""

    def __init__(
        self,
        before: Tree,
        after: Tree,
        *,
        extra: Sequence[str] = (),
        content: Content,
        is_lost: Callable[[str, str], bool],
    ) -> None:
        self._before = before
        self._after = after
        self._extra = extra
        self._content = content
        self._is_lost = is_lost
        self._packed_refs: dict[bytes, dict[str, str]] = {}

    def split(self, changes: Iterable[Change], keep: Keep) -> tuple[list[Change], list[Change], list[str]]:
        """The changes that undo takes back, those that stay, and the folders where git recorded them."""
        ours: list[Change] = []
        stay: list[Change] = []
        theirs: dict[str, list[Change]] = {}
        for change in changes:
            if folder := self._repository(change.name):
                theirs.setdefault(folder, []).append(change)
            else:
                ours.append(change)
        recorded: list[str] = []
        for folder, inside in theirs.items():
            losses = self._losses(folder, inside, keep)
            taken = {change.path for change in losses}
            ours += losses
            others = [change for change in inside if change.path not in taken]
            stay += others
            if any(_RECORDS.fullmatch(_below(change.name, folder)) for change in others):
                recorded.append(folder)
        return sorted(ours, key=lambda change: change.path), stay, recorded

    def _repository(self, path: str) -> str:
        """The repository's own folder that a path lies in, the innermost; empty where it lies in none."""
        start = path.find(_INSIDE)
        outer = path[: start + len(GIT) + 1] if start >= 0 else path if path.endswith(f"/{GIT}") else ""
        if not outer:
            outer = next((e for e in self._extra if path == e or path.startswith(f"{e}/")), "")
        if not outer or not self._was_folder(outer):
            return ""
        at = path
        while len(at) > len(outer):
            if f"{at}/HEAD" in self._before and self._was_folder(f"{at}/objects"):
                return at
            at = os.path.dirname(at)
        return outer

    def _was_folder(self, path: str) -> bool:
        if path in self._extra:
            return True
        seen = self._before.get(path) or self._after.get(path)
        return seen is not None and seen.state is not None and seen.state.kind == "folder"

    def _losses(self, folder: str, inside: list[Change], keep: Keep) -> list[Change]:
        needed = [f"{folder}/{name}" for name in ("HEAD", "objects", "refs")]
        everything = any(path in self._before and path not in self._after for path in needed)
        replaced = everything or self._was_replaced(folder, inside)
        lost = [
            change
            for change in inside
            if change.before is not None
            and change.before.kind != "folder"
            and self._is_loss(change, folder, everything=everything, replaced=replaced)
        ]
        lost += self._from_packed(folder, inside, {change.name for change in lost}, keep)
        above = {parent for change in lost for parent in _folders_above(change.name, folder)}
        made = [
            Change(os.fsencode(path), State("folder", 0o755), None)
            for path in sorted(above - self._before.keys() - self._after.keys())
            if path != folder
        ]
        folders = [
            change
            for change in inside
            if change.before is not None
            and change.before.kind == "folder"
            and (change.after is None or change.after.kind != "folder")
            and (everything or change.name in above or _below(change.name, folder) in _FOLDERS)
        ]
        return [*made, *folders, *lost]

    def _is_loss(self, change: Change, folder: str, *, everything: bool, replaced: bool) -> bool:
        name = _OF_A_WORKTREE.sub("", _below(change.name, folder), count=1)
        if change.after is None and everything:
            return True
        if not _LASTING.fullmatch(name):
            return False
        if replaced:
            return not name.startswith("hooks/") or change.after is None
        if change.after is None:
            return not (name.startswith("refs/") and self._is_packed(folder, name))
        return self._is_broken(name, change)

    def _was_replaced(self, folder: str, inside: list[Change]) -> bool:
        """Tell whether another repository was put in its place: the commit of HEAD is gone, or a branch moved away from
        a commit that is gone."""
        head = self._text(f"{folder}/HEAD").removeprefix("ref: ")
        commit = self._text(f"{folder}/{head}") or self._packed(folder, self._before).get(head, head)
        if _NUMBER.fullmatch(commit.encode()) and self._is_lost(folder, commit):
            return True
        for change in inside:
            name = _below(change.name, folder)
            if change.before is None or change.after is None or not change.before.sha256:
                continue
            if name == "HEAD" or name.startswith("refs/"):
                was = (self._content(change.before.sha256) or b"").strip()
                if _NUMBER.fullmatch(was) and self._is_lost(folder, was.decode()):
                    return True
        return False

    def _text(self, path: str) -> str:
        """Return what a small file held before; empty if there was none."""
        seen = self._before.get(path)
        if seen is None or seen.state is None or not seen.state.sha256:
            return ""
        return (self._content(seen.state.sha256) or b"").decode("utf-8", "surrogateescape").strip()

    def _is_broken(self, name: str, change: Change) -> bool:
        """Whether git could no longer read what is there."""
        assert change.before is not None
        assert change.after is not None
        if change.after.kind != "file":
            return change.before.kind == "file"
        data = self._content(change.after.sha256) if change.after.sha256 else None
        if data is None:
            return False
        if name == "HEAD" or name.startswith("refs/"):
            return _REF.fullmatch(data) is None
        if name == "index":
            return not _is_index(data)
        return not data and change.before.size > 0 and not name.startswith("logs/")

    def _from_packed(self, folder: str, inside: list[Change], lost: set[str], keep: Keep) -> list[Change]:
        """Branches that were in the list of packed ones and are nowhere now, each as a file of its own."""
        path = f"{folder}/packed-refs"
        change = next((c for c in inside if c.name == path), None)
        if change is None or path in lost or change.before is None:
            return []
        found: list[Change] = []
        now = self._packed(folder, self._after)
        for name, number in self._packed(folder, self._before).items():
            ref = f"{folder}/{name}"
            if name in now or ref in self._after or ref in self._before:
                continue
            data = f"{number}\n".encode()
            digest = sha256(data).digest()
            keep(digest, data)
            found.append(Change(os.fsencode(ref), State("file", _NEW_REF_MODE, digest, size=len(data)), None))
        return found

    def _is_packed(self, folder: str, name: str) -> bool:
        return name in self._packed(folder, self._after)

    def _packed(self, folder: str, tree: Tree) -> dict[str, str]:
        seen = tree.get(f"{folder}/packed-refs")
        if seen is None or seen.state is None or not seen.state.sha256:
            return {}
        digest = seen.state.sha256
        if digest not in self._packed_refs:
            text = (self._content(digest) or b"").decode("utf-8", "surrogateescape")
            found = (_PACKED_REF.fullmatch(line) for line in text.split("\n"))
            self._packed_refs[digest] = {match[2]: match[1] for match in found if match}
        return self._packed_refs[digest]


def _below(path: str, folder: str) -> str:
    return path[len(folder) + 1 :]


def _folders_above(path: str, folder: str) -> list[str]:
    found: list[str] = []
    while len(path := os.path.dirname(path)) >= len(folder):
        found.append(path)
    return found


def _is_index(data: bytes) -> bool:
    """Whether this is an index that is whole; one without a digest at its end has zeros there."""
    if not data.startswith(b"DIRC"):
        return False
    old, new = sha1(data[:-20], usedforsecurity=False), sha256(data[:-32])
    return data[-20:] in (bytes(20), old.digest()) or data[-32:] == new.digest()
