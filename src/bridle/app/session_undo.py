"""Undo, wired: where a session's files are kept, what guards them, and how a person is asked.

undo(session_undo(log, journal, …), stopwatch, journal)    # in a session
with stored_undo(env, row) as stored: …                    # outside of one
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from bridle.base.clock import Clock, SystemClock
from bridle.base.files import KEPT_OBJECTS, MEMORIES
from bridle.base.ids import Ids
from bridle.base.paths import is_beneath, session_folders
from bridle.config.folders import Folders, folders
from bridle.engine.conversation import Conversation
from bridle.engine.features import Feature, PlacedToolLayer
from bridle.engine.journal import Journal
from bridle.engine.slash_command import DescribedSlash, SlashCommand, SlashEvent
from bridle.protocol.events import Notice
from bridle.protocol.slash_arguments import SlashArgument
from bridle.sessions.store import SessionStore

if TYPE_CHECKING:
    from bridle.engine.ports import AskPerson
    from bridle.engine.stopwatch import Stopwatch
    from bridle.engine.store_ports import OpenLog
    from bridle.engine.tools import ToolLayer
    from bridle.protocol.queries import SessionChanges
    from bridle.safety.path_guard import PathPolicy
    from bridle.undo.keeper import Keeper, WatchedFolders
    from bridle.undo.undo_commands import Talk
    from bridle.undo.undo_service import Undo

UNDO: Final = DescribedSlash(
    name="undo",
    does="take back what the last turn did to files: /undo [TURN|CALL|session]",
    arguments=(
        SlashArgument(
            name="what",
            about="a turn by its number, a call by its id, or the whole session; else the last turn",
            examples=("session",),
        ),
    ),
)
REDO: Final = DescribedSlash(name="redo", does="bring back what /undo took away", arguments=())
"""What the commands do, for the list of commands."""


class SessionUndo(msgspec.Struct, frozen=True):
    """What a session gets: what keeps files for the layer around its tools, what was changed so far, two commands, and
    what to say when it goes on."""

    keeper: Callable[[], Keeper]
    changes: Callable[[str], Awaitable[SessionChanges]]
    commands: tuple[SlashCommand, ...]
    work: Callable[[], Undo]

    def notices(self) -> list[Notice]:
        """An undo that was cut off when Bridle stopped is told before anything else happens."""
        from bridle.undo.undo_words import interrupted

        return [
            Notice(reason="UndoInterrupted", message=interrupted(cut_off))
            for cut_off in self.work().cut_off()
        ]


def session_undo(
    log: OpenLog,
    journal: Journal,
    *,
    paths: Callable[[], PathPolicy],
    where: Folders,
    clock: Clock,
    ids: Ids,
    ask: AskPerson,
    shows: Callable[[str], bool],
) -> SessionUndo:
    """The undo of a live session. `shows` says whether the content of an absolute path may be seen."""
    conversation = journal.conversation

    def turn() -> int | None:
        return conversation.turn if conversation.turn_is_open else None

    def work() -> Undo:
        return _undo(log, _ground(paths(), where), paths(), where, clock)

    def hides(path: str) -> bool:
        return not (shows(path) or _is_memory(path, where))

    @functools.cache  # one for all agents of the session: they number their calls together
    def keeper() -> Keeper:
        from bridle.undo.keeper import Keeper  # not before something is about to change

        return Keeper(log.undo_store(), ground=_ground(paths(), where), turn=turn, clock=clock)

    def talk() -> Talk:
        from bridle.undo.undo_commands import Talk

        return Talk(
            ask=ask,
            emit=journal.emit,
            committed=journal.committed,
            new_id=lambda: ids.new("undo"),
            now_ms=clock.now_ms,
            hides=hides,
        )

    async def undo(arguments: str) -> SlashEvent:
        from bridle.undo.undo_commands import run_undo  # not before somebody wants it

        return await run_undo(work(), arguments, talk())

    async def redo(_arguments: str) -> SlashEvent:
        from bridle.undo.undo_commands import run_redo

        return await run_redo(work(), talk())

    async def changes(what: str) -> SessionChanges:
        from bridle.undo.change_list import list_changes

        await journal.committed()
        return await asyncio.to_thread(list_changes, work(), what, hides=hides)

    commands = (SlashCommand.of(UNDO, undo), SlashCommand.of(REDO, redo))
    return SessionUndo(keeper, changes, commands, work)


def undo(made: SessionUndo, stopwatch: Stopwatch, journal: Journal) -> Feature:
    """What files were, before a call; `/undo` and `/redo`."""

    def layer() -> ToolLayer:
        from bridle.undo.undoable import undoable

        return undoable(made.keeper, stopwatch, journal.emit)

    def notices() -> list[Notice]:
        return made.notices() if journal.conversation.last_id else []

    return Feature(
        name="undo",
        tool_layers=(PlacedToolLayer("undoable", layer),),
        slash=made.commands,
        notices=notices,
    )


class StoredUndo(msgspec.Struct, frozen=True):
    """The undo of a session that nobody runs, and the journal its events go to.

    `hides` says whether the content of an absolute path must not be shown.
    """

    work: Undo
    journal: Journal
    hides: Callable[[str], bool]


@contextmanager
def stored_undo(
    store: SessionStore, env: Mapping[str, str], session: str, *, add_dirs: Sequence[str] = ()
) -> Generator[StoredUndo]:
    """Opens a stored session for undoing, and closes it. Raises `SessionBusy` where it runs elsewhere."""
    from bridle.base.secret_files import SECRET_FILES
    from bridle.config.tiers import load
    from bridle.safety.path_guard import workspace_policy
    from bridle.safety.sight import sight

    where, clock = folders(env), SystemClock()
    row = store.find(session)
    secret_files = tuple(
        load(where=where, cwd=row.cwd, env=env).get("permissions.secret_files") or SECRET_FILES
    )
    paths = workspace_policy(session_folders(row.cwd, add_dirs), where.all, secret_files=secret_files)
    seen = sight(paths, lambda _path: False)
    log = store.open(row.id)
    try:
        kept = store.fold(row.id)
        conversation = Conversation.restored(kept) if kept is not None else Conversation()
        for envelope in store.events(row.id, after=conversation.last_id):
            conversation.apply(envelope)
        journal = Journal(
            session=row.id,
            log=log,
            clock=clock,
            bus=None,
            conversation=conversation,
        )
        journal.originator = Ids(clock.now_ms, os.urandom).new("cli")
        yield StoredUndo(
            _undo(log, _ground(paths, where), paths, where, clock),
            journal,
            hides=lambda path: not (seen.shows_content(path) or _is_memory(path, where)),
        )
    finally:
        log.close()


def _ground(paths: PathPolicy, where: Folders) -> WatchedFolders:
    from bridle.sandbox.git_places import find_repository
    from bridle.undo.watched_repositories import watched_folders

    return watched_folders(
        (paths.folders.workspace, *paths.folders.added),
        kept_objects=os.path.join(where.data, KEPT_OBJECTS),
        apart=where.all,
        find_repository=find_repository,
    )


def _is_memory(path: str, where: Folders) -> bool:
    """Whether it is one of the memories, which lie among Bridle's own files and are the person's all the same."""
    return is_beneath(path, os.path.realpath(os.path.join(where.data, MEMORIES)))


def _undo(log: OpenLog, ground: WatchedFolders, paths: PathPolicy, where: Folders, clock: Clock) -> Undo:
    from bridle.safety.path_guard import why_not_written
    from bridle.sandbox.git_places import named_repositories
    from bridle.undo.undo_service import Undo  # not before somebody wants it
    from bridle.undo.watched_repositories import with_destroyed

    ground = with_destroyed(ground, named_repositories)

    def may_write(path: str) -> str | None:
        theirs = ground.is_of_repository(path) or _is_memory(path, where)
        return None if theirs else why_not_written(path, paths)

    return Undo(
        log.undo_store(),
        ground=ground,
        may_write=may_write,
        now_ms=clock.now_ms,
    )
