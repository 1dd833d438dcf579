"""Our own engine as the server under test: in a folder of its own, over every transport, with tokens it signs."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from bridle.app.engine import Engine
from bridle.app.service.serving import ListenOptions, listening_engine
from bridle.base.clock import SystemClock
from bridle.base.fs.files import write_atomic
from bridle.base.net.engine_place import EnginePlace
from bridle.clients.engine_address import engine_address
from bridle.config.folders import folders
from bridle.conformance.exchanges import SocketExchange
from bridle.conformance.token_desks import EngineDesk
from bridle.conformance.wire_doors import EngineDoor, RestWay, ServedDoor, SocketWay
from bridle.conformance.wire_scenarios import Door
from bridle.control.listening_socket import TcpAddress

IN_PROCESS: Final = "inproc"
OVER_SOCKETS: Final = ("rest-unix", "rest-tcp", "ws-unix", "ws-tcp")
TRANSPORTS: Final = (IN_PROCESS, *OVER_SOCKETS)
SETTINGS: Final = """\
[[permissions.rules]]
tool = "bash"
command = "touch conformance-two-keys*"
verdict = "ask"
keys = 2
"""


@asynccontextmanager
async def scratch_engine(
    folder: str, *, listening: bool
) -> AsyncGenerator[tuple[Engine, str, dict[str, str]]]:
    """An engine that has nothing but this folder: itself, the folder to work in, its environment."""
    work, person = os.path.join(folder, "work"), os.path.join(folder, "person")
    env = {"BRIDLE_HOME": os.path.join(folder, "home"), "HOME": person, "PATH": os.defpath}
    where = folders(env)
    for path in (work, person, where.config):
        os.makedirs(path, mode=0o700)
    write_atomic(os.path.join(where.config, "config.toml"), SETTINGS.encode())
    async with Engine(where=where, env=env, clock=SystemClock(), listening=listening) as engine:
        yield engine, work, env


@asynccontextmanager
async def scratch_doors(folder: str, transports: Sequence[str]) -> AsyncGenerator[dict[str, Door]]:
    """Doors to one engine of this process, by their transports. It listens where one of them needs that."""
    over_sockets = any(name in OVER_SOCKETS for name in transports)
    async with AsyncExitStack() as stack:
        engine, work, env = await stack.enter_async_context(scratch_engine(folder, listening=over_sockets))
        doors: dict[str, Door] = {IN_PROCESS: EngineDoor(engine, work)}
        if over_sockets:
            where = folders(env)
            options = ListenOptions(address=TcpAddress("127.0.0.1", 0))
            at = await stack.enter_async_context(
                listening_engine(engine, options, where=where, clock=SystemClock())
            )
            place = EnginePlace(where.runtime)
            for kind, url in (("unix", f"unix://{place.socket}"), ("tcp", at.url)):
                for transport, way in ways_to(url).items():
                    doors[f"{transport}-{kind}"] = ServedDoor(way, EngineDesk(at.tokens), cwd=work)
        yield {name: doors[name] for name in transports}


def ways_to(url: str, *, ca_file: str | None = None) -> dict[str, RestWay | SocketWay]:
    """Both ways to a server at an address."""
    address = engine_address(url, ca_file=ca_file)
    return {"rest": RestWay(SocketExchange(address), url), "ws": SocketWay(address.websocket, url)}
