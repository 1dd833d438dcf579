"""The engine of one process, put together: store, models, processes, sessions, and the clients attached to them."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from bridle.app.fetching import web
from bridle.app.gates import understanding
from bridle.app.known_models import KnownModels
from bridle.app.models import Models
from bridle.app.sandboxing import MachineSpawn, foreign_folder
from bridle.app.session import Composed, Ground, Opened, compose, instruction_files
from bridle.app.settings import SessionOptions, SessionSettings, session_options, session_settings
from bridle.app.stored_keys import StoredKeys
from bridle.app.trusting import require_trust, session_approvals
from bridle.base.clock import Clock, SystemClock
from bridle.base.ids import Ids
from bridle.base.processes import Processes
from bridle.base.visible import visible
from bridle.config.folders import Folders, folders
from bridle.control.multiplex import InProcessConnection, Multiplexer
from bridle.engine.conversation import Conversation
from bridle.engine.ports import Provider
from bridle.engine.resume import closing_events, not_after_the_end, orphans
from bridle.engine.session import Session
from bridle.engine.tools import Tool
from bridle.protocol.commands import CreateSession
from bridle.protocol.errors import CommandRefused, UsageError, sentence
from bridle.protocol.events import (
    ContextAdded,
    Degraded,
    IdentityClass,
    Mode,
    ModelChanged,
    Notice,
    SessionCreated,
)
from bridle.protocol.handshake import handshake
from bridle.protocol.messages import TextBlock
from bridle.safety.spawn import OFF, UNCONFINED, allowed_environment
from bridle.safety.trust import Approvals
from bridle.sessions.store import SessionStore, StoredLog

if TYPE_CHECKING:
    from bridle.app.judging import Scene
    from bridle.tools.web_fetch import Fetch

FOLD_EVERY = 1_000
"""After this many new events the fold of a log is kept when its session closes."""
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
    for a program that starts all its processes through this engine (see `Processes`).
    """

    def __init__(
        self,
        *,
        where: Folders,
        env: Mapping[str, str],
        clock: Clock,
        model: Provider | None = None,
        fetch: Fetch | None = None,
        tools: Sequence[Tool] = (),
        notice: Callable[[str], None] = lambda _text: None,
        adopts_orphans: bool = False,
    ) -> None:
        self._where = where
        self._clock = clock
        self._env = env
        stored = StoredKeys(where=where, env=env, clock=clock, notice=notice)
        self.models = Models(env=env, clock=clock, given=model, stored=stored)
        self.known = KnownModels(self.models, state=where.state, clock=clock)
        self._ids = Ids(clock.now_ms, os.urandom)
        self._processes = Processes(adopts_orphans=adopts_orphans)
        self._approvals = Approvals(where.config, copies=os.path.join(where.state, "approved"), clock=clock)
        self._sandbox = MachineSpawn(self._processes, where=where, env=env)
        self._ground = Ground(
            where=where,
            clock=clock,
            ids=self._ids,
            models=self.models,
            known=self.known,
            spawn=self._sandbox,
            fetch=fetch or web(env, clock),
            tools=tuple(tools),
        )
        self._open: list[tuple[StoredLog, Conversation, int]] = []
        self.store = SessionStore(where.data, ids=self._ids, clock=clock, notice=notice)
        self.multiplexer = Multiplexer(
            open_session=self._open_session,
            choose_model=self.models.choose,
            prompt_of=_prompt_of,
            ids=self._ids,
            hello=handshake(),
        )

    def connect(self, *, name: str, identity: IdentityClass = "human", answers: bool) -> InProcessConnection:
        return self.multiplexer.connect(name=name, identity=identity, answers=answers)

    async def close(self) -> None:
        """Ends sessions, then processes, then the store: whatever happens, in this order."""
        try:
            await self.multiplexer.close()
        finally:
            await self._processes.close()
            await self.models.close()
            for log, conversation, kept_until in self._open:
                _keep_fold(log, conversation, kept_until)
                log.close()
            self.store.close()

    async def _open_session(self, command: CreateSession, client: str) -> Session:
        options = session_options(command)
        here = _working_folder(command.cwd)
        approvals = session_approvals(self._approvals, lockfile=options.lockfile, env=self._env, cwd=here)
        cwd = here
        if command.resume is not None:  # it works in its own folder, by that folder's rules
            cwd = self.store.find(command.resume).cwd
            options = _named_from(here, options)
        settings = session_settings(options, where=self._where, cwd=cwd, env=self._env, approvals=approvals)
        if settings.require_trust:
            require_trust(approvals, instruction_files(self._where, cwd, settings), settings.waiting)
        if (
            settings.sandbox.required
            and settings.sandbox.mode != "off"
            and await self._sandbox.held_by() is None
        ):
            raise CommandRefused("SandboxRequired")
        self.models.configure(settings.providers, store=settings.credential_store)
        self.known.configure(settings.models)
        chosen = await self._chosen(command, settings)
        log = self._open_log(command, cwd)
        try:
            conversation, kept_until, past = Conversation(), 0, None
            if command.resume is not None:
                past = await self._resumed(log, command.env, options)
                conversation, kept_until = past.conversation, past.kept_until
                self._check_model(conversation, chosen)
            composed = compose(
                self._ground,
                Opened(
                    log=log,
                    conversation=conversation,
                    cwd=conversation.cwd or cwd,
                    env=command.env,
                    settings=settings,
                    approvals=approvals,
                    unjudged=past.unjudged if past is not None else None,
                ),
            )
            composed.session.journal.originator = client
            await self._begin(
                composed,
                command,
                log.log,
                cwd,
                chosen,
                settings.mode,
                court=past is not None and past.unjudged is not None,
            )
            await log.committed()
        except BaseException:
            log.close()
            raise
        self._open.append((log, conversation, kept_until))
        return composed.session

    async def _chosen(self, command: CreateSession, settings: SessionSettings) -> ModelChanged | None:
        """The model of this run: named, configured, or found; None leaves a resumed session its own."""
        if command.model:
            return self.models.choose(command.model)
        if command.resume is not None:
            return None
        return self.models.choose(settings.model) if settings.model else await self.models.default()

    async def _resumed(self, log: StoredLog, env: Mapping[str, str], options: SessionOptions) -> _Past:
        """The stored conversation, if it is sound. Refused where something must be judged and nobody shall be asked."""
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

    def _check_model(self, conversation: Conversation, chosen: ModelChanged | None) -> None:
        """Refuses at the door what would fail at the first request."""
        model = chosen or conversation.model
        if model is None:
            raise UsageError("This session has no model. Name one: -m provider:model")
        self.models.provider(model.provider, model.model)

    async def _begin(
        self,
        composed: Composed,
        command: CreateSession,
        log: str,
        cwd: str,
        chosen: ModelChanged | None,
        mode: Mode,
        *,
        court: bool,
    ) -> None:
        """The first events of a run: the past is closed, then what holds from here on."""
        journal = composed.session.journal
        conversation = journal.conversation
        resumed = command.resume is not None
        policy = composed.policy
        held_by = OFF if policy.mode == "off" else self._ground.spawn.adapter
        for event in closing_events(conversation, waiting=orphans(conversation) if court else ()):
            journal.emit(event)
        journal.emit(
            SessionCreated(
                log=log,
                cwd=conversation.cwd or cwd,
                profile=command.profile or "default",
                mode=command.mode or (conversation.mode if resumed else mode),
                resumed=resumed,
                sandbox=held_by,
                confined=policy.mode if held_by != UNCONFINED else "off",
                network=policy.network,
            )
        )
        if chosen is not None and chosen != conversation.model:
            journal.emit(chosen)
        for notice in composed.notices:
            journal.emit(notice)
        if held_by == UNCONFINED:
            journal.emit(Degraded(what="sandbox", reason="NoSandbox", message=sentence("NoSandbox", {})))
        elif (problem := foreign_folder(policy, held_by)) is not None:
            journal.emit(Notice(reason="ForeignFolder", message=problem))
        if composed.hooks is not None and (text := await composed.hooks.session_started(resumed=resumed)):
            journal.emit(ContextAdded(source="hook", content=(TextBlock(text=text),)))

    def _open_log(self, command: CreateSession, cwd: str) -> StoredLog:
        if command.resume is None:
            return self.store.create(cwd, profile=command.profile or "default", aliases=command.aliases)
        return self.store.open(self.store.find(command.resume).id)


@asynccontextmanager
async def running_engine(
    env: Mapping[str, str], *, notice: Callable[[str], None], clock: Clock | None = None
) -> AsyncGenerator[Engine]:
    """The engine of a program that is nothing else; closed cleanly on the way out."""
    engine = Engine(
        where=folders(env), env=env, clock=clock or SystemClock(), notice=notice, adopts_orphans=True
    )
    try:
        yield engine
    finally:
        await engine.close()


def session_store(env: Mapping[str, str]) -> SessionStore:
    """The stored sessions, to look at. Nothing is created by looking."""
    clock = SystemClock()
    return SessionStore(folders(env).data, ids=Ids(clock.now_ms, os.urandom), clock=clock)


def session_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What of a caller's environment its session's tools may see."""
    return allowed_environment(env)


def _prompt_of(name: str, arguments: str) -> str | None:
    from bridle.commands.prompts import prompt_of

    return prompt_of(name, arguments)


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


def _named_from(folder: str, options: SessionOptions) -> SessionOptions:
    """The options with the file they name, which is relative to where the caller is."""
    if options.config_file is None:
        return options
    return msgspec.structs.replace(options, config_file=os.path.join(folder, options.config_file))


def _keep_fold(log: StoredLog, conversation: Conversation, kept_until: int) -> None:
    """Spares the next resume the reading of a long log."""
    if conversation.last_id - kept_until < FOLD_EVERY:
        return
    folded = conversation.folded()
    if folded is not None:
        log.keep_fold(conversation.last_id, folded)
