"""One server and its life: started when it is needed, started again when it ends, given up when that is no use.

Sessions share it: the same launch in the same folder is one process. It runs while a session uses it.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

import msgspec

from bridle.base.clock import Clock
from bridle.base.duplex import DuplexProcess, InputPipe, OutputPipe, open_duplex
from bridle.base.installation import install_command
from bridle.base.processes import CannotStart
from bridle.base.threads import in_thread
from bridle.engine.ports import Process, Spawn, SpawnPolicy
from bridle.mcp.server_definitions import ServerDefinition, launch_hash
from bridle.mcp.server_log import ServerLog, log_path
from bridle.mcp.server_state import ServerPhase, ServerState
from bridle.mcp.tool_lists import KeptLists, ToolList

if TYPE_CHECKING:
    from bridle.mcp.input_requests import InputReply, InputRequest
    from bridle.mcp.server_connection import ServerConnection
    from bridle.mcp.transports import WireCounts

WAITS_S: Final = (1.0, 2.0, 4.0)
"""How long is waited before it is started again, the first, second and every later time."""
MOST_RESTARTS: Final = 3
WITHIN_S: Final = 60.0
"""It is started again no more often than this, in this time. One that ran so long ran well."""
MOST_FAILURES: Final = 5
"""After so many in a row it is given up."""
COOLDOWN_S: Final = 3600.0
"""Until it is tried again after that."""
GRACE_S: Final = 5.0
"""How long a server may take to leave once its input is closed."""
CLOSING_GRACE_S: Final = 1.0
"""The same, where the whole program is leaving."""
_HOPELESS: Final = frozenset(
    {"not found", "not executable", "no such folder", "no sandbox", "no network filter"}
)


class ServerUnavailable(Exception):
    """It is not there, and why, as the end of a sentence."""


class LaunchPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server runs. `policy` and `env` are those of the session's commands; `roots` are the folders it is told
    of."""

    spawn: Spawn
    policy: SpawnPolicy
    cwd: str
    env: Mapping[str, str]
    roots: tuple[str, ...] = ()


class ServerUser(Protocol):
    """A session that uses a server."""

    def server_changed(self, server: SharedServer) -> None:
        """How it is, or what it offers, is another now."""
        ...


class ActiveCall(Protocol):
    """A call under way. `user` is whose it is."""

    @property
    def user(self) -> ServerUser: ...
    async def answer_input(self, request: InputRequest) -> InputReply:
        """Asks the person of this call."""
        ...


class _End(NamedTuple):
    """How a run of a server ended. `hopeless`: it would end the same way again. `idle`: nobody needed it."""

    problem: str
    up_s: float = 0.0
    hopeless: bool = False
    idle: bool = False


class SharedServer:
    """A server, its connection and everybody who uses it. `key` is what tells it from others of its process."""

    def __init__(
        self,
        definition: ServerDefinition,
        place: LaunchPlace,
        *,
        key: bytes,
        clock: Clock,
        kept: KeptLists,
        log: ServerLog,
    ) -> None:
        self.definition = definition
        self.key = key
        self.launch = launch_hash(definition, place.cwd)
        self.offer: ToolList | None = kept.read(self.launch, clock.now_ms())
        self.users: dict[ServerUser, None] = {}
        self._place = place
        self._clock = clock
        self._kept = kept
        self._log = log
        self._phase: ServerPhase = "waiting"
        self._problem = ""
        self._failures = self._ended = self._calls = 0
        self._given_up_s = 0.0
        self._is_kept = self.offer is not None
        self._connection: ServerConnection | None = None
        self._counts: WireCounts | None = None
        self._active: dict[ActiveCall, None] = {}
        self._used_s = clock.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._leave = asyncio.Event()
        self._hurry = asyncio.Event()
        self._again = False
        self._grace_s = GRACE_S

    # For those who use it

    def state(self) -> ServerState:
        offer, counts = self.offer, self._counts
        return ServerState(
            name=self.definition.name,
            phase=self._phase,
            problem=self._problem,
            failures=self._failures,
            ended=self._ended,
            tools=len([tool for tool in offer.tools if self.definition.uses(tool.name)]) if offer else 0,
            prompts=len(offer.prompts) if offer else 0,
            resources=offer.resources if offer else False,
            kept=self._is_kept,
            lazy=self.is_lazy,
            protocol=offer.protocol if offer else "",
            calls=self._calls,
            garbage=counts.garbage if counts else 0,
            too_long=counts.too_long if counts else 0,
            log=self._log.path,
        )

    @property
    def is_lazy(self) -> bool:
        """Whether its tools are searched for."""
        used = [tool for tool in self.offer.tools if self.definition.uses(tool.name)] if self.offer else ()
        return self.definition.is_lazy(len(used))

    @property
    def is_settled(self) -> bool:
        """Whether it is up, or nobody needs to wait for it."""
        return self._phase in ("up", "given up")

    def begin(self) -> None:
        """Starts it, unless it runs or was given up not long ago. Nobody waits for it."""
        if self._hurry.is_set():
            return
        if self._task is not None and not self._task.done():
            if self._leave.is_set() and not self._again:  # it is about to end
                self._again = True
                self._task.add_done_callback(lambda _task: self.begin())
            return
        self._again = False
        if self._phase == "given up" and self._clock.monotonic() < self._given_up_s + COOLDOWN_S:
            return
        self._failures = 0
        self._leave.clear()
        self._grace_s = GRACE_S
        self._task = asyncio.create_task(self._keep_running())

    def begin_beside(self) -> None:
        """Starts it beside the first request, unless what it said of itself still holds: then its first call does."""
        if self.offer is None or not self.offer.holds(self._clock.now_ms()):
            self.begin()

    async def restart(self) -> None:
        """Ends what runs and starts it anew, given up or not. Returns once it is up, or raises `ServerUnavailable`."""
        await self.stop()
        self._set("waiting")
        await self.connected()

    async def connected(self, within_s: float | None = None) -> ServerConnection:
        """The connection, for which is waited as long as a connection may take. Raises `ServerUnavailable`."""
        self._used_s = self._clock.monotonic()
        self.begin()
        late = asyncio.ensure_future(
            self._clock.sleep(self.definition.connect_s if within_s is None else within_s)
        )
        try:
            while (connection := self._connection) is None or not connection.is_open:
                if self._phase == "given up":
                    raise ServerUnavailable(self._problem)
                if late.done():
                    raise ServerUnavailable(self._problem or "it is not ready yet")
                self._changed.clear()
                change = asyncio.ensure_future(self._changed.wait())
                try:
                    await asyncio.wait((late, change), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    change.cancel()
            return connection
        finally:
            late.cancel()

    def started_call(self, call: ActiveCall) -> None:
        self._calls += 1
        self._active[call] = None

    def ended_call(self, call: ActiveCall) -> None:
        self._active.pop(call, None)
        self._used_s = self._clock.monotonic()

    def lost(self) -> None:
        """Somebody found the connection broken: it is made anew."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.leave()

    async def close(self) -> None:
        """Ends it for good, and soon: the whole program is leaving."""
        self.users.clear()
        self._hurry.set()
        await self.stop()

    async def stop(self) -> None:
        """Ends it and everything it started. Safe to call twice. Whoever uses it has it started again."""
        self._connection = None
        self._leave.set()
        if self._task is not None:
            await asyncio.wait((self._task,))
        if self._phase != "given up":
            self._set("waiting" if self.users else "stopped")

    # Its life

    async def _keep_running(self) -> None:
        restarts: deque[float] = deque()
        while not self._leave.is_set():
            self._set("connecting", self._problem)
            end = await self._run_once()
            if self._leave.is_set():
                return
            if end.idle:
                self._set("waiting")
                return
            now = self._clock.monotonic()
            self._ended += 1
            self._failures = 1 if end.up_s >= WITHIN_S else self._failures + 1
            self._log.note(f"it is not there: {end.problem}")
            if end.hopeless or self._failures >= MOST_FAILURES:
                self._given_up_s = now
                self._set("given up", end.problem)
                return
            while restarts and restarts[0] <= now - WITHIN_S:
                restarts.popleft()
            wait_s = WAITS_S[min(self._failures, len(WAITS_S)) - 1]
            if len(restarts) >= MOST_RESTARTS:
                wait_s = max(wait_s, restarts[0] + WITHIN_S - now)
            self._set("down", end.problem)
            await self._unless_left(self._clock.sleep(wait_s))
            restarts.append(self._clock.monotonic())

    async def _unless_left(self, waiting: Awaitable[None]) -> None:
        wait, leave = asyncio.ensure_future(waiting), asyncio.ensure_future(self._leave.wait())
        try:
            await asyncio.wait((wait, leave), return_when=asyncio.FIRST_COMPLETED)
        finally:
            wait.cancel()
            leave.cancel()

    async def _run_once(self) -> _End:
        """One connection, from its beginning to its end."""
        process: DuplexProcess | None = None
        try:
            if self.definition.transport == "stdio":
                process = await self._open_process()
            return await self._connect(process)
        except CannotStart as refused:
            return _End(str(refused), hopeless=refused.reason in _HOPELESS)
        except ImportError:
            return _End(f"its package is not installed: {install_command('mcp')}", hopeless=True)
        except Exception as fault:  # noqa: BLE001  the boundary: whatever it was, the server is not there
            return _End(_root_cause(fault))
        finally:
            self._connection = None
            if process is not None:
                await self._end_process(process)

    async def _connect(self, process: DuplexProcess | None) -> _End:
        await in_thread(_load)
        from bridle.mcp.server_connection import ServerConnection
        from bridle.mcp.transports import WireCounts, http_streams, stdio_streams

        self._counts = counts = WireCounts(self._log.note)
        definition = self.definition
        connection = ServerConnection(
            definition,
            http_streams(definition, self._place.env) if process is None else stdio_streams(process, counts),
            launch=self.launch,
            roots=self._place.roots,
            clock=self._clock,
            answer_input=self._answer_input,
            note=self._log.note,
            changed=self._hear_offer,
        )
        serving = asyncio.create_task(connection.serve())
        ready = asyncio.create_task(connection.ready.wait())
        leave = asyncio.create_task(self._leave.wait())
        late = asyncio.create_task(self._clock.sleep(definition.connect_s))
        began_s = self._clock.monotonic()
        up_s = 0.0
        idle = False
        try:
            await asyncio.wait((serving, ready, leave, late), return_when=asyncio.FIRST_COMPLETED)
            if ready.done() and not serving.done():
                began_s = self._clock.monotonic()
                self._connection = connection
                self._used_s = began_s
                self._set("up")
                unused = asyncio.create_task(self._until_unused())
                try:
                    await asyncio.wait((serving, leave, unused), return_when=asyncio.FIRST_COMPLETED)
                    idle = unused.done() and not serving.done()
                finally:
                    unused.cancel()
                up_s = self._clock.monotonic() - began_s
            elif late.done() and not serving.done():
                serving.cancel()
                self._grace_s = 0.0  # it did not listen before either
                return _End(f"it was not ready within {definition.connect_s:g} s")
            connection.leave()
            await asyncio.wait((serving,), timeout=CLOSING_GRACE_S)
            problem = "" if idle or leave.done() else await self._why(serving, process)
            return _End(problem, up_s=up_s, idle=idle)
        finally:
            for task in (serving, ready, leave, late):
                task.cancel()
            await asyncio.gather(serving, ready, leave, late, return_exceptions=True)

    async def _until_unused(self) -> None:
        """Returns when nobody has called for long. A server that listens by itself costs nothing: it may stay."""
        while True:
            left_s = self._used_s + self.definition.idle_s - self._clock.monotonic()
            if left_s <= 0 and not self._active and self.definition.transport == "stdio":
                return
            await self._clock.sleep(max(left_s, 1.0))

    async def _why(self, serving: asyncio.Task[None], process: DuplexProcess | None) -> str:
        """Why a connection is over, as the end of a sentence."""
        said = self._log.last_line()
        behind = f": {said}" if said else ""
        if process is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):  # one that closes its connection is mostly about to end
                    code = await process.wait()
                    how = f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"
                    return f"{how}{behind}"
        if serving.done() and not serving.cancelled() and (fault := serving.exception()) is not None:
            return f"{_root_cause(fault)}{behind}"
        return f"the connection ended{behind}"

    # Its process

    async def _open_process(self) -> DuplexProcess:
        definition, place = self.definition, self._place
        cwd = os.path.join(place.cwd, definition.folder)
        policy = server_policy(definition, place.policy)
        self._log.begin(f"started: {definition.argv[0]}")

        def start(inlet: InputPipe, outlet: OutputPipe) -> Awaitable[Process]:
            return place.spawn(
                definition.argv,
                cwd=cwd,
                env=place.env,
                policy=policy,
                call_id=f"mcp:{definition.name}",
                on_output=outlet,
                on_error=self._log.hear,
                stdin=inlet,
            )

        return await open_duplex(start)

    async def _end_process(self, process: DuplexProcess) -> None:
        """Its input is closed, so it may leave by itself; then it is made to, with everything it left running."""
        grace_s, self._grace_s = self._grace_s, GRACE_S
        process.close_input()
        left = asyncio.ensure_future(process.wait())
        drained = asyncio.ensure_future(_drain(process))
        late = asyncio.ensure_future(self._clock.sleep(grace_s))
        hurry = asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait((left, late, hurry), return_when=asyncio.FIRST_COMPLETED)
            if hurry.done():
                await asyncio.wait((left,), timeout=CLOSING_GRACE_S)
        finally:
            for task in (left, late, hurry, drained):
                task.cancel()
            await process.stop()
            await asyncio.gather(left, late, hurry, drained, return_exceptions=True)

    # What it says

    def _hear_offer(self, offer: ToolList) -> None:
        same = self.offer is not None and self.offer.same_offer(offer)
        self.offer, self._is_kept = offer, False
        self._kept.keep(offer)
        if not same:
            self._tell()

    async def _answer_input(self, request: InputRequest) -> InputReply:
        """A person is asked by whom the server works for. Where that could be several, nobody is."""
        from bridle.mcp.input_requests import NOBODY

        calls = list(self._active)
        if len({id(call.user) for call in calls}) != 1:
            return NOBODY
        return await calls[-1].answer_input(request)

    def _set(self, phase: ServerPhase, problem: str = "") -> None:
        self._phase, self._problem = phase, problem
        self._changed.set()
        self._tell()

    def _tell(self) -> None:
        for user in tuple(self.users):
            user.server_changed(self)


def server_policy(definition: ServerDefinition, session: SpawnPolicy) -> SpawnPolicy:
    """How a server may run: as its definition says, and never more freely than a session that is meant to be strict.

    A server that a project has a say in has no more of the network than commands have.
    """
    mode = "read-only" if session.mode == "read-only" and definition.sandbox != "off" else definition.sandbox
    network = definition.network or session.network
    if definition.of_project:
        order = ("deny", "filtered", "inherit")
        network = min(network, session.network, key=order.index)
    return msgspec.structs.replace(
        session, mode=mode, network=network, scratch="", variables={**session.variables, **definition.env}
    )


class ServerPool:
    """The servers of this process. Each runs while a session uses it: the last one to go takes it along."""

    def __init__(self, state_folder: str, clock: Clock) -> None:
        self._kept = KeptLists(state_folder)
        self._state_folder = state_folder
        self._clock = clock
        self._servers: dict[bytes, SharedServer] = {}
        self._leaving: dict[asyncio.Task[None], SharedServer] = {}

    def server(self, definition: ServerDefinition, place: LaunchPlace) -> SharedServer:
        """The server, whoever uses it already. Nothing is started."""
        policy = server_policy(definition, place.policy)
        key = msgspec.json.encode((definition, place.cwd, policy, place.roots, sorted(place.env.items())))
        if key in self._servers:
            return self._servers[key]
        secrets = (*definition.env.values(), *definition.headers.values())
        log = ServerLog(log_path(self._state_folder, definition.name), secrets)
        return SharedServer(definition, place, key=key, clock=self._clock, kept=self._kept, log=log)

    def use(self, servers: Sequence[SharedServer], user: ServerUser) -> None:
        """`user` needs these from here on."""
        for server in servers:
            server.users[user] = None
            self._servers.setdefault(server.key, server)

    def leave(self, servers: Sequence[SharedServer], user: ServerUser) -> None:
        """`user` needs none of these any more. One that nobody needs ends by itself, while nobody waits for it."""
        for server in servers:
            server.users.pop(user, None)
            if not server.users:
                if self._servers.get(server.key) is server:
                    del self._servers[server.key]
                task = asyncio.create_task(server.stop())
                self._leaving[task] = server
                task.add_done_callback(self._leaving.pop)

    async def close(self) -> None:
        """Ends them all."""
        everyone = {*self._servers.values(), *self._leaving.values()}
        await asyncio.gather(*(server.close() for server in everyone))


def _load() -> None:
    """Most of a second that nobody else is to wait for."""
    import_module("bridle.mcp.server_connection")


async def _drain(process: DuplexProcess) -> None:
    """Nobody reads it any more: a server that still writes must not wait for that."""
    while await process.read():
        pass


def _root_cause(fault: BaseException) -> str:
    """The innermost reason of a failure, in its own words."""
    while isinstance(fault, BaseExceptionGroup):
        fault = cast("BaseExceptionGroup[BaseException]", fault).exceptions[0]
    return str(fault) or type(fault).__name__
