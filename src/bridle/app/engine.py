"""The engine of one process, put together: store, models, processes, sessions, and the clients attached to them."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Literal

from bridle.app.records.housekeeping import Housekeeping
from bridle.app.records.operational_log import LOG_VARIABLE, Notes
from bridle.app.records.trace_export import TraceExport
from bridle.app.session_opening import SessionOpening
from bridle.app.session_parts import ProcessServices
from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import Clock, SystemClock
from bridle.base.ids import Ids
from bridle.base.process.own_process import leave_no_core
from bridle.base.process.processes import Processes
from bridle.commands.described_commands import prompt_of
from bridle.config.folders import Folders, folders, home_of
from bridle.control.in_process import InProcessConnection, client_of
from bridle.control.live import Run
from bridle.control.live_sessions import SessionSource
from bridle.control.multiplex import Multiplexer
from bridle.engine.features import Feature, join
from bridle.engine.open_questions import Client
from bridle.engine.ports import Provider
from bridle.engine.tools import Tool
from bridle.protocol.commands import CreateSession
from bridle.protocol.errors import StoreError, sentence
from bridle.protocol.events import IdentityClass, Notice
from bridle.providers.known_models import KnownModels, shared_catalogue
from bridle.providers.model_directory import Models
from bridle.safety.trust.approvals import Approvals
from bridle.sandbox.session_border import machine_spawn, records_of
from bridle.sessions.sqlite_store import SqliteStore
from bridle.sessions.store import SessionStore

if TYPE_CHECKING:
    from bridle.agents.definition import AgentDefinition
    from bridle.app.engine_answers import EngineAnswers
    from bridle.app.service_access import ServiceAccess
    from bridle.app.user.forwarders import Forwarders
    from bridle.base.net.web import JudgedFetch
    from bridle.control.authority import Asked
    from bridle.control.code_surfaces import CodeSurfaces
    from bridle.control.live_sessions import LiveSessions
    from bridle.engine.services import ToolSource
    from bridle.engine.store_ports import Store
    from bridle.mcp.shared_server import ServerPool
    from bridle.plugin.registrar import Plugin
    from bridle.protocol.handshake import Handshake
    from bridle.protocol.tokens import Claims

FEATURES = ("branching", "plan_mode")
"""What of the optional features of the protocol there is."""
TRANSPORTS = ("mcp_server", "rest", "ws")
"""What an engine that listens has besides."""


class Engine:
    """Everything of one process: the store, the processes, the sessions and their clients.

    `model` and `fetch` stand in for a provider of its name and for the web, in tests and for embedders; `store`
    keeps the sessions in place of the encrypted database in the data folder, and is closed with the engine.
    `tools` come behind the built-in ones; one that takes a name of theirs is left out, and each session says
    so; so are `agents`. `features` are those of others, for every session; what collides among them is refused
    here. `plugins` register for each session, beside those its settings list. `adopts_orphans` is for a program
    that starts all its processes through this engine (see `Processes`), `listening` for one that others can
    reach. With `waits_for_room` a full disk makes calls wait instead of ending the turn: somebody is there to
    see.
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
        agents: Sequence[AgentDefinition] = (),
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
        self.plugins = tuple(plugins)
        self._servers: ServerPool | None = None
        self._notice = notice
        ids = Ids(clock.now_ms, os.urandom)
        stored = StoredKeys(where=where, env=env, clock=clock, notice=notice)
        processes = Processes(
            adopts_orphans=adopts_orphans, records=records_of(where), guardian_died=self._guardian_died
        )
        models = Models(
            env=env,
            clock=clock,
            given=model,
            stored=stored,
            forwarders=self._forwarders,
            listening=listening,
        )
        self._features = join((), features)
        self.sessions: Store = store or SqliteStore(
            SessionStore(
                where.data,
                ids=ids,
                clock=clock,
                notice=notice,
                waits_for_room=waits_for_room,
                key_wrap=stored.log_key,
            )
        )
        notes = Notes(where.state, env.get(LOG_VARIABLE, ""), clock=clock, secrets=models.keys_in_use)
        self.services = ProcessServices(
            where=where,
            env=env,
            notes=notes,
            servers=self._server_pool,
            traces=TraceExport(env, hear=lambda what: notes.write("warning", "engine", what)),
            clock=clock,
            ids=ids,
            models=models,
            known=KnownModels(models, shared_catalogue(where.state, clock), {}),
            processes=processes,
            spawn=machine_spawn(processes, where=where, home=home_of(env), env=env),
            fetch=functools.cache(lambda: fetch or _public_web(env, clock)),
            tools=tuple(tools),
            agents=tuple(agents),
            features=self._features.features,
            room=self.sessions if waits_for_room else None,
            listening=listening,
        )
        self._housekeeping = Housekeeping(self.sessions, where, env, clock)
        self.opening = SessionOpening(
            self.services,
            self.sessions,
            Approvals(where.config, copies=os.path.join(where.state, "approved"), clock=clock),
            plugins,
            begun=lambda cwd, services: self._housekeeping.begin(cwd, services.notes),
        )
        self.multiplexer = self._multiplexer()

    def _forwarders(self) -> Forwarders:
        from bridle.app.user.forwarders import Forwarders  # the door of credential helpers

        services = self.services
        return Forwarders(services.processes, where=services.where, env=services.env, clock=services.clock)

    def _server_pool(self) -> ServerPool:
        """The MCP servers that run in this process."""
        if self._servers is None:
            from bridle.mcp.shared_server import ServerPool  # only where settings name one

            self._servers = ServerPool(self.services.where.state, self.services.clock)
        return self._servers

    def _multiplexer(self) -> Multiplexer:
        """The clients and the live sessions, on what this engine knows of stored ones."""
        return Multiplexer(
            sessions=SessionSource(
                open=self._opened,
                find=self._found,
                past=lambda session, since: self.sessions.events(session, after=since),
                answers=functools.cache(self._answers),
                choose_model=lambda session, name, client: self.opening.known_of[session].choose(
                    name, by_agent=client.identity == "agent", by_guest=client.guest
                ),
                prompt_of=prompt_of,
            ),
            clock=self.services.clock,
            check_claims=self._check_claims,
            hear_refusal=self._hear_refusal,
        )

    def _answers(self) -> EngineAnswers:
        from bridle.app.engine_answers import EngineAnswers  # the door of queries

        return EngineAnswers(
            self.services,
            self.opening,
            self._features,
            servers=lambda: () if self._servers is None else self._servers.states(),
        )

    @functools.cached_property
    def access(self) -> ServiceAccess:
        """Tokens, how they are made, and the audit: for an engine that others can reach."""
        from bridle.app.service_access import ServiceAccess  # the door of clients with tokens

        return ServiceAccess(self.services, self.multiplexer, self._code_surfaces)

    @property
    def live(self) -> LiveSessions:
        """The sessions that are open in this engine."""
        return self.multiplexer.live

    @property
    def store(self) -> SessionStore:
        """The database of this machine, where that is what keeps the sessions."""
        assert isinstance(self.sessions, SqliteStore), "another store was given"
        return self.sessions.database

    def hello(self) -> Handshake:
        """What this engine says of itself."""
        from bridle.protocol.handshake import handshake  # for those who connect from outside

        return handshake(features=(*FEATURES, *(TRANSPORTS if self.services.listening else ())))

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
        self.services.notes.detail("multiplex", "client attached", client=name, identity=identity)
        client = client_of(
            self.services.ids,
            name=name,
            identity=identity,
            answers=answers,
            claims=claims,
            here=here,
            client_id=client_id,
        )
        return InProcessConnection(self.multiplexer, client, claims, self.hello)

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop all services, the last one first. A failure is noted, and raised once the others have stopped."""
        services = self.services
        in_order_of_starting: dict[str, Callable[[], Awaitable[object] | None]] = {
            "log": services.notes.close,
            "store": self.sessions.aclose,
            "housekeeping": self._housekeeping.close,
            "models": services.models.close,
            "sandbox": services.spawn.close,
            "traces": services.traces.close,
            "processes": services.processes.close,
            **({} if self._servers is None else {"mcp": self._servers.close}),
            "sessions": self.live.close,
        }
        async with AsyncExitStack() as stack:
            for name, stop in in_order_of_starting.items():
                stack.push_async_callback(self._stop, name, stop)

    async def _stop(self, service: str, stop: Callable[[], Awaitable[object] | None]) -> None:
        try:
            if (stopping := stop()) is not None:
                await stopping
        except Exception as fault:
            reason = getattr(fault, "reason", type(fault).__name__)
            self.services.notes.write("warning", "engine", "not stopped", service=service, reason=reason)
            raise

    async def _opened(self, command: CreateSession, client: Client) -> Run:
        run = await self.opening.open(command, client)
        if client.identity == "agent" and command.resume is None:
            from bridle.app.records.outer_agents import tell_of_session  # the door of outer agents

            tell_of_session(run.session.id, client, self.live, self._notice, self.services.env)
        return run

    async def _found(self, name: str, *, exact: bool = False) -> tuple[str, str]:
        row = await self.sessions.find(name, exact=exact)
        return row.id, row.cwd

    def _check_claims(self, claims: Claims) -> None:
        self.access.tokens.check(claims)

    def _hear_refusal(self, client: Client, asked: Asked, reason: str) -> None:
        about = {"client": client.id, "asked": type(asked).__name__, "reason": reason}
        self.services.notes.detail("multiplex", "refused", **about)
        if client.here == "following" or client.identity == "agent" or client.person:
            self.access.note_refused_client(client, asked, reason)

    def _guardian_died(self, replaced: bool) -> None:
        """Every session hears of it: what protects their commands is the same."""
        reason = "GuardianReplaced" if replaced else "GuardianLost"
        self.services.notes.write("warning", "engine", "guardian died", reason=reason)
        for live in self.live.all_open().values():
            with suppress(StoreError):  # whoever follows it is told of that
                live.session.journal.emit(Notice(reason=reason, message=sentence(reason, {})))


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
    async with Engine(
        where=folders(env),
        env=env,
        clock=clock or SystemClock(),
        notice=notice,
        adopts_orphans=True,
        listening=listening,
        waits_for_room=waits_for_room,
        code_surfaces=code_surfaces,
    ) as engine:
        yield engine


def _public_web(env: Mapping[str, str], clock: Clock) -> JudgedFetch:
    """Return the door to the web, which most sessions never use."""
    from bridle.base.net.web import public_web

    return public_web(env, clock)
