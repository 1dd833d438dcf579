"""The engine over a WebSocket: frames of text, each a JSON object that says what it is.

in   {"frame": "handshake", "body": {"protocol_version", "name", "answers", "client", "as_agent"}}   first
     {"frame": "command", "id", "body": command}     {"frame": "query", "id", "body": query}
     {"frame": "follow", "id", "body": {"session", "since"}}     {"frame": "unfollow", "id"}
out  {"frame": "handshake", "body": handshake, "client"}
     {"frame": "accepted", "id", "body"}     {"frame": "answer", "id", "body"}     {"frame": "error", "id", "body"}
     {"frame": "event", "id", "body": envelope}      {"frame": "end", "id"}

`id` is the client's own and comes back with what answers it. `{"kind": "command", "cmd": …}` is read too. Commands are
carried out in the order they come; queries and events do not wait for them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from bridle.control.http_status import problem_of
from bridle.control.request_guard import claims_of, origin_of
from bridle.control.served_clients import client_name
from bridle.control.service import Service, event_batches
from bridle.protocol.codec import decode_command, decode_request, wire_of
from bridle.protocol.commands import AttachSession
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import Envelope
from bridle.protocol.handshake import check_version
from bridle.protocol.queries import QUERY_KINDS, AnyQuery
from bridle.protocol.tokens import for_agent
from bridle.protocol.told_outside import is_broken_part

MAX_FRAME_BYTES = 1024 * 1024
HANDSHAKE_S = 10.0
MOST_AT_ONCE = 64
"""Queries under way and streams open, of one client."""
GOING_AWAY, NOT_TEXT, TOO_LARGE = 1001, 1003, 1009
NOT_ADMITTED, NO_SESSION, NO_HANDSHAKE = 4001, 4004, 4028
"""Ours: whoever reads one of these need not try again."""
_TOKEN_OVER = frozenset({"TokenExpired", "TokenRevoked"})
_SESSION_GONE = frozenset({"UnknownSession", "SessionExpired"})


class _Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says first. `answers`: it can be asked. `client` is the id it had before its connection broke.

    `as_agent`: it acts for the model of another program, whatever its token is good for."""

    protocol_version: str
    name: str = ""
    answers: bool = True
    client: str = ""
    as_agent: bool = False


class _FollowBody(msgspec.Struct, frozen=True, kw_only=True):
    session: str
    since: Annotated[int, msgspec.Meta(ge=0, lt=10**15)] = 0


class _Frame(msgspec.Struct, frozen=True, kw_only=True):
    frame: str
    id: str | int | None = None
    body: msgspec.Raw = msgspec.Raw(b"{}")


async def serve_websocket(websocket: WebSocket, service: Service) -> None:
    """One client, from its upgrade to its end."""
    await websocket.accept()
    socket = _Socket(websocket, service)
    try:
        await socket.run()
    except _Over as over:
        await socket.close(over.code, over.reason)
    except (WebSocketDisconnect, OSError):
        pass


class _Over(Exception):
    """This socket is over, for a reason that its other end can read."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class _Socket:
    """An open socket and what goes on over it."""

    def __init__(self, websocket: WebSocket, service: Service) -> None:
        self._websocket = websocket
        self._service = service
        self._claims = claims_of(websocket.scope)
        self._peer = origin_of(websocket.scope).peer
        self._writing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._follows: dict[Any, asyncio.Task[None]] = {}
        self._token_over = asyncio.Event()

    async def run(self) -> None:
        greeting = await self._greeted()
        clients = self._service.clients.socket_client(
            for_agent(self._claims) if greeting.as_agent else self._claims,
            name=greeting.name or client_name(self._claims, "websocket"),
            answers=greeting.answers,
            before=greeting.client,
        )
        async with clients as connection:
            await self._send(
                {"frame": "handshake", "body": self._service.hello(), "client": connection.client}
            )
            reading = asyncio.ensure_future(self._read(connection))
            token_over = asyncio.ensure_future(self._token_over.wait())
            try:
                await self._follow_from_address(connection)
                await asyncio.wait((reading, token_over), return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    raise _Over(NOT_ADMITTED, "this token holds no more")
                reading.result()
            finally:
                tasks = (reading, token_over, *self._tasks)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self, code: int, reason: str) -> None:
        with suppress(RuntimeError, OSError, WebSocketDisconnect):
            async with asyncio.timeout(1.0):
                await self._websocket.close(code, reason)

    # The first frame

    async def _greeted(self) -> _Greeting:
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                frame = await self._frame()
        except TimeoutError:
            raise self._turned_away(CommandRefused("HandshakeRequired")) from None
        if frame.frame != "handshake":
            refusal = CommandRefused("HandshakeRequired")
            await self._send_problem(frame.id, refusal)
            raise self._turned_away(refusal)
        try:
            greeting = _decoded(frame, _Greeting)
            check_version(greeting.protocol_version)
        except CommandRefused as refusal:
            await self._send_problem(frame.id, refusal)
            raise self._turned_away(refusal) from None
        return greeting

    def _turned_away(self, refusal: CommandRefused) -> _Over:
        self._refuse(refusal)
        return _Over(NO_HANDSHAKE, refusal.reason)

    async def _follow_from_address(self, connection: Connection) -> None:
        """`?session=ID` attaches to it, and goes on behind `lastEventId`."""
        wanted = self._websocket.query_params.get("session")
        if wanted is None:
            return
        since = self._websocket.query_params.get("lastEventId", "0")
        try:
            if not (since.isascii() and since.isdigit() and len(since) < 16):
                raise CommandRefused("BadFrame", problem="lastEventId is no number")
            accepted = await connection.send(AttachSession(session=wanted, since=int(since)))
        except BridleError as refusal:
            self._refuse(refusal)
            await self._send_problem(None, refusal)
            code = NO_SESSION if refusal.reason in _SESSION_GONE else NOT_ADMITTED
            raise _Over(code, refusal.reason) from None
        self._follow(connection, None, _FollowBody(session=accepted.session, since=int(since)))

    # Reading

    async def _read(self, connection: Connection) -> None:
        while True:
            frame = await self._frame()
            try:
                await self._take(connection, frame)
            except BridleError as refusal:
                self._refuse(refusal)
                await self._send_problem(frame.id, refusal)
            except (WebSocketDisconnect, OSError):
                raise
            except Exception as fault:  # noqa: BLE001  told, and what else goes over this socket goes on
                await self._send_problem(frame.id, self._fault(fault))

    async def _take(self, connection: Connection, frame: _Frame) -> None:
        requests = self._service.counters.requests
        match frame.frame:
            case "command":
                command = decode_command(frame.body)
                requests[type(command).__name__] += 1
                accepted = await connection.send(command)
                await self._send({"frame": "accepted", "id": frame.id, "body": accepted})
            case "query":
                query: AnyQuery = decode_request(frame.body, AnyQuery, QUERY_KINDS)
                requests[type(query).__name__] += 1
                self._begin(self._answer(connection, frame.id, query))
            case "follow":
                self._follow(connection, frame.id, _decoded(frame, _FollowBody))
            case "unfollow":
                if (following := self._follows.pop(frame.id, None)) is not None:
                    following.cancel()
            case "handshake":
                raise CommandRefused("BadFrame", problem="hands were shaken before")
            case other:
                raise CommandRefused("BadFrame", problem=f'there is no frame "{other[:40]}"')

    async def _frame(self) -> _Frame:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005), message.get("reason"))
        text = message.get("text")
        if text is None:
            raise self._broken(NOT_TEXT, CommandRefused("BadFrame", problem="it is not text"))
        if len(text) > MAX_FRAME_BYTES:
            raise self._broken(TOO_LARGE, CommandRefused("TooLarge", what="The frame", limit=MAX_FRAME_BYTES))
        try:
            return _read_frame(text)
        except CommandRefused as refusal:
            raise self._broken(1007, refusal) from None

    def _broken(self, code: int, refusal: CommandRefused) -> _Over:
        self._refuse(refusal)
        return _Over(code, refusal.message[:120])

    def _refuse(self, refusal: BridleError) -> None:
        self._service.note_refusal(refusal.reason, self._peer)

    def _fault(self, fault: Exception) -> BridleError:
        self._service.hear_fault(fault)
        return BridleError("EngineFault", problem=type(fault).__name__)

    # Answering

    def _begin(self, work: Any) -> asyncio.Task[None]:
        if len(self._tasks) >= MOST_AT_ONCE:
            work.close()
            raise CommandRefused("BadFrame", problem=f"{MOST_AT_ONCE} are under way already")
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _answer(self, connection: Connection, number: Any, query: Any) -> None:
        with suppress(WebSocketDisconnect, OSError, RuntimeError):
            try:
                answer: Any = await connection.ask(query)
            except BridleError as refusal:
                self._refuse(refusal)
                await self._send_problem(number, refusal)
            except Exception as fault:  # noqa: BLE001  told, and nothing else is touched by it
                await self._send_problem(number, self._fault(fault))
            else:
                await self._send({"frame": "answer", "id": number, "body": answer})

    def _follow(self, connection: Connection, number: Any, wanted: _FollowBody) -> None:
        if number in self._follows and not self._follows[number].done():
            raise CommandRefused("BadFrame", problem="that id follows something already")
        self._follows[number] = self._begin(self._send_events(connection, number, wanted))

    async def _send_events(self, connection: Connection, number: Any, wanted: _FollowBody) -> None:
        counters = self._service.counters
        opening = b'{"frame":"event",' if number is None else b'{"frame":"event","id":%s,' % _encoded(number)

        def frame(envelope: Envelope) -> bytes:
            return b'%s"body":%s}' % (opening, wire_of(envelope))

        try:
            with self._service.streams.opened():
                events = connection.events(wanted.session, since=wanted.since)
                async with event_batches(events, frame) as batches:
                    while frames := await batches.take():
                        counters.events_sent += len(frames)
                        async with self._writing:
                            for one in frames:
                                await self._websocket.send_text(one.decode())
                await self._send({"frame": "end", "id": number})
        except BridleError as refusal:
            self._refuse(refusal)
            with suppress(WebSocketDisconnect, OSError, RuntimeError):
                await self._send_problem(number, refusal)
            if refusal.reason in _TOKEN_OVER:
                self._token_over.set()
        except (WebSocketDisconnect, OSError, RuntimeError):  # nobody reads any more
            pass
        finally:
            if self._follows.get(number) is asyncio.current_task():
                del self._follows[number]

    async def _send_problem(self, number: Any, failure: BridleError) -> None:
        if is_broken_part(failure):
            self._service.hear_fault(failure)
        await self._send({"frame": "error", "id": number, "body": problem_of(failure)})

    async def _send(self, frame: dict[str, Any]) -> None:
        if frame.get("id", 0) is None:
            del frame["id"]
        async with self._writing:
            await self._websocket.send_text(msgspec.json.encode(frame).decode())


def _read_frame(text: str) -> _Frame:
    """A frame in our spelling, or a command in the older one: its kind under `cmd`, its fields beside it."""
    try:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        if "frame" not in fields and bytes(fields.get("kind", b"")) == b'"command"' and "cmd" in fields:
            body = {name: value for name, value in fields.items() if name not in ("kind", "cmd", "id")}
            if "sessionId" in body:
                body["session"] = body.pop("sessionId")
            body["kind"] = fields["cmd"]
            number = msgspec.json.decode(fields["id"], type=str | int | None) if "id" in fields else None
            return _Frame(frame="command", id=number, body=msgspec.Raw(msgspec.json.encode(body)))
        return msgspec.json.decode(text, type=_Frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise CommandRefused("BadFrame", problem=str(problem)) from None


def _decoded(frame: _Frame, kind: Any) -> Any:
    try:
        return msgspec.json.decode(frame.body, type=kind)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise CommandRefused("BadFrame", problem=str(problem)) from None


def _encoded(number: str | int) -> bytes:
    return msgspec.json.encode(number)
