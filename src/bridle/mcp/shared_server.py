"""One server and its life: started when it is needed, started again when it ends, given up when that is no use.

Sessions share it: the same launch in the same folder is one process. It runs while a session uses it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

from bridle.base.clock import Clock
from bridle.base.installation import install_command
from bridle.base.processes import CannotStart
from bridle.base.threads import in_thread
from bridle.mcp.pin_gate import PinGate, PinReview
from bridle.mcp.server_definitions import ServerDefinition, launch_hash
from bridle.mcp.server_log import ServerLog
from bridle.mcp.server_pins import PinStore
from bridle.mcp.server_run import LaunchPlace, RunEnd, ServerRun, held_back, root_cause
from bridle.mcp.server_state import ServerPhase, ServerState
from bridle.mcp.server_tokens import (
    ServerTokens,
    SignInMarks,
    TokensUnavailable,
    sign_in_name,
    takes_tokens,
)
from bridle.mcp.tool_lists import KeptLists, ToolList
from bridle.mcp.value_references import BadReference, filled_launch
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Notice

if TYPE_CHECKING:
    from bridle.mcp.input_requests import InputReply, InputRequest
    from bridle.mcp.sampling_requests import SampleReply, SampleRequest
    from bridle.mcp.server_connection import ServerConnection
    from bridle.mcp.token_auth import TokenAuth

WAITS_S: Final = (1.0, 2.0, 4.0)
"""How long is waited before it is started again, the first, second and every later time."""
MOST_RESTARTS: Final = 3
WITHIN_S: Final = 60.0
"""It is started again no more often than this, in this time. One that ran so long ran well."""
MOST_FAILURES: Final = 5
"""After so many in a row it is given up."""
COOLDOWN_S: Final = 3600.0
"""Until it is tried again after that."""
_HOPELESS: Final = frozenset(
    {"not found", "not executable", "no such folder", "no sandbox", "no network filter"}
)


class ServerUnavailable(Exception):
    """It is not there, and why, as the end of a sentence."""


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
        self._run: ServerRun | None = None
        """The one that is, or was last."""
        self._active: dict[ActiveCall, None] = {}
        self._used_s = clock.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._leave = asyncio.Event()
        self._hurry = asyncio.Event()
        self._again = False
        self._may_ask = True

    # For those who use it

    def state(self) -> ServerState:
        offer, counts = self.offer, self._run.counts if self._run is not None else None
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
        auth = self._auth
        return auth.problem if auth is not None and auth.wants_sign_in else ""

    @property
    def _auth(self) -> TokenAuth | None:
        return self._run.auth if self._run is not None else None

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
        self._task = asyncio.create_task(self._keep_running())

    def begin_unless_known(self) -> None:
        """Starts it, unless what it said of itself still holds: then its first call does."""
        known = self.offer is not None and self.offer.holds(self._clock.now_ms())
        if self._phase != "needs sign-in" and not known:
            self.begin()

    async def begin_if_signed_in(self) -> None:
        """Starts one that let nobody in, once a person has signed in, wherever they did."""
        tokens = self._run.tokens if self._run is not None else None
        if self._phase == "needs sign-in" and tokens is not None:
            try:
                token = await tokens.current()
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

    def _look_after(self) -> None:
        if self._run is not None:
            self._run.look_after()

    def refuse_input(self) -> None:
        """It asked too much of people: nobody hears it any more until it is started anew."""
        self._may_ask = False

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

    async def _run_once(self) -> RunEnd:
        """One run, from its beginning to its end."""
        self._is_checked = False
        self._may_ask = True
        try:
            launched = await self._fill()
            if (review := await in_thread(self.pins.check_launch)) is not None:
                return RunEnd(held_back(review), changed=True)
            self._run = ServerRun(
                launched,
                self._place,
                self,
                launch=self.launch,
                clock=self._clock,
                log=self._log,
                tokens=self._tokens_for(launched),
                leave=self._leave,
                hurry=self._hurry,
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
        """The definition as it is started, which its pins are about too. Raises `BadReference` and `BridleError`."""
        launched, secrets = await filled_launch(self.definition, self._place.values)
        self._log.hide(secrets)
        self.pins.launched = launched
        return launched

    def _tokens_for(self, launched: ServerDefinition) -> ServerTokens | None:
        if self._place.tokens is None or not takes_tokens(launched):
            return None
        return self._place.tokens(sign_in_name(self.definition, launched))

    # Of its run

    def connected_to(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._used_s = self._clock.monotonic()
        self._marks.drop(self.launch)
        self._set("up")

    async def checked(self) -> PinReview | None:
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

    def hear_refusal(self) -> None:
        """A request was not let in. Over SSE nobody answers it any more; else its caller is told."""
        if self.definition.transport == "sse":
            self.lost()

    async def until_unused(self) -> None:
        """Returns when nobody has called for long. A server that listens by itself costs nothing: it may stay."""
        while True:
            left_s = self._used_s + self.definition.idle_s - self._clock.monotonic()
            if left_s <= 0 and not self._active and self.definition.transport == "stdio":
                return
            await self._clock.sleep(max(left_s, 1.0))

    # What it says

    def hear_offer(self, offer: ToolList) -> None:
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

    def hear_put_aside(self, notice: Notice) -> None:
        for call in self._active:
            call.hear_put_aside(notice)
        for user in tuple(self.users):
            user.server_made(self, notice)

    async def answer_input(self, request: InputRequest) -> InputReply:
        """A person is asked by whom the server works for. Where that could be several, nobody is."""
        from bridle.mcp.input_requests import NOBODY

        call = self._call_of_request() if self._may_ask else None
        return NOBODY if call is None else await call.answer_input(request)

    async def answer_sample(self, request: SampleRequest) -> SampleReply:
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
