"""The way to a model is opened while the session is, where an input follows at once; else when something is asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bridle.app.engine import Engine
from bridle.base.clock import SystemClock
from bridle.config.folders import folders
from bridle.conformance.servers import ModelServer
from bridle.protocol.commands import CreateSession, SendInput
from bridle.protocol.events import TurnEnded
from bridle.protocol.messages import TextBlock
from bridle.providers.script import say

PATIENCE_S = 20


class _Watched(ModelServer):
    """Says when somebody has connected."""

    reached: asyncio.Event

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reached.set()
        await super()._accept(reader, writer)


def _wanted(server: ModelServer, cwd: Path, *, key: bool, input_follows: bool) -> CreateSession:
    needs = ('providers.here.key_env="HERE_KEY"', "providers.here.local=false")
    sets = [f'providers.here.base_url="{server.url}"', *(needs if key else ("providers.here.local=true",))]
    return CreateSession(
        cwd=str(cwd), model="here:some-model", config={"sets": sets}, input_follows=input_follows
    )


@pytest.fixture
def place_of_engine(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


def _engine(place: Path) -> Engine:
    env = {"BRIDLE_HOME": str(place / "home"), "HOME": str(place / "person")}
    return Engine(where=folders(env), env=env, clock=SystemClock())


async def test_a_connection_is_there_before_the_input_that_was_told_of(place_of_engine: Path) -> None:
    server = _Watched.playing(say("Hello."))
    assert isinstance(server, _Watched)
    server.reached = asyncio.Event()
    engine = _engine(place_of_engine)
    async with server, asyncio.timeout(PATIENCE_S):
        client = engine.connect(name="test", answers=False)
        made = await client.send(_wanted(server, place_of_engine / "work", key=False, input_follows=True))
        await server.reached.wait()
        assert server.requests == []
        sent = await client.send(SendInput(session=made.session, content=(TextBlock(text="hi"),)))
        async for envelope in client.events(made.session, since=sent.event or 0):
            if isinstance(envelope.event, TurnEnded):
                break
        assert (server.connections, len(server.chats)) == (1, 1)
        await engine.close()


@pytest.mark.parametrize(("key", "input_follows"), [(True, True), (False, False)])
async def test_nobody_is_reached_where_nothing_follows(
    place_of_engine: Path, key: bool, input_follows: bool
) -> None:
    engine = _engine(place_of_engine)
    async with ModelServer.playing(say("Hello.")) as server:
        client = engine.connect(name="test", answers=False)
        wanted = _wanted(server, place_of_engine / "work", key=key, input_follows=input_follows)
        await client.send(wanted)
        await engine.close()
    assert server.connections == 0
