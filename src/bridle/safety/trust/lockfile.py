"""`approved.lock` as text: one line per approval, in an order that makes small differences.

    # bridle approved.lock 1
    instructions sha256:9f86d0… 2026-10-12T08:15:00Z /home/ana/shop AGENTS.md

A line is kind, digest, time, root, path, with one blank between them. The root is the folder the path is relative to;
it is `.` in a file that is meant to travel. In both, every byte but letters, digits and `/._+@=,~-` is written as `%`
and two digits. A line counts only if it is exactly what would be written for what it says, line end included: what is
cut off, changed or misunderstood approves nothing. Without the first line nothing in the file counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias, cast, get_args

import msgspec

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
