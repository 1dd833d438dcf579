"""What runs beside a session for as long as it does: started with it, stopped with it, and able to say how it is.

A source of tools is one: it offers tools by `SessionDoor.offer`, as often as they change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from bridle.base.clock import Clock
from bridle.engine.ports import Spawn, SpawnPolicy
from bridle.engine.tools import Tool, ToolOrigin
from bridle.protocol.errors import BridleError, sentence
from bridle.protocol.events import Degraded, DurableEvent


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How a service is. `problem` says why it is not up."""

    state: Literal["starting", "up", "down", "given up", "stopped"]
    problem: str = ""


class Service(Protocol):
    """Something a session owns."""

    @property
    def name(self) -> str: ...
    async def start(self) -> None:
        """Returns once it is up. May take long: the session does not wait. Raises what keeps it from running."""
        ...

    async def stop(self) -> None:
        """Nothing of it runs any more. Safe to call twice, and before it has started."""
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
    """Something that brings tools which may change while a session runs: a server, a plugin."""

    @property
    def name(self) -> str: ...
    @property
    def origin(self) -> ToolOrigin: ...
    def service(self, door: SessionDoor) -> Service:
        """What serves one session."""
        ...


class Services:
    """The services of one session. A fault in one is said and ends nothing else."""

    def __init__(self, services: Sequence[Service], emit: Callable[[DurableEvent], object]) -> None:
        self._services = tuple(services)
        self._emit = emit
        self._starting: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Starts them all; nobody waits for it."""
        self._starting = [asyncio.create_task(self._start(service)) for service in self._services]

    def health(self) -> dict[str, Health]:
        return {service.name: service.health() for service in self._services}

    async def close(self) -> None:
        """Stops them all. Safe to call twice."""
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        await asyncio.gather(*(service.stop() for service in self._services), return_exceptions=True)

    async def _start(self, service: Service) -> None:
        try:
            await service.start()
        except Exception as fault:  # noqa: BLE001  the boundary: a service that fails must not end the session
            problem = fault.message if isinstance(fault, BridleError) else str(fault) or type(fault).__name__
            message = sentence("ServiceFailed", {"service": service.name, "problem": problem})
            self._emit(Degraded(what=service.name, reason="ServiceFailed", message=message))
