"""One server of this process: its runs, what it offers, and the sessions that use it.

Sessions share it: the same launch in the same folder is one process. It runs while a session uses it. When it starts,
restarts and stops is decided by `engine.services.Supervisor`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from bridle.base.clock import Clock
from bridle.base.process.installation import install_command
from bridle.base.process.processes import CannotStart
from bridle.base.threads import in_thread
from bridle.engine.ports import EndCall
from bridle.engine.services import RunEnd, Supervisor
from bridle.mcp.input_requests import NOBODY, InputReply, InputRequest
from bridle.mcp.pin_gate import PinGate, PinReview
from bridle.mcp.sampling_requests import SampleReply, SampleRequest
from bridle.mcp.server_definitions import BadReference, ServerDefinition, filled_launch, launch_hash
from bridle.mcp.server_pins import PinStore
from bridle.mcp.server_run import LaunchPlace, ServerLog, ServerRun, log_path, root_cause, server_policy
from bridle.mcp.server_state import ServerPhase, ServerState
from bridle.mcp.server_tokens import ServerTokens, SignInMarks, TokensUnavailable, sign_in_name, takes_tokens
from bridle.mcp.tool_lists import KeptLists, ToolList
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Notice

if TYPE_CHECKING:
    from bridle.mcp.server_connection import ServerConnection
    from bridle.mcp.server_tokens import TokenAuth

_HOPELESS: Final = frozenset(
    {"not found", "not executable", "no such folder", "no sandbox", "no network filter"}
)


class ServerUnavailable(Exception):
    """The server cannot be used; the message is the end of a sentence."""


class ServerUser(Protocol):
    """A session that uses a server."""

    def server_changed(self, server: SharedServer) -> None:
        """Its state or its offer changed."""
        ...

    def server_made(self, server: SharedServer, notice: Notice) -> None:
        """It made a policy file, which was quarantined."""
        ...


class ActiveCall(Protocol):
    """A call under way. `user` is the session it belongs to."""

    @property
    def user(self) -> ServerUser: ...
    def hear_put_aside(self, notice: Notice) -> None:
        """The server made a policy file during the call, which was quarantined."""
        ...

    async def answer_input(self, request: InputRequest) -> InputReply:
        """Ask the user of this call."""
        ...

    async def answer_sample(self, request: SampleRequest) -> SampleReply:
        """Ask the user of this call, and then the model of their session."""
        ...


class SharedServer:
    """A server, its connection and the sessions that use it. `key` identifies it within its process."""

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
        self.launch = launch_hash(definition, place.cwd)
        variables = {**place.env, **place.policy.variables}
        self.pins = PinGate(definition, cwd=place.cwd, env=variables, store=pins)
        self.offer: ToolList | None = self.pins.agreed_part(kept.read(self.launch, clock.now_ms()))
        """The approved part of the server's own list."""
        self.users: dict[ServerUser, None] = {}
        self._listed: ToolList | None = None
        self._held_back = self.pins.verdict.held_back
        self._place = place
        self._clock = clock
        self._kept = kept
        self._marks = marks
        self._log = log
        # A server that listens by itself costs nothing: it is never idle.
        idle_s = definition.idle_s if definition.transport == "stdio" else math.inf
        self._life = Supervisor(self._run_once, clock=clock, changed=self._life_changed, idle_s=idle_s)
        self._held_as: ServerPhase = "changed"
        self._is_kept = self.offer is not None
        self._connection: ServerConnection | None = None
        self._run: ServerRun | None = None
        """The present run, or the last one."""
        self._calls = 0
        self._active: dict[ActiveCall, EndCall | None] = {}
        self._may_ask = True

    # For those who use it

    @property
    def phase(self) -> ServerPhase:
        return self._held_as if self._life.phase == "held" else self._life.phase

    def state(self) -> ServerState:
        offer, counts = self.offer, self._run.counts if self._run is not None else None
        return ServerState(
            name=self.definition.name,
            phase=self.phase,
            problem=self._life.problem,
            failures=self._life.failures,
            ended=self._life.ended,
            tools=self._used_count,
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
            process=sha256(self.key).hexdigest()[:16],
        )

    @property
    def _used_count(self) -> int:
        return sum(self.definition.uses(tool.name) for tool in self.offer.tools) if self.offer else 0

    @property
    def is_lazy(self) -> bool:
        """Whether the model searches for its tools."""
        return self.definition.is_lazy(self._used_count)

    @property
    def is_settled(self) -> bool:
        """Whether it is up, or waiting for it is no use."""
        return self._life.phase in ("up", "given up", "held")

    @property
    def sign_in_problem(self) -> str:
        """Why the last request was not authorised, as the end of a sentence; empty if it was."""
        auth = self._auth
        return auth.problem if auth is not None and auth.wants_sign_in else ""

    @property
    def _auth(self) -> TokenAuth | None:
        return self._run.auth if self._run is not None else None

    def begin(self) -> None:
        """Start it, unless it runs or was given up not long ago. Does not wait."""
        self._life.begin()

    async def begin_if_signed_in(self) -> None:
        """Start it if it needed a sign-in and the user has signed in since, wherever they did."""
        tokens = self._run.tokens if self._run is not None else None
        if self.phase == "needs sign-in" and tokens is not None:
            try:
                token = await tokens.current()
            except TokensUnavailable:
                return
            refused = self._auth.refused if self._auth is not None else ""
            if token is not None and token != refused and self.phase == "needs sign-in":
                self.begin()

    async def restart(self) -> None:
        """End the run and start another one, even if it was given up. Raises `ServerUnavailable`."""
        self._connection = None
        await self._life.restart()
        await self.connected()

    async def connected(self, within_s: float | None = None) -> ServerConnection:
        """Return the connection; wait as long as connecting may take. Raises `ServerUnavailable`."""
        self._life.touch()
        self.begin()
        await self._life.wait_until(
            lambda: self._connection is not None and self._connection.is_open,
            self.definition.connect_s if within_s is None else within_s,
        )
        if self._connection is None or not self._connection.is_open:
            raise ServerUnavailable(self._life.problem or "it is not ready yet")
        return self._connection

    async def started_call(self, call: ActiveCall) -> None:
        """Begin a call: what is there before it is known when this returns."""
        self._calls += 1
        self._life.started_use()
        self._active[call] = None
        if self._run is not None:
            self._active[call] = await self._run.begin_call()

    async def ended_call(self, call: ActiveCall) -> None:
        """End a call: what it made that it may not is put aside when this returns."""
        try:
            if (end := self._active.get(call)) is not None:
                await end()
        finally:
            self._active.pop(call, None)
            self._life.ended_use()

    def refuse_input(self) -> None:
        """Refuse every request for input until it is restarted: it asked too often."""
        self._may_ask = False

    def look_again_at_sign_in(self) -> None:
        """Reconnect after a call that was not authorised, if the token is of no use at all."""
        if self._auth is not None and self._auth.is_locked_out:
            self._keep_mark()
            if self._auth.refused:
                self.lost()

    def _keep_mark(self) -> None:
        self._marks.keep(self.launch, self._auth.challenge if self._auth is not None else "")

    def lost(self) -> None:
        """Reconnect: a caller found the connection broken."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.leave()

    async def close(self) -> None:
        """End it soon and for good: the whole program ends."""
        self.users.clear()
        self._connection = None
        await self._life.close()

    async def stop(self) -> None:
        """End it with everything it started. Safe to call twice; the next use starts it again."""
        self._connection = None
        await self._life.stop()

    # One run

    async def _run_once(self) -> RunEnd:
        self._may_ask = True
        try:
            launched = await self._fill()
            if (review := await in_thread(self.pins.check_launch)) is not None:
                self._held_as = "changed"
                return RunEnd(_why_held(review), held=True)
            self._held_as = "needs sign-in"
            self._run = ServerRun(
                launched,
                self._place,
                self,
                launch=self.launch,
                clock=self._clock,
                log=self._log,
                tokens=self._tokens_for(launched),
                life=self._life,
            )
            return await self._run.serve()
        except (BadReference, BridleError) as missing:
            return RunEnd(str(missing).rstrip("."), hopeless=True)
        except CannotStart as refused:
            return RunEnd(str(refused), hopeless=refused.reason in _HOPELESS)
        except ImportError:
            return RunEnd(f"its package is not installed: {install_command('mcp')}", hopeless=True)
        except Exception as fault:  # noqa: BLE001  the boundary: whatever it was, the server is not there
            return RunEnd(self._log.masked(root_cause(fault)))
        finally:
            self._connection = None

    async def _fill(self) -> ServerDefinition:
        """Return the definition with its values, which its pins are about too. Raises `BadReference` and
        `BridleError`."""
        launched, secrets = await filled_launch(self.definition, self._place.values)
        self._log.hide(secrets)
        self.pins.launched = launched
        return launched

    def _tokens_for(self, launched: ServerDefinition) -> ServerTokens | None:
        if self._place.tokens is None or not takes_tokens(launched):
            return None
        return self._place.tokens(sign_in_name(self.definition, launched))

    async def connected_to(self, connection: ServerConnection) -> None:
        await self.look_again()
        self._connection = connection
        self._marks.drop(self.launch)
        self._life.is_up()

    def hear_refusal(self) -> None:
        """Reconnect over SSE, where a refused request gets no answer; else its caller is told."""
        if self.definition.transport == "sse":
            self.lost()

    def _life_changed(self) -> None:
        if self._life.phase == "held":
            self._log.note(f"it is not started: {self._life.problem}")
            if self._held_as == "needs sign-in":
                self._keep_mark()
        elif self._life.phase in ("down", "given up"):
            self._log.note(f"it is not there: {self._life.problem}")
        self._tell()

    # Its offer

    async def launch_shown(self) -> PinReview | None:
        """Return what would be started or reached now, for the user to approve; None if only tools are to be approved.
        Raises `ServerUnavailable` if a value is missing."""
        try:
            await self._fill()
        except (BadReference, BridleError) as missing:
            raise ServerUnavailable(str(missing).rstrip(".")) from None
        return await in_thread(self.pins.launch_shown)

    async def look_again(self) -> None:
        """Compare what the server offers with what is approved by now."""
        while (listed := self._listed) is not None:
            judged = await in_thread(lambda listed=listed: self.pins.judge_offer(listed))
            if listed is self._listed:
                self._take_offer(judged)
                return

    def hear_offer(self, offer: ToolList) -> None:
        self._listed = offer
        self._kept.keep(offer)
        if self._connection is not None:
            self._take_offer(self.pins.judge_offer(offer))

    def _take_offer(self, offer: ToolList) -> None:
        held_back, waiting = self.pins.verdict.held_back, self._held_back
        same = self.offer is not None and self.offer.same_offer(offer) and held_back == waiting
        self.offer, self._is_kept, self._held_back = offer, False, held_back
        if not same:
            self._tell()

    # Its requests

    def hear_put_aside(self, notice: Notice) -> None:
        for call in self._active:
            call.hear_put_aside(notice)
        for user in tuple(self.users):
            user.server_made(self, notice)

    async def answer_input(self, request: InputRequest) -> InputReply:
        """Ask the user of the session whose call is under way. If there are several sessions, refuse."""
        call = self._call_of_request() if self._may_ask else None
        return NOBODY if call is None else await call.answer_input(request)

    async def answer_sample(self, request: SampleRequest) -> SampleReply:
        call = self._call_of_request()
        if call is None:
            return SampleReply(refusal="it belongs to no call that is under way")
        return await call.answer_sample(request)

    def _call_of_request(self) -> ActiveCall | None:
        calls = list(self._active)
        return calls[-1] if len({id(call.user) for call in calls}) == 1 else None

    def _tell(self) -> None:
        for user in tuple(self.users):
            user.server_changed(self)


def _why_held(review: PinReview) -> str:
    """Return why it does not start, as the end of a sentence."""
    data = review.data
    if review.reason == "MCPServerSHA256Mismatch":
        return f"its program has sha256 {data['found']}, and settings expect {data['expected']}"
    return data["problem"]


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
        return tuple(server.state() for server in self._servers.values())

    async def close(self) -> None:
        everyone = {*self._servers.values(), *self._leaving.values()}
        await asyncio.gather(*(server.close() for server in everyone))
