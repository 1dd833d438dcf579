"""A branch: a new session that begins as another one was when one of its turns had ended."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridle.engine.ports import StoredSession
from bridle.protocol.errors import UsageError
from bridle.protocol.events import Branched
from bridle.sessions import log_reader
from bridle.sessions.database import Connection
from bridle.sessions.event_copy import Origin, new_session
from bridle.sessions.shelf import Shelf
from bridle.sessions.store import SessionRow, refuse_rest

_ENDS = """select e.turn, e.id, e.chain from events e
  where e.log = ? and e.kind = 'TurnEnded' and e.agent_path is null order by e.id"""


_SHARE_OUTPUTS_KEY = """update logs set outputs_key = (select outputs_key from logs where key = ?)
  where session = ?"""


def branch(shelf: Shelf, parent: SessionRow, *, turn: int | None = None) -> str:
    """Copies the session up to the end of `turn`, or of its last ended one, and returns the id of the new one.

    It can read the long outputs of its parent, once they are copied.

    The parent may be running; nothing of it changes. Raises `UsageError` for a turn that has no end (yet).
    """
    refuse_rest(parent)
    name = parent.name
    with shelf.database.errors():
        ends = shelf.reader().execute(_ENDS, (name.key,)).fetchall()
    at = end_of_turn([(number, event) for number, event, _ in ends], turn)
    (link,) = (link for _, event, link in ends if event == at)
    origin = msgspec.structs.replace(branch_origin(parent, at), chain=link)
    with shelf.database.errors():
        made = new_session(shelf, origin, log_reader.up_to(shelf.reader(), name, at))

    def share(connection: Connection) -> None:
        connection.execute(_SHARE_OUTPUTS_KEY, (name.key, made))

    shelf.writer.run(share)
    return made


def end_of_turn(ends: Sequence[tuple[int, int]], turn: int | None) -> int:
    """The event that ended a turn, or the last one that did; `ends` are turns and events. Raises `UsageError`."""
    wanted = [event for number, event in ends if turn in (None, number)]
    if not wanted:
        raise UsageError(_no_such_end(turn, [number for number, _ in ends]))
    return wanted[-1]


def branch_origin(parent: StoredSession, at: int) -> Origin:
    """What a branch of this session begins with that goes up to event `at`."""
    return Origin(
        cwd=parent.cwd,
        root=parent.root,
        profile=parent.profile,
        title=f"{parent.title} (branch)" if parent.title else "",
        renamed=parent.renamed,
        branch_of=parent.id,
        branched=Branched(parent_log=parent.log, at=at),
    )


def _no_such_end(turn: int | None, ended: list[int]) -> str:
    if not ended:
        return "No turn of this session has ended yet, and a branch begins where one ended"
    most = f"it has turns 1 to {ended[-1]}" if len(ended) > 1 else "it has 1 turn"
    return f"Turn {turn} of this session has not ended or does not exist: {most}"
