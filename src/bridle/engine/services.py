"""Services of a session: started with it, stopped with it, each with a health. `Supervisor` keeps one running.

A source of tools is a service: it offers tools by `SessionDoor.offer`, as often as they change.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from bridle.base.clock import Clock
from bridle.base.process.duplex import DuplexProcess, InputPipe, OutputPipe, open_duplex
from bridle.base.text.terminal_text import visible
from bridle.engine.deadline import finish
from bridle.engine.ports import Process, Spawn, SpawnPolicy
from bridle.engine.tools import Tool, ToolOrigin
from bridle.protocol.errors import BridleError, sentence
from bridle.protocol.events import Degraded, DurableEvent, Notice

LAST_WORDS_BYTES = 4 * 1024
"""The part of a server's standard error that is kept."""
WAITS_S: Final = (1.0, 2.0, 4.0)
"""The wait before the first, second and every later restart."""
MOST_RESTARTS: Final = 3
WITHIN_S: Final = 60.0
"""At most `MOST_RESTARTS` in this time. A run that was up this long resets the count of failures."""
MOST_FAILURES: Final = 5
"""After this number of failures in a row it is given up."""
COOLDOWN_S: Final = 3600.0
"""The time until a start is tried again after that."""
LAST_MOMENT_S: Final = 0.5
"""A process that closes its connection is mostly about to end; its exit code says more."""
_SHOWN_CHARACTERS = 200

ServicePhase: TypeAlias = Literal["waiting", "connecting", "up", "down", "given up", "held", "stopped"]
"""`waiting`: it starts when it is needed. `down`: it ended and is started again. `given up`: it failed too often.
`held`: it does not run before a user did something."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How a service is. `problem` says why it is not up."""

    state: Literal["starting", "up", "down", "given up", "stopped"]
    problem: str = ""


class Service(Protocol):
    """Something a session owns."""

    @property
    def name(self) -> str: ...
    async def start(self) -> None:
        """Returns once it is up. May take long: the session does not wait. Raises: what keeps it from running."""
        ...

    async def stop(self) -> None:
        """Nothing of it runs any more. Safe to call twice, and before it has started. It has `ENDING_S`."""
        ...

    def health(self) -> Health: ...


class SessionDoor(msgspec.Struct, frozen=True, kw_only=True):
    """What a service may use of its session. Processes are started by `spawn` with `policy`, as commands are."""

    offer: Callable[[Sequence[Tool]], None]
    spawn: Spawn
    policy: SpawnPolicy
    cwd: str
    env: Mapping[str, str]
    clock: Clock
    emit: Callable[[DurableEvent], object]


class ToolSource(Protocol):
    """Something that brings tools which may change while a session runs: a server, a plugin. Raises: nothing; what
    goes wrong is said by the health of its service."""

    @property
    def name(self) -> str: ...
    @property
    def origin(self) -> ToolOrigin: ...
    def service(self, door: SessionDoor) -> Service:
        """What serves one session."""
        ...


class Services:
    """The services of one session. A fault in one is said and ends nothing else."""

    def __init__(
        self, services: Sequence[Service], emit: Callable[[DurableEvent], object], clock: Clock
    ) -> None:
        self._services = tuple(services)
        self._emit = emit
        self._clock = clock
        self._starting: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        self._starting = [asyncio.create_task(self._start(service)) for service in self._services]

    def health(self) -> dict[str, Health]:
        return {service.name: service.health() for service in self._services}

    async def close(self) -> None:
        """Stops them all. Safe to call twice."""
        await asyncio.gather(*map(self._stop, self._services, self._starting or [None] * len(self._services)))

    async def _start(self, service: Service) -> None:
        try:
            await service.start()
        except (Exception, SystemExit) as fault:  # noqa: BLE001  the boundary: the session goes on
            problem = fault.message if isinstance(fault, BridleError) else str(fault) or type(fault).__name__
            message = sentence("ServiceFailed", {"service": service.name, "problem": problem})
            self._emit(Degraded(what=service.name, reason="ServiceFailed", message=message))

    async def _stop(self, service: Service, starting: asyncio.Task[None] | None) -> None:
        async def stop() -> None:
            if starting is not None:
                starting.cancel()
                await asyncio.wait((starting,))
            await service.stop()

        await finish(service.name, stop, self._clock, self._emit)


class UnusableService:
    """Stands for a service that could not be made: it says why when it is to start."""

    def __init__(self, name: str, fault: BaseException) -> None:
        self.name = name
        self._problem = f"{type(fault).__name__}: {fault}"

    async def start(self) -> None:
        raise RuntimeError(self._problem)

    async def stop(self) -> None:
        """Nothing of it runs."""

    def health(self) -> Health:
        return Health(state="down", problem=self._problem)


class RunEnd(NamedTuple):
    """Why a run ended, as the end of a sentence. `hopeless`: another run would end the same way. `held`: a user has to
    do something first."""

    problem: str = ""
    hopeless: bool = False
    held: bool = False


class Supervisor:
    """Keeps one thing running while it is needed: starts it, restarts it with growing waits, gives it up after repeated
    failures, and stops it when it was not used for `idle_s`.

    `run` is one run from its start to its end. It calls `is_up` when the thing can be used, and returns soon after
    `leave` is set; what it raises is its problem. `changed` is called after every change of `phase` and must not wait.
    """

    def __init__(
        self,
        run: Callable[[], Awaitable[RunEnd]],
        *,
        clock: Clock,
        changed: Callable[[], None],
        idle_s: float = math.inf,
    ) -> None:
        self.phase: ServicePhase = "waiting"
        self.problem = ""
        self.failures = 0
        """The failures in a row."""
        self.ended = 0
        """The number of all runs that ended by themselves."""
        self.wait_s = 0.0
        """While it is down: the wait until the next start."""
        self.leave = asyncio.Event()
        self.hurry = asyncio.Event()
        """Set when the whole program ends: it is not started any more."""
        self._run = run
        self._clock = clock
        self._changed = changed
        self._idle_s = idle_s
        self._task: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self._begins_again = False
        self._up_s: float | None = None
        self._given_up_s = 0.0
        self._uses = 0
        self._used_s = 0.0

    def begin(self) -> None:
        """Start it, unless it runs, was given up not long ago, or the program ends. Does not wait."""
        if self.hurry.is_set():
            return
        if self._task is not None and not self._task.done():
            if self.leave.is_set() and not self._begins_again:
                self._begins_again = True
                self._task.add_done_callback(lambda _task: self.begin())
            return
        self._begins_again = False
        if self.phase == "given up" and self._clock.monotonic() < self._given_up_s + COOLDOWN_S:
            return
        self.failures = 0
        self.leave.clear()
        if self.phase != "waiting":
            self._set("waiting")
        self._task = asyncio.create_task(self._keep_running())

    async def start(self) -> None:
        """Start it. Return once it is up, or is not going to be."""
        self.begin()
        await self.wait_until(lambda: self.phase == "up")

    async def restart(self) -> None:
        """End the run and start another one, even if it was given up."""
        await self.stop()
        self._set("waiting")
        self.begin()

    async def stop(self) -> None:
        """End the run. Safe to call twice; `begin` starts it again."""
        self.leave.set()
        task = self._task
        if task is not None:
            await asyncio.wait((task,))
        if self._task is task and self.phase not in ("given up", "held", "stopped"):
            self._set("stopped")

    async def close(self) -> None:
        """End the run soon and for good: the whole program ends."""
        self.hurry.set()
        await self.stop()

    async def wait_until(self, is_ready: Callable[[], bool], within_s: float = math.inf) -> bool:
        """Return whether it became ready, as soon as that is known or the time is over."""
        late = asyncio.ensure_future(self._clock.sleep(within_s)) if within_s < math.inf else None
        try:
            while not is_ready():
                if self.phase in ("given up", "held", "stopped") or (late is not None and late.done()):
                    return False
                self._moved.clear()
                moved = asyncio.ensure_future(self._moved.wait())
                try:
                    waits = (moved,) if late is None else (moved, late)
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    moved.cancel()
            return True
        finally:
            if late is not None:
                late.cancel()

    def health(self) -> Health:
        match self.phase:
            case "connecting" | "waiting":
                return Health(state="starting")
            case "held":
                return Health(state="given up", problem=self.problem)
            case _:
                return Health(state=self.phase, problem=self.problem)

    # For runs and users of it

    def is_up(self) -> None:
        """Note that the run can be used from here on."""
        self._up_s = self._used_s = self._clock.monotonic()
        self._set("up")

    def started_use(self) -> None:
        self._uses += 1

    def ended_use(self) -> None:
        self._uses -= 1
        self.touch()

    def touch(self) -> None:
        self._used_s = self._clock.monotonic()

    # Runs

    async def _keep_running(self) -> None:
        restarts: deque[float] = deque()
        while not self.leave.is_set():
            self._up_s = None
            self._set("connecting", self.problem)
            end = await self._run_once()
            if end is None:
                if not self.leave.is_set():
                    self._set("waiting")
                return
            if end.held:
                self._set("held", end.problem)
                return
            now = self._clock.monotonic()
            self.ended += 1
            ran_well = self._up_s is not None and now - self._up_s >= WITHIN_S
            self.failures = 1 if ran_well else self.failures + 1
            if end.hopeless or self.failures >= MOST_FAILURES:
                self._given_up_s = now
                self._set("given up", end.problem)
                return
            while restarts and restarts[0] <= now - WITHIN_S:
                restarts.popleft()
            self.wait_s = WAITS_S[min(self.failures, len(WAITS_S)) - 1]
            if len(restarts) >= MOST_RESTARTS:
                self.wait_s = max(self.wait_s, restarts[0] + WITHIN_S - now)
            self._set("down", end.problem)
            await _first_of(self._clock.sleep(self.wait_s), self.leave.wait())
            restarts.append(self._clock.monotonic())

    async def _run_once(self) -> RunEnd | None:
        """Return why a run ended; None if it was told to."""
        running = asyncio.ensure_future(self._run())
        idle = asyncio.ensure_future(self._until_idle())
        try:
            await asyncio.wait((running, idle), return_when=asyncio.FIRST_COMPLETED)
            is_idle = idle.done() and not running.done()
            if is_idle:
                self.leave.set()
            try:
                end = await running
            except Exception as fault:  # noqa: BLE001  the boundary: the run is over, whatever it was
                end = RunEnd(str(fault) or type(fault).__name__)
            if is_idle:
                self.leave.clear()
            return None if is_idle or self.leave.is_set() else end
        finally:
            idle.cancel()

    async def _until_idle(self) -> None:
        while True:
            left_s = self._used_s + self._idle_s - self._clock.monotonic()
            if self.phase == "up" and left_s <= 0 and not self._uses:
                return
            if left_s == math.inf:
                await asyncio.Event().wait()
            await self._clock.sleep(max(left_s, 1.0))

    def _set(self, phase: ServicePhase, problem: str = "") -> None:
        self.phase, self.problem = phase, problem
        self._moved.set()
        self._changed()


class Server:
    """A service that is a program, such as a language server: spoken to over its standard input and output, sandboxed
    like commands, supervised.

    `connect` makes a new process ready to be used. `lost` is called when there is none. Users are told when it is down,
    given up, and back.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        door: SessionDoor,
        connect: Callable[[DuplexProcess], Awaitable[None]],
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._argv = argv
        self._door = door
        self._connect = connect
        self._lost = lost
        self._last_words = bytearray()
        self._was_down = False
        self._supervisor = Supervisor(self._run, clock=door.clock, changed=self._phase_changed)
        self.start = self._supervisor.start
        self.stop = self._supervisor.stop
        self.health = self._supervisor.health

    async def _run(self) -> RunEnd:
        process = await self._open()
        ending = asyncio.ensure_future(process.wait())
        connecting = asyncio.ensure_future(self._connect(process))
        leave = asyncio.ensure_future(self._supervisor.leave.wait())
        try:
            await asyncio.wait((ending, connecting, leave), return_when=asyncio.FIRST_COMPLETED)
            if connecting.done() and not ending.done():
                if (fault := connecting.exception()) is not None:
                    await asyncio.wait((ending,), timeout=LAST_MOMENT_S)
                    how = _how_it_ended(ending) if ending.done() else str(fault) or type(fault).__name__
                    return RunEnd(how)
                self._supervisor.is_up()
            await asyncio.wait((ending, leave), return_when=asyncio.FIRST_COMPLETED)
            return RunEnd(_how_it_ended(ending) if ending.done() else "")
        finally:
            connecting.cancel()
            await process.stop()
            ending.cancel()
            leave.cancel()
            await asyncio.gather(connecting, ending, leave, return_exceptions=True)

    async def _open(self) -> DuplexProcess:
        self._last_words.clear()
        door = self._door

        async def start(inlet: InputPipe, outlet: OutputPipe) -> Process:
            process = await door.spawn(
                self._argv,
                cwd=door.cwd,
                env=door.env,
                policy=msgspec.structs.replace(door.policy, resident=True),
                call_id=self.name,
                on_output=outlet,
                on_error=self._hear,
                stdin=inlet,
            )
            process.follow_put_aside(self._tell_put_aside)
            return process

        return await open_duplex(start)

    def _tell_put_aside(self, notice: Notice) -> None:
        self._door.emit(notice)

    def _hear(self, chunk: bytes) -> None:
        self._last_words += chunk
        del self._last_words[:-LAST_WORDS_BYTES]

    def _phase_changed(self) -> None:
        now = self._supervisor
        if now.phase in ("down", "given up"):
            self._lost()
            reason = "ServiceDown" if now.phase == "down" else "ServiceGivenUp"
            data = {"service": self.name, "problem": f"{now.problem}{self._said()}"}
            data |= {"wait_s": f"{now.wait_s:.1f}", "times": str(now.failures)}
            self._was_down = True
            self._door.emit(Degraded(what=self.name, reason=reason, message=sentence(reason, data)))
        elif now.phase == "up" and self._was_down:
            self._was_down = False
            data = {"service": self.name}
            self._door.emit(Notice(reason="ServiceBack", message=sentence("ServiceBack", data), data=data))

    def _said(self) -> str:
        lines = self._last_words.decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {visible(last[:_SHOWN_CHARACTERS], newlines=False)}" if last else ""


async def _first_of(*waiting: Awaitable[object]) -> None:
    """Return when the first of these is done; the others are cancelled."""
    futures = [asyncio.ensure_future(one) for one in waiting]
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in futures:
            future.cancel()


def _how_it_ended(ending: asyncio.Future[int]) -> str:
    if (fault := ending.exception()) is not None:
        return str(fault) or type(fault).__name__
    code = ending.result()
    return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"
