"""JSON-RPC 2.0 for either end of a connection, with both framings.

`Peer` speaks whole messages and knows no transport: it is given `send` and is told of each message by
`receive`. `NewlineFrames` (MCP, ACP) and `HeaderFrames` (language servers) cut a byte stream into messages.

    RpcError            the other side answered with an error; raise it to answer with one
    RpcClosed           the connection ended before the answer came
    FramingError        the bytes are not framed messages; the connection is of no more use
      MessageTooLarge     … or a message is past the limit

Batches are refused with -32600: none of the protocols built on this uses them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Final, NoReturn, TypeAlias, TypeGuard, cast

import msgspec

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

DEFAULT_MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
_MAX_HEADER_BYTES: Final = 8 * 1024

RpcId: TypeAlias = int | str
RequestHandler: TypeAlias = Callable[[str, object], Coroutine[object, object, object]]
Notification: TypeAlias = Callable[[str, object], None]


class RpcError(Exception):
    """An error answer: `code` and `message` as on the wire, `data` None when absent."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class RpcClosed(Exception):
    """The connection is closed; whether the other side acted on the call is unknown."""


class FramingError(Exception):
    """The bytes break the framing. `completed` holds the messages the same feed finished before."""

    def __init__(self, text: str, completed: list[bytes] | None = None) -> None:
        super().__init__(text)
        self.completed: list[bytes] = completed or []


class MessageTooLarge(FramingError):
    """A message is larger than the limit."""

    def __init__(self, max_bytes: int, completed: list[bytes] | None = None) -> None:
        super().__init__(f"a message is larger than {max_bytes} bytes", completed)
        self.max_bytes = max_bytes


class Cancellation(msgspec.Struct, frozen=True):
    """How a protocol built on JSON-RPC takes a request back.

    A notification `method` whose params hold the request's id under `id_key`. A cancelled request is answered
    with `answer_code`, or not at all when that is None.
    """

    method: str
    id_key: str
    answer_code: int | None = None


MCP_CANCELLATION: Final = Cancellation("notifications/cancelled", "requestId")
LSP_CANCELLATION: Final = Cancellation("$/cancelRequest", "id", -32800)


async def refuse(method: str, params: object) -> object:
    """The request handler of a peer that offers no methods."""
    raise RpcError(METHOD_NOT_FOUND, f"no method {method}")


def ignore(method: str, params: object) -> None:
    """The notification handler of a peer that listens to none."""


class Peer:
    """One end of a connection; both ends may call.

    `send` takes one encoded message; it is never entered twice at once, and if it raises, the peer closes.
    `on_request` runs as a task per request and may raise `RpcError`; what else it raises is told to
    `on_failure` and answered as -32603 without its text, which may hold secrets. `on_notification` runs
    inside `receive`, so notifications keep their order; what it raises, `receive` raises.
    """

    def __init__(
        self,
        send: Callable[[bytes], Awaitable[None]],
        *,
        on_request: RequestHandler = refuse,
        on_notification: Notification = ignore,
        on_failure: Callable[[str, BaseException], None] | None = None,
        cancellation: Cancellation | None = None,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    ) -> None:
        self._send_bytes = send
        self._on_request = on_request
        self._on_notification = on_notification
        self._on_failure = on_failure
        self._cancellation = cancellation
        self._max_message_bytes = max_message_bytes
        self._sending = asyncio.Lock()
        self._next_id = 0
        self._calls: dict[int, asyncio.Future[object]] = {}
        self._requests: dict[RpcId, asyncio.Task[object]] = {}
        self._posts: set[asyncio.Task[None]] = set()
        self._closed: RpcClosed | None = None

    async def call(self, method: str, params: object = None) -> object:
        """Ask the other side and return its result.

        Raises `RpcError`, `RpcClosed` or `MessageTooLarge`. When this task is cancelled the other side is
        told, and a late answer is dropped.
        """
        call_id = self._next_id
        self._next_id += 1
        message = self._encoded(_request(method, params, call_id))
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._calls[call_id] = answer
        try:
            await self._send(message)
            return await answer
        except asyncio.CancelledError:
            self._take_back(call_id)
            raise
        finally:
            del self._calls[call_id]
            _forget(answer)

    async def notify(self, method: str, params: object = None) -> None:
        """Tell the other side; there is no answer. Raises `RpcClosed` or `MessageTooLarge`."""
        await self._send(self._encoded(_request(method, params)))

    def receive(self, message: bytes) -> None:
        """Take one message from the other side. Does nothing once closed.

        Answers reach their calls in whatever order they come. Unreadable or malformed messages are answered
        with an error; one past the limit closes the peer and raises `MessageTooLarge`, for it may have been
        an answer somebody waits for.
        """
        if self._closed:
            return
        if len(message) > self._max_message_bytes:
            error = MessageTooLarge(self._max_message_bytes)
            self._shut(str(error))
            raise error
        try:
            decoded: object = msgspec.json.decode(message)
        except (ValueError, RecursionError):
            self._answer_error(None, RpcError(PARSE_ERROR, "not JSON"))
            return
        if not isinstance(decoded, dict):
            self._answer_error(None, RpcError(INVALID_REQUEST, "not a single JSON-RPC message"))
            return
        fields = cast("dict[str, object]", decoded)
        if "method" in fields:
            self._receive_request(fields)
        else:
            self._receive_answer(fields)

    async def close(self) -> None:
        """Fail all waiting calls with `RpcClosed`, cancel all running requests and wait until they ended."""
        self._shut("the connection was closed")
        running = {*self._requests.values(), *self._posts} - {asyncio.current_task()}
        if running:
            await asyncio.wait(running)

    # Incoming

    def _receive_request(self, fields: dict[str, object]) -> None:
        request_id = fields.get("id")
        params = fields.get("params")
        fault = _fault(fields)
        if fault:
            known_id = request_id if _is_id(request_id) else None
            self._answer_error(known_id, RpcError(INVALID_REQUEST, fault))
            return
        method = cast("str", fields["method"])
        if "id" not in fields:
            if self._cancellation and method == self._cancellation.method:
                self._cancel_request(params, self._cancellation.id_key)
            else:
                self._on_notification(method, params)
            return
        request_id = cast("RpcId", request_id)
        if request_id in self._requests:
            self._answer_error(request_id, RpcError(INVALID_REQUEST, "a request with this id is running"))
            return
        task = asyncio.get_running_loop().create_task(self._on_request(method, params))
        self._requests[request_id] = task
        task.add_done_callback(partial(self._request_ended, request_id, method))

    def _cancel_request(self, params: object, id_key: str) -> None:
        if isinstance(params, dict):
            request_id = cast("dict[str, object]", params).get(id_key)
            if _is_id(request_id) and (task := self._requests.get(request_id)):
                task.cancel()

    def _request_ended(self, request_id: RpcId, method: str, task: asyncio.Task[object]) -> None:
        del self._requests[request_id]
        if task.cancelled():
            code = self._cancellation.answer_code if self._cancellation else INTERNAL_ERROR
            if code is not None:
                self._answer_error(request_id, RpcError(code, "cancelled"))
            return
        error = task.exception()
        if error is None:
            try:
                self._post(self._encoded({"jsonrpc": "2.0", "id": request_id, "result": task.result()}))
            except (TypeError, ValueError, RecursionError, MessageTooLarge) as unsendable:
                error = unsendable
            else:
                return
        if isinstance(error, RpcError):
            self._answer_error(request_id, error)
            return
        self._answer_error(request_id, RpcError(INTERNAL_ERROR, "internal error"))
        if self._on_failure:
            self._on_failure(method, error)

    def _receive_answer(self, fields: dict[str, object]) -> None:
        call = self._calls.get(_call_id(fields.get("id")))
        if call is None or call.done():
            return  # late, or an error about a message whose id the other side could not read
        if fields.get("error") is not None:
            call.set_exception(_error_from(fields["error"]))
        elif "result" in fields:
            call.set_result(fields["result"])
        else:
            call.set_exception(RpcError(INVALID_REQUEST, "the answer has neither result nor error"))

    # Outgoing

    def _encoded(self, message: Mapping[str, object]) -> bytes:
        encoded = msgspec.json.encode(message)
        if len(encoded) > self._max_message_bytes:
            raise MessageTooLarge(self._max_message_bytes)
        return encoded

    async def _send(self, message: bytes) -> None:
        async with self._sending:
            if self._closed:
                raise RpcClosed(*self._closed.args)
            try:
                await self._send_bytes(message)
            except Exception as error:
                self._shut("the connection broke while sending")
                raise RpcClosed("the connection broke while sending") from error

    def _post(self, message: bytes) -> None:
        """Send without waiting, in order with all other messages."""
        if self._closed:
            return
        task = asyncio.get_running_loop().create_task(self._send(message))
        self._posts.add(task)
        task.add_done_callback(self._post_ended)

    def _post_ended(self, task: asyncio.Task[None]) -> None:
        self._posts.discard(task)
        _forget(task)  # a failure has already closed the peer, which is how everybody learns of it

    def _answer_error(self, request_id: RpcId | None, error: RpcError) -> None:
        body: dict[str, object] = {"code": error.code, "message": error.message}
        if error.data is not None:
            body["data"] = error.data
        try:
            message = self._encoded({"jsonrpc": "2.0", "id": request_id, "error": body})
        except (TypeError, ValueError, RecursionError, MessageTooLarge):
            body = {"code": error.code, "message": "the error cannot be encoded"}
            message = msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": body})
        self._post(message)

    def _take_back(self, call_id: int) -> None:
        if self._cancellation:
            params = {self._cancellation.id_key: call_id}
            self._post(self._encoded(_request(self._cancellation.method, params)))

    def _shut(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = RpcClosed(reason)
        for call in self._calls.values():
            if not call.done():
                call.set_exception(RpcClosed(reason))
        for task in [*self._requests.values(), *self._posts]:
            if task is not asyncio.current_task():
                task.cancel()


class NewlineFrames:
    """Cuts a stream into messages at LF. Blank lines are skipped, a CR before the LF is dropped."""

    def __init__(self, max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._too_large = False

    @staticmethod
    def framed(message: bytes) -> bytes:
        """The bytes to write for one message. JSON as we encode it holds no line ends."""
        if b"\n" in message:
            raise FramingError("a message on one line cannot hold a line end")
        return message + b"\n"

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes; return the messages they complete. Raises `MessageTooLarge`, then always."""
        if self._too_large:
            raise MessageTooLarge(self._max_bytes)
        lines = chunk.split(b"\n")
        rest = lines.pop()
        messages: list[bytes] = []
        if lines:
            lines[0] = b"".join(self._parts) + lines[0]
            self._parts.clear()
            self._size = 0
        for line in lines:
            if len(line) > self._max_bytes:
                self._fail(messages)
            if line.strip():
                messages.append(line.removesuffix(b"\r"))
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > self._max_bytes:
                self._fail(messages)
        return messages

    def _fail(self, completed: list[bytes]) -> NoReturn:
        self._too_large = True
        self._parts.clear()
        raise MessageTooLarge(self._max_bytes, completed)


class HeaderFrames:
    """Cuts a stream into messages by `Content-Length` headers, as language servers send them."""

    def __init__(self, max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._searched = 0  # how much of the buffer is known to hold no end of headers
        self._body_bytes: int | None = None  # None while reading headers
        self._broken: FramingError | None = None

    @staticmethod
    def framed(message: bytes) -> bytes:
        """The bytes to write for one message."""
        return b"Content-Length: %d\r\n\r\n%b" % (len(message), message)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes; return the messages they complete. Raises `FramingError`, then always."""
        if self._broken:
            raise self._broken
        self._buffer += chunk
        messages: list[bytes] = []
        try:
            while (message := self._next()) is not None:
                messages.append(message)
        except FramingError as error:
            self._buffer.clear()
            error.completed = messages
            self._broken = FramingError(str(error))
            raise
        return messages

    def _next(self) -> bytes | None:
        if self._body_bytes is None:
            self._body_bytes = self._read_headers()
        if self._body_bytes is None or len(self._buffer) < self._body_bytes:
            return None
        message = bytes(memoryview(self._buffer)[: self._body_bytes])
        del self._buffer[: self._body_bytes]
        self._body_bytes = None
        return message

    def _read_headers(self) -> int | None:
        end = self._buffer.find(b"\r\n\r\n", max(0, self._searched - 3))
        if (len(self._buffer) if end < 0 else end) > _MAX_HEADER_BYTES:
            raise FramingError(f"the headers of a message are larger than {_MAX_HEADER_BYTES} bytes")
        if end < 0:
            self._searched = len(self._buffer)
            return None
        headers = bytes(self._buffer[:end])
        del self._buffer[: end + 4]
        self._searched = 0
        return self._content_length(headers)

    def _content_length(self, headers: bytes) -> int:
        lengths: set[int] = set()
        for line in headers.split(b"\r\n"):
            name, colon, value = line.partition(b":")
            if not colon:
                raise FramingError("a header without a colon")
            if name.strip().lower() == b"content-length":
                digits = value.strip()
                if not digits.isdigit():
                    raise FramingError("Content-Length is not a number")
                digits = digits.lstrip(b"0")
                if len(digits) > 18 or int(digits or b"0") > self._max_bytes:
                    raise MessageTooLarge(self._max_bytes)
                lengths.add(int(digits or b"0"))
        if len(lengths) != 1:
            raise FramingError("a message needs exactly one Content-Length")
        return lengths.pop()


def _request(method: str, params: object, call_id: int | None = None) -> dict[str, object]:
    message: dict[str, object] = {"jsonrpc": "2.0"}
    if call_id is not None:
        message["id"] = call_id
    message["method"] = method
    if params is not None:
        message["params"] = params
    return message


def _fault(fields: dict[str, object]) -> str | None:
    """What is wrong with a request or notification, if anything."""
    if fields.get("jsonrpc") != "2.0":
        return "jsonrpc is not 2.0"
    if not isinstance(fields["method"], str):
        return "method is not a string"
    if "id" in fields and not _is_id(fields["id"]):
        return "id is neither an integer nor a string"
    if not isinstance(fields.get("params"), dict | list | None):
        return "params are neither an object nor an array"
    return None


def _is_id(value: object) -> TypeGuard[RpcId]:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _call_id(value: object) -> int:
    """The id of one of our calls; some peers send numbers back as strings. -1 is no call's id."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _error_from(error: object) -> RpcError:
    if isinstance(error, dict):
        fields = cast("dict[str, object]", error)
        code, message = fields.get("code"), fields.get("message")
        if isinstance(code, int) and isinstance(message, str):
            return RpcError(code, message, fields.get("data"))
    return RpcError(INVALID_REQUEST, "the answer is an error without code or message")


def _forget(future: asyncio.Future[object] | asyncio.Future[None]) -> None:
    """Mark a failure as seen, so that the event loop does not report it."""
    if not future.done():
        future.cancel()
    elif not future.cancelled():
        future.exception()
