"""An engine with its MCP door on a port of this machine, for foreign clients: prints its address, ends with its stdin.

Whoever asks without a token gets one that is good for sessions of its own: foreign suites bring none. `fixture` serves
the tools that the conformance suite looks for instead, over the same mount and behind the same guard.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from typing import Any

from bridle.app.service.mcp_mount import MCP_PATH
from bridle.conformance.fake_models import scripted
from bridle.control.http_app import service_app
from bridle.control.http_server import ConnectionLimits, HttpServer, ListeningAt
from bridle.control.listening_socket import TcpAddress, open_tcp_socket
from bridle.control.request_guard import ConnectionOrigin, Listener, claims_of
from bridle.control.service import ServiceCounters
from bridle.providers.script import call, say
from outer_agents_kit import mcp_served, served_service

MODEL = (call("bash", command="echo hi > a.txt"), say("It is there."), say("Again."))


async def main(kind: str) -> None:
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(mcp_served(scripted(*MODEL), mode="yolo"))
        app: Any = served.app
        if kind == "fixture":
            from bridle.clients.mcp_server.http_mount import mcp_app
            from peers.conformance_tools import conformance_server

            mount = await stack.enter_async_context(
                mcp_app(conformance_server(), lambda scope: claims_of(scope).jti)
            )
            app = service_app(served_service(served.engine), {MCP_PATH: mount})
        token = served.mint(name="peer")
        opened, address = open_tcp_socket(TcpAddress("127.0.0.1", 0))
        hosts = frozenset({address.shown, f"localhost:{address.port}"})
        origins = frozenset(f"http://{host}" for host in hosts)
        server = HttpServer(
            with_token(app, token),
            ListeningAt(
                socket=opened,
                listener=Listener(name="tcp", hosts=hosts, origins=origins),
                look_at=lambda _socket, listener: ConnectionOrigin(listener=listener, peer="127.0.0.1"),
            ),
            ConnectionLimits(),
            ServiceCounters(),
            lambda _reason, _peer: None,
        )
        await server.start()
        print(f"http://{address.shown}{MCP_PATH} {served.session.folder}", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await server.stop()


def with_token(app: Any, token: str) -> Any:
    async def asked(scope: Any, receive: Any, send: Any) -> None:
        if all(name != b"authorization" for name, _ in scope.get("headers", ())):
            scope["headers"] = [*scope["headers"], (b"authorization", f"Bearer {token}".encode())]
        await app(scope, receive, send)

    return asked


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "door"))
