"""A configured endpoint as a `Provider`: sends the bytes of its wire and reads what comes back.

Nothing is retried and nothing is kept here: one request, one answer, one reason when it fails.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from bridle.base.net.http import DEFAULT_TIMEOUTS, HttpAnswer, HttpFault, Timeouts
from bridle.base.net.sse import SseFrameBuffer, SseFrameTooLarge
from bridle.engine.ports import ModelAlive, ModelDone, ModelPart, ModelRequest, Patience, Wire
from bridle.engine.sizes import MAX_ANSWER, messages_tokens, too_long
from bridle.protocol.errors import ProviderError
from bridle.protocol.messages import Message
from bridle.providers.answers import CUT, NOT_TEXT, AnswerFault, Decoder, decode_answer
from bridle.providers.endpoints import Endpoint, is_usable_key
from bridle.providers.failures import (
    AskedProvider,
    broken_off,
    is_page,
    refused,
    reported,
    silent,
    unreachable,
    unreadable,
)
from bridle.providers.model_listing import ModelInfo, read_listing
from bridle.providers.wires import dialect

END_S: Final = 0.1
"""How long the end of the body may take after the end of the answer; a connection that is kept saves a handshake."""
MAX_ERROR_BYTES: Final = 64 * 1024
MAX_LISTING_BYTES: Final = 8 * 1024 * 1024
LISTING_TIMEOUTS: Final = Timeouts(connect_s=5, write_s=5, first_byte_s=10, idle_s=10)
HINT_TIMEOUTS: Final = Timeouts(connect_s=2, write_s=2, first_byte_s=2, idle_s=2)
"""For a listing that only makes an error more helpful."""

HAVE_NAMES: Final = 8
"""How many models of a server are named to somebody who asked for one it does not have."""

_LIFE_BYTES: Final = 4 * 1024
"""So many bytes are more of an answer, also while they complete nothing; a few may come from a server that is stuck."""
_ALIVE: Final = (ModelAlive(grown=False),)
_GROWN: Final = (ModelAlive(grown=True),)
_PAGE: Final = "it is a web page; check base_url"
_NO_TEXT: Final = ("image/", "audio/", "video/", "font/")


ACCEPT: Final = "text/event-stream, application/json"
MASK: Final = "********"
"""What stands for a key where a request is only shown."""


class Response(Protocol):
    """An answer whose body comes as it arrives; the contract is that of `base.http.StreamedResponse`."""

    status: int
    headers: Mapping[str, str]

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    async def read(self, limit_bytes: int) -> bytes: ...
    async def finish(self, within_s: float) -> None: ...
    async def close(self) -> None: ...


class Connections(Protocol):
    """The way to a server: `base.http.HttpConnections`, or one by another process that has its contract."""

    async def post_stream(
        self, url: str, *, headers: Mapping[str, str], body: bytes, timeouts: Timeouts = DEFAULT_TIMEOUTS
    ) -> Response: ...

    async def get(
        self, url: str, *, headers: Mapping[str, str], limit_bytes: int, timeouts: Timeouts = DEFAULT_TIMEOUTS
    ) -> HttpAnswer: ...


class RemoteModel:
    """Answers requests of an endpoint's wire, whichever that is. `key` is asked for each request and never kept.

    `make_ready` is awaited before: what `key` finds may have to be fetched or renewed. `key_source` says where it was
    found, for whoever is told that it was refused. `key_is_added`: the connections add the key, or say that there is
    none.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        key: Callable[[], str | None],
        connections: Connections,
        *,
        streaming: bool = True,
        timeouts: Timeouts | None = None,
        make_ready: Callable[[], Awaitable[None]] | None = None,
        key_source: Callable[[], str | None] = lambda: None,
        key_is_added: bool = False,
    ) -> None:
        self._endpoint = endpoint
        self._key = key
        self._connections = connections
        self._timeouts = timeouts or _timeouts(endpoint.patience)
        self._make_ready = make_ready
        self._key_source = key_source
        self._needs_key = endpoint.needs_key and not key_is_added
        self._dialect = dialect(endpoint, streaming=streaming)

    @property
    def name(self) -> str:
        return self._endpoint.name

    @property
    def wire(self) -> Wire:
        return self._dialect.wire

    @property
    def patience(self) -> Patience:
        return self._endpoint.patience

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        asked = await self._asked(request.model)
        response = await self._send(asked, request.body)
        try:
            if response.status != 200:
                yield await self._withheld(asked, response)
                return
            reader = _reader(response.headers.get("content-type", ""), self._dialect.decoder())
            silent_s = self._timeouts.first_byte_s
            try:
                async for chunk in response:
                    silent_s = self._timeouts.idle_s
                    for part in reader.take(chunk):
                        yield part
                    if reader.is_done:
                        await response.finish(END_S)
                        return
            except HttpFault as fault:
                if fault.kind == "silent" and not reader.is_told:
                    raise silent(silent_s, endpoint=self._endpoint) from None
                if not reader.is_told:
                    raise broken_off(fault.kind, fault.problem, endpoint=self._endpoint) from None
            for part in reader.end():
                yield part
        except AnswerFault as fault:
            yield self._faulty(asked, fault)
        finally:
            await response.close()

    async def models(self, timeouts: Timeouts = LISTING_TIMEOUTS) -> tuple[ModelInfo, ...]:
        """What the endpoint lists; else the names its preset knows. Never a paid call."""
        asked = await self._asked("")
        found = await self._listing(asked, timeouts)
        return found or tuple(ModelInfo(name=name) for name in self._endpoint.models)

    def token_count(self, messages: Sequence[Message]) -> int:
        return messages_tokens(messages)

    async def _asked(self, model: str) -> AskedProvider:
        if self._make_ready is not None:
            await self._make_ready()
        key = self._usable_key()
        return AskedProvider(self._endpoint, model, key, self._key_source())

    def _usable_key(self) -> str | None:
        key = (self._key() or "").strip()
        if is_usable_key(key):
            return key
        if not key and not self._needs_key:
            return None
        reason = "UnusableKey" if key else "NoKey"
        source = (self._key_source() if key else None) or self._endpoint.key_source
        raise ProviderError(reason, provider=self.name, source=source)

    async def _send(self, asked: AskedProvider, body: bytes) -> Response:
        headers = {**self._headers(asked), "accept": ACCEPT}
        try:
            return await self._connections.post_stream(
                self._endpoint.url(self._dialect.path), headers=headers, body=body, timeouts=self._timeouts
            )
        except HttpFault as fault:
            if fault.kind == "silent":
                raise silent(self._timeouts.first_byte_s, endpoint=self._endpoint) from None
            raise unreachable(fault.kind, fault.problem, endpoint=self._endpoint) from None

    def masked_head(self) -> tuple[str, dict[str, str]]:
        """Where requests go and what they carry, without any key. What settings add to it may be one, too."""
        needs_none = not self._endpoint.needs_key and not self._endpoint.placeholder_key
        sent = self._endpoint.request_headers(None if needs_none else MASK)
        headers = {**self._dialect.headers, **sent, "accept": ACCEPT}
        own = {name: MASK for name in self._endpoint.headers if name in headers}
        return self._endpoint.url(self._dialect.path), {**headers, **own}

    def _headers(self, asked: AskedProvider) -> dict[str, str]:
        return {**self._dialect.headers, **self._endpoint.request_headers(asked.key)}

    # A refusal

    async def _withheld(self, asked: AskedProvider, response: Response) -> ModelDone:
        """The end of an answer that a content filter withheld. Raises for every other refusal."""
        try:
            body = await response.read(MAX_ERROR_BYTES)
        except HttpFault:
            body = b""
        error = refused(asked, status=response.status, headers=response.headers, body=body)
        if error is None:
            return ModelDone("content_filter")
        if error.reason == "UnknownModel":
            raise await self._with_near_names(asked, error)
        raise error

    async def _with_near_names(self, asked: AskedProvider, error: ProviderError) -> ProviderError:
        """The same error, and the names that look like the one that was asked for, if a listing comes soon."""
        try:
            found = await self._listing(asked, HINT_TIMEOUTS)
        except ProviderError:
            return error
        names = [model.name for model in found]
        near = near_names(asked.model, names)
        hint = f" Close: {', '.join(near)}." if near else ""
        if self._endpoint.pull_hint:
            have = f" You have: {', '.join(names[:HAVE_NAMES])}." if names else ""
            hint = f"{have} Pull it with: {self._endpoint.pull_hint.format(model=asked.model)}"
        data: dict[str, Any] = {**error.data, "near": hint}
        return ProviderError("UnknownModel", **data)

    async def _listing(self, asked: AskedProvider, timeouts: Timeouts) -> tuple[ModelInfo, ...]:
        try:
            answer = await self._connections.get(
                self._endpoint.url(self._dialect.models_path),
                headers=self._headers(asked),
                timeouts=timeouts,
                limit_bytes=MAX_LISTING_BYTES,
            )
        except HttpFault as fault:
            raise unreachable(fault.kind, fault.problem, endpoint=self._endpoint) from None
        if answer.status != 200:
            if answer.status in {404, 405} and self._endpoint.models:
                return ()
            error = refused(asked, status=answer.status, headers=answer.headers, body=answer.body)
            if error is None:
                raise unreadable("it withheld the list of models", endpoint=self._endpoint)
            raise error.given_up()
        found = read_listing(answer.body)
        if found is None:
            raise unreadable("it is not a list of models", endpoint=self._endpoint)
        return found

    def _faulty(self, asked: AskedProvider, fault: AnswerFault) -> ModelDone:
        """The end of an answer that the vendor withheld half-way. Raises for every other fault."""
        if fault.error is None:
            raise unreadable(fault.problem, endpoint=self._endpoint, retryable=fault.problem == CUT)
        error = reported(asked, fault.error)
        if error is not None:
            raise error
        return ModelDone("content_filter")


class _Streamed:
    """An answer as server-sent events."""

    def __init__(self, decoder: Decoder) -> None:
        self._frames = SseFrameBuffer(MAX_ANSWER)  # some pieces are a whole answer
        self._decoder = decoder
        self._text = codecs.getincrementaldecoder("utf-8")()
        self._is_first = True
        self._unended = 0
        self._room_left = decoder.room.left

    @property
    def is_done(self) -> bool:
        return self._decoder.is_done

    @property
    def is_told(self) -> bool:
        """Whether the vendor has said why its answer ends: what may be missing then is the price."""
        return self._decoder.is_told

    def take(self, chunk: bytes) -> Sequence[ModelPart]:
        """A sign of life for every read that completes a line: whoever watches for silence sees that the server is
        alive. Lone bytes of one that never ends give none."""
        if self._is_first and is_page(chunk):
            raise AnswerFault(_PAGE)
        self._is_first = False
        try:
            self._text.decode(chunk)  # a character lost on the way must not end up in somebody's file
            frames = self._frames.feed(chunk)
        except UnicodeDecodeError:
            raise AnswerFault(NOT_TEXT) from None
        except SseFrameTooLarge:
            raise too_long() from None
        parts = self._decoder.feed([frame.data for frame in frames])
        room_left, self._room_left = self._room_left, self._decoder.room.left
        return parts or self._sign(chunk, grown=room_left != self._room_left)

    def _sign(self, chunk: bytes, *, grown: bool) -> Sequence[ModelPart]:
        is_line = b"\n" in chunk or b"\r" in chunk
        self._unended = 0 if is_line else self._unended + len(chunk)
        if grown or self._unended >= _LIFE_BYTES:
            self._unended = 0
            return _GROWN
        return _ALIVE if is_line else ()

    def end(self) -> Sequence[ModelPart]:
        return self._decoder.finish()


class _Whole:
    """An answer as one JSON document."""

    is_done = False
    is_told = False

    def __init__(self, decoder: Decoder) -> None:
        self._body = bytearray()
        self._decoder = decoder

    def take(self, chunk: bytes) -> Sequence[ModelPart]:
        before = len(self._body)
        self._body += chunk
        if len(self._body) > MAX_ANSWER:
            raise too_long()
        return _GROWN if len(self._body) // _LIFE_BYTES > before // _LIFE_BYTES else ()

    def end(self) -> Sequence[ModelPart]:
        return decode_answer(self._decoder, bytes(self._body))


def _timeouts(patience: Patience) -> Timeouts:
    """Whoever asks watches for silence by parts; this is for bytes, which come at least as often."""
    return Timeouts(first_byte_s=patience.first_part_s, idle_s=max(patience.first_part_s, patience.idle_s))


def _reader(content_type: str, decoder: Decoder) -> _Streamed | _Whole:
    """By what the server says it sends, not by what was asked for. Many do not say it is an event stream."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in {"text/html", "application/xhtml+xml"}:
        raise AnswerFault(_PAGE)
    if kind.startswith(_NO_TEXT):
        raise AnswerFault("it is a file and not an answer; check base_url")
    return _Whole(decoder) if kind == "application/json" else _Streamed(decoder)


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """At most three names a person may have meant."""
    from difflib import get_close_matches

    return get_close_matches(name, list(known), n=3, cutoff=0.5)
