"""A backup of sessions that are kept in memory: for each a line that says what it is, and its events as exported.

Nobody who keeps nothing has a key: the file is plain text, for its owner alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from bridle.engine.ports import StoredSession
from bridle.engine.store_ports import Backup
from bridle.protocol.codec import encode_envelope
from bridle.protocol.errors import UsageError
from bridle.sessions.backup_file import new_files
from bridle.sessions.memory_session import MemorySession


class BackedUp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session in a backup: what is known of it beside its events, and how many lines of those follow."""

    row: StoredSession
    events: int


def write_backup(sessions: Iterable[MemorySession], path: str) -> Backup:
    """Raises `UsageError` where something has its name."""
    path = os.path.abspath(path)
    lines: list[bytes] = []
    for kept in sessions:
        lines.append(msgspec.json.encode(BackedUp(row=kept.row, events=len(kept.records))))
        lines += [encode_envelope(record.envelope, record.payload) for record in kept.records]
    with new_files(path) as partial:
        with open(partial, "wb") as file:
            file.write(b"".join(line + b"\n" for line in lines))
        read = list(read_backup(partial))
    return Backup(path=path, key_path="", sessions=len(read), events=sum(len(events) for _, events in read))


def read_backup(path: str) -> Iterator[tuple[StoredSession, Sequence[bytes]]]:
    """Each session with the lines of its events. Raises `UsageError` for a file that is none, or not whole."""
    try:
        with open(path, "rb") as file:
            lines = file.readlines()
    except OSError as problem:
        raise UsageError(f"{path} cannot be read ({problem.strerror})") from None
    at = 0
    while at < len(lines):
        try:
            said = msgspec.json.decode(lines[at], type=BackedUp)
        except msgspec.MsgspecError as problem:
            raise UsageError(f"{path} is no backup: line {at + 1} is no session ({problem})") from None
        events = lines[at + 1 : at + 1 + said.events]
        if len(events) < said.events:
            raise UsageError(f"{path} is no whole backup: the end of {said.row.id} is missing")
        yield said.row, events
        at += 1 + said.events
