"""Saved grants: what a person allowed in one project for the next seven days. One private file outside every workspace.

A grant belongs to the resolved project root it was given in and to no other. One that has expired does not exist. A
file that cannot be read, or that others could have written, is no grant at all, and that is said; it is never a reason
to stop.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from bridle.base.fs.files import FileLock, private_folder, read_trusted, write_atomic
from bridle.protocol.errors import BridleError
from bridle.protocol.events import GrantAdded, GrantMatch

FILE = "grants.json"
GRANT_DAYS = 7
GRANT_LIFE_MS = GRANT_DAYS * 24 * 60 * 60 * 1000
MAX_BYTES = 4 * 1024 * 1024
LOCK_TIMEOUT_S = 5.0
_VERSION = 1


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A remembered yes.

    To the whole tool (`subject` is None), to one command or path taken literally, or to a `key`: a program and
    subcommand with harmless arguments inside the workspace. `tool` is a tool's name, or `edit` for all tools that
    change files.
    """

    grant_id: str
    tool: str
    subject: str | None = None
    match: GrantMatch = "literal"
    expires_ms: int | None = None


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    tool: str
    pattern: str
    match: GrantMatch = "literal"
    expires_ms: int


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: int = _VERSION
    projects: dict[str, tuple[_Kept, ...]] = {}


class SavedGrants:
    """The saved grants of one user. Several processes may use the file at once."""

    def __init__(self, folder: str, now_ms: Callable[[], int]) -> None:
        self.path = os.path.join(folder, FILE)
        self._now_ms = now_ms
        self._seen: tuple[int, ...] | None = None
        self._content = _File()
        self._problem: str | None = None

    def of(self, root: str) -> tuple[Grant, ...]:
        """The unexpired grants of a project, as the file has them now. None of them is for a whole tool."""
        now_ms = self._now_ms()
        return tuple(
            Grant(
                grant_id=kept.id,
                tool=kept.tool,
                subject=kept.pattern,
                match=kept.match,
                expires_ms=kept.expires_ms,
            )
            for kept in self._read().projects.get(root, ())
            if kept.pattern and now_ms < kept.expires_ms <= now_ms + GRANT_LIFE_MS
        )

    def problem(self) -> str | None:
        """Why the file cannot be read, as a clause; None when it can or there is none."""
        self._read()
        return self._problem

    def add(self, root: str, grant: GrantAdded) -> GrantAdded:
        """Keeps a grant for seven days and returns it with its end. Raises OSError, or `BridleError` if it cannot."""
        lasting = msgspec.structs.replace(grant, life="saved", expires_ms=self._now_ms() + GRANT_LIFE_MS)
        assert lasting.expires_ms is not None
        kept = _Kept(
            id=grant.grant_id,
            tool=grant.tool,
            pattern=grant.pattern,
            match=grant.match,
            expires_ms=lasting.expires_ms,
        )

        def with_it(mine: tuple[_Kept, ...]) -> tuple[_Kept, ...]:
            others = (old for old in mine if (old.tool, old.pattern, old.match) != _what(kept))
            return (*others, kept)

        self._change(root, with_it)
        return lasting

    def revoke(self, root: str, grant_id: str) -> bool:
        """Forgets a grant. False when the project has none of this id."""
        if not any(grant.grant_id == grant_id for grant in self.of(root)):
            return False
        self._change(root, lambda mine: tuple(kept for kept in mine if kept.id != grant_id))
        return True

    def _change(self, root: str, edit: Callable[[tuple[_Kept, ...]], tuple[_Kept, ...]]) -> None:
        private_folder(os.path.dirname(self.path))
        with FileLock(self.path + ".lock") as lock:
            if not lock.acquire(timeout_s=LOCK_TIMEOUT_S):
                raise BridleError("FileUnwritable", path=self.path, problem="another Bridle is changing it")
            content = self._read()
            if self._problem is not None:
                os.replace(self.path, self.path + ".damaged")  # for people to look at; it counts no more
            now_ms = self._now_ms()
            projects = {
                project: tuple(kept for kept in grants if kept.expires_ms > now_ms)
                for project, grants in {
                    **content.projects,
                    root: edit(content.projects.get(root, ())),
                }.items()
            }
            remaining = _File(projects={project: grants for project, grants in projects.items() if grants})
            write_atomic(self.path, msgspec.json.format(msgspec.json.encode(remaining), indent=2) + b"\n")

    def _read(self) -> _File:
        """The file, read again only when it is another one than before."""
        try:
            status = os.lstat(self.path)
        except FileNotFoundError:
            self._seen, self._content, self._problem = None, _File(), None
            return self._content
        except OSError as problem:
            return self._damaged(problem.strerror or "it cannot be opened")
        stamp = (status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode, status.st_uid)
        if stamp != self._seen:
            self._seen, self._problem = stamp, None
            self._content = self._decoded()
        return self._content

    def _decoded(self) -> _File:
        try:
            data = read_trusted(self.path, MAX_BYTES)
            if data.truncated:
                return self._damaged("it is too large")
            content = msgspec.json.decode(data.data, type=_File)
        except OSError as problem:
            return self._damaged(problem.strerror or "it cannot be opened")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._damaged("it is not what Bridle wrote")
        if content.version != _VERSION:
            return self._damaged("another version of Bridle wrote it")
        return content

    def _damaged(self, problem: str) -> _File:
        self._problem = problem
        self._content = _File()
        return self._content


def _what(kept: _Kept) -> tuple[str, str, GrantMatch]:
    return kept.tool, kept.pattern, kept.match
