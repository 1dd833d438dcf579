"""The engine of one process, put together: store, models, processes, sessions, and the clients attached to them."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from typing import TYPE_CHECKING

import msgspec

from bridle.app.folding import KeptFold
from bridle.app.forwarders import Forwarders
from bridle.app.housekeeping import LOG_VARIABLE, Housekeeping, Notes
from bridle.app.known_models import KnownModels, shared_catalogue
from bridle.app.models import Models
from bridle.app.sandboxing import machine_spawn, opening_words
from bridle.app.session import Composed, Ground, Opened, compose, instruction_files
from bridle.app.settings import SessionOptions, SessionSettings, session_options, session_settings
from bridle.app.stored_keys import StoredKeys
from bridle.app.trusting import has_secrets_file, require_trust, session_approvals
from bridle.base.clock import Clock, SystemClock, iso_ms
from bridle.base.files import repository_root
from bridle.base.ids import Ids
from bridle.base.own_process import leave_no_core
from bridle.base.processes import Processes
from bridle.base.visible import visible
from bridle.config.folders import Folders, folders, home_of
from bridle.config.presets import is_path
from bridle.control.multiplex import Idle, InProcessConnection, Multiplexer
from bridle.engine.conversation import Conversation
from bridle.engine.ports import Provider
from bridle.engine.resume import closing_events, not_after_the_end, orphans
from bridle.engine.session import Session
from bridle.engine.tools import Tool
from bridle.protocol.commands import CreateSession
from bridle.protocol.errors import CommandRefused, StoreError, UsageError, sentence
from bridle.protocol.events import (
    ContextAdded,
    IdentityClass,
    Mode,
    ModelChanged,
    Notice,
    SessionCreated,
)
from bridle.protocol.handshake import handshake
from bridle.protocol.messages import TextBlock
from bridle.safety.sandbox.spawn import SETTLE_S
from bridle.safety.spawn import OFF, UNCONFINED, allowed_environment
from bridle.safety.trust import Approvals
from bridle.safety.wide_folders import why_wide
from bridle.sessions.store import SessionRow, SessionStore, StoredLog

if TYPE_CHECKING:
    from bridle.app.fetching import JudgedFetch
    from bridle.app.judging import Scene

VERIFIED_ON_RESUME = 1_000
"""How many of the last events are checked against the chain before a session goes on."""


class _Past(msgspec.Struct, frozen=True):
    """What was stored of a session. Up to `kept_until` its fold was kept: only later events had to be read.

    `unjudged` is where to look before a person judges what a crash left open; None where nothing has to be judged.
    """

    conversation: Conversation
    kept_until: int
    unjudged: Scene | None = None


class Engine:
    """Everything of one process: the store, the processes, the sessions and their clients.

    `model` and `fetch` stand in for a provider of its name and for the web, in tests and for embedders. `tools` come
    behind the built-in ones; one that takes a name of theirs is left out, and each session says so. `adopts_orphans` is
    for a program that starts all its processes through this engine (see `Processes`), `listening` for one that others
    can reach. With `waits_for_room` a full disk makes calls wait instead of ending the turn: somebody is there to see.
    """

    def __init__(
        self,
        *,
        where: Folders,
        env: Mapping[str, str],
        clock: Clock,
        model: Provider | None = None,
        fetch: JudgedFetch | None = None,
        tools: Sequence[Tool] = (),
        notice: Callable[[str], None] = lambda _text: None,
        adopts_orphans: bool = False,
        listening: bool = False,
        waits_for_room: bool = False,
    ) -> None:
        self._where = where
        self._clock = clock
        self._env = env
        stored = StoredKeys(where=where, env=env, clock=clock, notice=notice)
        self._processes = Processes(adopts_orphans=adopts_orphans)
        forwarders = Forwarders(self._processes, where=where, env=env, clock=clock, listening=listening)
        self._models = Models(env=env, clock=clock, given=model, stored=stored, forwarders=forwarders)
        self._catalogue = shared_catalogue(where.state, clock)
        self._known_of: dict[str, KnownModels] = {}
        self._ids = Ids(clock.now_ms, os.urandom)
        self._approvals = Approvals(where.config, copies=os.path.join(where.state, "approved"), clock=clock)
        self._sandbox = machine_spawn(self._processes, where=where, env=env)
        self.store = SessionStore(
            where.data,
            ids=self._ids,
            clock=clock,
            notice=notice,
            waits_for_room=waits_for_room,
            key_wrap=stored.log_key,
        )
        self._notes = Notes(
            where.state,
            env.get(LOG_VARIABLE, ""),
            clock=clock,
            secrets=self._models.keys_in_use,
        )
        self._ground = Ground(
            where=where,
            env=env,
            notes=self._notes,
            clock=clock,
            ids=self._ids,
            models=self._models,
            known=KnownModels(self._models, self._catalogue, {}),
            spawn=self._sandbox,
            fetch=functools.cache(lambda: fetch or _web(env, clock)),
            tools=tuple(tools),
            room=self.store if waits_for_room else None,
        )
        self._open: dict[str, tuple[StoredLog, KeptFold]] = {}
        self._idle_s: dict[str, float] = {}
        self._housekeeping = Housekeeping(self.store, where, env, clock)
        self.multiplexer = Multiplexer(
            open_session=self._opened,
            choose_model=lambda session, name: self.known_of(session).models.choose(name),
            prompt_of=_prompt_of,
            ids=self._ids,
            hello=handshake(),
            idle=Idle(clock=clock, after_s=self._idle_after_s, ended=self._close_log),
        )

    @property
    def confines(self) -> bool:
        """Whether commands are held by anything on this machine, as was found out."""
        return self._sandbox.adapter not in {"", UNCONFINED}

    def connect(self, *, name: str, identity: IdentityClass = "human", answers: bool) -> InProcessConnection:
        self._notes.detail("multiplex", "client attached", client=name, identity=identity)
        return self.multiplexer.connect(name=name, identity=identity, answers=answers)

    def known_for(self, settings: SessionSettings) -> KnownModels:
        """The models of a session with these settings, and what is known of them. No other session's are touched."""
        models = self._models.with_settings(
            settings.providers, store=settings.credential_store, helper=settings.credential_helper
        )
        return KnownModels(models, self._catalogue, settings.models)

    def known_of(self, session: str) -> KnownModels:
        """The models of a session that is open, and what is known of them."""
        return self._known_of[session]

    async def close(self) -> None:
        """Ends sessions, then processes, then the store: whatever happens, in this order."""
        try:
            await self.multiplexer.close()
        finally:
            await self._processes.close()
            self._sandbox.close()
            await self._models.close()
            await self._housekeeping.close()
            with ExitStack() as closing:
                closing.callback(self._notes.close)
                closing.callback(self.store.close)
                for log, fold in self._open.values():
                    closing.callback(log.close)
                    closing.callback(fold.at_close)

    def _idle_after_s(self, session: str) -> float | None:
        """How long a session may stay open with nobody attached; a pinned one for as long as the engine runs."""
        return None if self.store.find(session).pinned else self._idle_s.get(session)

    def _close_log(self, session: str) -> None:
        """The run is over; whoever opens the session next takes its lock."""
        log, fold = self._open.pop(session)
        del self._known_of[session]
        try:
            fold.at_close()
        finally:
            log.close()

    async def _opened(self, command: CreateSession, client: str) -> Session:
        try:
            return await self._open_session(command, client)
        except StoreError as failure:
            self._notes.write("error", "store", "session not opened", reason=failure.reason)
            raise

    async def _open_session(self, command: CreateSession, client: str) -> Session:
        options = session_options(command)
        if command.agent is not None:
            raise CommandRefused(
                "UnknownAgent", agent=visible(command.agent, newlines=False), known="none yet"
            )
        here = _working_folder(command.cwd)
        approvals = session_approvals(self._approvals, lockfile=options.lockfile, env=self._env, cwd=here)
        cwd = here
        if command.resume is not None:  # it works in its own folder, by that folder's rules
            cwd = _kept(self.store.find(command.resume)).cwd
            _working_folder(cwd)
            options = _named_from(here, options)
        _refuse_wide(cwd, options, self._env)
        settings = session_settings(options, where=self._where, cwd=cwd, env=self._env, approvals=approvals)
        if settings.require_trust:
            require_trust(approvals, instruction_files(self._where, cwd, settings), settings.waiting)
        ground, keys_notice = await self._ground_of(settings, cwd, command.env, approvals)
        chosen = await self._chosen(command, settings, ground.models)
        is_off = settings.sandbox.mode == "off"
        if settings.sandbox.required and not is_off:
            await self._require_sandbox()
        async with self._sandbox.looking(not is_off):  # while the store is opened
            log = self._open_log(command, cwd, settings)
        try:
            held_by = OFF if is_off else self._sandbox.adapter
            past = _Past(Conversation(), 0)
            if command.resume is not None:
                past = await self._resumed(log, command.env, options)
                _check_model(past.conversation, chosen, ground.models)
            composed = compose(
                ground,
                Opened(
                    log=log,
                    conversation=past.conversation,
                    cwd=past.conversation.cwd or cwd,
                    env=command.env,
                    settings=settings,
                    approvals=approvals,
                    held_by=held_by,
                    unjudged=past.unjudged,
                    kept_until=past.kept_until,
                ),
            )
            composed.session.journal.originator = client
            await self._begin(
                msgspec.structs.replace(
                    composed,
                    notices=(*composed.notices, *keys_notice, *_no_limit(command, options, settings.mode)),
                ),
                command,
                log.log,
                cwd,
                chosen,
                settings,
                held_by=held_by,
                court=past.unjudged is not None,
            )
            await log.committed()
        except BaseException:
            log.close()
            raise
        self._open[log.session] = (log, composed.fold)
        self._known_of[log.session] = ground.known
        self._idle_s[log.session] = settings.idle_timeout_s
        self._housekeeping.begin(cwd, ground.notes)
        return composed.session

    async def _require_sandbox(self) -> None:
        """Refuses at the door, before there is a log, where nothing holds commands or that cannot be found out."""
        held_by = await self._sandbox.held_by()
        if not held_by:
            raise CommandRefused("SandboxNotKnown", seconds=f"{SETTLE_S:g}")
        if held_by == UNCONFINED:
            raise CommandRefused("SandboxRequired")

    async def _ground_of(
        self, settings: SessionSettings, cwd: str, env: Mapping[str, str], approvals: Approvals
    ) -> tuple[Ground, tuple[Notice, ...]]:
        """What a session in this folder stands on: with its own models and levels, and the keys of its project."""
        known, root = self.known_for(settings), repository_root(cwd)
        ground = msgspec.structs.replace(
            self._ground,
            models=known.models,
            known=known,
            notes=self._notes.with_levels(settings.log_levels),
        )
        if not has_secrets_file(root):
            return ground, ()
        from bridle.app.project_secrets import ignored_by_git, project_keys

        is_ignored = ignored_by_git(self._ground.spawn, root=root, env=env)
        found = await project_keys(root, approvals=approvals, is_ignored=is_ignored)
        models = known.models.of_project(root, found.values)
        known = KnownModels(models, self._catalogue, settings.models)
        return msgspec.structs.replace(ground, models=models, known=known), (found.notice(),)

    async def _chosen(
        self, command: CreateSession, settings: SessionSettings, models: Models
    ) -> ModelChanged | None:
        """The model of this run: named, configured, or found; None leaves a resumed session its own."""
        if command.model:
            return models.choose(command.model)
        if command.resume is not None:
            return None
        return models.choose(settings.model) if settings.model else await models.default()

    async def _resumed(self, log: StoredLog, env: Mapping[str, str], options: SessionOptions) -> _Past:
        """The stored conversation, if it is sound. Refused where something must be judged and nobody shall be asked."""
        _kept(self.store.find(log.session))  # its content may have expired until we had the lock
        log.verify(last=VERIFIED_ON_RESUME)
        kept = self.store.fold(log.session)
        conversation = Conversation.restored(kept) if kept is not None else Conversation()
        kept_until, stopped_ms = conversation.last_id, 0
        for envelope in self.store.events(log.session, after=kept_until):
            conversation.apply(envelope)
            if not_after_the_end(envelope):
                stopped_ms = envelope.ts_ms
        found = orphans(conversation)
        if not found or options.on_orphan == "mark-unknown":
            return _Past(conversation, kept_until)
        from bridle.app.gates import understanding
        from bridle.app.judging import Scene, refusal  # only after a crash

        scene = Scene(
            cwd=conversation.cwd,
            env=env,
            spawn=self._ground.spawn,
            understand=understanding(env, conversation.cwd),
            created_ms=self.store.find(log.session).created_ms,
            stopped_ms=stopped_ms,
        )
        if options.on_orphan == "fail":
            raise await refusal(found, scene, session=log.session)
        return _Past(conversation, kept_until, scene)

    async def _begin(
        self,
        composed: Composed,
        command: CreateSession,
        log: str,
        cwd: str,
        chosen: ModelChanged | None,
        settings: SessionSettings,
        *,
        held_by: str,
        court: bool,
    ) -> None:
        """The first events of a run: the past is closed, then what holds from here on."""
        journal = composed.session.journal
        conversation = journal.conversation
        resumed = command.resume is not None
        policy = composed.policy
        for event in closing_events(conversation, waiting=orphans(conversation) if court else ()):
            journal.emit(event)
        journal.opened = journal.emit(
            SessionCreated(
                log=log,
                cwd=conversation.cwd or cwd,
                profile=settings.profile,
                mode=command.mode or (conversation.mode if resumed else settings.mode),
                resumed=resumed,
                sandbox=held_by,
                confined=policy.mode if held_by not in {"", UNCONFINED} else "off",
                network=policy.network,
                hosts=policy.hosts,
            )
        )
        if chosen is not None and chosen != conversation.model:
            journal.emit(chosen)
        for notice in composed.notices:
            journal.emit(notice)
        for words in opening_words(policy, held_by):
            journal.emit(words)
        if composed.hooks is not None and (text := await composed.hooks.session_started(resumed=resumed)):
            journal.emit(ContextAdded(source="hook", content=(TextBlock(text=text),)))

    def _open_log(self, command: CreateSession, cwd: str, settings: SessionSettings) -> StoredLog:
        options = settings.options
        if command.resume is None:
            log = self.store.create(
                cwd,
                profile=settings.profile,
                aliases=command.aliases,
                headless=options.headless,
            )
        else:
            log = self.store.open(self.store.find(command.resume).id)
        if options.title:
            self.store.rename(log.session, options.title)
        return log


@asynccontextmanager
async def running_engine(
    env: Mapping[str, str],
    *,
    notice: Callable[[str], None],
    clock: Clock | None = None,
    waits_for_room: bool = False,
) -> AsyncGenerator[Engine]:
    """The engine of a program that is nothing else; closed cleanly on the way out. No process of it leaves a core."""
    leave_no_core()
    engine = Engine(
        where=folders(env),
        env=env,
        clock=clock or SystemClock(),
        notice=notice,
        adopts_orphans=True,
        waits_for_room=waits_for_room,
    )
    try:
        yield engine
    finally:
        await engine.close()


def session_store(env: Mapping[str, str], *, folder: str | None = None) -> SessionStore:
    """The stored sessions, to look at; with `folder`, those in a copy. Nothing is created by looking."""
    clock, where = SystemClock(), folders(env)
    stored = StoredKeys(where=where, env=env, clock=clock)
    ids = Ids(clock.now_ms, os.urandom)
    return SessionStore(folder or where.data, ids=ids, clock=clock, key_wrap=stored.log_key)


@contextmanager
def store_to_look(env: Mapping[str, str]) -> Generator[SessionStore]:
    """The stored sessions, for what notes something while it looks.

    Where their disk cannot be written, a copy that nobody else sees and that goes afterwards.
    """
    from bridle.sessions.shelf import copied_where_unwritable

    with (
        copied_where_unwritable(folders(env).data) as folder,
        closing(session_store(env, folder=folder)) as store,
    ):
        yield store


def session_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What of a caller's environment its session's tools may see."""
    return allowed_environment(env)


def _prompt_of(name: str, arguments: str) -> str | None:
    from bridle.commands.prompts import prompt_of

    return prompt_of(name, arguments)


def _check_model(conversation: Conversation, chosen: ModelChanged | None, models: Models) -> None:
    """Refuses at the door what would fail at the first request."""
    model = chosen or conversation.model
    if model is None:
        raise UsageError("This session has no model. Name one: -m provider:model")
    models.go_on_with(model)


def _no_limit(command: CreateSession, options: SessionOptions, mode: Mode) -> Iterator[Notice]:
    """Who names what is allowed, in a mode that allows everything, may think that it is a limit."""
    if options.allow and (command.mode or mode) == "yolo":
        yield Notice(reason="AllowIsNoLimit", message=sentence("AllowIsNoLimit", {}))


def _working_folder(cwd: str) -> str:
    """The folder without symlinks, if Bridle can look into it and write its name down."""
    resolved = os.path.realpath(cwd)
    try:
        resolved.encode()
        os.scandir(resolved).close()
    except OSError as problem:
        raise CommandRefused("UnreadableFolder", path=visible(cwd), problem=problem.strerror) from None
    except UnicodeEncodeError:
        raise CommandRefused(
            "UnreadableFolder", path=visible(cwd), problem="its name is not UTF-8 text"
        ) from None
    return resolved


def _web(env: Mapping[str, str], clock: Clock) -> JudgedFetch:
    from bridle.app.fetching import web  # not before the first page

    return web(env, clock)


def _refuse_wide(cwd: str, options: SessionOptions, env: Mapping[str, str]) -> None:
    """Raises `WideFolder` for a home or a folder of the system that nobody named."""
    if (problem := why_wide(cwd, home_of(env))) is None:
        return
    if options.wide_folder is None or os.path.realpath(options.wide_folder) != cwd:
        raise CommandRefused("WideFolder", path=visible(cwd), problem=problem)


def _kept(row: SessionRow) -> SessionRow:
    """The session, if its content is still there: a model that remembers nothing would only pretend to go on."""
    if row.expired_ms is not None:
        raise CommandRefused("SessionExpired", session=row.id, day=iso_ms(row.expired_ms)[:10])
    return row


def _named_from(folder: str, options: SessionOptions) -> SessionOptions:
    """The options with the files they name, which are relative to where the caller is."""
    file, profile = options.config_file, options.profile
    if profile is not None and is_path(profile):
        profile = os.path.normpath(os.path.join(folder, os.path.expanduser(profile)))
    file = file and os.path.join(folder, file)
    return msgspec.structs.replace(options, config_file=file, profile=profile)
