"""What a person has agreed to: `approved.lock` in their config folder, and copies of the texts in their state folder.

The content decides, never a time stamp. Settings and programs count only where they were approved: the same words
can mean something else in another folder. Nothing inside a workspace is ever read as an approval; a lock file that
travels with a repository counts only when whoever starts Bridle names it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import msgspec

from bridle.base.clock import Clock, SystemClock
from bridle.base.fs.files import (
    FileLock,
    UntrustedFile,
    private_folder,
    read_limited,
    read_trusted,
    repository_root,
    write_atomic,
)
from bridle.engine.tools import RunTool, ToolCall, ToolOutput
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import GrantAdded, Notice, PermissionDecided

# # bridle approved.lock 1 instructions sha256:9f86d0… 2026-10-12T08:15:00Z /home/ana/shop AGENTS.md A line is
# kind, digest, time, root, path, with one blank between them. The root is the folder the path is relative to;
# it is `.` in a file that is meant to travel. In both, every byte but letters, digits and `/._+@=,~-` is
# written as `%` and two digits. A line counts only if it is exactly what would be written for what it says,
# line end included: what is cut off, changed or misunderstood approves nothing. Without the first line
# nothing in the file counts.


HEADER: Final = b"# bridle approved.lock 1\n"
TrustedKind: TypeAlias = Literal[
    "instructions", "skill", "hook", "config", "settings", "mcp_server", "agent", "plugin", "command"
]
KINDS: Final[tuple[TrustedKind, ...]] = get_args(TrustedKind)

_EXPLAINED: Final = (
    b"# What a person has read and agreed to: kind, digest, time, root, path. bridle help trust\n"
)
_HERE: Final = "."
_SHA256: Final = r"[0-9a-f]{64}"
_CODED: Final = rb"(?:[A-Za-z0-9/._+@=,~-]|%[0-9A-F]{2})+"
_NOT_PLAIN: Final = rb"[^A-Za-z0-9/._+@=,~-]"
_CODE: Final = rb"%([0-9A-F]{2})"


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A content that was agreed to. `path` is relative to `root`; without a root it holds in any.

    For a program `digest` covers its whole launch and `path` is the name of the setting that wants it.
    """

    kind: TrustedKind
    digest: str
    path: str
    root: str = ""
    approved_ms: int = 0

    @property
    def id(self) -> str:
        """Short enough to type."""
        return self.digest[:12]

    @property
    def place(self) -> tuple[str, str, str]:
        return (self.kind, self.root, self.path)


class TrustLock(msgspec.Struct, frozen=True):
    """What a lock file says. `unread` are whole lines that say nothing we know, with their numbers from 1."""

    entries: tuple[Approval, ...]
    unread: tuple[tuple[int, bytes], ...] = ()
    foreign: bool = False
    """Something stands there, and it is no lock file of this version."""


def encode(entries: Iterable[Approval], *, unread: Iterable[bytes] = ()) -> bytes:
    """The text of a lock file. Raises ValueError for what no line can hold."""
    ordered = sorted(set(entries), key=lambda entry: (entry.root, entry.path, entry.kind, entry.approved_ms))
    return b"".join((HEADER, _EXPLAINED, *(encode_line(entry) for entry in ordered), *unread))


def encode_line(entry: Approval) -> bytes:
    if not re.fullmatch(_SHA256, entry.digest) or entry.kind not in KINDS:
        raise ValueError(f"not an approval: {entry}")
    parts = (entry.kind, f"sha256:{entry.digest}", _time(entry.approved_ms))
    return (
        b" ".join((*(part.encode() for part in parts), _coded(entry.root or _HERE), _coded(entry.path)))
        + b"\n"
    )


def decode(data: bytes) -> TrustLock:
    """Every approval that stands there whole and unharmed. Never raises, whatever the bytes are."""
    if not data.startswith(HEADER):
        return TrustLock((), foreign=bool(data))
    entries: list[Approval] = []
    unread: list[tuple[int, bytes]] = []
    *lines, torn = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if line.startswith(b"#") or not line:
            continue
        entry = decode_line(line + b"\n")
        if entry is None:
            unread.append((number, line + b"\n"))
        else:
            entries.append(entry)
    if torn:
        unread.append((len(lines) + 1, b""))  # nobody knows how it would have gone on
    return TrustLock(tuple(entries), tuple(unread))


def decode_line(line: bytes) -> Approval | None:
    """The approval a line holds, its line end included; None for anything else."""
    fields = line.removesuffix(b"\n").split(b" ")
    if len(fields) != 5 or not all(re.fullmatch(_CODED, field) for field in fields[3:]):
        return None
    try:
        kind, digest, time = (field.decode("ascii") for field in fields[:3])
        root = _decoded(fields[3])
        entry = Approval(
            kind=cast("TrustedKind", kind),
            digest=digest.removeprefix("sha256:"),
            path=_decoded(fields[4]),
            root="" if root == _HERE else root,
            approved_ms=int(datetime.fromisoformat(time.removesuffix("Z") + "+00:00").timestamp()) * 1000,
        )
        return entry if encode_line(entry) == line else None
    except (ValueError, OverflowError, OSError):
        return None


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _coded(path: str) -> bytes:
    if not path:
        raise ValueError("an approval has a path")
    return re.sub(_NOT_PLAIN, lambda found: b"%%%02X" % found[0][0], os.fsencode(path))


def _decoded(field: bytes) -> str:
    return os.fsdecode(re.sub(_CODE, lambda found: bytes((int(found[1], 16),)), field))


NAME: Final = "approved.lock"
LOCKFILE_VARIABLE: Final = "BRIDLE_APPROVED_LOCK"
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_COPY_BYTES: Final = 64 * 1024
MAX_COPIES: Final = 500
KEPT_PER_PLACE: Final = 20
"""Contents of one file that stay approved: switching between branches asks nobody."""
ANYWHERE: Final[frozenset[TrustedKind]] = frozenset({"instructions", "skill"})
"""Words for the model mean the same in every folder; nobody is asked twice for the same bytes."""


class Approvals:
    """The approvals of one user. A missing or unreadable file, or one that others could write, approves nothing.

    `copies` is a private folder for the texts, so that a later change can be shown as one. `named` are the entries of
    a lock file that the caller named for this run.
    """

    def __init__(
        self,
        folder: str,
        *,
        copies: str | None = None,
        named: Iterable[Approval] = (),
        clock: Clock | None = None,
    ) -> None:
        self.path = os.path.join(folder, NAME)
        self._copies = copies
        self._named = tuple(named)
        self._clock = clock or SystemClock()

    def with_named(self, entries: Iterable[Approval]) -> Approvals:
        """The same store, and for one run these entries too."""
        folder = os.path.dirname(self.path)
        return Approvals(folder, copies=self._copies, named=entries, clock=self._clock)

    def read(self) -> TrustLock:
        """The stored approvals, and the lines among them that cannot be understood."""
        try:
            return decode(read_trusted(self.path, MAX_BYTES).data)
        except OSError:
            return TrustLock(())

    def problem(self) -> BridleError | None:
        """Why the file approves nothing although it stands there: others could have written it."""
        try:
            read_trusted(self.path, 0)
        except UntrustedFile as problem:
            return _unsafe(problem)
        except OSError:
            return None
        return None

    def holds(
        self, digest: str, *, kind: TrustedKind = "instructions", root: str = "", path: str = ""
    ) -> bool:
        """Whether this very content was approved, and for what counts only in its place: there."""
        return any(
            entry.digest == digest
            and entry.kind == kind
            and (kind in ANYWHERE or (entry.root, entry.path) == (root, path))
            for entry in self.read().entries
        ) or any((entry.digest, entry.kind, entry.path) == (digest, kind, path) for entry in self._named)

    def held(self, kind: TrustedKind, wanted: Iterable[tuple[str, str]]) -> frozenset[str]:
        """Those of many digests, each with the path it stands at, that were approved: for words for the model, which
        mean the same in every folder."""
        stored = {entry.digest for entry in self.read().entries if entry.kind == kind}
        named = {(entry.digest, entry.path) for entry in self._named if entry.kind == kind}
        return frozenset([digest for digest, path in wanted if digest in stored or (digest, path) in named])

    def last(self, *, kind: TrustedKind, root: str, path: str) -> Approval | None:
        """What was approved at this place most recently."""
        there = [entry for entry in self.read().entries if entry.place == (kind, root, path)]
        return max(there, key=lambda entry: entry.approved_ms, default=None)

    def text_of(self, approval: Approval) -> str | None:
        """The text as it was approved; None if no faithful copy is left."""
        if self._copies is None:
            return None
        try:
            data = read_limited(os.path.join(self._copies, approval.digest), MAX_COPY_BYTES).data
        except OSError:
            return None
        return data.decode("utf-8", "replace") if content_digest(data) == approval.digest else None

    def add(
        self,
        path: str,
        digest: str,
        *,
        kind: TrustedKind = "instructions",
        root: str = "",
        text: bytes | None = None,
    ) -> Approval:
        """Remembers a content a person agreed to just now. Two processes may do so at once.

        Raises `TrustUnwritable` when it cannot be kept, `TrustFileUnsafe` where others could have written the file.
        """
        now_ms = self._clock.now_ms() // 1000 * 1000
        added = Approval(kind=kind, digest=digest, path=path, root=root, approved_ms=now_ms)
        try:
            with self._locked() as before:
                others = (
                    entry
                    for entry in before.entries
                    if (entry.digest, *entry.place) != (digest, *added.place)
                )
                self._write(_thinned((*others, added)), before)
            if text is not None:
                self._copy(digest, text)
        except OSError as problem:
            raise self._unwritable(problem) from None
        return added

    def revoke(self, matches: Callable[[Approval], bool]) -> tuple[Approval, ...]:
        """Takes back every approval that fits, and returns those. Raises as `add` does."""
        self._refuse_unsafe()
        if not any(map(matches, self.read().entries)):
            return ()
        try:
            with self._locked() as before:
                gone = tuple(entry for entry in before.entries if matches(entry))
                self._write((entry for entry in before.entries if not matches(entry)), before)
                self._drop_copies({entry.digest for entry in gone})
        except OSError as problem:
            raise self._unwritable(problem) from None
        return gone

    @contextlib.contextmanager
    def _locked(self) -> Generator[TrustLock]:
        private_folder(os.path.dirname(self.path))
        with FileLock(self.path + ".lock") as lock:
            if not lock.acquire(timeout_s=5):
                raise TimeoutError(None, "another Bridle keeps it locked")
            self._refuse_unsafe()
            yield self.read()

    def _refuse_unsafe(self) -> None:
        if (problem := self.problem()) is not None:
            raise problem

    def _write(self, entries: Iterable[Approval], before: TrustLock) -> None:
        if before.foreign:  # of another version, or damaged: not ours to throw away
            os.replace(self.path, self.path + ".unread")
        data = encode(entries, unread=(line for _number, line in before.unread))
        write_atomic(self.path, data)

    def _copy(self, digest: str, text: bytes) -> None:
        if self._copies is None or len(text) > MAX_COPY_BYTES:
            return
        private_folder(self._copies)
        write_atomic(os.path.join(self._copies, digest), text)
        by_age = sorted(os.scandir(self._copies), key=lambda file: file.stat().st_mtime_ns, reverse=True)
        for file in by_age[MAX_COPIES:]:
            with contextlib.suppress(OSError):
                os.unlink(file.path)

    def _drop_copies(self, digests: Iterable[str]) -> None:
        for digest in digests if self._copies is not None else ():
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._copies or "", digest))

    def _unwritable(self, problem: OSError) -> BridleError:
        return BridleError("TrustUnwritable", path=self.path, problem=problem.strerror or str(problem))


def content_digest(data: bytes) -> str:
    """What stands for a content."""
    return hashlib.sha256(data).hexdigest()


def read_lockfile(path: str) -> TrustLock:
    """A lock file somebody named. Raises `BadLockfile` unless every line of it can be understood, `TrustFileUnsafe`
    where others could have written it.
    """
    try:
        contents = read_trusted(path, MAX_BYTES)
    except UntrustedFile as problem:
        raise _unsafe(problem) from None
    except OSError as problem:
        raise BridleError("BadLockfile", path=path, problem=problem.strerror or str(problem)) from None
    lock = decode(contents.data)
    if contents.truncated or lock.foreign or not contents.data:
        raise BridleError("BadLockfile", path=path, problem="it is not an approved.lock")
    if lock.unread:
        raise BridleError("BadLockfile", path=path, problem=f"line {lock.unread[0][0]} cannot be understood")
    return lock


def session_approvals(
    store: Approvals, *, lockfile: str | None, env: Mapping[str, str], cwd: str
) -> Approvals:
    """The person's approvals, and those of a lock file that whoever starts Bridle names: an option or a variable.

    A lock file that merely lies in the workspace is never looked at: a repository has no say in its own trust. The
    variable must hold an absolute path, so that one set for good cannot mean a file of every repository.
    """
    named = lockfile or env.get(LOCKFILE_VARIABLE) or None
    if named is None:
        return store
    if lockfile is None and not os.path.isabs(named):
        raise CommandRefused("BadLockfile", path=named, problem=f"{LOCKFILE_VARIABLE} needs an absolute path")
    return store.with_named(read_lockfile(os.path.join(cwd, named)).entries)


def is_trusted_file(approvals: Approvals, root: str) -> Callable[[str, str], bool]:
    """For hooks: whether a person agreed to the content with this digest at this path of the project."""

    def trusted(path: str, digest: str) -> bool:
        place = os.path.relpath(path, root)
        return any(approvals.holds(digest, kind=kind, root=root, path=place) for kind in ("hook", "config"))

    return trusted


def _unsafe(problem: UntrustedFile) -> BridleError:
    return BridleError("TrustFileUnsafe", path=problem.filename, problem=problem.strerror)


def _thinned(entries: Iterable[Approval]) -> list[Approval]:
    """Without the oldest contents of places that changed very often."""
    kept: dict[tuple[str, str, str], list[Approval]] = {}
    for entry in sorted(entries, key=lambda entry: entry.approved_ms):
        kept.setdefault(entry.place, []).append(entry)
    return [entry for place in kept.values() for entry in place[-KEPT_PER_PLACE:]]


Recorded: TypeAlias = PermissionDecided | GrantAdded | Notice


class ApprovedEdits:
    """What a person said yes to in an edit question is trusted already; nobody is asked twice for the same bytes.

    Only their own answer to that very change counts; a rule, a grant or `--yes` has read nothing. What was shown is
    approved, not what is in the file: should the two differ, the file is asked about.
    """

    def __init__(self, approvals: Approvals, *, cwd: str, sources: Sequence[str]) -> None:
        self._approvals = approvals
        self._cwd = cwd
        self._root = repository_root(cwd)
        self._sources = frozenset(sources)
        self._agreed: set[str] = set()

    def hearing(self, record: Callable[[Recorded], object]) -> Callable[[Recorded], object]:
        """The same record of decisions, with an ear for a person's own yes."""

        def record_and_note(event: Recorded) -> object:
            if isinstance(event, PermissionDecided) and event.verdict == "allow" and event.answered_by:
                self._agreed.add(event.call_id)
            return record(event)

        return record_and_note

    async def layer(self, call: ToolCall, proceed: RunTool) -> ToolOutput:
        """The layer around a tool: once it has made the change a person agreed to, that content is trusted."""
        output = await proceed(call)
        if call.id in self._agreed and output.outcome == "ok":
            self._written(call.name, call.input)
        self._agreed.discard(call.id)
        return output

    def _written(self, tool: str, given: Mapping[str, Any]) -> None:
        path = given.get("path")
        if not isinstance(path, str) or os.path.basename(path) not in self._sources:
            return
        match tool, given:
            case "write_file", {"content": str(content)}:
                self.approve_written(path, content)
            case "edit_file", {"old_string": str(old), "new_string": str(new)}:
                before = self._approved_text(path)
                everywhere = given.get("replace_all") is True
                if before is not None and (before.count(old) == 1 or (everywhere and old in before)):
                    self.approve_written(path, before.replace(old, new))
            case _:
                pass

    def approve_written(self, path: str, content: str) -> None:
        """A person read this content, whole, and agreed that it is written to this instruction file."""
        data = content.encode("utf-8", "replace")
        self._approvals.add(self._relative(path), content_digest(data), root=self._root, text=data)

    def _approved_text(self, path: str) -> str | None:
        last = self._approvals.last(kind="instructions", root=self._root, path=self._relative(path))
        return None if last is None else self._approvals.text_of(last)

    def _relative(self, path: str) -> str:
        return os.path.relpath(os.path.join(self._cwd, path), self._root)
