"""The audit of the service: who was given a token, which were revoked, what was refused. Lines are only ever added.

What people answered is in the log of its session, where nobody can change it unseen; together they are what
`bridle token audit` shows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from bridle.base.clock import Clock, iso_ms
from bridle.base.fs.files import private_folder, read_limited
from bridle.protocol import events as e

AUDIT_LIMIT = 8 * 1024 * 1024
"""Past this the file makes room: the one before it is kept, older ones go."""


class ServiceAudit:
    """`audit.jsonl` in the state folder, 0600, written by every process of this data folder."""

    def __init__(self, state: str, clock: Clock) -> None:
        self.path = os.path.join(state, "audit.jsonl")
        self._clock = clock

    def write(self, what: str, data: Mapping[str, Any]) -> None:
        """Adds a line; one write, so that lines of several processes do not mix. A full disk loses it, and says so to
        nobody: the operational log has the refusals too."""
        entry = {"ts": iso_ms(self._clock.now_ms()), "what": what, **data}
        line = msgspec.json.encode(entry) + b"\n"
        try:
            private_folder(os.path.dirname(self.path))
            self._make_room()
            fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        except OSError:
            return
        try:
            os.write(fd, line)
        except OSError:
            return
        finally:
            os.close(fd)

    def _make_room(self) -> None:
        try:
            if os.stat(self.path).st_size > AUDIT_LIMIT:
                os.replace(self.path, f"{self.path}.1")
        except FileNotFoundError:
            return

    def entries(self) -> Iterator[dict[str, Any]]:
        """What is written, the oldest first. A line that was cut off is left out."""
        for path in (f"{self.path}.1", self.path):
            try:
                data = read_limited(path, 4 * AUDIT_LIMIT).data
            except FileNotFoundError:
                continue
            for line in data.splitlines():
                try:
                    yield msgspec.json.decode(line, type=dict[str, Any])
                except msgspec.DecodeError:
                    continue


def answers_of(envelopes: Iterable[e.Envelope]) -> Iterator[dict[str, Any]]:
    """What people said in a session, and what was decided without them, as lines of the audit."""
    for envelope in envelopes:
        match envelope.event:
            case e.PermissionDecided() as decided:
                said: dict[str, Any] = {
                    "what": "decided",
                    "call": decided.call_id,
                    "tool": decided.tool,
                    "verdict": decided.verdict,
                    "decided_by": decided.decided_by,
                    "client": decided.answered_by,
                    "name": decided.answered_name,
                    "reason": decided.reason,
                    "approvals": [msgspec.to_builtins(one) for one in decided.approvals],
                }
            case e.ApprovalGiven(call_id=call_id, by=by, given=given, keys=keys):
                said = {
                    "what": "approved",
                    "call": call_id,
                    "client": by.client,
                    "name": by.name,
                    "given": given,
                    "keys": keys,
                }
            case e.QuestionAnswered() as answered:
                said = {
                    "what": "answered",
                    "question": answered.question_id,
                    "client": answered.answered_by,
                    "name": answered.answered_name,
                }
            case _:
                continue
        told = {name: value for name, value in said.items() if value not in (None, "", [])}
        yield {"ts": iso_ms(envelope.ts_ms), "session": envelope.session, **told}
