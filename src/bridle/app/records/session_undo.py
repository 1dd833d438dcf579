"""Undo in a session as a feature.

SessionUndo(log, journal, …)               # in a session, made with its first call
with stored_undo(env, row) as stored: …    # outside of one
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from copy import copy

import msgspec

from bridle.app.user.setting_sections import load
from bridle.base.clock import Clock, SystemClock
from bridle.base.fs.files import KEPT_OBJECTS, MEMORIES
from bridle.base.fs.paths import is_beneath, session_folders
from bridle.base.git.own_worktrees import BRANCHES, OwnTree
from bridle.base.ids import Ids
from bridle.base.memory_budget import MemoryCache
from bridle.base.secrets.secret_files import SECRET_FILES
from bridle.base.threads import to_the_end
from bridle.config.folders import Folders, folders
from bridle.engine.conversation import Conversation
from bridle.engine.journal import Journal
from bridle.engine.ports import AskPerson
from bridle.engine.slash_command import SlashEvent
from bridle.engine.store_ports import OpenLog
from bridle.engine.undo_records import Missed
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Notice
from bridle.protocol.queries import SessionChanges
from bridle.safety.path_guard import PathPolicy, sight, why_not_written
from bridle.sandbox.git_places import find_repository, named_repositories
from bridle.sessions.store import SessionStore
from bridle.undo.file_states import CallNumbers, places_of
from bridle.undo.file_tree import Look, WatchedFolders
from bridle.undo.keeper import Keeper
from bridle.undo.object_links import watched_folders, with_destroyed
from bridle.undo.undo_commands import Talk, list_changes, run_redo, run_undo
from bridle.undo.undo_service import Undo
from bridle.undo.undo_words import interrupted


class SessionUndo:
    """The undo of a live session: what keeps files for the layer around its tools, what was changed so far, two
    commands, and what to say when it goes on. `shows` says whether the content of an absolute path may be seen."""

    def __init__(
        self,
        log: OpenLog,
        journal: Journal,
        *,
        paths: Callable[[], PathPolicy],
        where: Folders,
        clock: Clock,
        ids: Ids,
        ask: AskPerson,
        shows: Callable[[str], bool],
        trees: MemoryCache[Look],
    ) -> None:
        self._log = log
        self._journal = journal
        self._paths = paths
        self._where = where
        self._clock = clock
        self._ids = ids
        self._ask = ask
        self._shows = shows
        self._trees = trees
        self.place = ""
        self._keepers: dict[str, Keeper] = {}

    def placed(self, cwd: str) -> SessionUndo:
        """The same session with what is kept of a worktree in which an agent works. Neither record knows the other."""
        other = copy(self)
        other.place = cwd
        return other

    def leave(self, cwd: str) -> None:
        """Nobody works in a worktree any more: what is kept of it is in the store."""
        self._keepers.pop(cwd, None)

    def keeper(self) -> Keeper:
        """One for everybody who works in a folder: it knows what runs at once. All of them number calls together."""
        if self.place not in self._keepers:
            others = tuple(self._keepers.values())
            self._keepers[self.place] = Keeper(
                self._log.undo_store(),
                ground=self._ground(self.place),
                turn=self._turn,
                clock=self._clock,
                trees=self._trees,
                numbers=others[0].numbers if others else CallNumbers(),
            )
        return self._keepers[self.place]

    def work(self) -> Undo:
        return _undo(self._log, self._ground(""), self._paths(), self._where, self._clock)

    def work_in(self, cwd: str) -> Undo:
        """The undo of calls of whoever works in a folder: the session's own, or one in a worktree."""
        workspace = self._paths().folders.workspace
        return self.work() if os.path.realpath(cwd) == workspace else self._work_in(cwd)

    async def changes(self, what: str) -> SessionChanges:
        """What was changed so far in the session's own folders."""
        await self._journal.committed()
        return await list_changes(self.work(), what, hides=self._hides)

    @asynccontextmanager
    async def keeping(self, paths: Sequence[str], does: str) -> AsyncGenerator[None]:
        """What these files are, and what becomes of them meanwhile, is kept as of a command of the person's; what git
        stages is not."""
        keeper, missed = self.keeper(), Missed(".git/index", "git")
        begun = await keeper.begin_files(self._ids.new("call"), does, paths, (missed,))
        try:
            yield
        finally:
            await to_the_end(keeper.end(begun, ran=True))

    async def take_back(self, tree: OwnTree, what: str, *, again: bool) -> SlashEvent:
        """Takes back what agents of this session did in a worktree, or brings it back."""
        await self._journal.committed()
        rows = await self._log.undo_store().calls()
        places = [place for place in places_of(rows) if is_beneath(place, tree.path)]
        if not places:
            raise BridleError("NothingInWorktree", name=tree.name)
        (cwd,) = places
        work = self._work_in(cwd)
        here = self._paths().folders.workspace

        def hides(path: str) -> bool:  # as the same file here is
            return not self._shows(os.path.join(here, os.path.relpath(path, cwd)))

        talk = msgspec.structs.replace(
            self._talk(),
            hides=hides,
            undo=f"/worktrees undo {tree.name}",
            redo=f"/worktrees redo {tree.name}",
            where=tree.name,
        )
        return await (run_redo(work, talk) if again else run_undo(work, what, talk))

    async def notices(self) -> list[Notice]:
        """An undo that was cut off when Bridle stopped is told before anything else happens."""
        store = self._log.undo_store()
        if all(action.done for action in await store.actions()):
            return []
        told = [interrupted(one) for one in await self.work().cut_off()]
        for place in places_of(await store.calls()):
            name, _ = self._name_of(place)
            told += [
                interrupted(one, undo=f"/worktrees undo {name}", redo=f"/worktrees redo {name}")
                for one in await self._work_in(place).cut_off()
            ]
        return [Notice(reason="UndoInterrupted", message=words) for words in told]

    async def undo(self, arguments: str) -> SlashEvent:
        """Run `/undo`."""
        return await run_undo(self.work(), arguments, self._talk())

    async def redo(self, _arguments: str) -> SlashEvent:
        """Run `/redo`."""
        return await run_redo(self.work(), self._talk())

    def _talk(self) -> Talk:
        return Talk(
            ask=self._ask,
            emit=self._journal.emit,
            committed=self._journal.committed,
            new_id=lambda: self._ids.new("undo"),
            now_ms=self._clock.now_ms,
            hides=self._hides,
        )

    def _turn(self) -> int | None:
        conversation = self._journal.conversation
        return conversation.turn if conversation.turn_is_open else None

    def _hides(self, path: str) -> bool:
        return not (self._shows(path) or _is_memory(path, self._where))

    def _ground(self, place: str) -> WatchedFolders:
        if not place:
            return _ground(self._paths(), self._where)
        found = watched_folders(  # commands of the agent write nothing of its repository
            (place,), kept_objects=_kept_objects(self._where), apart=self._where.all, find_repository=_none
        )
        return msgspec.structs.replace(found, place=place)

    def _name_of(self, place: str) -> tuple[str, str]:
        """The name of the worktree that a folder is in, and what leads there from its top."""
        name, _, inside = os.path.relpath(place, os.path.realpath(self._where.worktrees)).partition(os.sep)
        return name, f"{inside}/" if inside else ""

    def _work_in(self, cwd: str) -> Undo:
        name, inside = self._name_of(cwd)
        names = self._paths().secret_files
        paths = PathPolicy(folders=session_folders(cwd), protected=self._where.all, secret_files=names)
        return Undo(
            self._log.undo_store(),
            ground=self._ground(cwd),
            may_write=lambda path: why_not_written(path, paths),
            now_ms=self._clock.now_ms,
            worktree=name,
            label=f"{BRANCHES}{name}:{inside}",
        )


def _none(_folder: str) -> None:
    return None


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
    where, clock = folders(env), SystemClock()
    row = store.find(session)
    secret_files = tuple(
        load(where=where, cwd=row.cwd, env=env).get("permissions.secret_files") or SECRET_FILES
    )
    paths = PathPolicy(
        folders=session_folders(row.cwd, add_dirs), protected=where.all, secret_files=secret_files
    )
    seen = sight(paths, None)
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
    return watched_folders(
        (paths.folders.workspace, *paths.folders.added),
        kept_objects=_kept_objects(where),
        apart=where.all,
        find_repository=find_repository,
    )


def _kept_objects(where: Folders) -> str:
    return os.path.join(where.data, KEPT_OBJECTS)


def _is_memory(path: str, where: Folders) -> bool:
    """Whether it is one of the memories, which lie among Bridle's own files and are the person's all the same."""
    return is_beneath(path, os.path.realpath(os.path.join(where.data, MEMORIES)))


def _undo(log: OpenLog, ground: WatchedFolders, paths: PathPolicy, where: Folders, clock: Clock) -> Undo:
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
