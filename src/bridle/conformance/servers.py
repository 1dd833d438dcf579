"""A model server to test with: plays a script over every wire, on loopback, and keeps what it was sent.

    async with ModelServer.playing(call("bash", command="ls"), say("Done.")) as server:
        … a provider whose base_url is server.url …
    assert server.requests[0].json["model"] == "any"

The path of a request says which wire it speaks. Like the scripted model the server counts the answers in a request to
know which one to give; unlike it, it labels nothing, for it stands in for a real one. A `ServerFault` instead of
an answer breaks the protocol below the script.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias, cast

import msgspec

from bridle.base.clock import Clock, SystemClock
from bridle.conformance.servers_anthropic import AnthropicSpeech
from bridle.conformance.servers_chat import ChatSpeech
from bridle.conformance.servers_responses import ResponsesSpeech
from bridle.conformance.servers_speech import Speech
from bridle.protocol.messages import Usage
from bridle.providers.script import (
    Fail,
    Say,
    Script,
    ScriptAnswer,
    ScriptCall,
    Spend,
    Statement,
    Stop,
    Think,
    Wait,
    Yield,
)

Breakage: TypeAlias = Literal[
    "page",
    "error_page",
    "garbage",
    "cut",
    "half",
    "deaf",
    "silence",
    "stalled",
    "reset",
    "empty",
    "redirect",
    "not_utf8",
    "huge_line",
    "wrong_type",
    "as_json",
]
"""What a request may meet instead of an answer: a web page, one with the status of a broken gateway, something that is
not JSON, an answer whose connection dies in the middle, one that just ends there, nobody who answers, a beginning and
then nothing, half an answer and then nothing, a closed connection without a word, nothing at all, another address,
bytes that are no text, a line without end, a picture, a stream that is said to be a document."""
Misnaming: TypeAlias = Literal["same_ids", "no_ids"]
"""What may be wrong with the calls of an answer: one id for all of them, or none."""
ServerFault: TypeAlias = Breakage | Misnaming

MODELS: Final = ("scripted-large", "scripted-small")
_CHUNK_AT_ONCE: Final = 512
_CHUNK_PACED: Final = 8
_WRITE_BYTES: Final = 64 * 1024
_MAX_REQUEST_BYTES: Final = 64 * 1024 * 1024
_HUGE_LINE_BYTES: Final = 20 * 1024 * 1024
_ONE_ID: Final[Mapping[Misnaming, str]] = {"same_ids": "same", "no_ids": ""}
_SPEECHES: Final = (ChatSpeech, ResponsesSpeech, AnthropicSpeech)
_ENCODER: Final = msgspec.json.Encoder()


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it came. Header names are in small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return msgspec.json.decode(self.body, type=dict[str, Any])


class LoopbackServer(ABC):
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

    @abstractmethod
    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        """Answers one request and says whether the connection can be kept."""

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
                if not await self.answer(request, ReplyWriter(writer)):
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

    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
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
        faults: Iterable[ServerFault | None] = (),
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
    def playing(
        cls, *answers: ScriptAnswer | Statement, faults: Iterable[ServerFault | None] = ()
    ) -> ModelServer:
        """A server that gives these answers in order, each a statement or an `answer(…)`."""
        given = tuple(one if isinstance(one, ScriptAnswer) else ScriptAnswer((one,)) for one in answers)
        return cls(Script("test", given), faults=faults)

    @property
    def url(self) -> str:
        """The base URL of its API, with the `/v1` that vendors have."""
        return f"{self.origin}/v1"

    @property
    def chats(self) -> list[Received]:
        """The requests for an answer, in order, on whichever wire."""
        return [request for request in self.requests if _speech_of(request) is not None]

    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        if request.method == "GET" and request.path.partition("?")[0].endswith("/models"):
            rows = [{"id": name, "object": "model", "owned_by": "bridle"} for name in self._models]
            return await reply.whole(200, {"object": "list", "data": rows})
        speech = _speech_of(request)
        if speech is None:
            return await reply.whole(404, ChatSpeech.bad_request(f"Unknown request URL: {request.path}"))
        fault = self._faults.pop(0) if self._faults else None
        if fault is not None and fault not in ("same_ids", "no_ids"):
            return await self._break(fault, speech, reply)
        if problem := _problem(request, speech):
            return await reply.whole(400, speech.bad_request(problem))
        asked = request.json
        number = speech.answers_so_far(asked)
        usage = [one.usage for one in self._answers(number).statements if isinstance(one, Spend)]
        spoken = speech(asked, number=number, usage=usage[-1] if usage else Usage())
        if fault is not None:
            spoken.one_id = _ONE_ID[fault]
        return await (self._stream if asked.get("stream") else self._tell)(spoken, reply)

    async def _break(self, fault: Breakage, speech: type[Speech], reply: ReplyWriter) -> bool:
        match fault:
            case "page" | "error_page":
                page = b"<!DOCTYPE html><title>Sign in</title><p>Please sign in to the network."
                status = 200 if fault == "page" else 502
                return await reply.raw(status, {"content-type": "text/html; charset=utf-8"}, page)
            case "wrong_type":
                return await reply.raw(200, {"content-type": "image/png"}, b"\x89PNG\r\n\x1a\n\x00")
            case "reset":
                return reply.abort()
            case "deaf":
                return await asyncio.get_running_loop().create_future()
            case "as_json":
                spoken = speech({}, number=0, usage=Usage())
                whole = spoken.begin() + spoken.text("an answer") + spoken.end()
                return await reply.raw(200, {"content-type": "application/json"}, whole)
            case "redirect":
                return await reply.raw(307, {"location": f"http://127.0.0.1:9/v1{speech.path}"}, b"")
            case "garbage" | "cut" | "half" | "silence" | "stalled" | "empty" | "not_utf8" | "huge_line":
                return await self._break_stream(fault, speech, reply)

    async def _break_stream(self, fault: Breakage, speech: type[Speech], reply: ReplyWriter) -> bool:
        await reply.begin_stream()
        spoken = speech({}, number=0, usage=Usage())
        if fault in {"cut", "half", "stalled", "not_utf8"}:
            await reply.write(spoken.begin() + spoken.text("half an ans"))
        match fault:
            case "cut":
                return reply.abort()
            case "silence" | "stalled":
                await asyncio.get_running_loop().create_future()
            case "garbage":
                await reply.data(b'{"type":"message_start","choices":[{"delta":{"content":"he\x00')
            case "not_utf8":
                await reply.write(spoken.text("lost").replace(b"lost", b"l\xffst") + spoken.end())
            case "huge_line":
                for _ in range(_HUGE_LINE_BYTES // _WRITE_BYTES):
                    await reply.write(b"x" * _WRITE_BYTES)
            case _:
                pass
        return await reply.end_stream()

    async def _tell(self, spoken: Speech, reply: ReplyWriter) -> bool:
        """The answer as one object."""
        failed = None
        async for step in self._steps(spoken):
            failed = step if isinstance(step, Fail) else None
        if failed is not None:
            return await _refuse(reply, failed, spoken)
        self._forget_failures(spoken.number)
        return await reply.whole(200, spoken.whole())

    async def _stream(self, spoken: Speech, reply: ReplyWriter) -> bool:
        """The answer as server-sent events. What comes without a pause is written together."""
        pending = bytearray(spoken.begin())
        async for step in self._steps(spoken):
            if isinstance(step, Fail):
                if not reply.is_begun:
                    return await _refuse(reply, step, spoken)
                return await self._fail_within(step, spoken, reply, bytes(pending))
            if not reply.is_begun:
                await reply.begin_stream()
            pending += step
            if not step or len(pending) >= _WRITE_BYTES:
                await reply.write(bytes(pending))
                pending.clear()
        if not reply.is_begun:
            await reply.begin_stream()
        self._forget_failures(spoken.number)
        await reply.write(bytes(pending) + spoken.end())
        return await reply.end_stream()

    async def _fail_within(self, fail: Fail, spoken: Speech, reply: ReplyWriter, pending: bytes) -> bool:
        if pending:
            await reply.write(pending)
        if fail.reason in {"cut", "unreachable"}:
            return reply.abort()
        if fail.reason == "garbage":
            await reply.data(b"{not json")
        else:
            await reply.write(spoken.error(fail.reason))
        return await reply.end_stream()

    async def _steps(self, spoken: Speech) -> AsyncIterator[bytes | Fail]:
        """What each statement adds. An empty step is a pause: what was said before it is due now."""
        for index, statement in enumerate(self._answers(spoken.number).statements):
            match statement:
                case Say() | Think():
                    say = spoken.text if isinstance(statement, Say) else spoken.thinking
                    for pause_s, text in _pieces(statement):
                        if pause_s:
                            yield b""
                            await self._clock.sleep(pause_s)
                        yield say(text)
                case ScriptCall():
                    yield spoken.call(statement)
                case Wait():
                    yield b""
                    await self._clock.sleep(statement.seconds)
                case Fail():
                    if self._is_due(statement, (spoken.number, index)):
                        yield statement
                        return
                case Stop():
                    spoken.stop = statement.reason
                case Spend():
                    pass  # known before the first word
                case Yield():
                    pass  # no protocol has a word for it

    def _answers(self, number: int) -> ScriptAnswer:
        if number < len(self._script.answers):
            return self._script.answers[number]
        return ScriptAnswer((Say(f"The script {self._script.path} has no answer left for this request."),))

    def _is_due(self, fail: Fail, place: tuple[int, int]) -> bool:
        if fail.times is not None and self._failures[place] >= fail.times:
            return False
        self._failures[place] += 1
        return True

    def _forget_failures(self, number: int) -> None:
        for place in [place for place in self._failures if place[0] == number]:
            del self._failures[place]


def _speech_of(request: Received) -> type[Speech] | None:
    """The wire a request speaks."""
    path = request.path.partition("?")[0]
    return next(
        (speech for speech in _SPEECHES if request.method == "POST" and path.endswith(speech.path)), None
    )


def _problem(request: Received, speech: type[Speech]) -> str | None:
    try:
        return speech.problem(request.json, request.headers)
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        return f"The request cannot be read: {type(error).__name__}"


async def _refuse(reply: ReplyWriter, fail: Fail, spoken: Speech) -> bool:
    """A failure before the first word: a status where the protocol has one."""
    refusal = spoken.refusal(fail.reason)
    if refusal is None:
        if fail.reason != "garbage":
            return reply.abort()
        return await reply.raw(200, {"content-type": "application/json"}, b"{not json")
    headers = {} if fail.retry_after_s is None else {"retry-after": f"{fail.retry_after_s:g}"}
    return await reply.whole(fail.status or refusal.status, refusal.body, headers)


def _pieces(statement: Say | Think) -> Iterator[tuple[float, str]]:
    """The text piece by piece, each with the pause before it."""
    chunk = statement.chunk or (_CHUNK_PACED if statement.pace else _CHUNK_AT_ONCE)
    for start in range(0, len(statement.text), chunk):
        yield (1 / statement.pace if start and statement.pace else 0.0), statement.text[start : start + chunk]


# HTTP/1.1, as much of it as a model server needs


class ReplyWriter:
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
