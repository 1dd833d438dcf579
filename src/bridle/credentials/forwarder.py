"""The engine's side of the credential helper: requests to a provider whose key this process does not have.

The helper is started for the first request. Should it end, or fall silent, another one takes its place once; the
second time within a minute nothing more is tried for a while. A request whose answer has not begun is sent again by
then; one in the middle of its answer fails like any connection that broke.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Literal

import msgspec

from bridle.base.clock import Clock
from bridle.base.net.http import DEFAULT_TIMEOUTS, HttpAnswer, HttpFault, Timeouts
from bridle.base.net.http_routes import parse_url
from bridle.base.process.processes import CannotStart, Processes, ProcessGroup
from bridle.credentials.helper_protocol import (
    BEAT_S,
    Channel,
    Errand,
    FindKey,
    HelperGone,
    HelperReply,
    HelperRequest,
    KeyFound,
    ListNames,
    NotSent,
    ReplyFault,
    ReplyHead,
    SendRequest,
    StoredNames,
    UnsendableRequest,
    engines_end,
)
from bridle.protocol.errors import ProviderError

SILENCE_S: Final = 2 * BEAT_S + 2
"""Two beats that do not come are no accident."""
CRASHES: Final = 2
CRASHES_S: Final = 60.0
"""So many ends of a helper within so long are no accident either."""


class ForwardedResponse:
    """An answer that comes by way of the helper; the counterpart of `StreamedResponse`, with the same contract."""

    def __init__(self, head: ReplyHead, origin: str, channel: Channel[HelperReply]) -> None:
        self.status = head.status
        self.headers = head.headers
        self.truncated = head.truncated
        self._origin = origin
        self._channel = channel
        self._ended = False

    def __aiter__(self) -> ForwardedResponse:
        return self

    async def __anext__(self) -> bytes:
        if self._ended:
            raise StopAsyncIteration
        try:
            heard = await self._channel.hear()
        except HelperGone:
            await self.close()
            raise HttpFault("reset", self._origin, "the credential helper ended") from None
        except BaseException:
            self._channel.abort()
            raise
        match heard:
            case bytes():
                return heard
            case ReplyFault():
                await self.close()
                raise HttpFault(heard.kind, heard.origin, heard.problem)
            case _:
                await self.close()
                raise StopAsyncIteration

    async def read(self, limit_bytes: int) -> bytes:
        """The rest of the body. A longer one is cut there, and `truncated` is set."""
        body = bytearray()
        async for chunk in self:
            body += chunk
            if len(body) > limit_bytes:
                self.truncated = True
                await self.close()
        return bytes(body[:limit_bytes])

    async def finish(self, within_s: float) -> None:
        """Wait a moment for the end of a body whose rest does not matter, so that the connection can be kept."""
        with contextlib.suppress(HttpFault, TimeoutError):
            async with asyncio.timeout(within_s):
                async for _ in self:
                    pass
        await self.close()

    async def close(self) -> None:
        """Give the rest of the body up. May be repeated."""
        self._ended = True
        self._channel.abort()

    async def __aenter__(self) -> ForwardedResponse:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Forwarder:
    """Sends requests by way of a helper. `errand` is asked before each: another one means another helper.

    `env` is the environment of the helper's process, and holds no secret. Failures are those of `HttpConnections`,
    and `ProviderError`: no credential, or `CredentialHelperFailed`.
    """

    def __init__(
        self, errand: Callable[[], Errand], processes: Processes, *, env: Mapping[str, str], clock: Clock
    ) -> None:
        self.source: str | None = None
        """Where the key is from that `find` found last, as people know it. Never the key."""
        self.errand = errand
        self._processes = processes
        self._env = env
        self._clock = clock
        self._running: _Running | None = None
        self._starting = asyncio.Lock()
        self._crashes: list[tuple[float, str]] = []

    @property
    def pid(self) -> int | None:
        """The process of the helper, if it runs."""
        return self._running.pid if self._running is not None and self._running.alive else None

    async def find(self) -> None:
        """Has the credential found, and renewed where it must be."""
        reply, channel = await self._exchange(FindKey())
        channel.abort()
        assert isinstance(reply, KeyFound)
        self.source = reply.source

    async def names(self) -> frozenset[str]:
        reply, channel = await self._exchange(ListNames())
        channel.abort()
        assert isinstance(reply, StoredNames)
        return frozenset(reply.names)

    async def post_stream(
        self, url: str, *, headers: Mapping[str, str], body: bytes, timeouts: Timeouts = DEFAULT_TIMEOUTS
    ) -> ForwardedResponse:
        """Send the request; return when the head of the answer is there, whatever its status."""
        return await self._ask("POST", url, headers, body, timeouts)

    async def get(
        self, url: str, *, headers: Mapping[str, str], limit_bytes: int, timeouts: Timeouts = DEFAULT_TIMEOUTS
    ) -> HttpAnswer:
        """A small answer as a whole, cut after `limit_bytes`."""
        async with await self._ask("GET", url, headers, b"", timeouts, limit_bytes) as response:
            body = await response.read(limit_bytes)
        return HttpAnswer(response.status, response.headers, body, response.truncated)

    async def close(self) -> None:
        """Ends the helper, and every request it works on. May be repeated."""
        if self._running is not None:
            self._running.end()
            await self._running.process.stop()

    async def _ask(
        self,
        method: Literal["GET", "POST"],
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        timeouts: Timeouts,
        limit_bytes: int = 0,
    ) -> ForwardedResponse:
        origin = parse_url(url).origin
        ask = SendRequest(
            method=method,
            url=url,
            headers=headers,
            timeouts=timeouts,
            body_bytes=len(body),
            limit_bytes=limit_bytes,
        )
        reply, channel = await self._exchange(ask, body)
        assert isinstance(reply, ReplyHead)
        return ForwardedResponse(reply, origin, channel)

    async def _exchange(
        self, request: HelperRequest, body: bytes = b""
    ) -> tuple[HelperReply, Channel[HelperReply]]:
        """The first words of an answer. Ends: every helper that goes is one more crash."""
        while True:
            running = await self._ready()
            try:
                channel = await running.open()
                try:
                    await channel.say(request, body)
                    reply = await channel.hear()
                except BaseException:
                    channel.abort()
                    raise
            except HelperGone:
                running.lose("it ended")
                continue
            if not isinstance(reply, (KeyFound, StoredNames, ReplyHead)):
                channel.abort()
                raise _failure(reply)
            return reply, channel

    async def _ready(self) -> _Running:
        """The helper of the errand as it is now. Raises `ProviderError` when helpers end one after the other."""
        async with self._starting:
            errand = self.errand()
            if self._running is not None and self._running.alive:
                if self._running.errand == errand:
                    return self._running
                self._running.retire()
            since = self._clock.monotonic() - CRASHES_S
            self._crashes = [crash for crash in self._crashes if crash[0] > since]
            if len(self._crashes) >= CRASHES:
                raise self._failed(errand, f"{self._crashes[-1][1]}, twice within a minute")
            try:
                self._running = await self._start(errand)
            except CannotStart as problem:
                raise self._failed(errand, str(problem)) from None
            return self._running

    async def _start(self, errand: Errand) -> _Running:
        ours, theirs = socket.socketpair()
        try:
            process = await self._processes.start(
                [sys.executable, "-I", "-m", "bridle.credentials.helper", str(theirs.fileno())],
                cwd="/",
                env=self._env,
                stdin=msgspec.msgpack.encode(errand, enc_hook=dict),  # read-only mappings of settings
                pass_fds=[theirs.fileno()],
                on_output=lambda _text: None,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return _Running(process, ours, errand, self._clock, self._crashed)

    def _crashed(self, problem: str) -> None:
        self._crashes.append((self._clock.monotonic(), problem))

    def _failed(self, errand: Errand, problem: str) -> ProviderError:
        return ProviderError("CredentialHelperFailed", provider=errand.provider, problem=problem)


class _Running:
    """One helper: its process, the socket to it, and its heartbeat. `crashed` is told, once, if it ends by itself."""

    def __init__(
        self,
        process: ProcessGroup,
        control: socket.socket,
        errand: Errand,
        clock: Clock,
        crashed: Callable[[str], None],
    ) -> None:
        self.process = process
        self.pid = process.pid
        self.errand = errand
        self.alive = True
        self._control = control
        self._clock = clock
        self._crashed = crashed
        self._open = 0
        self._retired = False
        self._loop = asyncio.get_running_loop()
        self._heard_s = clock.monotonic()
        self._watch = clock.call_later(SILENCE_S, self._look)
        control.setblocking(False)
        self._loop.add_reader(control, self._listen)

    async def open(self) -> Channel[HelperReply]:
        """The channel of a new request. Raises `HelperGone`."""
        if not self.alive:
            raise HelperGone
        ours, theirs = socket.socketpair()
        try:
            socket.send_fds(self._control, [b"+"], [theirs.fileno()])
        except OSError:  # it is gone, or so far behind that nothing more fits in
            ours.close()
            raise HelperGone from None
        finally:
            theirs.close()
        self._open += 1
        return await engines_end(ours, self._closed)

    def lose(self, problem: str) -> None:
        """It is gone, or no good any more. May be repeated."""
        if self.alive:
            self.end()
            self._crashed(problem)

    def retire(self) -> None:
        """No new request comes; it ends with the last one."""
        self._retired = True
        if not self._open:
            self.end()

    def end(self) -> None:
        """Ends it at once. May be repeated."""
        if not self.alive:
            return
        self.alive = False
        self._watch.cancel()
        self._loop.remove_reader(self._control)
        self._control.close()
        self.process.signal_group(signal.SIGKILL)

    def _closed(self) -> None:
        self._open -= 1
        if self._retired and not self._open:
            self.end()

    def _listen(self) -> None:
        try:
            beats = self._control.recv(64)
        except BlockingIOError:
            return
        except OSError:
            beats = b""
        if beats:
            self._heard_s = self._clock.monotonic()
        else:
            self.lose("it ended")

    def _look(self) -> None:
        """It may have been us who did not listen: what has come by now counts."""
        if self.alive:
            self._listen()
        if not self.alive:
            return
        silent_s = self._clock.monotonic() - self._heard_s
        if silent_s >= SILENCE_S:
            self.lose("it fell silent")
        else:
            self._watch = self._clock.call_later(SILENCE_S - silent_s, self._look)


def _failure(reply: HelperReply | bytes) -> Exception:
    match reply:
        case NotSent():
            return ProviderError(reply.reason, **reply.data)
        case ReplyFault():
            return HttpFault(reply.kind, reply.origin, reply.problem)
        case UnsendableRequest():
            return ValueError(reply.problem)
        case _:
            return ValueError("the credential helper said something out of place")
