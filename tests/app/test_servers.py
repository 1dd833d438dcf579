"""A server beside a session: a real program in the sandbox, talked with over JSON-RPC, kept running, gone with it."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bridle.base.net.jsonrpc import NewlineFrames, Peer, RpcClosed
from bridle.base.text.json_schema import JsonSchema
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.services import Health, Server
from bridle.engine.tools import Tool, ToolOrigin, ToolOutput, never_mutating
from bridle.protocol.events import Degraded, Notice, ToolResult
from bridle.providers.script import call, say
from bridle.sandbox.plain_spawn import UNCONFINED

MEGABYTES = 3 << 20
SOON_S = 30

ECHO = """
import json, os, subprocess, sys
marker = sys.argv[1]
subprocess.Popen(["sleep", marker])
for line in sys.stdin:
    asked = json.loads(line)
    method, params = asked["method"], asked.get("params")
    if method == "die":
        print("no more memory", file=sys.stderr, flush=True)
        os._exit(3)
    if method == "try_to_write":
        try:
            open(params, "w").close()
            result = "written"
        except OSError as error:
            result = error.strerror
    elif method == "secrets":
        result = [name for name in os.environ if "SECRET" in name]
    else:
        result = params
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def running(marker):
    """The processes whose command line has the marker, wherever they are confined."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if marker.encode() in words:
            found.append(int(name))
    return found


def gone(marker, within_s=5.0):
    end = time.monotonic() + within_s
    while running(marker):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def marker():
    """How long a sleep takes that no other process on this machine has."""
    found = f"600.{secrets.randbelow(10**9):09}"
    yield found
    for pid in running(found):
        os.kill(pid, signal.SIGKILL)


class EchoSource:
    """Offers the tool `echo` while its server is up."""

    name = "echo"
    origin = ToolOrigin(scope="user")

    def __init__(self, marker, script=ECHO):
        self._argv = (sys.executable, "-u", "-c", script, marker)
        self.peer = None
        self.door = None
        self._reading = None

    def service(self, door):
        self.door = door
        return Server(
            "echo",
            self._argv,
            door=door,
            connect=self._connect,
            lost=lambda: door.offer(()),
        )

    async def _connect(self, process):
        frames = NewlineFrames()
        self.peer = peer = Peer(lambda message: process.write(frames.framed(message)))

        async def read():
            while chunk := await process.read():
                for message in frames.feed(chunk):
                    peer.receive(message)
            await peer.close()

        self._reading = asyncio.create_task(read())
        assert await peer.call("echo", "are you there?") == "are you there?"
        self.door.offer([self._tool()])

    def _tool(self):
        async def run(args, _context):
            try:
                return ToolOutput(content=str(await self.peer.call(args["method"], args.get("params"))))
            except RpcClosed:
                return ToolOutput(outcome="error", content="the server is gone")

        schema = JsonSchema(
            {"type": "object", "properties": {"method": {"type": "string"}}, "required": ["method"]}
        )
        return Tool(
            name="echo",
            description="",
            input=schema,
            risk="read",
            run=run,
            mutating=never_mutating,
            timeout_s=lambda _args: SOON_S,
        )


def health(session):
    return session.engine.live.session(session.id).services.health()["echo"]


async def until_up(session):
    while health(session).state != "up":
        await asyncio.sleep(0.01)


async def test_a_server_is_confined_as_commands_are_and_talked_with_both_ways(marker):
    source = EchoSource(marker)
    async with asyncio.timeout(SOON_S), harness(scripted(say("x")), tools=[source]) as session:
        await until_up(session)
        big = "x" * MEGABYTES
        answers = await asyncio.gather(*(source.peer.call("echo", [number, big]) for number in range(4)))
        assert [(number, len(text)) for number, text in answers] == [(n, MEGABYTES) for n in range(4)]
        if session.engine.services.spawn.adapter not in {"", UNCONFINED}:
            outside = os.path.join(session.home, "escaped")
            assert await source.peer.call("try_to_write", outside) != "written"
            assert not os.path.exists(outside)
        inside = os.path.join(session.folder, "made.txt")
        assert await source.peer.call("try_to_write", inside) == "written"


async def test_a_tool_of_a_server_is_there_while_it_runs_and_back_when_that_is_started_again(marker):
    source = EchoSource(marker)
    model = scripted(
        call("echo", method="die"), say("It died."), call("echo", method="echo", params="hi"), say("Good.")
    )
    async with asyncio.timeout(SOON_S), harness(model, tools=[source], allow=("echo",)) as session:
        await until_up(session)
        first = source.peer
        (died,) = of_kind(await session.ask("break it"), ToolResult)
        assert (died.outcome, died.content) == ("error", "the server is gone")
        degraded = await session.until(Degraded)
        assert (degraded.what, degraded.reason) == ("echo", "ServiceDown")
        assert "it ended with exit code 3: no more memory" in degraded.message
        while source.peer is first or health(session) != Health(state="up"):
            await asyncio.sleep(0.01)
        (result,) = of_kind(await session.ask("again"), ToolResult)
        assert (result.outcome, result.content) == ("ok", "hi")
        stored = [envelope.event for envelope in await session.stored()]
    assert [notice.message for notice in of_kind(stored, Notice)] == ["echo is running again."]


async def test_a_server_that_keeps_dying_is_given_up_and_the_session_goes_on(marker):
    source = EchoSource(marker, script="import sys; sys.exit('no settings')")
    clock = FakeClock()
    async with asyncio.timeout(SOON_S), harness(scripted(say("x")), tools=[source], clock=clock) as session:
        while health(session).state != "given up":
            await clock.advance(1)
            await asyncio.sleep(0.01)
        assert (await session.ask("go"))[-1].stop == "end_turn"
        stored = [envelope.event for envelope in await session.stored()]
    *down, last = of_kind(stored, Degraded)
    assert {event.reason for event in down if event.what == "echo"} == {"ServiceDown"}
    assert last.reason == "ServiceGivenUp"
    assert last.message == (
        "echo is not running (it ended with exit code 1: no settings) and was not started again: "
        "it failed 5 times in a row."
    )


async def test_a_server_and_what_it_started_end_with_the_session(marker):
    async with asyncio.timeout(SOON_S):
        async with harness(scripted(say("x")), tools=[EchoSource(marker)]) as session:
            await until_up(session)
            assert running(marker)
        assert running(marker) == []


DRIVER = """
import asyncio, sys
sys.path[:0] = [sys.argv[1]]
from test_servers import EchoSource, until_up
from bridle.conformance.harness import harness
from bridle.conformance.fake_models import scripted
from bridle.providers.script import say

async def main():
    async with harness(scripted(say("x")), tools=[EchoSource(sys.argv[2])]) as session:
        await until_up(session)
        print("up", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_server_does_not_outlive_an_engine_that_is_killed(marker, tmp_path):
    engine = subprocess.Popen(
        [sys.executable, "-c", DRIVER, os.path.dirname(__file__), marker],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    try:
        assert engine.stdout.readline() == b"up\n"
        assert running(marker)
    finally:
        engine.kill()
        engine.wait()
        engine.stdout.close()
    assert gone(marker), "the guardian ends what the engine left"
