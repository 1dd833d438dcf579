"""The engine of one process, put together: store, models, processes, sessions, and the clients attached to them.

Two tuples say what stands around the model and around a tool; a layer that is not built yet is absent.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

import msgspec

from bridle.app.models import Models
from bridle.app.settings import SessionOptions, SessionSettings, session_options, session_settings
from bridle.base.clock import Clock, SystemClock, iso_ms
from bridle.base.ids import Ids
from bridle.base.processes import Processes
from bridle.base.visible import visible
from bridle.commands.prompts import prompt_of
from bridle.config.folders import Folders, folders
from bridle.context.consent import Consent
from bridle.context.instructions import instructions, system_text
from bridle.context.sources import find_instruction_files, instruction_text
from bridle.control.multiplex import InProcessConnection, Multiplexer
from bridle.engine.bus import Bus
from bridle.engine.conversation import Conversation
from bridle.engine.dispatch import Dispatcher, ToolLayers
from bridle.engine.journal import Journal
from bridle.engine.layers import deadline, dry_run, known_and_visible, recorded, validated
from bridle.engine.ports import Provider, Spawn
from bridle.engine.questions import Questions
from bridle.engine.resume import closing_events, orphans
from bridle.engine.session import Limits, Session
from bridle.engine.steps import Model, RequestLayer, with_layers
from bridle.engine.timing import Stopwatch
from bridle.engine.tools import BUILTIN, Registry, ToolCall, ToolContext, ToolOutput
from bridle.protocol.commands import CreateSession
from bridle.protocol.errors import CommandRefused, UsageError
from bridle.protocol.events import Degraded, IdentityClass, ModelChanged, Notice, SessionCreated
from bridle.protocol.handshake import handshake
from bridle.protocol.messages import Usage
from bridle.providers.retry import retry
from bridle.safety.guards import guarded, rechecked, workspace_policy
from bridle.safety.paths import session_folders
from bridle.safety.permissions import Permissions
from bridle.safety.permitted import permitted
from bridle.safety.redacted import redacted
from bridle.safety.sandboxed import sandboxed
from bridle.safety.spawn import EnvOnlySpawn, allowed_environment
from bridle.safety.trust import Approvals
from bridle.sessions.store import SessionStore, StoredLog
from bridle.tools.builtin import builtin_tools
from bridle.tools.jobs import Jobs
from bridle.tools.output import Spill, capped

FOLD_EVERY = 1_000
"""After this many new events the fold of a log is kept when its session closes."""
VERIFIED_ON_RESUME = 1_000
"""How many of the last events are checked against the chain before a session goes on."""
UNSANDBOXED = (
    "Commands are not sandboxed: they run with your rights; only the environment is cleaned. "
    "File tools cannot write outside this folder."
)


class Engine:
    """Everything of one process: the store, the processes, the sessions and their clients."""

    def __init__(
        self,
        *,
        where: Folders,
        env: Mapping[str, str],
        clock: Clock,
        model: Provider | None = None,
        notice: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._where = where
        self._clock = clock
        self._env = env
        self.models = Models(env=env, clock=clock, given=model)
        self._ids = Ids(clock.now_ms, os.urandom)
        self._processes = Processes()
        self._approvals = Approvals(where.config)
        self._spawn: Spawn = EnvOnlySpawn(self._processes)
        self._open: list[tuple[StoredLog, Conversation, int]] = []
        self.store = SessionStore(where.data, ids=self._ids, clock=clock, notice=notice)
        self.multiplexer = Multiplexer(
            open_session=self._open_session,
            choose_model=self.models.choose,
            prompt_of=prompt_of,
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
        cwd = _working_folder(command.cwd)
        settings = session_settings(options, where=self._where, cwd=cwd, env=self._env)
        self.models.configure(settings.providers)
        chosen = await self._chosen(command, settings)
        log = self._open_log(command, cwd)
        try:
            conversation, kept_until = Conversation(), 0
            if command.resume is not None:
                conversation, kept_until = self._resumed(log, options)
                self._check_model(conversation, chosen)
            session = self._compose(log, conversation, conversation.cwd or cwd, command.env, settings)
            session.journal.originator = client
            self._begin(session.journal, command, log.log, cwd, chosen, settings)
            await log.committed()
        except BaseException:
            log.close()
            raise
        self._open.append((log, conversation, kept_until))
        return session

    async def _chosen(self, command: CreateSession, settings: SessionSettings) -> ModelChanged | None:
        """The model of this run: named, configured, or found; None leaves a resumed session its own."""
        if command.model:
            return self.models.choose(command.model)
        if command.resume is not None:
            return None
        return self.models.choose(settings.model) if settings.model else await self.models.default()

    def _resumed(self, log: StoredLog, options: SessionOptions) -> tuple[Conversation, int]:
        """The stored conversation, if it is sound and nobody has to judge anything first.

        With it, the event up to which its fold was kept: only later ones had to be read.
        """
        log.verify(last=VERIFIED_ON_RESUME)
        kept = self.store.fold(log.session)
        conversation = Conversation.restored(kept) if kept is not None else Conversation()
        kept_until = conversation.last_id
        for envelope in self.store.events(log.session, after=kept_until):
            conversation.apply(envelope)
        _refuse_orphans(conversation, options)
        return conversation, kept_until

    def _check_model(self, conversation: Conversation, chosen: ModelChanged | None) -> None:
        """Refuses at the door what would fail at the first request."""
        model = chosen or conversation.model
        if model is None:
            raise UsageError("This session has no model. Name one: -m provider:model")
        self.models.provider(model.provider, model.model)

    @staticmethod
    def _begin(
        journal: Journal,
        command: CreateSession,
        log: str,
        cwd: str,
        chosen: ModelChanged | None,
        settings: SessionSettings,
    ) -> None:
        """The first events of a run: the past is closed, then what holds from here on."""
        conversation = journal.conversation
        for event in closing_events(conversation):
            journal.emit(event)
        journal.emit(
            SessionCreated(
                log=log,
                cwd=conversation.cwd or cwd,
                profile=command.profile or "default",
                mode=command.mode or (conversation.mode if command.resume else settings.mode),
                resumed=command.resume is not None,
            )
        )
        if chosen is not None and chosen != conversation.model:
            journal.emit(chosen)
        for warning in settings.warnings:
            journal.emit(Notice(reason="ConfigWarning", message=warning))
        journal.emit(Degraded(what="sandbox", reason="NoSandbox", message=UNSANDBOXED))

    def _open_log(self, command: CreateSession, cwd: str) -> StoredLog:
        if command.resume is None:
            return self.store.create(cwd, profile=command.profile or "default", aliases=command.aliases)
        return self.store.open(self.store.find(command.resume).id)

    def _compose(
        self,
        log: StoredLog,
        conversation: Conversation,
        cwd: str,
        env: Mapping[str, str],
        settings: SessionSettings,
    ) -> Session:
        """The objects of one session, and the two tuples around the model and around a tool."""
        clock, spawn = self._clock, self._spawn
        bus = Bus(conversation.last_id + 1)
        journal = Journal(
            session=log.session,
            log=log,
            clock=clock,
            bus=bus,
            conversation=conversation,
            secrets=self.models.keys_in_use,
        )
        stopwatch = Stopwatch(clock)
        questions = Questions(
            journal=journal, clock=clock, can_be_reached=lambda: settings.options.on_ask == "wait"
        )
        jobs = Jobs(journal.emit)
        registry = _builtin_registry(jobs)
        here = session_folders(cwd, settings.options.add_dirs)
        paths = workspace_policy(here, self._where.all)
        permissions = Permissions(
            folders=here, mode=lambda: conversation.mode, rules=settings.rules, yes=settings.options.yes
        )
        spill = Spill(os.path.join(self._where.state, "outputs", log.session))

        async def system() -> str:
            return await self._system_text(cwd, settings, questions, journal)

        request_layers: tuple[RequestLayer, ...] = (
            instructions(system=system, tools=registry.schemas),
            retry(clock=clock, random=_random),
        )
        tool_layers = ToolLayers(
            one_at_a_time=(
                known_and_visible(registry),
                validated(),
                guarded(paths),
                permitted(permissions, questions.ask_permission, journal.emit),
                dry_run(settings.options.dry_run),
            ),
            together=(
                recorded(journal, rechecked(paths), stopwatch),
                deadline(clock),
                capped(spill),
                redacted(),
                sandboxed(here),
            ),
        )

        async def execute(call: ToolCall) -> ToolOutput:
            context = ToolContext(
                call=call,
                session=log.session,
                cwd=cwd,
                env=env,
                clock=clock,
                spawn=spawn,
                spilled=spill.path_of,
                emit=journal.emit,
                ask=questions.ask,
                dry_run=settings.options.dry_run,
            )
            return await call.definition.run(call.args, context)

        model = Model(
            provider=self.models.provider, ids=self._ids, clock=clock, stopwatch=stopwatch, price_of=_no_price
        )
        return Session(
            journal=journal,
            bus=bus,
            log=log,
            clock=clock,
            ask=with_layers(request_layers, model.ask),
            dispatcher=Dispatcher(
                journal=journal,
                clock=clock,
                stopwatch=stopwatch,
                run_tool=tool_layers.around(execute),
                concurrency=registry.concurrency,
            ),
            questions=questions,
            stopwatch=stopwatch,
            ids=self._ids,
            at_end=jobs.close,
            limits=Limits(max_steps=settings.max_steps, stop_unanswered=settings.options.on_ask == "fail"),
        )

    async def _system_text(
        self, cwd: str, settings: SessionSettings, questions: Questions, journal: Journal
    ) -> str:
        consent = Consent(
            is_approved=self._approvals.holds,
            approve=self._approvals.add,
            ask=questions.ask,
            notice=journal.emit,
        )
        files = find_instruction_files(cwd, config_folder=self._where.config, sources=settings.sources)
        more = "\n\n".join(
            filter(None, (settings.instructions, instruction_text(await consent.usable(files))))
        )
        system = os.uname()
        return system_text(
            cwd=cwd,
            system=f"{system.sysname} {system.machine}",
            date=iso_ms(self._clock.now_ms())[:10],
            sandbox=self._spawn.adapter,
            more=more,
        )


@asynccontextmanager
async def running_engine(
    env: Mapping[str, str], *, notice: Callable[[str], None], clock: Clock | None = None
) -> AsyncGenerator[Engine]:
    """An engine for a caller with this environment; closed cleanly on the way out."""
    engine = Engine(where=folders(env), env=env, clock=clock or SystemClock(), notice=notice)
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


def _builtin_registry(jobs: Jobs) -> Registry:
    registry = Registry()
    for tool in builtin_tools(jobs):
        registry.register(tool, BUILTIN)
    return registry


def _refuse_orphans(conversation: Conversation, options: SessionOptions) -> None:
    """A call that may have happened is a person's to judge, before anything else runs."""
    found = orphans(conversation)
    if not found or options.on_orphan == "mark-unknown":
        return
    calls = "; ".join(f"{call.call.tool} {msgspec.json.encode(call.call.input).decode()}" for call in found)
    raise CommandRefused("OrphanedCalls", count=len(found), calls=calls)


def _keep_fold(log: StoredLog, conversation: Conversation, kept_until: int) -> None:
    """Spares the next resume the reading of a long log."""
    if conversation.last_id - kept_until < FOLD_EVERY:
        return
    folded = conversation.folded()
    if folded is not None:
        log.keep_fold(conversation.last_id, folded)


def _random() -> float:
    """Uniform in [0, 1). The `random` module would cost more to import than it gives here."""
    return int.from_bytes(os.urandom(6), "big") / 2**48


def _no_price(_provider: str, _model: str, _usage: Usage) -> float | None:
    """Prices are not known yet, and unknown is not zero."""
    return None
