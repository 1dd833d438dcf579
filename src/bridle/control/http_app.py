"""The engine over HTTP: every command and query as a route, the events of a session as server-sent events.

Nothing is decided here: a request becomes a command or a query of its token's client, and what comes of it an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, WebSocketRoute
from starlette.routing import Route as StarletteRoute
from starlette.websockets import WebSocket

from bridle.control.authority import FOR_THE_ATTACHED, session_of
from bridle.control.http_status import problem_of, status_of
from bridle.control.openapi import document
from bridle.control.request_guard import (
    AsgiApp,
    Receive,
    RequestGuard,
    Scope,
    Send,
    claims_of,
    origin_of,
)
from bridle.control.routes import (
    Route,
    TurnResult,
    begin_mint,
    confirm_mint,
    kind_meant,
    revoke_token,
    routes,
)
from bridle.control.served_clients import CLIENT_HEADER, TokenClient
from bridle.control.service import Service, event_batches, metrics_text
from bridle.control.websocket_app import serve_websocket
from bridle.protocol import commands as c
from bridle.protocol.codec import wire_of
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import Envelope, StepStarted, TextDelta, TurnEnded, TurnStarted
from bridle.protocol.told_outside import is_broken_part

MAX_BODY_BYTES = 12 * 1024 * 1024
"""Pictures come inside."""
BODY_S = 30.0
KEEP_ALIVE_S = 15.0
"""So often a quiet stream says that it is still there: who is gone is noticed by it."""
OPENS_A_SESSION = frozenset(
    {"AttachSession", "SendInput", "ShellRequest", "RunSlash", "SetModel", "SetMode", "EnterPlanMode", "Undo"}
)
"""What makes sense in a stored session too, which is opened for it. Nothing else opens one."""
Answering: TypeAlias = Callable[[Request], Awaitable[Response]]


def service_app(
    service: Service,
    mounts: Mapping[str, AsgiApp] | None = None,
    plugged: Mapping[str, AsgiApp] | None = None,
) -> AsgiApp:
    """The whole application, behind its guard. `mounts` are others behind the same guard, by their paths: of protocols
    whose clients bring their token in `Authorization`. `plugged` are those of plugins, for all that is below their
    paths."""
    http, elsewhere, below = _Http(service), mounts or {}, plugged or {}

    async def websocket(opened: WebSocket) -> None:
        await serve_websocket(opened, service)

    table: list[StarletteRoute | WebSocketRoute] = [
        StarletteRoute("/v1/handshake", http.answering(http.handshake), methods=["GET"]),
        StarletteRoute("/v1/openapi.json", http.answering(http.openapi), methods=["GET"]),
        StarletteRoute("/v1/metrics", http.answering(http.metrics), methods=["GET"]),
        StarletteRoute("/v1/auth/token", http.answering(http.begin_mint), methods=["GET"]),
        StarletteRoute("/v1/auth/token", http.answering(http.confirm_mint), methods=["POST"]),
        StarletteRoute("/v1/auth/tokens/{jti}", http.answering(http.revoke_token), methods=["DELETE"]),
        StarletteRoute("/v1/sessions/{session}/events", http.events, methods=["GET"]),
        *(_starlette_route(http, route) for route in routes()),
        WebSocketRoute("/v1/ws", websocket),
    ]
    app = Starlette(
        routes=table, exception_handlers={HTTPException: _no_such_place, BridleError: http.problem}
    )
    app.router.redirect_slashes = False

    async def reached(scope: Scope, receive: Receive, send: Send) -> None:
        mounted: AsgiApp | None = None
        if scope["type"] == "http":
            path: str = scope["path"]
            mounted = elsewhere.get(path) or below.get("/".join(path.split("/", 4)[:4]))
        await (mounted or app)(scope, receive, send)

    return RequestGuard(
        reached,
        service.tokens,
        note_refusal=service.note_refusal,
        is_stopping=service.is_stopping,
        bearer_paths=frozenset(elsewhere),
    )


def _starlette_route(http: _Http, route: Route) -> StarletteRoute:
    async def ask(request: Request) -> Response:
        return await http.ask(request, route)

    async def command(request: Request) -> Response:
        return await http.command(request, route)

    endpoint = http.answering(ask if route.is_query else command)
    return StarletteRoute(route.path, endpoint, methods=[route.method])


def _no_such_place(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException)
    path = request.url.path[:200]
    if failure.status_code == 405:
        allowed = _methods(request)
        refusal = CommandRefused("MethodNotAllowed", method=request.method[:20], path=path, allowed=allowed)
        return _json(problem_of(refusal), status_of(refusal.reason), headers={"Allow": allowed})
    refusal = CommandRefused("UnknownPath", path=path)
    return _json(problem_of(refusal), status_of(refusal.reason), headers=failure.headers)


def _methods(request: Request) -> str:
    """What may be done at a path; each route of it knows only its own."""
    here = [one for one in request.app.routes if one.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in here for method in route.methods or ()} - {"HEAD"}))


class _Http:
    """The answers to requests."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._since_s = service.clock.monotonic()

    def answering(self, answer: Answering) -> Answering:
        """What nobody foresaw is a fault of this request alone."""

        async def answered(request: Request) -> Response:
            try:
                return await answer(request)
            except BridleError as refusal:
                return self.problem(request, refusal)
            except Exception as fault:  # noqa: BLE001  told, and nothing else is touched by it
                self._service.hear_fault(fault)
                return self.problem(request, BridleError("EngineFault", problem=type(fault).__name__))

        return answered

    def problem(self, request: Request, failure: Exception) -> Response:
        assert isinstance(failure, BridleError)
        self._service.note_refusal(failure.reason, origin_of(request.scope).peer)
        if is_broken_part(failure):
            self._service.hear_fault(failure)
        headers = {}
        if "retry_after_s" in failure.data:
            headers["Retry-After"] = str(failure.data["retry_after_s"])
        return _json(problem_of(failure), status_of(failure.reason), headers=headers)

    # What every client asks first

    async def handshake(self, request: Request) -> Response:
        client = self._client(request, greeted=False)
        client.shake_hands(request.query_params.get("protocol_version"))
        return _json(self._service.hello(), headers={CLIENT_HEADER: client.connection.client})

    async def openapi(self, _request: Request) -> Response:
        return Response(document(), media_type="application/json")

    async def metrics(self, _request: Request) -> Response:
        sessions, clients = self._service.gauges()
        uptime_s = self._service.clock.monotonic() - self._since_s
        text = metrics_text(
            self._service.counters,
            self._service.memory,
            streams=self._service.streams.count,
            sessions=sessions,
            clients=clients,
            uptime_s=uptime_s,
        )
        return Response(text, media_type="text/plain; version=0.0.4")

    def _client(self, request: Request, *, greeted: bool = True) -> TokenClient:
        client = self._service.clients.of_token(claims_of(request.scope))
        if greeted:
            client.require_handshake()
        return client

    # Tokens

    async def begin_mint(self, request: Request) -> Response:
        claims = self._client(request).claims
        given = request.query_params
        wanted = {
            name: given.getlist(name) if name in ("sessions", "commands") else given[name] for name in given
        }
        listener = origin_of(request.scope).listener
        return _json(await begin_mint(self._service, claims, listener, wanted), 202)

    async def confirm_mint(self, request: Request) -> Response:
        claims = self._client(request).claims
        return _json(confirm_mint(self._service, claims, await _body(request)), 201)

    async def revoke_token(self, request: Request) -> Response:
        claims = self._client(request).claims
        return _json(revoke_token(self._service, claims, request.path_params["jti"]))

    # Commands and queries

    async def ask(self, request: Request, route: Route) -> Response:
        client = self._client(request)
        (kind,) = route.kinds
        query = _query_of(kind, request)
        self._service.counters.requests[kind.__name__] += 1
        session = session_of(query)
        if kind.__name__ not in FOR_THE_ATTACHED or session is None:
            return _json(await client.connection.ask(query))
        found = await client.attached(await client.open_session(session))
        return _json(await client.connection.ask(msgspec.structs.replace(query, session=found)))

    async def command(self, request: Request, route: Route) -> Response:
        client = self._client(request)
        body = await _body(request)
        kind = kind_meant(route, body)
        command: Any = _decoded(kind, {**body, **request.path_params})
        name = kind.__name__
        self._service.counters.requests[name] += 1
        if isinstance(command, c.SendInput):
            return await self._input(request, client, command)
        if isinstance(command, c.CreateSession):
            return _json(await client.connection.send(command), 201)
        session = session_of(command)
        if name != "AttachSession" and (name not in FOR_THE_ATTACHED or session is None):
            return _json(await client.connection.send(command))
        assert session is not None
        if name not in OPENS_A_SESSION:
            session = await client.open_session(session)
        session = await client.attached(session)
        if name == "AttachSession":
            return _json(c.Accepted(session=session))
        return _json(await client.connection.send(msgspec.structs.replace(command, session=session)))

    async def _input(self, request: Request, client: TokenClient, command: c.SendInput) -> Response:
        wait = request.query_params.get("wait")
        if wait not in (None, "turn"):
            raise CommandRefused("BadCommand", kind="SendInput", problem='"wait" is "turn" or is not there')
        found = await client.attached(command.session)
        accepted = await client.connection.send(msgspec.structs.replace(command, session=found))
        if wait is None:
            return _json(accepted, 202)
        assert accepted.event is not None
        return _json(await _turn_of(client, found, accepted.event, joins=command.mode == "steer"))

    # Events

    async def events(self, request: Request) -> Response:
        try:
            client, since = self._client(request), _since(request)
            session = await client.attached(request.path_params["session"])
            return _EventStream(self._service, client, session, since)
        except BridleError as refusal:
            return self.problem(request, refusal)


async def _turn_of(client: TokenClient, session: str, number: int, *, joins: bool) -> TurnResult:
    """Waits for the end of the turn that heard this input: one it began, or one that ran where it `joins` that."""
    text: list[str] = []
    heard = joins
    async with contextlib.aclosing(client.connection.overhear(session, since=number)) as events:
        async for envelope in events:
            if envelope.invocation is not None:
                continue
            match envelope.event:
                case TurnStarted(input=started):
                    heard = heard or started >= number
                case StepStarted():
                    text.clear()
                case TextDelta(text=more):
                    text.append(more)
                case TurnEnded(stop=stop, reason=reason) if heard:
                    said = "".join(text)
                    return TurnResult(session=session, event=number, stop=stop, reason=reason, text=said)
                case _:
                    pass
    raise CommandRefused("SessionNotOpen", session=session)


class _EventStream(Response):
    """The events of a session as they happen, until it ends, the client leaves or its token holds no more."""

    def __init__(self, service: Service, client: TokenClient, session: str, since: int) -> None:
        super().__init__(media_type="text/event-stream")
        self._service = service
        self._client = client
        self._session = session
        self._since = since

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _SSE_HEADERS})
        with self._service.streams.opened():
            await self._until_over(receive, send)
            await send({"type": "http.response.body", "body": b""})

    async def _until_over(self, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send_events(send))
        leaving = asyncio.ensure_future(_gone(receive))
        tasks = (sending, leaving)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_events(self, send: Send) -> None:
        counters = self._service.counters
        events = self._client.connection.events(self._session, since=self._since)
        async with event_batches(events, sse_frame) as batches:
            taking = asyncio.ensure_future(batches.take())
            try:
                while True:
                    await asyncio.wait((taking,), timeout=KEEP_ALIVE_S)
                    if not taking.done():
                        await send(_said(b": still here\n\n"))
                        continue
                    frames = taking.result()
                    if not frames:
                        return
                    counters.events_sent += len(frames)
                    await send(_said(b"".join(frames)))
                    taking = asyncio.ensure_future(batches.take())
            except BridleError as failure:
                await send(_said(_problem_frame(failure)))
            finally:
                taking.cancel()


_SSE_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]


def sse_frame(envelope: Envelope) -> bytes:
    """An event as `id`, `event` and `data`, the data as it is stored. What is not stored has no id to come back to."""
    number = b"" if envelope.id is None else b"id: %d\n" % envelope.id
    return b"%sevent: %s\ndata: %s\n\n" % (number, envelope.kind.encode(), wire_of(envelope))


def _problem_frame(failure: BridleError) -> bytes:
    """Why the stream ends. It is no event of the session."""
    return b"event: problem\ndata: %s\n\n" % msgspec.json.encode(problem_of(failure))


def _said(body: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _since(request: Request) -> int:
    given = request.headers.get("last-event-id") or request.query_params.get("since") or "0"
    if not (given.isascii() and given.isdigit() and len(given) < 16):
        raise CommandRefused("BadCommand", kind="FollowEvents", problem="the last event id is no number")
    return int(given)


# Reading requests


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object of a request; an empty body is an empty one. One that says that it is too large is not read."""
    read, said = bytearray(), request.headers.get("content-length", "")
    too_large = CommandRefused("TooLarge", what="The body", limit=MAX_BODY_BYTES)
    if said.isdigit() and int(said) > MAX_BODY_BYTES:
        raise too_large
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                read += chunk
                if len(read) > MAX_BODY_BYTES:
                    raise too_large
    except TimeoutError:
        raise CommandRefused("TooSlow", seconds=f"{BODY_S:g}") from None
    if not read:
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise CommandRefused("NotJson")
    try:
        return msgspec.json.decode(bytes(read), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise CommandRefused("BadCommand", kind="body", problem=str(problem)) from None


def _query_of(kind: type[Any], request: Request) -> Any:
    """The query that a request asks; a list is a parameter that stands there several times, an object is JSON."""
    hints = get_type_hints(kind)
    given: dict[str, Any] = {}
    for name in kind.__struct_fields__:
        values = request.query_params.getlist(name)
        if not values:
            continue
        shapes: set[Any] = {get_origin(shape) or shape for shape in (hints[name], *get_args(hints[name]))}
        if tuple in shapes:
            given[name] = values
        elif any(shape is dict or hasattr(shape, "__struct_fields__") for shape in shapes):
            given[name] = _object(kind, name, values)
        else:
            given[name] = values[-1]
    return _decoded(kind, {**given, **request.path_params}, strict=False)


def _object(kind: type[Any], name: str, values: list[str]) -> Any:
    try:
        return msgspec.json.decode(values[-1])
    except (msgspec.DecodeError, RecursionError):
        raise CommandRefused("BadCommand", kind=kind.__name__, problem=f"{name} is no JSON") from None


def _decoded(kind: type[Any], fields: dict[str, Any], *, strict: bool = True) -> Any:
    fields["kind"] = kind.__name__
    try:
        return msgspec.convert(fields, kind, strict=strict)
    except (msgspec.ValidationError, RecursionError) as problem:
        raise CommandRefused("BadCommand", kind=kind.__name__, problem=str(problem)) from None


def _json(value: Any, status: int = 200, *, headers: Any = None) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json", headers=headers)
