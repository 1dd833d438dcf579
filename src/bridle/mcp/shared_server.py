"""One server and its life: started when it is needed, started again when it ends, given up when that is no use.

Sessions share it: the same launch in the same folder is one process. It runs while a session uses it.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

import msgspec

from bridle.base.clock import Clock
from bridle.base.duplex import DuplexProcess, InputPipe, OutputPipe, open_duplex
from bridle.base.installation import install_command
from bridle.base.processes import CannotStart
from bridle.base.threads import in_thread
from bridle.engine.ports import Process, Spawn, SpawnPolicy
from bridle.mcp.pin_gate import PinGate, PinReview
from bridle.mcp.server_definitions import ServerDefinition, launch_hash
from bridle.mcp.server_log import ServerLog, log_path
from bridle.mcp.server_pins import PinStore
from bridle.mcp.server_state import ServerPhase, ServerState
from bridle.mcp.server_tokens import (
    ServerTokens,
    SignInMarks,
    TokensUnavailable,
    login_command,
    sign_in_name,
    takes_tokens,
)
from bridle.mcp.tool_lists import KeptLists, ToolList
from bridle.mcp.value_references import BadReference, ReferenceValues, filled_launch
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Notice

if TYPE_CHECKING:
    from bridle.mcp.input_requests import InputReply, InputRequest
    from bridle.mcp.sampling_requests import SampleReply, SampleRequest
    from bridle.mcp.server_connection import ServerConnection
    from bridle.mcp.token_auth import TokenAuth
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
BESIDE_S: Final = 0.2
"""So long after a request was made a server is started beside it: by then it has left, and what starting takes of this
process does not hold it up."""
CLOSING_GRACE_S: Final = 1.0
"""The same, where the whole program is leaving."""
_HOPELESS: Final = frozenset(
    {"not found", "not executable", "no such folder", "no sandbox", "no network filter"}
)


class ServerUnavailable(Exception):
    """It is not there, and why, as the end of a sentence."""


class LaunchPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server runs. `policy` and `env` are those of the session's commands; `roots` are the folders it is told
    of. `tokens` are those of a sign-in, by its name; None where there are none. `values` are what references in its
    definition stand for."""

    spawn: Spawn
    policy: SpawnPolicy
    cwd: str
    env: Mapping[str, str]
    roots: tuple[str, ...] = ()
    tokens: Callable[[str], ServerTokens] | None = None
    values: ReferenceValues | None = None


class ServerUser(Protocol):
    """A session that uses a server."""

    def server_changed(self, server: SharedServer) -> None:
        """How it is, or what it offers, is another now."""
        ...

    def server_made(self, server: SharedServer, notice: Notice) -> None:
        """It made something that later runs obey, which was put aside."""
        ...


class ActiveCall(Protocol):
    """A call under way. `user` is whose it is."""

    @property
    def user(self) -> ServerUser: ...
    def hear_put_aside(self, notice: Notice) -> None:
        """While it was, something was put aside that the server made."""
        ...

    async def answer_input(self, request: InputRequest) -> InputReply:
        """Asks the person of this call."""
        ...

    async def answer_sample(self, request: SampleRequest) -> SampleReply:
        """Asks them, and then the model of their session."""
        ...


class _End(NamedTuple):
    """How a run of a server ended. `hopeless`: it would end the same way again. `idle`: nobody needed it.

    `changed`: it is not what was agreed to. `wants_sign_in`: it lets nobody in before a person has signed in."""

    problem: str
    up_s: float = 0.0
    hopeless: bool = False
    idle: bool = False
    changed: bool = False
    wants_sign_in: bool = False


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
        pins: PinStore,
        marks: SignInMarks,
        log: ServerLog,
    ) -> None:
        self.definition = definition
        self.key = key
        self._process = sha256(key).hexdigest()[:16]
        self.launch = launch_hash(definition, place.cwd)
        variables = {**place.env, **place.policy.variables}
        self.pins = PinGate(definition, cwd=place.cwd, env=variables, store=pins)
        self.offer: ToolList | None = self.pins.agreed_part(kept.read(self.launch, clock.now_ms()))
        """What of the server's own list was agreed to."""
        self._listed: ToolList | None = None
        self._is_checked = False
        self._held_back = self.pins.verdict.held_back
        self.users: dict[ServerUser, None] = {}
        self._place = place
        self._clock = clock
        self._kept = kept
        self._marks = marks
        self._log = log
        self._phase: ServerPhase = "waiting"
        self._problem = ""
        self._failures = self._ended = self._calls = 0
        self._given_up_s = 0.0
        self._is_kept = self.offer is not None
        self._connection: ServerConnection | None = None
        self._counts: WireCounts | None = None
        self._tokens: ServerTokens | None = None
        self._auth: TokenAuth | None = None
        self._active: dict[ActiveCall, None] = {}
        self._look_after: Callable[[], None] = _nothing
        self._used_s = clock.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._soon: asyncio.Task[None] | None = None
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
            pin="changed" if self.pins.tools_review is not None else self.pins.state,
            unpinned=self.pins.unpinned,
            held_back=self._held_back,  # of what is offered: the next list is judged beside the loop
            process=self._process,
        )

    @property
    def is_lazy(self) -> bool:
        """Whether its tools are searched for."""
        used = [tool for tool in self.offer.tools if self.definition.uses(tool.name)] if self.offer else ()
        return self.definition.is_lazy(len(used))

    @property
    def is_settled(self) -> bool:
        """Whether it is up, or nobody needs to wait for it."""
        return self._phase in ("up", "given up", "changed", "needs sign-in")

    @property
    def sign_in_problem(self) -> str:
        """Why the last request was not let in, as the end of a sentence; empty where it was."""
        return self._auth.problem if self._auth is not None and self._auth.wants_sign_in else ""

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
        if self._phase == "changed":  # it may be as it was by now
            self._phase = "waiting"
        if self._phase == "needs sign-in":
            self._set("waiting")
        self._failures = 0
        self._leave.clear()
        self._grace_s = GRACE_S
        self._task = asyncio.create_task(self._keep_running())

    def begin_beside(self) -> None:
        """Starts it beside the first request, unless what it said of itself still holds: then its first call does."""
        if self._phase == "needs sign-in":
            return
        if self._soon is None and (self.offer is None or not self.offer.holds(self._clock.now_ms())):
            self._soon = asyncio.create_task(self._begin_soon())

    async def _begin_soon(self) -> None:
        await self._clock.sleep(BESIDE_S)
        self._soon = None
        self.begin()

    async def begin_if_signed_in(self) -> None:
        """Starts one that let nobody in, once a person has signed in, wherever they did."""
        if self._phase == "needs sign-in" and self._tokens is not None:
            try:
                token = await self._tokens.current()
            except TokensUnavailable:
                return
            refused = self._auth.refused if self._auth is not None else ""
            if token is not None and token != refused and self._phase == "needs sign-in":
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
                if self._phase in ("given up", "changed", "needs sign-in"):
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
        self._look_after()
        self._calls += 1
        self._active[call] = None

    def ended_call(self, call: ActiveCall) -> None:
        self._look_after()
        self._active.pop(call, None)
        self._used_s = self._clock.monotonic()

    def look_again_at_sign_in(self) -> None:
        """A call was not let in: where the token is of no use at all, the connection is made anew and says so."""
        if self._auth is not None and self._auth.is_locked_out:
            self._keep_mark()
            if self._auth.refused:
                self.lost()

    def _keep_mark(self) -> None:
        self._marks.keep(self.launch, self._auth.challenge if self._auth is not None else "")

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
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        self._leave.set()
        if self._task is not None:
            await asyncio.wait((self._task,))
        if self._phase not in ("given up", "changed", "needs sign-in"):
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
            if end.changed:
                self._log.note(f"it is not started: {end.problem}")
                self._set("changed", end.problem)
                return
            if end.wants_sign_in:
                self._log.note(end.problem)
                self._keep_mark()
                self._set("needs sign-in", end.problem)
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
        self._is_checked = False
        try:
            launched = await self._fill()
            if (review := await in_thread(self.pins.check_launch)) is not None:
                return _End(_held(review), changed=True)
            self._tokens = self._tokens_for(launched)
            if launched.transport == "stdio":
                process = await self._open_process(launched)
            return await self._connect(launched, process)
        except (BadReference, BridleError) as missing:
            return _End(str(missing).rstrip("."), hopeless=True)
        except CannotStart as refused:
            return _End(str(refused), hopeless=refused.reason in _HOPELESS)
        except ImportError:
            return _End(f"its package is not installed: {install_command('mcp')}", hopeless=True)
        except Exception as fault:  # noqa: BLE001  the boundary: whatever it was, the server is not there
            return _End(self._log.masked(_root_cause(fault)))
        finally:
            self._connection = None
            if process is not None:
                await self._end_process(process)

    async def _fill(self) -> ServerDefinition:
        """The definition as it is started, which its pins are about too. Raises `BadReference` and `BridleError`."""
        launched, secrets = await filled_launch(self.definition, self._place.values)
        self._log.hide(secrets)
        self.pins.launched = launched
        return launched

    async def _connect(self, definition: ServerDefinition, process: DuplexProcess | None) -> _End:
        await in_thread(_load)
        from bridle.mcp.server_connection import ServerConnection
        from bridle.mcp.transports import WireCounts, http_streams, stdio_streams

        self._counts = counts = WireCounts(self._log.note)
        self._auth = auth = self._new_auth()
        connection = ServerConnection(
            definition,
            http_streams(definition, self._place.env, auth)
            if process is None
            else stdio_streams(process, counts),
            launch=self.launch,
            roots=self._place.roots,
            clock=self._clock,
            answer_input=self._answer_input,
            answer_sample=self._answer_sample,
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
            if ready.done() and not serving.done() and (review := await self._checked_again()) is not None:
                connection.leave()
                await asyncio.wait((serving,), timeout=CLOSING_GRACE_S)
                return _End(_held(review), changed=True)
            if ready.done() and not serving.done():
                began_s = self._clock.monotonic()
                self._connection = connection
                self._used_s = began_s
                self._marks.drop(self.launch)
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
            if auth is not None and auth.wants_sign_in and not leave.done():
                return _End(auth.problem, wants_sign_in=True)
            problem = "" if idle or leave.done() else await self._why(serving, process)
            return _End(problem, up_s=up_s, idle=idle)
        finally:
            for task in (serving, ready, leave, late):
                task.cancel()
            await asyncio.gather(serving, ready, leave, late, return_exceptions=True)

    def _tokens_for(self, launched: ServerDefinition) -> ServerTokens | None:
        if self._place.tokens is None or not takes_tokens(launched):
            return None
        return self._place.tokens(sign_in_name(self.definition, launched))

    async def _checked_again(self) -> PinReview | None:
        """What keeps it from being used now that it runs: a launcher may have brought other code with it. Then
        what it offers is looked at."""
        review = await in_thread(self.pins.check_launch)
        if review is None:
            self._is_checked = True
            await self.look_again()
        return review

    async def launch_shown(self) -> PinReview | None:
        """What would be started or reached now, for a person to agree to; None where only tools are to be agreed to.
        Raises `ServerUnavailable` where a value is missing."""
        try:
            await self._fill()
        except (BadReference, BridleError) as missing:
            raise ServerUnavailable(str(missing).rstrip(".")) from None
        return await in_thread(self.pins.launch_shown)

    async def look_again(self) -> None:
        """Judges anew what the server offers: somebody may have agreed to more of it."""
        if (listed := self._listed) is not None:
            judged = await in_thread(lambda: self.pins.judge_offer(listed))
            if listed is self._listed:
                self._take_offer(judged)

    def _new_auth(self) -> TokenAuth | None:
        if self._tokens is None:
            return None
        from bridle.mcp.token_auth import TokenAuth

        return TokenAuth(self._tokens, login_command(self.definition.name), self._hear_refusal)

    def _hear_refusal(self) -> None:
        """A request was not let in. Over SSE nobody answers it any more; else its caller is told."""
        if self.definition.transport == "sse":
            self.lost()

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
            return f"{self._log.masked(_root_cause(fault))}{behind}"
        return f"the connection ended{behind}"

    # Its process

    async def _open_process(self, definition: ServerDefinition) -> DuplexProcess:
        place = self._place
        cwd = os.path.join(place.cwd, definition.folder)
        policy = server_policy(definition, place.policy)
        self._log.begin(f"started: {definition.argv[0]}")

        async def start(inlet: InputPipe, outlet: OutputPipe) -> Process:
            process = await place.spawn(
                definition.argv,
                cwd=cwd,
                env=place.env,
                policy=policy,
                call_id=f"mcp:{definition.name}",
                on_output=outlet,
                on_error=self._log.hear,
                stdin=inlet,
            )
            self._look_after = process.follow_put_aside(self._hear_put_aside)
            return process

        return await open_duplex(start)

    def _hear_put_aside(self, notice: Notice) -> None:
        self._log.note(notice.message)
        for call in self._active:
            call.hear_put_aside(notice)
        for user in tuple(self.users):
            user.server_made(self, notice)

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
            self._look_after = _nothing
            await asyncio.gather(left, late, hurry, drained, return_exceptions=True)

    # What it says

    def _hear_offer(self, offer: ToolList) -> None:
        self._listed = offer
        self._kept.keep(offer)
        if self._is_checked:
            self._take_offer(self.pins.judge_offer(offer))

    def _take_offer(self, offer: ToolList) -> None:
        """What of a list may be used is what there is from here on."""
        held_back, waiting = self.pins.verdict.held_back, self._held_back
        same = self.offer is not None and self.offer.same_offer(offer) and held_back == waiting
        self.offer, self._is_kept, self._held_back = offer, False, held_back
        if not same:
            self._tell()

    async def _answer_input(self, request: InputRequest) -> InputReply:
        """A person is asked by whom the server works for. Where that could be several, nobody is."""
        from bridle.mcp.input_requests import NOBODY

        call = self._call_of_request()
        return NOBODY if call is None else await call.answer_input(request)

    async def _answer_sample(self, request: SampleRequest) -> SampleReply:
        from bridle.mcp.sampling_requests import SampleReply

        call = self._call_of_request()
        if call is None:
            return SampleReply(refusal="it belongs to no call that is under way")
        return await call.answer_sample(request)

    def _call_of_request(self) -> ActiveCall | None:
        calls = list(self._active)
        return calls[-1] if len({id(call.user) for call in calls}) == 1 else None

    def _set(self, phase: ServerPhase, problem: str = "") -> None:
        self._phase, self._problem = phase, problem
        self._changed.set()
        self._tell()

    def _tell(self) -> None:
        for user in tuple(self.users):
            user.server_changed(self)


def _held(review: PinReview) -> str:
    """Why it does not run, as the end of a sentence."""
    data = review.data
    if review.reason == "MCPServerSHA256Mismatch":
        return f"its program has sha256 {data['found']}, and settings expect {data['expected']}"
    return data["problem"]


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
        session,
        mode=mode,
        network=network,
        scratch="",
        variables={**session.variables, **definition.env},
        resident=True,
    )


class ServerPool:
    """The servers of this process. Each runs while a session uses it: the last one to go takes it along."""

    def __init__(self, state_folder: str, clock: Clock) -> None:
        self._kept = KeptLists(state_folder)
        self._pins = PinStore(state_folder, clock)
        self._marks = SignInMarks(state_folder)
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
        log = ServerLog(log_path(self._state_folder, definition.name))
        return SharedServer(
            definition,
            place,
            key=key,
            clock=self._clock,
            kept=self._kept,
            pins=self._pins,
            marks=self._marks,
            log=log,
        )

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

    def states(self) -> tuple[ServerState, ...]:
        """How those that sessions use are now."""
        return tuple(server.state() for server in self._servers.values())

    async def close(self) -> None:
        """Ends them all."""
        everyone = {*self._servers.values(), *self._leaving.values()}
        await asyncio.gather(*(server.close() for server in everyone))


def _nothing() -> None:
    pass


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
