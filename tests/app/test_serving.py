"""An engine on real sockets: who finds it, who is kept out, what is shed, and how it ends."""

import asyncio
import contextlib
import json
import os
import resource
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.app.service.serving import end_in_turn
from bridle.base.net.engine_place import EnginePlace, connected_socket
from bridle.base.process.peer_process import can_tell_descent, comes_from_a_call, peer_process
from bridle.conformance.fake_clock import FakeClock
from bridle.control.http_server import ConnectionLimits
from bridle.control.listening_socket import EngineSocket, open_engine_socket, tcp_address
from bridle.protocol.commands import CreateSession, EndSession
from bridle.protocol.errors import CommandRefused, StoreError, UsageError
from listening_kit import listening
from tables import table

linux = pytest.mark.skipif(not can_tell_descent(), reason="this system does not tell who started a process")


async def fetch(sock: socket.socket, request: str) -> tuple[int, bytes]:
    """One request over a socket: the status, and everything behind the head."""
    reader, writer = await asyncio.open_connection(sock=sock)
    writer.write(request.encode())
    await writer.drain()
    data = await reader.read()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, body


def get(path: str, token: str, *, host: str = "localhost") -> str:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\nX-Bridle-Token: {token}\r\nConnection: close\r\n\r\n"


def tcp(port: int) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port))
    opened.setblocking(False)
    return opened


@pytest.mark.requirement("G21.1")
@pytest.mark.requirement("G22.13")
async def test_the_socket_and_its_token_are_private_and_gone_with_the_engine(tmp_path: Path) -> None:
    async with listening(tmp_path) as here:
        assert stat.S_IMODE(os.stat(here.place.folder).st_mode) == 0o700
        for path in (here.place.socket, here.place.token_file, here.place.note_file):
            assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600, path
        status, body = await fetch(connected_socket(here.place.socket), get("/v1/handshake", here.token))
        assert status == 200
        assert {"rest", "ws"} <= set(json.loads(body)["features"])
        first = here.token
        status, _ = await fetch(connected_socket(here.place.socket), get("/v1/handshake", ""))
        assert status == 401
    assert os.listdir(here.place.folder) == []
    async with listening(tmp_path) as again:
        assert again.token != first
        status, _ = await fetch(connected_socket(again.place.socket), get("/v1/handshake", first))
        assert status == 401, "the token of an engine that is gone opens nothing"


async def test_a_long_path_to_the_socket_is_no_obstacle(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    async with listening(deep) as here:
        status, _ = await fetch(connected_socket(here.place.socket), get("/v1/handshake", here.token))
        assert status == 200


@pytest.mark.requirement("G41.1")
async def test_one_engine_listens_for_a_data_folder(tmp_path: Path) -> None:
    async with listening(tmp_path):
        with pytest.raises(CommandRefused) as refused:
            async with listening(tmp_path):
                pass
        assert refused.value.reason == "EngineRunning"
        assert refused.value.data["pid"] == os.getpid()


async def test_of_two_that_start_at_once_one_listens(tmp_path: Path) -> None:
    place, data = EnginePlace(str(tmp_path / "run")), str(tmp_path / "data")

    def start() -> object:
        try:
            return open_engine_socket(place, data=data, version="1")
        except CommandRefused as refusal:
            return refusal.reason

    both = await asyncio.gather(*(asyncio.to_thread(start) for _ in range(8)))
    (opened,) = [one for one in both if isinstance(one, EngineSocket)]
    assert [one for one in both if one is not opened] == ["EngineRunning"] * 7
    assert stat.S_ISSOCK(os.lstat(place.socket).st_mode)
    opened.close()


@pytest.mark.parametrize("in_the_way", ["run", "data"])
def test_a_file_where_a_folder_belongs_is_named_with_what_to_do(tmp_path: Path, in_the_way: str) -> None:
    (tmp_path / in_the_way).touch()
    with pytest.raises(CommandRefused) as refused:
        open_engine_socket(EnginePlace(str(tmp_path / "run")), data=str(tmp_path / "data"), version="1")
    assert refused.value.message.endswith(
        f"cannot be used: {tmp_path / in_the_way} is a file, and a folder belongs there. Move it away."
    )


async def test_what_a_killed_engine_left_is_taken_over(tmp_path: Path) -> None:
    async with listening(tmp_path) as here:
        folder = here.place.folder
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(os.path.join(folder, "engine.sock"))
    stale.close()
    Path(folder, "token").write_text("old")
    async with listening(tmp_path) as here:
        assert here.token != "old"
        status, _ = await fetch(connected_socket(here.place.socket), get("/v1/handshake", here.token))
        assert status == 200


@pytest.mark.requirement("G21.2")
async def test_loopback_answers_its_own_names_alone(tmp_path: Path) -> None:
    async with listening(tmp_path) as here:
        for host, expected in (
            (f"127.0.0.1:{here.port}", 200),
            (f"localhost:{here.port}", 200),
            ("localhost", 403),
            (f"rebound.example:{here.port}", 403),
        ):
            status, _ = await fetch(tcp(here.port), get("/v1/handshake", here.token, host=host))
            assert status == expected, host


@pytest.mark.requirement("G21.6")
@pytest.mark.parametrize("missing", ["token_file", "tls_cert", "tls_key"])
async def test_the_network_is_not_listened_to_without_tls_and_a_token(tmp_path: Path, missing: str) -> None:
    given: dict[str, Any] = dict.fromkeys(("token_file", "tls_cert", "tls_key"), "somewhere")
    with pytest.raises(UsageError, match="--"):
        async with listening(tmp_path, address=tcp_address("0.0.0.0:0"), **{**given, missing: None}):
            pass


@table("text", ["8421", "somewhere:8421", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", ":1"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="--listen takes an address"):
        tcp_address(text)


async def test_a_request_that_never_comes_is_shed(tmp_path: Path) -> None:
    """Slowloris: a head that does not end. The limit is short here; it is ten seconds otherwise."""
    limits = ConnectionLimits(head_s=0.2)
    async with listening(tmp_path, limits=limits) as here:
        reader, writer = await asyncio.open_connection(sock=tcp(here.port))
        writer.write(b"GET /v1/health HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert await reader.read() == b""
        writer.close()
        assert here.at.counters.refusals["TooSlow"] == 1


async def test_a_head_without_end_is_shed(tmp_path: Path) -> None:
    async with listening(tmp_path) as here:
        reader, writer = await asyncio.open_connection(sock=tcp(here.port))
        writer.write(b"GET /v1/health HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            for number in range(200):
                writer.write(f"X-{number}: {'a' * 1000}\r\n".encode())
                await writer.drain()
            assert await reader.read() == b""
        writer.close()
        assert here.at.counters.refusals["TooLarge"] == 1


@contextlib.contextmanager
def room_for_files(count: int) -> Iterator[None]:
    """So many may be open in this process at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(count, hard)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_many_half_open_connections_are_in_nobodys_way(tmp_path: Path) -> None:
    """Two thousand that say nothing, and one that has something to say meanwhile."""
    async with listening(tmp_path) as here:
        counters, host = here.at.counters, f"127.0.0.1:{here.port}"
        with room_for_files(4096), contextlib.ExitStack() as opened:
            for number in range(1, 2001):
                opened.enter_context(tcp(here.port))
                while counters.connections < number:
                    await asyncio.sleep(0)
                if number % 250 == 0:
                    status, _ = await fetch(
                        connected_socket(here.place.socket), get("/v1/handshake", here.token)
                    )
                    assert status == 200
            assert counters.open_connections <= 110  # those that were shed are just leaving
            assert counters.refusals["TooSlow"] >= 1_890
            assert here.audited()["TooSlow"] == counters.refusals["TooSlow"]
            status, _ = await fetch(tcp(here.port), get("/v1/handshake", here.token, host=host))
            assert status == 200


@pytest.mark.parametrize("method", ["POST", "OPTIONS"])
async def test_who_is_refused_holds_no_place_of_those_who_are_not(tmp_path: Path, method: str) -> None:
    async with listening(tmp_path, limits=ConnectionLimits(most_of_a_peer=3)) as here:
        host = f"127.0.0.1:{here.port}"
        head = f"{method} /v1/sessions HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100000\r\n\r\n{{"
        for _ in range(4):
            reader, writer = await asyncio.open_connection(sock=tcp(here.port))
            writer.write(head.encode())
            async with asyncio.timeout(10):
                assert await reader.read(), "it is told, and then that is all"
            writer.close()
        status, _ = await fetch(tcp(here.port), get("/v1/handshake", here.token, host=host))
        assert status == 200


async def test_the_frames_of_a_real_websocket_are_limited(tmp_path: Path) -> None:
    from websockets.asyncio.client import unix_connect
    from websockets.exceptions import ConnectionClosed

    async with listening(tmp_path) as here:
        client = await unix_connect(
            here.place.socket,
            "ws://localhost/v1/ws",
            additional_headers={"X-Bridle-Token": here.token},
            max_size=None,
        )
        await client.send(json.dumps({"frame": "handshake", "body": {"protocol_version": "0.2.0"}}))
        assert json.loads(await client.recv())["frame"] == "handshake"
        with contextlib.suppress(ConnectionClosed):
            await client.send("x" * 10_000_000)
        await client.wait_closed()
        assert client.close_code == 1009
        assert here.at.counters.refusals["TooLarge"] == 1
        assert here.audited() == {"TooLarge": 1}


async def test_the_end_of_the_engine_ends_sessions_and_every_stream_says_so(tmp_path: Path) -> None:
    async with listening(tmp_path) as here:
        reader, writer = await asyncio.open_connection(sock=connected_socket(here.place.socket))
        body = json.dumps({"cwd": here.work, "model": "demo:scripted"})
        writer.write(
            (
                get("/v1/handshake", here.token).replace("Connection: close", "X-Keep: 1")
                + f"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nX-Bridle-Token: {here.token}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            ).encode()
        )
        read = b""
        while b'"session"' not in read or not read.rstrip().endswith(b"}"):
            read += await reader.read(65536)
        session = json.loads(b"{" + read.rpartition(b"\r\n\r\n{")[2])["session"]
        writer.write(get(f"/v1/sessions/{session}/events", here.token).encode())
        while b"event: SessionCreated" not in read:
            read += await reader.read(65536)
        started = asyncio.get_running_loop().time()
    rest = await reader.read()
    writer.close()
    assert b"event: SessionEnded" in rest
    assert b"binary-shutdown" in rest
    assert asyncio.get_running_loop().time() - started < 5


async def test_an_engine_is_idle_once_nobody_was_there_for_long_enough(tmp_path: Path) -> None:
    clock = FakeClock()
    async with listening(tmp_path, clock=clock) as here:
        idle = asyncio.ensure_future(here.at.idle(600))
        connection = here.engine.connect(name="test", answers=False)
        session = (await connection.send(CreateSession(cwd=here.work, model="demo:scripted"))).session
        await clock.advance(2000)
        assert not idle.done(), "a session is open"
        await connection.send(EndSession(session=session))
        await clock.advance(590)
        await fetch(connected_socket(here.place.socket), get("/v1/handshake", here.token))
        await clock.advance(590)
        assert not idle.done(), "somebody asked something"
        await clock.advance(30)
        assert idle.done()


# Who is never a client


@linux
async def test_a_process_of_ours_is_told_from_one_of_somebody_else(tmp_path: Path) -> None:
    own = os.getpid()
    child = await asyncio.create_subprocess_exec("sleep", "30")
    try:
        assert comes_from_a_call(child.pid, {own})
        assert not comes_from_a_call(child.pid, {1 << 22})
        assert not comes_from_a_call(own, {own})
        assert comes_from_a_call(None, {own})
    finally:
        child.kill()
        await child.wait()
    assert comes_from_a_call(child.pid, set()), "what is gone cannot be told apart any more"


@linux
async def test_a_process_with_the_mark_of_a_call_is_none_of_ours_either(tmp_path: Path) -> None:
    marked = await asyncio.create_subprocess_exec(
        "sleep", "30", env={"PATH": os.defpath, "INSIDE_BRIDLE": "x.1"}
    )
    try:
        assert comes_from_a_call(marked.pid, set())
    finally:
        marked.kill()
        await marked.wait()


@linux
def test_a_socket_tells_who_is_at_its_other_end() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        peer = peer_process(ours)
    assert (peer.uid, peer.pid) == (os.geteuid(), os.getpid())


async def test_what_does_not_end_in_time_holds_up_nothing() -> None:
    """A session that does not end, and a stream that waits for that."""
    never, done = asyncio.Event(), list[str]()

    async def fails() -> None:
        done.append("failed")
        raise StoreError("StoreFailed")

    async def ends() -> None:
        done.append("ended")

    async def hangs() -> None:
        await never.wait()

    async with asyncio.timeout(20):
        await end_in_turn(hangs, hangs, within_s=0.01)
        with pytest.raises(StoreError):
            await end_in_turn(fails, ends, within_s=60)
    assert done == ["failed", "ended"]
