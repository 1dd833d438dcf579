"""An engine as `bridle serve` starts it, for rows about its clients: where it is, what it takes, how it ends."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Literal

from measure import BRIDLE, plain_env, scratch

from bridle.app.engine import Engine
from bridle.base.clock import SystemClock
from bridle.base.net.engine_place import EnginePlace
from bridle.base.net.websocket_client import WebSocketClient, open_unix_websocket
from bridle.clients.remote import RemoteConnection, connect_remote, place_opener
from bridle.config.folders import folders
from bridle.conformance.exchanges import OpenStream, exchange_at
from bridle.protocol.commands import CreateSession, SendInput
from bridle.protocol.events import TurnEnded
from bridle.protocol.messages import TextBlock
from bridle.protocol.tokens import WATCH

END_S = 30


class Served:
    """A running engine. Sizes are in MB, times in seconds of CPU."""

    def __init__(self, process: subprocess.Popen[str], env: Mapping[str, str], cwd: str) -> None:
        self.process = process
        self.env = dict(env)
        self.cwd = cwd
        self.place = EnginePlace(folders(env).runtime)

    def size_mb(self) -> float:
        """What it holds now."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            (line,) = [line for line in status if line.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024

    def cpu_s(self) -> float:
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def script(self, name: str, text: str) -> str:
        """The model that plays this."""
        with open(os.path.join(self.cwd, name), "w", encoding="utf-8") as file:
            file.write(text)
        return f"demo:{name}"

    @asynccontextmanager
    async def client(self, name: str = "bench") -> AsyncGenerator[RemoteConnection]:
        opened = await connect_remote(
            place_opener(self.place), address=self.place.socket, name=name, answers=False
        )
        try:
            yield opened
        finally:
            await opened.close()

    async def websocket(self, token: str, session: str) -> WebSocketClient:
        """One that was greeted and follows a session."""
        address = f"/v1/ws?session={session}"
        opened = await open_unix_websocket(self.place.socket, address, {"X-Bridle-Token": token})
        await opened.send(b'{"frame":"handshake","body":{"protocol_version":"0.2.0","answers":false}}')
        await opened.receive()
        return opened

    async def stream(self, token: str, session: str) -> OpenStream:
        """The events of a session as server-sent events."""
        exchange, headers = exchange_at(f"unix://{self.place.socket}"), {"X-Bridle-Token": token}
        await exchange.request("GET", "/v1/handshake", headers)
        opened = await exchange.stream(f"/v1/sessions/{session}/events", headers)
        assert opened.head.status == 200, opened.head
        return opened

    def tokens(self, session: str, count: int) -> list[str]:
        """Tokens of so many people who may look at a session."""
        minting = Engine(where=folders(self.env), env=self.env, clock=SystemClock()).access.tokens
        new = functools.partial(
            minting.new_claims, identity_class="human", sessions=(session,), commands=WATCH
        )
        return [minting.issue(new(name=f"person {number}")) for number in range(count)]

    async def session(self, client: RemoteConnection, model: str) -> str:
        made = await client.send(CreateSession(cwd=self.cwd, model=model, mode="yolo"))
        return made.session

    def end(self) -> float:
        """Ends it as a service manager does; how long that took."""
        begun = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(END_S)
        assert code == 0, f"it ended with {code}"
        return time.perf_counter() - begun


def said(session: str, words: str = "go", mode: Literal["reject", "queue"] = "reject") -> SendInput:
    return SendInput(session=session, content=(TextBlock(text=words),), mode=mode)


async def turn(client: RemoteConnection, session: str, since: int = 0) -> int:
    """One input to the end of its turn, which ends well; the number of its last event."""
    await client.send(said(session))
    async for envelope in client.events(session, since=since):
        if isinstance(envelope.event, TurnEnded):
            assert envelope.event.stop == "end_turn", envelope.event
            assert envelope.id is not None
            return envelope.id
    raise AssertionError("the session ended before its turn did")


@contextmanager
def served(settings: str = "") -> Generator[Served]:
    """An engine in a home of its own, from when it answers. Whatever happens, it is gone afterwards."""
    with scratch() as home, scratch() as cwd:
        env = plain_env(home)
        where = folders(env)
        os.makedirs(where.config)
        with open(os.path.join(where.config, "config.toml"), "w", encoding="utf-8") as file:
            file.write(settings)
        process = subprocess.Popen(
            [BRIDLE, "serve"],
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if "End: Ctrl-C" in line:
                    break
            else:
                raise AssertionError("the engine did not start")
            yield Served(process, env, cwd)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=END_S)
