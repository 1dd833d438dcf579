"""What runs beside a session for as long as it does: started with it, stopped with it, and able to say how it is.

A source of tools is one: it offers tools by `SessionDoor.offer`, as often as they change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from bridle.base.clock import Clock
from bridle.base.visible import visible
from bridle.engine.deadline import finish
from bridle.engine.ports import Process, Spawn, SpawnPolicy
from bridle.engine.tools import Tool, ToolOrigin
from bridle.protocol.errors import BridleError, sentence
from bridle.protocol.events import Degraded, DurableEvent, Notice

if TYPE_CHECKING:
    from bridle.base.duplex import DuplexProcess, InputPipe, OutputPipe
    from bridle.base.supervision import ProcessState

LAST_WORDS_BYTES = 4 * 1024
"""So much is kept of what a server wrote on its standard error."""
_SHOWN_CHARACTERS = 200


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
        """Starts them all; nobody waits for it."""
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
        """The others stop all the same."""

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


class Server:
    """The service that is a program of its own, such as a language server: talked with over its standard input and
    output, confined as commands are, started again when it ends.

    `connect` makes each new process ready to be used; `lost` is told that there is none. People are told when it is
    down, given up, and back.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        door: SessionDoor,
        connect: Callable[[DuplexProcess], Awaitable[None]],
        random: Callable[[], float],
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._argv = argv
        self._door = door
        self._lost = lost
        self._last_words = bytearray()
        self._was_down = False
        from bridle.base.supervision import Supervisor  # a service need not be a program

        self._supervisor = Supervisor(
            self._open, connect, clock=door.clock, random=random, changed=self._state_changed
        )
        self.start = self._supervisor.start
        self.stop = self._supervisor.stop

    def health(self) -> Health:
        now = self._supervisor.state
        return Health(state=now.state, problem=now.problem)

    async def _open(self) -> DuplexProcess:
        from bridle.base.duplex import open_duplex

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

    def _state_changed(self, now: ProcessState) -> None:
        match now.state:
            case "down" | "given up":
                self._lost()
                reason = "ServiceDown" if now.state == "down" else "ServiceGivenUp"
                data = {"service": self.name, "problem": f"{now.problem}{self._said()}"}
                data |= {"wait_s": f"{now.wait_s:.1f}", "times": str(now.ends)}
                self._was_down = True
                self._door.emit(Degraded(what=self.name, reason=reason, message=sentence(reason, data)))
            case "up" if self._was_down:
                self._was_down = False
                data = {"service": self.name}
                self._door.emit(
                    Notice(reason="ServiceBack", message=sentence("ServiceBack", data), data=data)
                )
            case "up" | "starting" | "stopped":
                pass

    def _said(self) -> str:
        """The last line it wrote on its standard error, to stand behind why it ended."""
        lines = self._last_words.decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {visible(last[:_SHOWN_CHARACTERS], newlines=False)}" if last else ""
