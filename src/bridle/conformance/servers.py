"""A model server to test with: plays a script over the OpenAI chat protocol, on loopback, and keeps what it was sent.

    async with ModelServer.playing(call("bash", command="ls"), say("Done.")) as server:
        … a provider whose base_url is server.url …
    assert server.requests[0].json["model"] == "any"

Like the scripted model it counts the assistant messages of a request to know which answer to give; unlike it, it
labels nothing, for it stands in for a real one. A `Fault` instead of an answer breaks the protocol below the script.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias, cast

import msgspec

from bridle.base.clock import Clock, SystemClock
from bridle.protocol.messages import Usage
from bridle.providers.script import (
    Answer,
    Call,
    Fail,
    FailReason,
    Say,
    Script,
    Spend,
    Statement,
    Stop,
    Think,
    Wait,
    Yield,
)

Fault: TypeAlias = Literal["page", "garbage", "cut", "silence", "reset", "empty", "redirect"]
"""What a request may meet instead of an answer: a web page, something that is not JSON, an answer cut in the
middle, a beginning and then nothing, a closed connection without a word, nothing at all, another address."""

MODELS: Final = ("scripted-large", "scripted-small")
_CHUNK_AT_ONCE: Final = 512
_CHUNK_PACED: Final = 8
_WRITE_BYTES: Final = 64 * 1024
_MAX_REQUEST_BYTES: Final = 64 * 1024 * 1024


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it came. Header names are in small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return msgspec.json.decode(self.body, type=dict[str, Any])


class LoopbackServer:
    """An HTTP server on this machine while entered; keeps every request it got. Subclasses answer them."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.connections = 0
        """How many connections were opened: fewer than requests when they are kept."""
        self.origin = ""
        """Scheme, host and port, once entered."""
        self._server: asyncio.Server | None = None
        self.conversations: set[asyncio.Task[None]] = set()
        """The tasks of the connections that are open."""

    async def answer(self, request: Received, reply: Reply) -> bool:
        """Answers one request and says whether the connection can be kept."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port, *_ = self._server.sockets[0].getsockname()
        self.origin = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for conversation in self.conversations:
            conversation.cancel()
        await asyncio.gather(*self.conversations, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self.conversations.add(task)
        self.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                if not await self.answer(request, Reply(writer)):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone
        except asyncio.CancelledError:
            pass  # the server ends; asyncio would report a cancelled handler as a failure
        finally:
            self.conversations.discard(task)
            writer.close()


class JsonServer(LoopbackServer):
    """Gives fixed JSON answers, by `"GET /path"`; 404 for everything else. A callable answer gets the request."""

    def __init__(self, answers: Mapping[str, Any], *, status: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self._answers = answers
        self._status = status or {}

    async def answer(self, request: Received, reply: Reply) -> bool:
        name = f"{request.method} {request.path}"
        found: Any = self._answers.get(name)
        if found is None:
            return await reply.whole(404, {"error": "not found"})
        value: Any = found(request) if callable(found) else found
        return await reply.whole(self._status.get(name, 200), value)


class ModelServer(LoopbackServer):
    """Serves `script` at `url` while entered. `faults` are for the first requests, one each; None is no fault."""

    def __init__(
        self,
        script: Script,
        *,
        faults: Iterable[Fault | None] = (),
        models: Iterable[str] = MODELS,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self._script = script
        self._faults = list(faults)
        self._models = tuple(models)
        self._clock = clock or SystemClock()
        self._failures: Counter[tuple[int, int]] = Counter()

    @classmethod
    def playing(cls, *answers: Answer | Statement, faults: Iterable[Fault | None] = ()) -> ModelServer:
        """A server that gives these answers in order, each a statement or an `answer(…)`."""
        given = tuple(one if isinstance(one, Answer) else Answer((one,)) for one in answers)
        return cls(Script("test", given), faults=faults)

    @property
    def url(self) -> str:
        """The base URL of its API, with the `/v1` that vendors have."""
        return f"{self.origin}/v1"

    @property
    def chats(self) -> list[Received]:
        """The requests for an answer, in order."""
        return [request for request in self.requests if request.path.endswith("/chat/completions")]

    async def answer(self, request: Received, reply: Reply) -> bool:
        if request.method == "GET" and request.path.endswith("/models"):
            rows = [{"id": name, "object": "model", "owned_by": "bridle"} for name in self._models]
            return await reply.whole(200, {"object": "list", "data": rows})
        if not (request.method == "POST" and request.path.endswith("/chat/completions")):
            return await reply.whole(404, _error(f"Unknown request URL: {request.path}", "unknown_url"))
        fault = self._faults.pop(0) if self._faults else None
        if fault is not None:
            return await self._break(fault, reply)
        problem = _problem(request)
        if problem:
            return await reply.whole(400, _error(problem, None))
        return await self._play(request.json, reply)

    async def _break(self, fault: Fault, reply: Reply) -> bool:
        match fault:
            case "page":
                page = b"<!DOCTYPE html><title>Sign in</title><p>Please sign in to the network."
                return await reply.raw(200, {"content-type": "text/html; charset=utf-8"}, page)
            case "garbage":
                await reply.begin_stream()
                await reply.data(b'{"choices":[{"delta":{"content":"he\x00')
                return await reply.end_stream()
            case "cut":
                await reply.begin_stream()
                await reply.data(_ENCODER.encode(_chunk("scripted", {"content": "half an ans"})))
                return reply.abort()
            case "silence":
                await reply.begin_stream()
                await asyncio.get_running_loop().create_future()
                return False
            case "reset":
                return reply.abort()
            case "empty":
                await reply.begin_stream()
                return await reply.end_stream()
            case "redirect":
                return await reply.raw(307, {"location": "http://127.0.0.1:9/v1/chat/completions"}, b"")

    async def _play(self, asked: dict[str, Any], reply: Reply) -> bool:
        messages = cast("list[dict[str, Any]]", asked["messages"])
        number = sum(message.get("role") == "assistant" for message in messages)
        model = str(asked.get("model", "scripted"))
        played = _Played(number)
        if asked.get("stream"):
            options = cast("dict[str, Any]", asked.get("stream_options") or {})
            return await self._stream(played, model, reply, usage=bool(options.get("include_usage")))
        async for _delta in self._deltas(played):
            pass
        if played.failed is not None:
            return await _refuse(reply, played.failed)
        self._forget_failures(number)
        return await reply.whole(200, played.answer(model))

    async def _stream(self, played: _Played, model: str, reply: Reply, *, usage: bool) -> bool:
        """The answer as server-sent events. What comes without a pause is written together."""
        pending = bytearray()
        async for delta in self._deltas(played):
            if not reply.is_begun:
                await reply.begin_stream()
                pending += _event(_chunk(model, {"role": "assistant", "content": ""}))
            pending += _event(_chunk(model, delta)) if delta else b""
            if not delta or len(pending) >= _WRITE_BYTES:
                await reply.write(bytes(pending))
                pending.clear()
        if played.failed is not None:
            if not reply.is_begun:
                return await _refuse(reply, played.failed)
            return await self._fail_within(played.failed, reply, bytes(pending))
        if not reply.is_begun:
            await reply.begin_stream()
        pending += _event(_chunk(model, {}, finish=played.finish))
        if usage:
            pending += _event({**_chunk(model, None), "usage": played.usage})
        self._forget_failures(played.number)
        await reply.write(bytes(pending) + b"data: [DONE]\n\n")
        return await reply.end_stream()

    async def _fail_within(self, fail: Fail, reply: Reply, pending: bytes) -> bool:
        if pending:
            await reply.write(pending)
        if fail.reason in {"cut", "unreachable"}:
            return reply.abort()
        if fail.reason == "garbage":
            await reply.data(b"{not json")
        else:
            await reply.data(_ENCODER.encode(_REFUSALS[fail.reason][1]))
        return await reply.end_stream()

    async def _deltas(self, played: _Played) -> AsyncIterator[dict[str, Any]]:
        """What each statement adds. An empty delta is a pause: what was said before it is due now."""
        for index, statement in enumerate(self._answers(played.number).statements):
            match statement:
                case Say() | Think():
                    field = "content" if isinstance(statement, Say) else "reasoning_content"
                    for pause_s, text in _pieces(statement):
                        if pause_s:
                            yield {}
                            await self._clock.sleep(pause_s)
                        played.texts.setdefault(field, []).append(text)
                        yield {field: text}
                case Call():
                    for delta in played.call(statement):
                        yield delta
                case Wait():
                    yield {}
                    await self._clock.sleep(statement.seconds)
                case Fail():
                    if self._is_due(statement, (played.number, index)):
                        played.failed = statement
                        return
                case Stop():
                    played.stop = _FINISH[statement.reason]
                case Spend():
                    played.usage = _usage(statement.usage)
                case Yield():
                    pass  # the protocol has no word for it

    def _answers(self, number: int) -> Answer:
        if number < len(self._script.answers):
            return self._script.answers[number]
        return Answer((Say(f"The script {self._script.path} has no answer left for this request."),))

    def _is_due(self, fail: Fail, place: tuple[int, int]) -> bool:
        if fail.times is not None and self._failures[place] >= fail.times:
            return False
        self._failures[place] += 1
        return True

    def _forget_failures(self, number: int) -> None:
        for place in [place for place in self._failures if place[0] == number]:
            del self._failures[place]


# The words of the protocol

_ENCODER: Final = msgspec.json.Encoder()
_FINISH: Final = {"end_turn": "stop", "max_tokens": "length", "content_filter": "content_filter"}


def _error(message: str, code: str | None, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


_REFUSALS: Final[Mapping[FailReason, tuple[int, dict[str, Any]]]] = {
    "rate_limited": (429, _error("Rate limit reached for requests.", "rate_limit_exceeded", "requests")),
    "overloaded": (503, _error("The server is overloaded.", None, "server_error")),
    "bad_credentials": (401, _error("Incorrect API key provided.", "invalid_api_key")),
}


async def _refuse(reply: Reply, fail: Fail) -> bool:
    """A failure before the first word: a status where the protocol has one."""
    if fail.reason not in _REFUSALS:
        if fail.reason != "garbage":
            return reply.abort()
        return await reply.raw(200, {"content-type": "application/json"}, b"{not json")
    status, body = _REFUSALS[fail.reason]
    headers = {} if fail.retry_after_s is None else {"retry-after": f"{fail.retry_after_s:g}"}
    return await reply.whole(fail.status or status, body, headers)


class _Played:
    """What an answer has said so far, for those who want it whole."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.texts: dict[str, list[str]] = {}
        self.calls: list[dict[str, Any]] = []
        self.stop = "stop"
        self.usage = _usage(Usage())
        self.failed: Fail | None = None

    @property
    def finish(self) -> str:
        return "tool_calls" if self.calls else self.stop

    def call(self, statement: Call) -> Iterator[dict[str, Any]]:
        """A call as a vendor streams it: id and name first, then the arguments in two pieces."""
        index = len(self.calls)
        arguments = _ENCODER.encode(statement.input).decode()
        function = {"name": statement.tool, "arguments": arguments}
        made = {"id": f"call_{self.number + 1}_{index + 1}", "type": "function", "function": function}
        self.calls.append(made)
        yield {"tool_calls": [{**made, "index": index, "function": {**function, "arguments": ""}}]}
        half = len(arguments) // 2
        for piece in (arguments[:half], arguments[half:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def answer(self, model: str) -> dict[str, Any]:
        content = "".join(self.texts.get("content", ()))
        message: dict[str, Any] = {"role": "assistant", "content": content or None}
        if self.calls:
            message["tool_calls"] = self.calls
        if thought := "".join(self.texts.get("reasoning_content", ())):
            message["reasoning_content"] = thought
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        return {**_named(model, "chat.completion"), "choices": [choice], "usage": self.usage}


def _named(model: str, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": model}


def _chunk(model: str, delta: dict[str, Any] | None, *, finish: str | None = None) -> dict[str, Any]:
    """One chunk; without a delta, the one at the end that has usage and no choice."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {**_named(model, "chat.completion.chunk"), "choices": choices}


def _event(value: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % _ENCODER.encode(value)


def _usage(usage: Usage) -> dict[str, Any]:
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
    }


def _pieces(statement: Say | Think) -> Iterator[tuple[float, str]]:
    """The text piece by piece, each with the pause before it."""
    chunk = statement.chunk or (_CHUNK_PACED if statement.pace else _CHUNK_AT_ONCE)
    for start in range(0, len(statement.text), chunk):
        yield (1 / statement.pace if start and statement.pace else 0.0), statement.text[start : start + chunk]


def _problem(request: Received) -> str | None:
    """What a strict vendor would find wrong: order and ids of the messages, as the protocol has them."""
    try:
        asked = request.json
        messages = cast("list[dict[str, Any]]", asked["messages"])
        open_calls: list[str] = []
        for place, message in enumerate(messages):
            role = message["role"]
            if role == "tool":
                if message["tool_call_id"] not in open_calls:
                    return f"messages[{place}]: a tool message must answer a preceding tool call"
                open_calls.remove(message["tool_call_id"])
                continue
            if open_calls:
                return f"messages[{place}]: tool calls without an answer: {', '.join(open_calls)}"
            if role not in {"system", "developer", "user", "assistant"}:
                return f"messages[{place}]: unknown role"
            open_calls = [call["id"] for call in message.get("tool_calls") or ()]
            if message.get("content") is None and not open_calls:
                return f"messages[{place}]: content is required"
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        return f"The request cannot be read: {type(error).__name__}"
    return "stream_options is only allowed with stream" if _has_stray_options(asked) else None


def _has_stray_options(asked: dict[str, Any]) -> bool:
    return "stream_options" in asked and not asked.get("stream")


# HTTP/1.1, as much of it as a model server needs


class Reply:
    """Writes one response. Every method returns whether the connection can be kept."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.is_begun = False

    async def whole(
        self, status: int, value: dict[str, Any], headers: Mapping[str, str] | None = None
    ) -> bool:
        return await self.raw(
            status, {"content-type": "application/json", **(headers or {})}, _ENCODER.encode(value)
        )

    async def raw(self, status: int, headers: Mapping[str, str], body: bytes) -> bool:
        self._writer.write(_head(status, {**headers, "content-length": str(len(body))}) + body)
        await self._writer.drain()
        return True

    async def begin_stream(self) -> None:
        self.is_begun = True
        headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        self._writer.write(_head(200, headers))
        await self._writer.drain()

    async def data(self, data: bytes) -> None:
        await self.write(b"data: %b\n\n" % data)

    async def write(self, piece: bytes) -> None:
        if piece:
            self._writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await self._writer.drain()

    async def end_stream(self) -> bool:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()
        return True

    def abort(self) -> bool:
        self._writer.transport.abort()
        return False


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {'OK' if status == 200 else 'Refused'}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    """The next request of a connection, or None at its end."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    method, path, _version = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    size = min(int(headers.get("content-length", "0")), _MAX_REQUEST_BYTES)
    return Received(method=method, path=path, headers=headers, body=await reader.readexactly(size))
