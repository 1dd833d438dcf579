"""Build a listening engine: tokens, service, sockets, shutdown.

Loaded by `bridle serve` and by a program whose settings share its engine; nothing else needs any of it.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from bridle._version import __version__
from bridle.app.service.mcp_mount import MCP_PATH, McpMount
from bridle.app.user.setting_sections import load
from bridle.app.user.settings import session_settings
from bridle.base.clock import Clock
from bridle.base.net.engine_place import EnginePlace
from bridle.base.process.escapees import recording_processes
from bridle.base.process.installation import install_command
from bridle.base.process.peer_process import (
    can_tell_descent,
    comes_from_a_call,
    peer_process,
    tcp_end,
    tcp_peer_comes_from_a_call,
)
from bridle.clients.mcp_server.agent_tools import ToolNames
from bridle.config.folders import Folders, home_of
from bridle.control.capability_tokens import Tokens
from bridle.control.http_server import ConnectionLimits
from bridle.control.listening_socket import (
    EngineSocket,
    TcpAddress,
    open_engine_socket,
    open_tcp_socket,
)
from bridle.control.request_guard import AsgiApp, ConnectionOrigin, Listener, Receive, Scope, Send, claims_of
from bridle.control.served_clients import ServedClients
from bridle.control.service import OpenStreams, Service, ServiceCounters
from bridle.control.token_files import read_token_file
from bridle.plugin.loading import LoadedPlugin, bad_plugin, load_plugins
from bridle.protocol.connection import Connection
from bridle.protocol.errors import CommandRefused, UsageError, sentence
from bridle.sandbox.plain_spawn import UNCONFINED
from bridle.sandbox.session_border import records_of

if TYPE_CHECKING:
    from bridle.app.engine import Engine
    from bridle.plugin.registrar import PluginApp

if TYPE_CHECKING:
    from bridle.app.engine import Engine
    from bridle.app.session_parts import ProcessServices
    from bridle.control.http_server import HttpServer, ListeningAt

END_S = 3.5
"""So long sessions have to end, and clients to read that, when the engine does; with the connections that makes less
than five seconds."""
LOOKS_WHILE_IDLE, LONGEST_LOOK_S = 10, 15.0
"""How often, in the time it may be idle, an engine looks whether it still is."""
UNIX_HOST = "localhost"


class ListenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen beside the Unix socket, and with what. `origins` are pages that may ask, `tool_names` how the
    tools at `/mcp` are spelt."""

    address: TcpAddress | None = None
    token_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    origins: tuple[str, ...] = ()
    tool_names: ToolNames = "underscore"


class ListeningEngine(msgspec.Struct, frozen=True, kw_only=True):
    """What is listening: the socket and, where there is one, the address. `notices` are what a person should know.

    `idle` returns when nobody was connected and no session open for so many seconds.
    """

    socket: str
    token_file: str
    url: str
    notices: tuple[str, ...]
    tokens: Tokens
    counters: ServiceCounters
    idle: Callable[[float], Awaitable[None]]


def check_listen_options(options: ListenOptions) -> None:
    """Refuses what would listen for the network without TLS and a token."""
    tls = (options.tls_cert, options.tls_key)
    if any(tls) and not all(tls):
        raise UsageError("--tls-cert and --tls-key belong together")
    if options.address is None:
        if any(tls):
            raise UsageError("--tls-cert and --tls-key are for --listen; the Unix socket needs none")
        return
    if options.address.is_loopback:
        return
    missing = [
        name
        for name, given in (
            ("--auth-token-file", options.token_file),
            ("--tls-cert", options.tls_cert),
            ("--tls-key", options.tls_key),
        )
        if not given
    ]
    if missing:
        raise UsageError(
            f"{options.address.shown} can be reached from the network, so {' and '.join(missing)} must be given too. "
            f"For this machine alone: --listen 127.0.0.1:{options.address.port}"
        )


@asynccontextmanager
async def listening_engine(
    engine: Engine,
    options: ListenOptions,
    *,
    where: Folders,
    clock: Clock,
    limits: ConnectionLimits | None = None,
    stays: bool = True,
    hear: Callable[[str, str], None] = lambda _reason, _peer: None,
) -> AsyncGenerator[ListeningEngine]:
    """Listens for clients of this engine for as long as it is used. Raises `EngineRunning` where another one does.

    `stays` is false for one that ends with somebody else's program. `hear` is told of every refusal.
    On the way out its sessions end, every stream says so, and the socket is gone.
    """
    check_listen_options(options)
    stopping = asyncio.Event()
    counters = ServiceCounters()
    tokens = engine.access.tokens
    if options.token_file is not None:
        tokens.start_with(read_token_file(options.token_file))
    service = make_service(engine, counters, clock=clock, hear=hear, is_stopping=stopping.is_set)
    place = open_engine_socket(EnginePlace(where.runtime), data=where.data, version=__version__, stays=stays)
    async with (
        AsyncExitStack() as services
    ):  # in the order of starting: they stop in reverse, whichever fails
        services.callback(tokens.close)
        services.callback(place.close)
        servers: list[HttpServer] = []
        services.push_async_callback(_stop_servers, servers)
        mount = McpMount(engine, names=options.tool_names)
        services.push_async_callback(mount.close)
        # a socket that is closed before its stream is over would swallow how its session ended
        services.push_async_callback(end_in_turn, engine.live.close, service.streams.over, within_s=END_S)
        services.callback(stopping.set)
        url = await _start_servers(
            servers,
            service,
            {MCP_PATH: mount},
            plugin_mounts(engine),
            place,
            options,
            limits=limits or ConnectionLimits(),
            records=records_of(where),
        )
        place.announce(tokens.issue_bootstrap(), url=url)
        yield ListeningEngine(
            socket=place.place.socket,
            token_file=place.place.token_file,
            url=url,
            notices=await _notices(engine),
            tokens=tokens,
            counters=counters,
            idle=functools.partial(_idle, service),
        )


async def _stop_servers(servers: Sequence[HttpServer]) -> None:
    await asyncio.gather(*(server.stop() for server in servers))


async def end_in_turn(*steps: Callable[[], Awaitable[None]], within_s: float) -> None:
    """Takes each step, together `within_s`: what is not done by then is left. One that fails holds up no other; its
    failure is raised behind them."""
    until = asyncio.get_running_loop().time() + within_s
    async with AsyncExitStack() as behind:
        for step in reversed(steps):
            behind.push_async_callback(_until, until, step)


async def _until(moment: float, step: Callable[[], Awaitable[None]]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout_at(moment):
            await step()


@asynccontextmanager
async def shared_engine(
    engine: Engine, *, where: Folders, clock: Clock, notice: Callable[[str], None], stays: bool = True
) -> AsyncGenerator[None]:
    """Others may attach to what an engine runs for its own program, unless another engine listens here."""
    async with AsyncExitStack() as stack:
        try:
            listening = await stack.enter_async_context(
                listening_engine(
                    engine,
                    ListenOptions(),
                    where=where,
                    clock=clock,
                    stays=stays,
                    hear=engine.access.note_refusal,
                )
            )
        except CommandRefused as refusal:
            if refusal.reason != "EngineRunning":
                raise
        else:
            for text in listening.notices:
                notice(text)
        yield


async def _idle(service: Service, seconds: float) -> None:
    """A session that runs on without anybody, or stays until it was idle for long enough, is somebody too."""
    clock, counters = service.clock, service.counters
    since_s, connections = clock.monotonic(), counters.connections
    while clock.monotonic() - since_s < seconds:
        await clock.sleep(min(seconds / LOOKS_WHILE_IDLE, LONGEST_LOOK_S))
        is_busy = counters.open_connections or any(service.gauges())
        if is_busy or counters.connections != connections:
            since_s, connections = clock.monotonic(), counters.connections


def make_service(
    engine: Engine,
    counters: ServiceCounters,
    *,
    clock: Clock,
    hear: Callable[[str, str], None],
    is_stopping: Callable[[], bool],
) -> Service:
    """What is served of an engine, over whatever transport."""
    return Service(
        clients=ServedClients(engine.connect, engine.live, engine.access.tokens.check),
        tokens=engine.access.tokens,
        hello=engine.hello,
        clock=clock,
        counters=counters,
        memory=engine.services.memory,
        streams=OpenStreams(),
        gauges=engine.live.counts,
        hear_refusal=hear,
        hear_fault=engine.access.note_fault,
        is_stopping=is_stopping,
        minting=lambda: engine.access.minting,
        revoke=engine.access.revoke,
    )


async def _start_servers(
    servers: list[HttpServer],
    service: Service,
    mounts: Mapping[str, AsgiApp],
    plugged: Mapping[str, AsgiApp],
    place: EngineSocket,
    options: ListenOptions,
    *,
    limits: ConnectionLimits,
    records: str,
) -> str:
    """Starts one for each socket; the address of the one that is not on the Unix socket, if there is one."""
    http_server, service_app = _web_packages()
    app = service_app(service, mounts, plugged)

    async def serve(at: ListeningAt) -> None:
        server = http_server.HttpServer(app, at, limits, service.counters, service.note_refusal)
        servers.append(server)
        await server.start()

    await serve(
        http_server.ListeningAt(
            socket=place.socket,
            listener=Listener(name="unix", hosts=frozenset({UNIX_HOST})),
            look_at=functools.partial(_unix_peer, records=records),
        )
    )
    if options.address is None:
        return ""
    opened, address = open_tcp_socket(options.address)
    secure = options.tls_cert is not None
    hosts = _hosts(address, options.tls_cert)
    scheme = "https" if secure else "http"
    url = f"{scheme}://{address.shown}"
    own = frozenset(f"{scheme}://{host}" for host in hosts)
    try:
        await serve(
            http_server.ListeningAt(
                socket=opened,
                listener=Listener(
                    name="tcp",
                    hosts=hosts,
                    origins=own | frozenset(options.origins),
                    public=not address.is_loopback,
                ),
                look_at=functools.partial(_tcp_peer, records=records),
                tls_cert=options.tls_cert,
                tls_key=options.tls_key,
            )
        )
    except (OSError, ssl.SSLError) as problem:
        opened.close()
        why = f"{options.tls_cert} and {options.tls_key} are no certificate and key ({problem.strerror or problem})"
        raise CommandRefused("ListenRefused", address=address.shown, problem=why) from None
    return url


def _web_packages():
    """The packages of the extra `web`; one sentence where they are missing."""
    try:
        from bridle.control import http_server
        from bridle.control.http_app import service_app
    except ImportError as problem:
        install = install_command("web")
        raise CommandRefused("ExtraMissing", what="Listening for clients", install=install) from problem
    return http_server, service_app


def _unix_peer(connection: socket.socket | None, listener: Listener, *, records: str) -> ConnectionOrigin:
    """Who connected: only programs of the same person, and of those none that a call started."""
    try:
        peer = peer_process(_plain(connection))
    except OSError:
        return ConnectionOrigin(listener=listener, peer="unix", refused="NotAClient")
    refused = None
    if peer.uid is not None and peer.uid not in (os.geteuid(), 0):
        refused = "OtherUser"
    elif (peer.pid is not None or can_tell_descent()) and comes_from_a_call(peer.pid, _engines(records)):
        refused = "NotAClient"
    return ConnectionOrigin(listener=listener, peer=f"unix:{peer.uid}", refused=refused)


def _engines(records: str) -> set[int]:
    return {os.getpid(), *recording_processes(records)}


def _plain(connection: socket.socket | None) -> socket.socket:
    if connection is None:
        raise OSError("no socket")
    return connection


def _tcp_peer(connection: socket.socket | None, listener: Listener, *, records: str) -> ConnectionOrigin:
    """Who connected, from wherever: none that a call started here either, which is found out once a token is good."""
    try:
        opened = _plain(connection)
        (host, port), here = opened.getpeername()[:2], opened.getsockname()[:2]
    except OSError:
        return ConnectionOrigin(listener=listener, peer="tcp", refused="NotAClient")
    own, peer = tcp_end(*here), tcp_end(host, port)

    @functools.cache
    def look_closer() -> str | None:
        return "NotAClient" if tcp_peer_comes_from_a_call(own, peer, _engines(records)) else None

    return ConnectionOrigin(listener=listener, peer=str(host), look_closer=look_closer)


def _hosts(address: TcpAddress, tls_cert: str | None) -> frozenset[str]:
    """The names this listener has: its address, on this machine also localhost, and those of its certificate."""
    names = {address.host} if not _is_any(address) else set[str]()
    if address.is_loopback:
        names.add("localhost")
    if tls_cert is not None:
        names.update(_certificate_names(tls_cert))
    port = address.port
    return frozenset(f"[{name}]:{port}" if ":" in name else f"{name.lower()}:{port}" for name in names)


def _is_any(address: TcpAddress) -> bool:
    return address.host in ("0.0.0.0", "::")  # noqa: S104  compared, not bound


def _certificate_names(path: str) -> list[str]:
    """The names a certificate is for."""
    from cryptography import x509

    try:
        with open(path, "rb") as file:
            certificate = x509.load_pem_x509_certificate(file.read())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    except OSError as problem:
        raise UsageError(f"--tls-cert: {path} cannot be read: {problem.strerror}") from None
    except ValueError:
        raise UsageError(f"--tls-cert: {path} holds no certificate in PEM") from None
    return [
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    ]


async def _notices(engine: Engine) -> tuple[str, ...]:
    """What a person should know who lets this engine listen."""
    why = await _why_unconfined(engine.services)
    if not can_tell_descent():
        why = "this system does not tell who started a process"
    return () if why is None else (sentence("NothingEnforced", {"why": why}),)


async def _why_unconfined(services: ProcessServices) -> str | None:
    """Why nothing holds the commands of a session with the person's own settings; None where something does."""
    env = services.env
    settings = session_settings(where=services.where, cwd=home_of(env), env=env)
    if settings.sandbox.mode == "off":
        return "sandbox.mode = off"
    held_by = await services.spawn.held_by()
    return "no sandbox works here" if held_by in {"", UNCONFINED} else None


PATH = "/v1/plugins/"


def plugin_mounts(engine: Engine) -> Mapping[str, AsgiApp]:
    """The applications by their paths. Raises `BadPlugin` for a plugin of the person's settings that cannot be used."""
    services = engine.services
    tiers = load(where=services.where, cwd="/", env=services.env)  # no project's word counts for an engine
    loaded = load_plugins(tiers if tiers.get("plugins.enabled") else None, engine.plugins)
    return {f"{PATH}{one.name}": _Mounted(engine, one) for one in _with_transport(loaded)}


def _with_transport(loaded: Sequence[LoadedPlugin]) -> list[LoadedPlugin]:
    return [one for one in loaded if one.transport is not None]


class _Mounted:
    """The application of one plugin. What breaks in it is in the engine's log; whoever asked is told no details."""

    def __init__(self, engine: Engine, plugin: LoadedPlugin) -> None:
        self._engine = engine
        self._name = plugin.name
        assert plugin.transport is not None
        try:
            self._app: PluginApp = plugin.transport(self)
        except Exception as fault:  # noqa: BLE001  the boundary: it is somebody else's code
            problem = f"its transport failed ({type(fault).__name__}: {fault})"
            raise bad_plugin(plugin.where, plugin.name, problem) from None

    def connect(self, scope: Scope) -> Connection:
        claims = claims_of(scope)
        return self._engine.connect(
            name=claims.name or self._name, claims=claims, answers=False, here="following"
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def told(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, told)
        except Exception as fault:  # noqa: BLE001  the boundary
            self._engine.access.note_fault(fault)
            if not begun:
                headers = [(b"content-length", b"0")]
                await send({"type": "http.response.start", "status": 500, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
