"""A client in another process: the same contract over a socket, and back where it was after a broken connection."""

import asyncio
import contextlib
import gc
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridle.base.net.engine_place import connected_socket
from bridle.base.net.websocket_client import SocketClosed, open_unix_websocket
from bridle.clients.blocking import BlockingConnection
from bridle.clients.engine_address import engine_address, unix_address
from bridle.clients.remote import RemoteConnection, connect_remote, engine_opener, place_opener
from bridle.conformance.fake_models import scripted
from bridle.protocol import commands as c
from bridle.protocol import queries as q
from bridle.protocol.codec import encode_envelope
from bridle.protocol.errors import CommandRefused, UsageError
from bridle.protocol.events import Envelope, Presence, SessionEnded, TurnEnded
from bridle.protocol.messages import TextBlock
from bridle.providers.script import say
from listening_kit import Listening, listening
from tables import table


class Relay:
    """A Unix socket that leads to another one, until it is cut."""

    def __init__(self, to: str, path: str) -> None:
        self._to = to
        self.path = path
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        self.is_open = True

    async def lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if not self.is_open:
            writer.close()
            return
        inner_reader, inner_writer = await asyncio.open_unix_connection(sock=connected_socket(self._to))
        self._writers += [writer, inner_writer]
        for source, sink in ((reader, inner_writer), (inner_reader, writer)):
            task = asyncio.ensure_future(self._copy(source, sink))
            self._tasks.add(task)

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()

    def cut(self) -> None:
        """Every connection is gone, without a word."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()


@asynccontextmanager
async def relay(to: str, folder: Path) -> AsyncIterator[Relay]:
    leads = Relay(to, str(folder / "r"))
    server = await asyncio.start_unix_server(leads.lead, leads.path)
    try:
        yield leads
    finally:
        server.close()
        leads.cut()
        await asyncio.gather(*leads._tasks, return_exceptions=True)


@asynccontextmanager
async def connected(
    here: Listening, *, through: str | None = None, **options: object
) -> AsyncIterator[RemoteConnection]:
    path = through or here.place.socket
    connection = await connect_remote(
        engine_opener(unix_address(path), here.place.token),
        address=path,
        name="test",
        answers=True,
        **options,
    )
    try:
        yield connection
    finally:
        await connection.close()


async def new_session(connection: RemoteConnection, here: Listening) -> str:
    return (await connection.send(c.CreateSession(cwd=here.work, model="demo:scripted"))).session


def said(session: str, words: str, **fields: str) -> c.SendInput:
    return c.SendInput(session=session, content=(TextBlock(text=words),), **fields)


async def until_ended(events: AsyncIterator[Envelope], seen: list[Envelope]) -> None:
    async for envelope in events:
        seen.append(envelope)
        if isinstance(envelope.event, TurnEnded):
            return


@pytest.mark.requirement("X20")
async def test_a_remote_client_sees_the_same_events_byte_for_byte(tmp_path: Path) -> None:
    async with listening(tmp_path, scripted(say("Hello."))) as here, connected(here) as connection:
        assert connection.client.startswith("cli_")
        assert "ws" in connection.hello.features
        session = await new_session(connection, here)
        accepted = await connection.send(said(session, "hi"))
        assert accepted.event is not None
        seen: list[Envelope] = []
        await until_ended(connection.events(session), seen)
        numbered = [one for one in seen if one.id is not None]
        stored = [one async for one in here.engine.sessions.events(session)][: len(numbered)]
        assert [encode_envelope(one) for one in numbered] == [encode_envelope(one) for one in stored]
        listed = await connection.ask(q.ListSessions())
        assert [one.id for one in listed.sessions] == [session]


async def test_a_refusal_has_the_reason_and_the_sentence_it_has_in_process(tmp_path: Path) -> None:
    async with listening(tmp_path) as here, connected(here) as connection:
        with pytest.raises(CommandRefused) as refused:
            await connection.send(c.AttachSession(session="nobody"))
        local = here.engine.connect(name="local", answers=False)
        with pytest.raises(CommandRefused) as same:
            await local.send(c.AttachSession(session="nobody"))
        assert (refused.value.reason, refused.value.message) == (same.value.reason, same.value.message)
        with pytest.raises(CommandRefused) as unattached:
            async for _ in connection.events("nobody"):
                pass
        assert unattached.value.reason == "SessionNotOpen"


async def test_after_a_broken_connection_it_goes_on_behind_the_last_event(tmp_path: Path) -> None:
    model = scripted(say("One."), say("Two."))
    async with (
        listening(tmp_path, model) as here,
        relay(here.place.socket, tmp_path) as between,
        connected(here, through=between.path) as connection,
    ):
        client = connection.client
        session = await new_session(connection, here)
        events = connection.events(session)
        seen: list[Envelope] = []
        await connection.send(said(session, "first"))
        await until_ended(events, seen)
        between.cut()
        await connection.send(said(session, "second", id="second"))
        await until_ended(events, seen)
        assert connection.client == client
        numbers = [one.id for one in seen if one.id is not None]
        assert numbers == list(range(1, len(numbers) + 1)), "nothing twice, nothing missing"
        assert between.connections >= 2


async def test_a_command_with_an_id_is_sent_again_and_carried_out_once(tmp_path: Path) -> None:
    model = scripted(say("One."))
    async with (
        listening(tmp_path, model) as here,
        relay(here.place.socket, tmp_path) as between,
        connected(here, through=between.path) as connection,
    ):
        session = await new_session(connection, here)
        between.is_open = False
        between.cut()
        sending = asyncio.ensure_future(connection.send(said(session, "hi", id="mine")))
        while between.connections < 2:  # it tries to come back
            await asyncio.sleep(0.01)
        between.is_open = True
        first = await sending
        again = await connection.send(said(session, "hi", id="mine"))
        assert again.event == first.event


@pytest.mark.requirement("G22.9")
async def test_a_token_that_holds_no_more_is_never_tried_again(tmp_path: Path) -> None:
    async with listening(tmp_path) as here, relay(here.place.socket, tmp_path) as between:
        made = here.engine.connect(name="local", answers=False)
        session = (await made.send(c.CreateSession(cwd=here.work, model="demo:scripted"))).session
        claims = here.at.tokens.new_claims(identity_class="human", sessions=(session,))
        token = here.at.tokens.issue(claims)
        connection = await connect_remote(
            engine_opener(unix_address(between.path), lambda: token),
            address="there",
            name="test",
            answers=False,
        )
        here.at.tokens.revoke(claims.jti)
        between.cut()
        with pytest.raises(CommandRefused) as over:
            await connection.ask(q.CheckHealth())
        assert over.value.reason == "TokenRevoked"
        assert between.connections == 2
        await connection.close()


async def test_where_nobody_listens_it_is_said_at_once(tmp_path: Path) -> None:
    nobody = engine_opener(unix_address(str(tmp_path / "nobody")), lambda: "x")
    with pytest.raises(CommandRefused) as refused:
        await connect_remote(nobody, address="nowhere", name="test", answers=False)
    assert refused.value.reason == "NoEngine"


async def test_an_engine_is_reached_by_its_address_too(tmp_path: Path) -> None:
    async with listening(tmp_path) as here:
        there = engine_opener(engine_address(here.at.url), here.place.token)
        connection = await connect_remote(there, address=here.at.url, name="test", answers=False)
        assert (await connection.ask(q.CheckHealth())).open_sessions == 0
        await connection.close()


@table("url", ["http://host.example:8421", "ftp://x", "https://", "http://127.0.0.1:1/path", "x"])
def test_what_is_no_address_or_would_send_the_token_in_the_clear_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        engine_address(url)


async def test_a_script_needs_no_loop(tmp_path: Path) -> None:
    async with listening(tmp_path, scripted(say("Hello."))) as here:

        def script() -> list[str]:
            with BlockingConnection(place_opener(here.place), address="here") as engine:
                session = engine.send(c.CreateSession(cwd=here.work, model="demo:scripted")).session
                engine.send(said(session, "hi"))
                kinds = []
                for envelope in engine.events(session):
                    kinds.append(envelope.kind)
                    if envelope.kind == "TurnEnded":
                        break
                assert engine.ask(q.CheckHealth()).open_sessions == 1
                return kinds

        assert (await asyncio.to_thread(script))[-1] == "TurnEnded"


async def test_a_frame_of_any_length_arrives_as_it_was_sent(tmp_path: Path) -> None:
    """Masking and lengths of our own client, against a server of another make."""
    from websockets.asyncio.server import ServerConnection, unix_serve

    from bridle.base.net.websocket_client import open_unix_websocket

    async def echo(there: ServerConnection) -> None:
        async for message in there:
            await there.send(message)

    path = str(tmp_path / "e")
    async with unix_serve(echo, path, max_size=None) as server:
        client = await open_unix_websocket(path, "/", {})
        for length in (0, 1, 125, 126, 65535, 65536, 300_001):
            text = ("aé" * length)[:length].encode()
            await client.send(text)
            assert await client.receive() == text
        server.close()
        with pytest.raises(SocketClosed) as closed:
            await client.receive()
        assert closed.value.code == 1001
        await client.close()


def test_a_long_path_is_reached_by_a_shorter_way(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 90) / ("y" * 90)
    deep.mkdir(parents=True)
    from bridle.base.net.engine_place import socket_address

    server = socket.socket(socket.AF_UNIX)
    with server, socket_address(str(deep / "s")) as address:
        server.bind(address)
        server.listen()
        connected_socket(str(deep / "s")).close()


async def test_an_engine_ends_cleanly_while_a_client_that_does_not_read_says_goodbye(tmp_path: Path) -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
    async with listening(tmp_path) as here, connected(here) as connection:
        session = await new_session(connection, here)
        leaving = await open_unix_websocket(here.place.socket, "/v1/ws", {"X-Bridle-Token": here.token})
        await leaving.send(b'{"frame":"handshake","body":{"protocol_version":"0.2.0"}}')
        their_id = json.loads(await leaving.receive())["client"]
        for number, frame in enumerate(
            ({"kind": "AttachSession", "session": session}, {"session": session, "since": 0})
        ):
            kind = "command" if "kind" in frame else "follow"
            await leaving.send(json.dumps({"frame": kind, "id": number, "body": frame}).encode())
        await leaving.receive()
        events = connection.events(session)
        await anext(events)
        for _ in range(6):
            await connection.send(said(session, "word " * 80_000))
        leaving._write(0x8, b"\x03\xe8")  # its goodbye, behind which it stays on the line
        async for envelope in events:
            if isinstance(envelope.event, Presence) and their_id not in {
                one.client for one in envelope.event.clients
            }:
                break
    gc.collect()
    assert faults == []
    leaving.cut()


async def test_everybody_reads_the_end_before_the_engine_is_gone(tmp_path: Path) -> None:
    """Each asks something at the very end too: a socket that is closed on that would swallow what came before."""

    async def follow(connection: RemoteConnection, session: str, begun: asyncio.Event) -> Envelope:
        envelope = None
        async for envelope in connection.events(session):
            begun.set()
            if isinstance(envelope.event, SessionEnded):
                with contextlib.suppress(CommandRefused):
                    await connection.ask(q.DescribeSession(session=session))
        assert envelope is not None
        return envelope

    async with contextlib.AsyncExitStack() as stack:
        async with listening(tmp_path) as here:
            first = await stack.enter_async_context(connected(here))
            session = await new_session(first, here)
            followers = [first]
            for _ in range(20):
                followers.append(await stack.enter_async_context(connected(here)))
                await followers[-1].send(c.AttachSession(session=session))
            begun = [asyncio.Event() for _ in followers]
            following = [
                asyncio.ensure_future(follow(one, session, started))
                for one, started in zip(followers, begun, strict=True)
            ]
            await asyncio.gather(*(started.wait() for started in begun))
        last = await asyncio.gather(*following)
    assert {one.kind for one in last} == {"SessionEnded"}


async def test_an_engine_that_is_lost_and_found_again_is_told_to_whoever_follows(tmp_path: Path) -> None:
    async with (
        listening(tmp_path, scripted(say("Hello."))) as here,
        relay(here.place.socket, tmp_path) as leads,
        connected(here, through=leads.path, give_up_s=20.0) as connection,
    ):
        told: list[float | None] = []
        connection.link.hear = told.append
        session = await new_session(connection, here)
        events = connection.events(session)
        await anext(events)
        leads.cut()
        await connection.send(said(session, "hi", id="once"))
        await until_ended(events, [])
        assert told == [20.0, None]


async def test_many_sessions_end_together_however_long_each_takes(tmp_path: Path) -> None:
    """Each waits a second for a hook at its end: one after the other would take longer than there is."""
    config = tmp_path / "home/config"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[[hooks]]\nevent = "SessionEnd"\ncommand = ["sleep", "1"]\n')

    async def last_kind(connection: RemoteConnection, session: str, begun: asyncio.Event) -> str:
        kind = ""
        async for envelope in connection.events(session):
            kind = envelope.kind
            begun.set()
        return kind

    async with contextlib.AsyncExitStack() as stack:
        async with listening(tmp_path) as here:
            connection = await stack.enter_async_context(connected(here))
            begun = [asyncio.Event() for _ in range(5)]
            following = [
                asyncio.ensure_future(last_kind(connection, await new_session(connection, here), started))
                for started in begun
            ]
            await asyncio.gather(*(started.wait() for started in begun))
        assert await asyncio.gather(*following) == ["SessionEnded"] * 5
