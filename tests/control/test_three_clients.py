"""Three clients of one session over their sockets: one stays, one is away for a while, one is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from bridle.clients.remote import RemoteConnection, connect_remote
from bridle.clients.replay import EventReplay
from bridle.conformance.asgi_client import AsgiWebSocket, open_asgi_websocket
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.protocol import commands as c
from bridle.protocol import events as e
from bridle.protocol.codec import encode_envelope
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import Envelope
from bridle.protocol.messages import TextBlock
from bridle.providers.script import call, say
from served_kit import Served, served


class Line:
    """The way of one client to the engine, which can break."""

    def __init__(self, kit: Served, name: str) -> None:
        self.is_up = asyncio.Event()
        self.is_up.set()
        self.token = kit.mint(name=name)
        self._app = kit.app
        self._opened: list[AsgiWebSocket] = []

    async def open(self) -> AsgiWebSocket:
        await self.is_up.wait()
        self._opened.append(await open_asgi_websocket(self._app, self.token))
        return self._opened[-1]

    def cut(self) -> None:
        """Gone without a word, and nobody answers until it `is_up` again."""
        self.is_up.clear()
        self._opened[-1].cut()


class Follower:
    """A client that follows the session, and what came to it."""

    def __init__(self, connection: RemoteConnection, session: str) -> None:
        self.connection = connection
        self.read: list[Envelope] = []
        self._session = session
        self._news = asyncio.Event()
        self._following = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        async for envelope in self.connection.events(self._session):
            if envelope.id is not None:
                self.read.append(envelope)
                self._news.set()

    async def hears(self, kind: type[e.AnyEvent], times: int = 1) -> Envelope:
        """The event of a kind that came so often."""
        while len(found := [one for one in self.read if isinstance(one.event, kind)]) < times:
            self._news.clear()
            async with asyncio.timeout(20):
                await self._news.wait()
        return found[times - 1]

    def leave(self) -> None:
        self._following.cancel()


@asynccontextmanager
async def following(kit: Served, line: Line, name: str) -> AsyncIterator[Follower]:
    connection = await connect_remote(line.open, address=name, name=name, answers=True)
    await connection.send(c.AttachSession(session=kit.session.id))
    follower = Follower(connection, kit.session.id)
    try:
        yield follower
    finally:
        follower.leave()
        await connection.close()


def state(follower: Follower) -> tuple[bytes, str]:
    """All a client has of the session: what came, and what its person sees of it."""
    replay = EventReplay()
    shown = "".join(replay.of(envelope)[0] for envelope in follower.read)
    return b"\n".join(encode_envelope(envelope) for envelope in follower.read), shown


def said(session: str, words: str) -> c.SendInput:
    return c.SendInput(session=session, content=(TextBlock(text=words),), mode="queue")


@pytest.mark.requirement("G26.1", "G20.6")
async def test_one_stays_one_is_away_for_half_a_minute_one_is_killed_and_all_end_up_the_same() -> None:
    clock = FakeClock()
    model = scripted(call("bash", command="touch made"), say("Made."), say("And that is all."))
    async with served(model, clock=clock) as kit:
        ana, ben, cem = Line(kit, "Ana"), Line(kit, "Ben"), Line(kit, "Cem")
        session = kit.session.id
        async with following(kit, ana, "Ana") as stays, following(kit, ben, "Ben") as away:
            killed = await connect_remote(cem.open, address="Cem", name="Cem", answers=True)
            await killed.send(c.AttachSession(session=session))
            first = Follower(killed, session)
            await stays.connection.send(said(session, "go"))
            questions = [await one.hears(e.PermissionRequested) for one in (stays, away, first)]
            assert len({encode_envelope(one) for one in questions}) == 1
            asked = questions[0].event
            assert isinstance(asked, e.PermissionRequested)

            ben.cut()
            cem.cut()
            first.leave()
            before = len(away.read)
            yes = c.AnswerPermission(
                session=session, call_id=asked.call_id, answer="once", digest=asked.digest
            )
            await stays.connection.send(yes)
            await stays.hears(e.TurnEnded)
            await clock.advance(30)
            assert len(away.read) == before
            ben.is_up.set()
            with pytest.raises(CommandRefused) as late:
                await away.connection.send(structs.replace(yes, answer="deny"))
            assert late.value.message == "Ana has answered this already. Nothing changed."

            cem.is_up.set()
            async with following(kit, cem, "Cem") as again:
                await away.connection.send(said(session, "anything else?"))
                for one in (stays, away, again):
                    await one.hears(e.TurnEnded, times=2)
                states = [state(one) for one in (stays, away, again)]
                assert states[0] == states[1] == states[2]
                numbers = [one.id for one in stays.read]
                assert numbers == list(range(1, len(numbers) + 1))
                decided = [one.event for one in stays.read if isinstance(one.event, e.PermissionDecided)]
                assert [(one.verdict, one.answered_name) for one in decided] == [("allow", "Ana")]
                assert "And that is all." in states[0][1]
            await killed.close()
