"""`Connection` to an engine elsewhere: over its Unix socket, or by URL. One WebSocket, and the same contract.

A connection that breaks is made again, and everything goes on behind the last event that came: the same client, the
same sessions, nothing twice. A command that was under way then is sent again if it has an id, else it is told as
`ConnectionLost`. What will not get better by trying, a token that holds no more for one, is never tried again; an
engine that ended in order has ended its sessions too, and who was in one waits only a moment for another engine.
`link` tells of all this.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import msgspec

from bridle.base.net.backoff import Backoff
from bridle.base.net.engine_place import EnginePlace
from bridle.base.net.websocket_client import SocketClosed, TextSocket, UpgradeRefused, WebSocketClient
from bridle.clients.engine_address import EngineAddress, EngineLink, unix_address
from bridle.protocol.codec import decode_envelope, encode_command
from bridle.protocol.commands import (
    Accepted,
    AnyCommand,
    AttachSession,
    CreateSession,
    DetachSession,
    EndSession,
)
from bridle.protocol.errors import SENTENCES, CommandRefused
from bridle.protocol.events import Envelope, StreamGap
from bridle.protocol.handshake import PROTOCOL_VERSION, Handshake
from bridle.protocol.queries import A, AnyQueryAnswer, Query

Open = Callable[[], Awaitable[TextSocket]]
"""Makes a connection, each time it is called. Raises OSError, `UpgradeRefused`."""

GIVE_UP_S = 30.0
ENDED_S = 1.0
"""So long somebody whose sessions ended with their engine waits for another to take its place."""
FIRST_WAIT_MS, LONGEST_WAIT_MS = 100, 5_000
ANSWER_S = 10.0
MOST_BYTES = 1024 * 1024
"""What the other side takes in one frame."""
_FATAL = frozenset({4001, 4004, 4028, 1002, 1003, 1007, 1008, 1009})
"""Codes of a closed socket that say that it would be closed again."""
_ENDED = frozenset({1001, 1012})
"""Codes that an engine closes its sockets with at its own end."""
_PASSES = frozenset({408, 429, 500, 502, 503})
"""Answers to a new connection that may be others soon."""


class _InFrame(msgspec.Struct, frozen=True, kw_only=True):
    frame: str
    id: int | str | None = None
    body: msgspec.Raw = msgspec.Raw(b"{}")
    client: str = ""


class _Problem(msgspec.Struct, frozen=True, kw_only=True):
    reason: str
    message: str = ""
    data: dict[str, Any] = {}


class _Pending(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent and waits for its answer. `again`: it may be sent a second time."""

    frame: bytes
    answer: asyncio.Future[_InFrame]
    again: bool


class _Follow(msgspec.Struct, kw_only=True):
    """A stream of events that somebody reads, and the last one that came."""

    session: str
    last_id: int
    came: asyncio.Queue[Envelope | Exception | None]


def problem_to_raise(raw: bytes) -> CommandRefused:
    """The refusal the other side told, with its own words where this version has none for it."""
    problem = msgspec.json.decode(raw, type=_Problem)
    data = problem.data if problem.reason in SENTENCES else {**problem.data, "message": problem.message}
    return CommandRefused(problem.reason, **data)


def engine_opener(address: EngineAddress, token: Callable[[], str]) -> Open:
    """To the engine there. The token is read each time: an engine that was started again has another."""

    async def opened() -> WebSocketClient:
        return await address.websocket(token())

    return opened


def place_opener(place: EnginePlace) -> Open:
    """To the engine of this person, with the token it left for them."""
    return engine_opener(unix_address(place.socket), place.token)


def no_engine(address: str, problem: Exception) -> CommandRefused:
    number = getattr(problem, "errno", None)  # asyncio's own words name a call of Python
    if tls := getattr(problem, "reason", None):  # its number is one of OpenSSL's
        why = f"it does not answer with TLS: {str(tls).replace('_', ' ').lower()}"
    else:
        why = os.strerror(number) if number and number > 0 else str(problem) or type(problem).__name__
    return CommandRefused("NoEngine", address=address, problem=why)


def keep_attached(attached: set[str], command: AnyCommand, accepted: Accepted) -> None:
    """Brings the sessions that a client is attached to in step with a command that was accepted."""
    match command:
        case CreateSession() | AttachSession():
            attached.add(accepted.session)
        case DetachSession(session=session) | EndSession(session=session):
            attached.discard(session)
        case _:
            pass


class RemoteConnection:
    """A client of an engine in another process. Made by `connect_remote`."""

    def __init__(
        self, open_socket: Open, *, address: str, name: str, answers: bool, as_agent: bool, give_up_s: float
    ) -> None:
        self._open_socket = open_socket
        self.link = EngineLink()
        self._address = address
        self._greeting: dict[str, Any] = {
            "protocol_version": PROTOCOL_VERSION,
            "name": name,
            "answers": answers,
            **({"as_agent": True} if as_agent else {}),
        }
        self._give_up_s = give_up_s
        self._numbers = itertools.count(1)
        self._socket: TextSocket | None = None
        self._client = ""
        self._hello = Handshake()
        self._pending: dict[int, _Pending] = {}
        self._follows: dict[int, _Follow] = {}
        self._attached: set[str] = set()
        self._was_attached = False
        self._reading: asyncio.Task[None] | None = None
        self._up = asyncio.Event()
        self._over: CommandRefused | None = None

    @property
    def client(self) -> str:
        return self._client

    @property
    def hello(self) -> Handshake:
        return self._hello

    @property
    def is_up(self) -> bool:
        """Whether the engine can be reached, as far as is known."""
        return self._up.is_set() and self._over is None

    async def open(self) -> None:
        """Connects, once. Raises `CommandRefused`: `NoEngine` where nobody answers."""
        try:
            await self._connect()
        except (OSError, SocketClosed, TimeoutError) as problem:
            raise no_engine(self._address, problem) from None
        self._reading = asyncio.ensure_future(self._read())

    async def send(self, command: AnyCommand) -> Accepted:
        body = encode_command(command)
        answer = await self._ask("command", body, again=bool(command.id))
        accepted = msgspec.json.decode(answer.body, type=Accepted)
        keep_attached(self._attached, command, accepted)
        self._was_attached = self._was_attached or bool(self._attached)
        return accepted

    async def ask(self, query: Query[A]) -> A:
        answer = await self._ask("query", msgspec.json.encode(query), again=True)
        return cast("A", msgspec.json.decode(answer.body, type=AnyQueryAnswer))

    async def events(self, session: str, *, since: int = 0) -> AsyncIterator[Envelope]:
        number = next(self._numbers)
        follow = self._follows[number] = _Follow(session=session, last_id=since, came=asyncio.Queue())
        try:
            await self._send_frame(_follow_frame(number, follow))
            while True:
                came = await follow.came.get()
                if came is None:
                    return
                if isinstance(came, Exception):
                    raise came
                yield came
        finally:
            if self._follows.pop(number, None) is not None and self._socket is not None:
                with contextlib.suppress(SocketClosed, CommandRefused):
                    await self._socket.send(msgspec.json.encode({"frame": "unfollow", "id": number}))

    async def close(self) -> None:
        self._finish(CommandRefused("ConnectionLost", address=self._address))
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading
            self._reading = None
        if self._socket is not None:
            await self._socket.close()
            self._socket = None

    # Sending

    async def _ask(self, frame: str, body: bytes, *, again: bool) -> _InFrame:
        number = next(self._numbers)
        text = b'{"frame":"%s","id":%d,"body":%s}' % (frame.encode(), number, body)
        if len(text) > MOST_BYTES:
            raise CommandRefused("TooLarge", what="The command", limit=MOST_BYTES)
        answer: asyncio.Future[_InFrame] = asyncio.get_running_loop().create_future()
        await self._is_up()
        self._pending[number] = _Pending(frame=text, answer=answer, again=again)
        try:
            await self._send_frame(text)
            return await answer
        finally:
            self._pending.pop(number, None)

    async def _send_frame(self, text: bytes) -> None:
        """Sends what is on record as pending or followed: where the connection breaks now, it is sent by the next."""
        await self._is_up()
        assert self._socket is not None
        with contextlib.suppress(SocketClosed):
            await self._socket.send(text)

    async def _is_up(self) -> None:
        await self._up.wait()
        if self._over is not None:
            raise self._over

    # Reading

    async def _read(self) -> None:
        try:
            while True:
                try:
                    while True:
                        assert self._socket is not None
                        self._take(msgspec.json.decode(await self._socket.receive(), type=_InFrame))
                except SocketClosed as closed:
                    self._lost(closed)
                    await self._come_back(closed)
        except CommandRefused as over:
            self._finish(over)

    def _take(self, frame: _InFrame) -> None:
        follow = self._follows.get(frame.id) if isinstance(frame.id, int) else None
        pending = self._pending.get(frame.id) if isinstance(frame.id, int) else None
        match frame.frame:
            case "event" if follow is not None:
                envelope = decode_envelope(bytes(frame.body))
                if isinstance(envelope.event, StreamGap):
                    follow.last_id = max(follow.last_id, envelope.event.last)
                follow.last_id = max(follow.last_id, envelope.id or 0)
                follow.came.put_nowait(envelope)
            case "end" if follow is not None:
                del self._follows[cast("int", frame.id)]
                self._attached.discard(follow.session)
                follow.came.put_nowait(None)
            case "error" if follow is not None:
                del self._follows[cast("int", frame.id)]
                follow.came.put_nowait(problem_to_raise(bytes(frame.body)))
            case "error" if pending is not None and not pending.answer.done():
                pending.answer.set_exception(problem_to_raise(bytes(frame.body)))
            case "accepted" | "answer" if pending is not None and not pending.answer.done():
                pending.answer.set_result(frame)
            case _:
                pass  # of a later version, or nobody waits any more

    def _lost(self, closed: SocketClosed) -> None:
        """What cannot be sent again is told."""
        self._up.clear()
        self._socket = None
        self.link.at_break()
        if closed.code in _FATAL:
            raise (
                CommandRefused("TokenInvalid", problem=closed.reason or "the engine wants it no more")
                if (closed.code == 4001)
                else CommandRefused("ConnectionLost", address=self._address)
            )
        for number, pending in list(self._pending.items()):
            if not pending.again and not pending.answer.done():
                pending.answer.set_exception(CommandRefused("ConnectionLost", address=self._address))
                del self._pending[number]

    async def _come_back(self, closed: SocketClosed) -> None:
        """Connects again and goes on where it was. Raises `CommandRefused` when that is no use any more."""
        import random  # only where a connection broke

        backoff = Backoff(FIRST_WAIT_MS, LONGEST_WAIT_MS, random.random)
        loop = asyncio.get_running_loop()
        has_nothing_left = closed.code in _ENDED and self._was_attached
        gives_up_s = min(self._give_up_s, ENDED_S) if has_nothing_left else self._give_up_s
        until = loop.time() + gives_up_s
        is_missed = bool(self._follows)
        if is_missed:
            self.link.hear(gives_up_s)
        problem: Exception = closed
        while loop.time() < until:
            await asyncio.sleep(backoff.next() / 1000)
            try:
                await self._connect()
            except (OSError, SocketClosed, TimeoutError) as again:
                problem = again
                if isinstance(again, SocketClosed) and again.code in _FATAL:
                    break
            else:
                if is_missed:
                    self.link.hear(None)
                return
        raise no_engine(self._address, problem)

    async def _connect(self) -> None:
        """A connection, greeted, attached and followed as before. Raises OSError, `SocketClosed`, `CommandRefused`."""
        try:
            async with asyncio.timeout(ANSWER_S):
                socket = await self._open_socket()
        except UpgradeRefused as refused:
            if refused.status in _PASSES:
                raise ConnectionRefusedError(f"the engine answered {refused.status}") from None
            try:
                raise problem_to_raise(refused.body)
            except msgspec.DecodeError:
                raise CommandRefused(
                    "NoEngine", address=self._address, problem=f"it answered {refused.status}"
                ) from None
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._greet(socket)
                for session in sorted(self._attached):
                    await self._attach_again(socket, session)
                for number, follow in self._follows.items():
                    await socket.send(_follow_frame(number, follow))
                for pending in self._pending.values():
                    await socket.send(pending.frame)
        except BaseException:
            await socket.close()
            raise
        self._socket = socket
        self._up.set()

    async def _greet(self, socket: TextSocket) -> None:
        body = {**self._greeting, **({"client": self._client} if self._client else {})}
        await socket.send(msgspec.json.encode({"frame": "handshake", "body": body}))
        answer = msgspec.json.decode(await socket.receive(), type=_InFrame)
        if answer.frame == "error":
            raise problem_to_raise(bytes(answer.body))
        self._hello = msgspec.json.decode(answer.body, type=Handshake)
        self._client = answer.client

    async def _attach_again(self, socket: TextSocket, session: str) -> None:
        number = next(self._numbers)
        frame = {"frame": "command", "id": number, "body": AttachSession(session=session)}
        await socket.send(msgspec.json.encode(frame))
        while True:
            answer = msgspec.json.decode(await socket.receive(), type=_InFrame)
            if answer.id == number:
                break
        if answer.frame == "error":  # whoever follows it is told
            self._attached.discard(session)

    def _finish(self, over: CommandRefused) -> None:
        """It is over: everybody who waits is told why."""
        if self._over is not None:
            return
        self._over = over
        self._up.set()
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(over)
        for follow in self._follows.values():
            follow.came.put_nowait(over)


def _follow_frame(number: int, follow: _Follow) -> bytes:
    body = {"session": follow.session, "since": follow.last_id}
    return msgspec.json.encode({"frame": "follow", "id": number, "body": body})


async def connect_remote(
    open_socket: Open,
    *,
    address: str,
    name: str,
    answers: bool,
    as_agent: bool = False,
    give_up_s: float = GIVE_UP_S,
) -> RemoteConnection:
    """A client of the engine at `address`. `answers`: questions can be put to it. `as_agent`: it acts for a model.

    Raises `CommandRefused`: `NoEngine` where nobody answers, or what the engine said.
    """
    connection = RemoteConnection(
        open_socket, address=address, name=name, answers=answers, as_agent=as_agent, give_up_s=give_up_s
    )
    await connection.open()
    return connection
