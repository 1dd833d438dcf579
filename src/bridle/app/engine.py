"""The engine of one process, put together: store, models, processes, sessions, and the clients attached to them."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from bridle.app.composition import ReadySession, compose
from bridle.app.forwarders import Forwarders
from bridle.app.housekeeping import LOG_VARIABLE, Housekeeping, Notes
from bridle.app.session_features import instruction_files
from bridle.app.session_parts import OpenedLog, ProcessServices
from bridle.app.settings import SessionOptions, SessionSettings, session_options, session_settings
from bridle.app.stored_keys import StoredKeys
from bridle.base.clock import Clock, SystemClock, iso_ms
from bridle.base.files import repository_root
from bridle.base.ids import Ids
from bridle.base.own_process import leave_no_core
from bridle.base.paths import has_secrets_file
from bridle.base.processes import Processes
from bridle.base.visible import visible
from bridle.config.folders import Folders, folders, home_of
from bridle.config.profiles import is_path
from bridle.control.authority import Bounds, is_looser, session_of
from bridle.control.live import Run
from bridle.control.multiplex import InProcessConnection, Multiplexer, SessionSource
from bridle.engine.conversation import Conversation
from bridle.engine.features import Feature, join
from bridle.engine.open_questions import Client
from bridle.engine.ports import Provider, StoredSession
from bridle.engine.resume import close_interrupted, not_after_the_end, orphans
from bridle.engine.tools import Tool
from bridle.protocol.commands import ConnectProvider, CreateSession, SaveModel
from bridle.protocol.errors import CommandRefused, StoreError, UsageError, sentence
from bridle.protocol.events import (
    ContextAdded,
    EffortChanged,
    IdentityClass,
    Mode,
    ModelChanged,
    Notice,
    SessionCreated,
)
from bridle.protocol.handshake import Handshake, handshake
from bridle.protocol.messages import InputBlock, TextBlock
from bridle.providers.known_models import KnownModels, shared_catalogue
from bridle.providers.model_directory import Models
from bridle.safety.trust.approvals import Approvals, session_approvals
from bridle.safety.wide_folders import why_wide
from bridle.sandbox.plain_spawn import OFF, UNCONFINED, allowed_environment
from bridle.sandbox.sandbox_spawn import SETTLE_S
from bridle.sandbox.session_border import machine_spawn, opening_words, records_of
from bridle.sessions.sqlite_store import SqliteStore
from bridle.sessions.store import SessionStore

if TYPE_CHECKING:
    from bridle.app.code_surfaces import CodeSurfaces
    from bridle.app.request_preview import NextRequest
    from bridle.app.service_audit import ServiceAudit
    from bridle.base.web import JudgedFetch
    from bridle.control.authority import Asked
    from bridle.control.capability_tokens import Tokens
    from bridle.control.minting import Minting
    from bridle.control.multiplex import ClientSight
    from bridle.engine.features import Feature
    from bridle.engine.services import ToolSource
    from bridle.engine.store_ports import OpenLog, Store
    from bridle.mcp.shared_server import ServerPool
    from bridle.plugin.contract import Plugin
    from bridle.protocol.queries import AnyQuery, AnyQueryAnswer, GrantEntry, ToolEntry
    from bridle.protocol.tokens import Claims
    from bridle.recovery.evidence import InterruptedRun

FEATURES = ("branching", "plan_mode")
"""What of the optional features of the protocol there is."""
TRANSPORTS = ("rest", "ws")
"""What an engine that listens has besides."""
VERIFIED_ON_RESUME = 1_000
"""How many of the last events are checked against the chain before a session goes on."""


class _Past(msgspec.Struct, frozen=True):
    """What was stored of a session. Up to `kept_until` its fold was kept: only later events had to be read.

    `unjudged` is where to look before a person judges what a crash left open; None where nothing has to be judged.
    """

    conversation: Conversation
    kept_until: int
    unjudged: InterruptedRun | None = None


class Engine:
    """Everything of one process: the store, the processes, the sessions and their clients.

    `model` and `fetch` stand in for a provider of its name and for the web, in tests and for embedders; `store` keeps
    the sessions in place of the encrypted database in the data folder, and is closed with the engine. `tools` come
    behind the built-in ones; one that takes a name of theirs is left out, and each session says so. `features` are
    those of others, for every session; what collides among them is refused here. `plugins` register for each session,
    beside those its settings list. `adopts_orphans` is for a program that starts all its processes through this engine
    (see `Processes`), `listening` for one that others can reach. With `waits_for_room` a full disk makes calls wait
    instead of ending the turn: somebody is there to see.
    """

    def __init__(
        self,
        *,
        where: Folders,
        env: Mapping[str, str],
        clock: Clock,
        model: Provider | None = None,
        fetch: JudgedFetch | None = None,
        tools: Sequence[Tool | ToolSource] = (),
        store: Store | None = None,
        features: Sequence[Feature] = (),
        plugins: Sequence[Plugin] = (),
        notice: Callable[[str], None] = lambda _text: None,
        adopts_orphans: bool = False,
        listening: bool = False,
        waits_for_room: bool = False,
        code_surfaces: CodeSurfaces | None = None,
    ) -> None:
        self._code_surfaces = code_surfaces
        self._servers: ServerPool | None = None
        self._where, self._env, self._clock = where, env, clock
        self._ids = Ids(clock.now_ms, os.urandom)
        self.listening = listening
        stored = StoredKeys(where=where, env=env, clock=clock, notice=notice)
        self._processes = Processes(
            adopts_orphans=adopts_orphans, records=records_of(where), guardian_died=self._guardian_died
        )
        forwarders = Forwarders(self._processes, where=where, env=env, clock=clock, listening=listening)
        self._models = Models(env=env, clock=clock, given=model, stored=stored, forwarders=forwarders)
        self._catalogue = shared_catalogue(where.state, clock)
        self._known_of: dict[str, KnownModels] = {}
        self._features = join((), features)
        self._plugins = tuple(plugins)
        self._approvals = Approvals(where.config, copies=os.path.join(where.state, "approved"), clock=clock)
        self._sandbox = machine_spawn(self._processes, where=where, home=home_of(env), env=env)
        self.sessions: Store = store or self._database(stored, notice, waits_for_room=waits_for_room)
        wanted = env.get(LOG_VARIABLE, "")
        self._notes = Notes(where.state, wanted, clock=clock, secrets=self._models.keys_in_use)
        self._services = self._shared(tools, fetch, waits_for_room=waits_for_room, listening=listening)
        self._housekeeping = Housekeeping(self.sessions, where, env, clock)
        self.multiplexer = self._control()

    def _database(
        self, stored: StoredKeys, notice: Callable[[str], None], *, waits_for_room: bool
    ) -> SqliteStore:
        """The encrypted database in the data folder."""
        return SqliteStore(
            SessionStore(
                self._where.data,
                ids=self._ids,
                clock=self._clock,
                notice=notice,
                waits_for_room=waits_for_room,
                key_wrap=stored.log_key,
            )
        )

    def _shared(
        self,
        tools: Sequence[Tool | ToolSource],
        fetch: JudgedFetch | None,
        *,
        waits_for_room: bool,
        listening: bool,
    ) -> ProcessServices:
        """What all sessions of this process share."""
        env, clock = self._env, self._clock
        return ProcessServices(
            where=self._where,
            env=env,
            notes=self._notes,
            servers=self._server_pool,
            clock=clock,
            ids=self._ids,
            models=self._models,
            known=KnownModels(self._models, self._catalogue, {}),
            processes=self._processes,
            spawn=self._sandbox,
            fetch=functools.cache(lambda: fetch or _web(env, clock)),
            tools=tuple(tools),
            features=self._features.features,
            room=self.sessions if waits_for_room else None,
            listening=listening,
        )

    def _server_pool(self) -> ServerPool:
        """The MCP servers that run in this process."""
        if self._servers is None:
            from bridle.mcp.shared_server import ServerPool  # only where settings name one

            self._servers = ServerPool(self._where.state, self._clock)
        return self._servers

    def _control(self) -> Multiplexer:
        """The clients and the live sessions, on what this engine knows of stored ones."""
        return Multiplexer(
            sessions=SessionSource(
                open=self._opened,
                find=self._found,
                past=lambda session, since: self.sessions.events(session, after=since),
                bounds_of=self._bounds_of,
                answer=self._answered,
                rename=self.sessions.rename,
                pin=lambda session, pinned: self.sessions.pin(session, pinned=pinned),
                branch=self._branched,
                delete=self._deleted,
                set_up=self._set_up,
            ),
            choose_model=lambda session, name, client: self.known_of(session).choose(
                name, by_agent=client.identity == "agent", by_guest=client.guest
            ),
            prompt_of=_prompt_of,
            ids=self._ids,
            clock=self._clock,
            hello=self.hello,
            check_claims=self._check_claims,
            hear_refusal=self._refused,
        )

    def hello(self) -> Handshake:
        """What this engine says of itself."""
        return handshake(features=(*FEATURES, *(TRANSPORTS if self.listening else ())))

    async def why_unconfined(self) -> str | None:
        """Why nothing holds the commands of a session with the person's own settings; None where something does."""
        settings = session_settings(
            SessionOptions(), where=self._where, cwd=home_of(self._env), env=self._env
        )
        if settings.sandbox.mode == "off":
            return "sandbox.mode = off"
        held_by = await self._sandbox.held_by()
        return "no sandbox works here" if held_by in {"", UNCONFINED} else None

    def note_fault(self, fault: BaseException) -> None:
        """Something went wrong that nobody foresaw, outside of any session."""
        self._notes.write("error", "engine", "fault", problem=type(fault).__name__)

    def note_refusal(self, reason: str, peer: str) -> None:
        """A request was refused before anybody here looked at it."""
        self._notes.write("warning", "auth", "refused", reason=reason, peer=peer)
        self.audit.write("refused", {"reason": reason, "peer": peer})

    @property
    def confines(self) -> bool:
        """Whether commands are held by anything on this machine, as was found out."""
        return self._sandbox.adapter not in {"", UNCONFINED}

    def connect(
        self,
        *,
        name: str,
        identity: IdentityClass = "human",
        answers: bool,
        claims: Claims | None = None,
        here: Literal["attached", "following"] = "attached",
        client_id: str | None = None,
    ) -> InProcessConnection:
        """A client. `claims` bind it: to sessions, to commands; without them it has whatever its class has.

        One that sends single requests is `here` while it follows events, not for having been attached once. Who comes
        back has the id it had.
        """
        self._notes.detail("multiplex", "client attached", client=name, identity=identity)
        return self.multiplexer.connect(
            name=name, identity=identity, answers=answers, claims=claims, here=here, client_id=client_id
        )

    @functools.cached_property
    def tokens(self) -> Tokens:
        """The capability tokens of this data folder, with what is refused in the operational log and the audit."""
        from bridle.app.token_files import TokenFile, machine_key_of, open_tokens  # most runs need none

        return open_tokens(
            TokenFile(self._where.state, self._clock),
            clock=self._clock,
            ids=self._ids,
            machine_key=machine_key_of(self._env),
            hear=self._token_refused,
        )

    @functools.cached_property
    def audit(self) -> ServiceAudit:
        from bridle.app.service_audit import ServiceAudit

        return ServiceAudit(self._where.state, self._clock)

    @functools.cached_property
    def minting(self) -> Minting:
        """Tokens for those who ask for them, with a code on a surface of the person's own."""
        from bridle.app.code_surfaces import machine_surfaces, surfaces_of
        from bridle.control.minting import Minting

        made = Minting(
            self.tokens,
            clock=self._clock,
            ids=self._ids,
            random_bytes=os.urandom,
            surfaces=surfaces_of(self.multiplexer, self._code_surfaces or machine_surfaces(self._env)),
            hear=self.audit.write,
        )
        self.multiplexer.refuse_mint = made.refuse
        return made

    def revoke_token(self, jti: str, *, by: str) -> None:
        """Nobody is admitted with it any more. Raises UnknownToken."""
        self.tokens.revoke(jti)
        self.audit.write("revoked", {"jti": jti, "by": by})

    def _token_refused(self, reason: str, data: Mapping[str, Any]) -> None:
        self._notes.write("warning", "auth", "refused", reason=reason, **data)
        self.audit.write("refused", {"reason": reason, **data})

    def _check_claims(self, claims: Claims) -> None:
        self.tokens.check(claims)

    def _refused(self, client: Client, asked: Asked, reason: str) -> None:
        about = {"client": client.id, "asked": type(asked).__name__, "reason": reason}
        self._notes.detail("multiplex", "refused", **about)
        if client.here == "following" or client.identity == "agent" or client.person:
            self.audit.write("refused", {**about, "name": client.person, "session": session_of(asked)})

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
            if self._servers is not None:
                await self._servers.close()
            await self._processes.close()
            self._sandbox.close()
            await self._models.close()
            await self._housekeeping.close()
            try:
                await self.sessions.aclose()
            finally:
                self._notes.close()

    @property
    def store(self) -> SessionStore:
        """The database of this machine, where that is what keeps the sessions."""
        assert isinstance(self.sessions, SqliteStore), "another store was given"
        return self.sessions.database

    async def _found(self, name: str) -> tuple[str, str]:
        row = await self.sessions.find(name)
        return row.id, row.cwd

    async def _answered(self, query: AnyQuery, sight: ClientSight) -> AnyQueryAnswer:
        from bridle.app.query_answers import Sources, answer_query  # a run that asks nothing does without

        sources = Sources(
            store=self.sessions,
            known=self._known_or_own,
            where=self._where,
            env=self._env,
            clock=self._clock,
            sandbox=lambda: self._sandbox.adapter,
            features=self._features,
        )
        return await answer_query(sources, query, sight)

    def _known_or_own(self, session: str | None, create: CreateSession | None) -> KnownModels:
        """The models of an open session, of one that a command would make, or those of the person's own settings."""
        if session is not None:
            return self.known_of(session)
        cwd, options = (
            (home_of(self._env), SessionOptions())
            if create is None
            else (_working_folder(create.cwd), session_options(create))
        )
        return self.known_for(session_settings(options, where=self._where, cwd=cwd, env=self._env))

    async def _set_up(self, command: SaveModel | ConnectProvider) -> None:
        from bridle.app import model_setup  # once in a person's life

        models = self._known_or_own(None, command.create).models
        match command:
            case SaveModel():
                model_setup.save_model(models, command, self._where)
            case ConnectProvider():
                await model_setup.connect_provider(models, command, self._clock)

    async def _branched(self, session: str, turn: int | None) -> str:
        from bridle.app.session_retention import copy_outputs

        row = _kept(await self.sessions.find(session))
        made = await self.sessions.branch(row.id, turn=turn)
        copy_outputs(self._where, row.id, made)
        return made

    async def _deleted(self, session: str) -> None:
        from bridle.app.session_retention import forget_beside

        row = await self.sessions.find(session)
        await self.sessions.delete(row.id, beside=forget_beside(self._where))

    async def _bounds_of(self, command: CreateSession) -> Bounds:
        """What the person's own settings give. Of a session that goes on, the mode is known when it is open: then it
        can be changed, and until then nothing is looser than any."""
        cwd = _working_folder(command.cwd)
        if command.resume is not None:
            cwd = (await self.sessions.find(command.resume)).cwd
        settings = session_settings(SessionOptions(), where=self._where, cwd=cwd, env=self._env)
        return Bounds(
            mode=settings.mode if command.resume is None else "plan",
            sandbox=settings.sandbox.mode,
            network=settings.sandbox.network,
            max_steps=settings.max_steps,
            max_cost=settings.usd_per_session,
        )

    def _guardian_died(self, replaced: bool) -> None:
        """Every session hears of it: what protects their commands is the same."""
        reason = "GuardianReplaced" if replaced else "GuardianLost"
        self._notes.write("warning", "engine", "guardian died", reason=reason)
        for session in self.multiplexer.running:
            with suppress(StoreError):  # whoever follows it is told of that
                session.journal.emit(Notice(reason=reason, message=sentence(reason, {})))

    async def _opened(self, command: CreateSession, client: Client) -> Run:
        if not command.env:  # whoever brings none has that of this process
            command = msgspec.structs.replace(command, env=session_environment(self._env))
        try:
            return await self._open_session(command, client)
        except StoreError as failure:
            self._notes.write("error", "store", "session not opened", reason=failure.reason)
            raise

    async def _open_session(self, command: CreateSession, client: Client) -> Run:
        options = session_options(command)
        if command.agent is not None:
            raise CommandRefused(
                "UnknownAgent", agent=visible(command.agent, newlines=False), known="none yet"
            )
        here = _working_folder(command.cwd)
        approvals = session_approvals(self._approvals, lockfile=options.lockfile, env=self._env, cwd=here)
        cwd = here
        if command.resume is not None:  # it works in its own folder, by that folder's rules
            cwd = _kept(await self.sessions.find(command.resume)).cwd
            _working_folder(cwd)
            options = _named_from(here, options)
        _refuse_wide(cwd, options, self._env)
        settings = session_settings(options, where=self._where, cwd=cwd, env=self._env, approvals=approvals)
        settings, plugged = self._with_plugins(settings)
        if settings.require_trust:
            from bridle.app.project_trust import require_trust

            require_trust(approvals, instruction_files(self._where, cwd, settings), settings.waiting)
        services, keys_notice = await self._services_of(settings, cwd, command.env, approvals)
        chosen = await self._chosen(command, client, settings, services.known)
        is_off = settings.sandbox.mode == "off"
        if settings.sandbox.required and not is_off:
            await self._require_sandbox()
        async with self._sandbox.looking(not is_off):  # while the store is opened
            log = await self._open_log(command, cwd, settings)
        try:
            held_by = OFF if is_off else self._sandbox.adapter
            past = _Past(Conversation(), 0)
            if command.resume is not None:
                past = await self._resumed(log, command.env, options)
                _check_model(past.conversation, chosen, services.models)
                if client.identity == "agent" and is_looser(past.conversation.mode, settings.mode):
                    command = msgspec.structs.replace(command, mode=settings.mode)
            ready = compose(
                services,
                OpenedLog(
                    log=log,
                    conversation=past.conversation,
                    cwd=past.conversation.cwd or cwd,
                    env=command.env,
                    settings=settings,
                    approvals=approvals,
                    held_by=held_by,
                    unjudged=past.unjudged,
                    kept_until=past.kept_until,
                    plugged=plugged,
                ),
            )
            ready.session.journal.originator = client.id
            await self._begin(
                msgspec.structs.replace(
                    ready,
                    notices=(*ready.notices, *keys_notice, *_no_limit(command, options, settings.mode)),
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
            await log.aclose()
            raise
        self._known_of[log.session] = services.known
        self._housekeeping.begin(cwd, services.notes)
        return self._run_of(log, ready, settings.idle_timeout_s, plugged)

    async def next_request(self, command: CreateSession, content: tuple[InputBlock, ...]) -> NextRequest:
        """What such a session would send next, with these words. Nothing is sent or stored, nobody is asked, no hook
        hears of it; a session that is open elsewhere is only read."""
        from bridle.app.request_preview import preview_request
        from bridle.sessions.memory_store import MemoryStore

        options, cwd = session_options(command), _working_folder(command.cwd)
        approvals = session_approvals(self._approvals, lockfile=options.lockfile, env=self._env, cwd=cwd)
        conversation = Conversation()
        if command.resume is not None:
            row = _kept(await self.sessions.find(command.resume))
            cwd, options = row.cwd, _named_from(cwd, options)
            async for envelope in self.sessions.events(row.id):
                conversation.apply(envelope)
        settings = session_settings(options, where=self._where, cwd=cwd, env=self._env, approvals=approvals)
        settings, plugged = self._with_plugins(settings)
        services, _ = await self._services_of(settings, cwd, command.env, approvals)
        person = Client(id="", name="preview", identity="human", answers=False)
        chosen = await self._chosen(command, person, settings, services.known) or conversation.model
        if chosen is None:
            raise UsageError("This session has no model. Name one: -m provider:model")
        is_off = settings.sandbox.mode == "off"
        log = await MemoryStore(clock=self._clock).create(cwd, profile=settings.profile)
        try:
            opened = OpenedLog(
                log=log,
                conversation=conversation,
                cwd=cwd,
                env=command.env,
                settings=settings,
                approvals=approvals,
                held_by=OFF if is_off else await self._sandbox.held_by(),
                plugged=plugged,
            )
            return await preview_request(
                conversation,
                chosen,
                content,
                next_prefix=compose(services, opened).next_prefix,
                models=services.models,
            )
        finally:
            await log.aclose()

    def _with_plugins(self, settings: SessionSettings) -> tuple[SessionSettings, tuple[Feature, ...]]:
        """The settings with what plugins add to them, and the plugins. Refuses before there is a log."""
        if settings.plugin_tiers is None and not self._plugins:
            return settings, ()
        from bridle.app.plugins import session_plugins

        settings, loaded = session_plugins(settings, self._plugins)
        return settings, tuple(plugin.feature for plugin in loaded)

    def _run_of(self, log: OpenLog, ready: ReadySession, idle_s: float, plugged: tuple[Feature, ...]) -> Run:
        async def stays() -> bool:
            """A pinned session stays for as long as the engine runs."""
            return (await self.sessions.find(log.session)).pinned

        async def release() -> None:
            del self._known_of[log.session]
            try:
                await ready.fold.at_close()
            finally:
                await log.aclose()

        def tools() -> tuple[ToolEntry, ...]:
            from bridle.app.query_answers import tool_entries

            return tool_entries(ready.registry)

        def grants() -> tuple[GrantEntry, ...]:
            from bridle.app.query_answers import grant_entries

            return grant_entries(ready.grants())

        def promote(grant_id: str) -> Notice:
            from bridle.app.gates import promoted

            cwd = ready.session.journal.conversation.cwd
            return promoted(ready.grants(), grant_id, where=self._where, cwd=cwd, env=self._env)

        added = (*plugged, *ready.added)
        return Run(
            session=ready.session,
            tools=tools,
            grants=grants,
            promote=promote,
            changes=ready.changes,
            output=ready.output,
            added_slash=tuple(command for feature in added for command in feature.slash),
            queries={(feature.name, query.verb): query for feature in added for query in feature.queries},
            idle_s=idle_s,
            stays=stays,
            release=release,
        )

    async def _require_sandbox(self) -> None:
        """Refuses at the door, before there is a log, where nothing holds commands or that cannot be found out."""
        held_by = await self._sandbox.held_by()
        if not held_by:
            raise CommandRefused("SandboxNotKnown", seconds=f"{SETTLE_S:g}")
        if held_by == UNCONFINED:
            raise CommandRefused("SandboxRequired")

    async def _services_of(
        self, settings: SessionSettings, cwd: str, env: Mapping[str, str], approvals: Approvals
    ) -> tuple[ProcessServices, tuple[Notice, ...]]:
        """What a session in this folder stands on: with its own models and levels, and the keys of its project."""
        known, root = self.known_for(settings), repository_root(cwd)
        services = msgspec.structs.replace(
            self._services,
            models=known.models,
            known=known,
            notes=self._notes.with_levels(settings.log_levels),
        )
        if not has_secrets_file(root):
            return services, ()
        from bridle.app.project_trust import is_agreed_secret
        from bridle.credentials.project_secrets import project_keys
        from bridle.sandbox.read_only_git import ignored_by_git

        is_ignored = ignored_by_git(self._services.spawn, root=root, env=env)
        found = await project_keys(root, is_agreed=is_agreed_secret(approvals, root), is_ignored=is_ignored)
        models = known.models.of_project(root, found.values)
        known = KnownModels(models, self._catalogue, settings.models)
        return msgspec.structs.replace(services, models=models, known=known), (found.notice(),)

    async def _chosen(
        self, command: CreateSession, client: Client, settings: SessionSettings, known: KnownModels
    ) -> ModelChanged | None:
        """The model of this run: named, configured, or found; None leaves a resumed session its own."""
        if command.model:
            by_agent = client.identity == "agent"
            if by_agent and settings.model:
                known.choose(settings.model)  # what the person chose
            return known.choose(command.model, by_agent=by_agent, by_guest=client.guest)
        if command.resume is not None:
            return None
        return known.choose(settings.model) if settings.model else await known.models.default()

    async def _resumed(self, log: OpenLog, env: Mapping[str, str], options: SessionOptions) -> _Past:
        """The stored conversation, if it is sound. Refused where something must be judged and nobody shall be asked."""
        row = _kept(
            await self.sessions.find(log.session)
        )  # its content may have expired until we had the lock
        await self.sessions.verify(log.session, last=VERIFIED_ON_RESUME)
        kept = await self.sessions.fold(log.session)
        conversation = Conversation.restored(kept) if kept is not None else Conversation()
        kept_until, stopped_ms = conversation.last_id, 0
        async for envelope in self.sessions.events(log.session, after=kept_until):
            conversation.apply(envelope)
            if not_after_the_end(envelope):
                stopped_ms = envelope.ts_ms
        found = orphans(conversation)
        if not found or options.on_orphan == "mark-unknown":
            return _Past(conversation, kept_until)
        from bridle.app.gates import understanding  # all of it only after a crash
        from bridle.recovery.court import refusal
        from bridle.recovery.evidence import InterruptedRun
        from bridle.sandbox.read_only_git import repository_of
        from bridle.tools.patches import files_of_patch

        run = InterruptedRun(
            cwd=conversation.cwd,
            created_ms=row.created_ms,
            stopped_ms=stopped_ms,
            understand=understanding(env, conversation.cwd),
            repository_at=lambda folder: repository_of(self._services.spawn, cwd=folder, env=env),
            files_of_patch=files_of_patch,
        )
        if options.on_orphan == "fail":
            raise await refusal(found, run, session=log.session)
        return _Past(conversation, kept_until, run)

    async def _begin(
        self,
        ready: ReadySession,
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
        journal = ready.session.journal
        conversation = journal.conversation
        resumed = command.resume is not None
        policy = ready.policy
        close_interrupted(journal, waiting=orphans(conversation) if court else ())
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
        named, effort = settings.options.effort is not None, settings.effort
        if named and effort is not None and conversation.effort not in (None, effort):
            journal.emit(EffortChanged(effort=effort))
        for notice in ready.notices:
            journal.emit(notice)
        for words in opening_words(policy, held_by):
            journal.emit(words)
        if ready.hooks is not None and (text := await ready.hooks.session_started(resumed=resumed)):
            journal.emit(ContextAdded(source="hook", content=(TextBlock(text=text),)))

    async def _open_log(self, command: CreateSession, cwd: str, settings: SessionSettings) -> OpenLog:
        options = settings.options
        if command.resume is None:
            log = await self.sessions.create(
                cwd,
                profile=settings.profile,
                aliases=command.aliases,
                headless=options.headless,
            )
        else:
            log = await self.sessions.open((await self.sessions.find(command.resume)).id)
        if options.title:
            await self.sessions.rename(log.session, options.title)
        return log


@asynccontextmanager
async def running_engine(
    env: Mapping[str, str],
    *,
    notice: Callable[[str], None],
    clock: Clock | None = None,
    waits_for_room: bool = False,
    listening: bool = False,
    code_surfaces: CodeSurfaces | None = None,
) -> AsyncGenerator[Engine]:
    """The engine of a program that is nothing else; closed cleanly on the way out. No process of it leaves a core."""
    leave_no_core()
    engine = Engine(
        where=folders(env),
        env=env,
        clock=clock or SystemClock(),
        notice=notice,
        adopts_orphans=True,
        listening=listening,
        waits_for_room=waits_for_room,
        code_surfaces=code_surfaces,
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
    from bridle.sessions.readable_copy import copied_where_unwritable

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
    from bridle.base.web import public_web  # not before the first page

    return public_web(env, clock)


def _refuse_wide(cwd: str, options: SessionOptions, env: Mapping[str, str]) -> None:
    """Raises `WideFolder` for a home or a folder of the system that nobody named."""
    if (problem := why_wide(cwd, home_of(env))) is None:
        return
    if options.wide_folder is None or os.path.realpath(options.wide_folder) != cwd:
        raise CommandRefused("WideFolder", path=visible(cwd), problem=problem)


def _kept(row: StoredSession) -> StoredSession:
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
