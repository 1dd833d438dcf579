"""The credential helper: a process that holds the key of one provider and sends requests with it, to its host only.

`python -I -m bridle.credentials.helper FD`: the errand comes on stdin; FD is the socket to the engine. Sockets of
requests arrive over it, a zero byte goes back every five seconds, and its end is the end of this process. There is no
port and no file. What the provider answers is passed on as it comes, without the key should it be in there.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from bridle.base.clock import Clock, SystemClock
from bridle.base.net.http import HttpConnections, HttpFault
from bridle.base.net.http_routes import parse_url
from bridle.base.process.own_process import close_to_others, leave_no_core
from bridle.credentials.encrypted import EncryptedStore
from bridle.credentials.helper_protocol import (
    BEAT,
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
    ReplyEnd,
    ReplyFault,
    ReplyHead,
    SendRequest,
    StoredNames,
    UnsendableRequest,
    helpers_end,
)
from bridle.credentials.keychain import KeychainStore
from bridle.credentials.locks import LockKeys
from bridle.credentials.oauth import client_of, form_post
from bridle.credentials.records import ApiKey, Credential, CredentialStore, SignIn, secret_of
from bridle.credentials.token_renewal import Renewal
from bridle.protocol.errors import CredentialError

MASK: Final = b"[redacted]"
SHORTEST: Final = 8
"""What is shorter is no secret, and would turn up by chance."""


class Masking:
    """One stream. Held back is only an end of it that may be the beginning of a secret."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = _spellings(secrets)
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets))) if self._secrets else None
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What may go on. It may be nothing."""
        if self._pattern is None:
            return data
        data = self._held + data
        after = 0
        for found in self._pattern.finditer(data):
            after = found.end()
        held = self._held_back(data, after)
        ready = data[: len(data) - held]
        self._held = data[len(ready) :]
        return self._pattern.sub(MASK, ready) if after else ready

    def end(self) -> bytes:
        """What was held back: no secret after all."""
        held, self._held = self._held, b""
        return held

    def _held_back(self, data: bytes, after: int) -> int:
        """How many bytes at the end of `data`, from `after` on, are the beginning of a secret."""
        most = 0
        for secret in self._secrets:
            at = max(after, len(data) - len(secret) + 1)
            while (at := data.find(secret[:1], at)) >= 0:
                if secret.startswith(data[at:]):
                    most = max(most, len(data) - at)
                    break
                at += 1
        return most


def masked(text: str, secrets: Iterable[str]) -> str:
    """A short text without any of the secrets."""
    for secret in _spellings(secrets):
        text = text.replace(secret.decode(), MASK.decode())
    return text


def _spellings(secrets: Iterable[str]) -> list[bytes]:
    """The secrets as they may appear, longest first; JSON may write a slash in two characters."""
    plain = {secret for secret in secrets if len(secret) >= SHORTEST}
    spelled = plain | {secret.replace("/", r"\/") for secret in plain}
    return sorted((secret.encode() for secret in spelled), key=len, reverse=True)


def keep_to_ourselves() -> None:
    """From here on no core is dumped, and on Linux only root may look into this process."""
    leave_no_core()
    if not close_to_others() and sys.platform == "linux":
        raise OSError("this process could not be closed to others")


class _Unavailable(Exception):
    """There is no credential to send a request with."""

    def __init__(self, refusal: NotSent) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class _Key:
    """A key, where it is from, and what must not be passed on with it. Its text shows nothing."""

    def __init__(self, key: str, source: str, *others: str | None) -> None:
        self.key = key
        self.source = source
        self.secrets = tuple(secret for secret in (key, *others) if secret)


class CredentialHolder:
    """Finds the credential of an errand. What was found last is used until it is looked for again."""

    def __init__(
        self, errand: Errand, env: Mapping[str, str], connections: HttpConnections, clock: Clock
    ) -> None:
        self._errand = errand
        self._env = env
        self._connections = connections
        self._clock = clock
        self._store: CredentialStore | None = None
        self._key: _Key | None = None
        self._looked = False

    async def find(self) -> _Key | None:
        """Raises `_Unavailable` where a key is needed and cannot be had."""
        try:
            self._key = self._checked(self._given() or await self._stored())
        except CredentialError as problem:
            if self._errand.needs_key:
                raise _Unavailable(NotSent(problem.reason, problem.data)) from None
            self._key = None
        self._looked = True
        return self._key

    async def found(self) -> _Key | None:
        return self._key if self._looked else await self.find()

    def names(self) -> tuple[str, ...]:
        """The providers that have a stored credential. Raises `CredentialError`."""
        store = self._opened()
        return () if store is None else tuple(credential.provider for credential in store.list())

    def _given(self) -> _Key | None:
        key = os.fsdecode(self._errand.given_key).strip()
        return _Key(key, self._errand.given_source) if key else None

    async def _stored(self) -> _Key | None:
        store = self._opened()
        if store is None:
            return None
        found = await asyncio.to_thread(store.get, self._errand.provider)
        if isinstance(found, SignIn):
            found = await self._renewed(store)
        if found is None:
            return None
        also = None if isinstance(found, ApiKey) else found.refresh_token
        return _Key(secret_of(found).strip(), self._errand.stored_source, also)

    async def _renewed(self, store: CredentialStore) -> Credential | None:
        vault, oauth = self._errand.vault, self._errand.oauth
        assert vault is not None
        lock_path = os.path.join(os.fsdecode(vault.state), "renewing.lock")
        post = form_post(lambda: self._connections)
        renewal = Renewal(store, lock_path=lock_path, clock=self._clock, post=post)
        client = client_of(self._errand.provider, oauth) if oauth else None
        return await renewal.current(self._errand.provider, client)

    def _checked(self, key: _Key | None) -> _Key | None:
        errand = self._errand
        if key is None:
            if not errand.needs_key:
                return None
            raise CredentialError("NoKey", provider=errand.provider, source=errand.missing_source)
        if not key.key.isascii() or not key.key.isprintable() or " " in key.key:
            raise CredentialError("UnusableKey", provider=errand.provider, source=key.source)
        return key

    def _opened(self) -> CredentialStore | None:
        vault = self._errand.vault
        if self._store is None and vault is not None:
            if vault.back_end == "keyring":
                self._store = KeychainStore(os.path.join(os.fsdecode(vault.state), "keyring.lock"))
            else:
                keys = LockKeys(env=self._env, key_path=os.fsdecode(vault.key_path))
                self._store = EncryptedStore(os.fsdecode(vault.path), keys)
        return self._store


class Helper:
    """Answers the requests of an engine."""

    def __init__(self, errand: Errand, clock: Clock) -> None:
        env = {name: os.fsdecode(value) for name, value in errand.env.items()}
        self._errand = errand
        self._connections = HttpConnections(env=env, clock=clock)
        self._holder = CredentialHolder(errand, env, self._connections, clock)

    async def answer(self, sock: socket.socket) -> None:
        """One request on its socket. When the engine gives it up, the connection to the provider is closed."""
        channel = await helpers_end(sock)
        try:
            request = await channel.hear()
            body = await channel.read(request.body_bytes) if isinstance(request, SendRequest) else b""
            answering = asyncio.ensure_future(self._answer(request, body, channel))
            leaving = asyncio.ensure_future(channel.left())
            leaving.add_done_callback(lambda _: answering.cancel())
            try:
                await answering
            finally:
                leaving.cancel()
            await channel.end()
        except (HelperGone, asyncio.CancelledError):
            pass
        finally:
            channel.abort()

    async def _answer(
        self, request: HelperRequest | bytes, body: bytes, channel: Channel[HelperRequest]
    ) -> None:
        try:
            match request:
                case FindKey():
                    key = await self._holder.find()
                    await channel.say(KeyFound(key.source if key is not None else None))
                case ListNames():
                    await channel.say(StoredNames(await asyncio.to_thread(self._holder.names)))
                case SendRequest():
                    await self._forward(request, body, channel)
                case bytes():
                    raise HelperGone
        except _Unavailable as problem:
            await channel.say(problem.refusal)
        except CredentialError as problem:
            await channel.say(NotSent(problem.reason, problem.data))

    async def _forward(self, ask: SendRequest, body: bytes, channel: Channel[HelperRequest]) -> None:
        key = await self._holder.found()
        secrets = key.secrets if key is not None else ()
        try:
            await self._send(ask, self._with_key(ask, key), body, channel, secrets)
        except HttpFault as fault:
            await channel.say(ReplyFault(fault.kind, fault.origin, masked(fault.problem, secrets)))
        except ValueError as problem:
            await channel.say(UnsendableRequest(masked(str(problem), secrets)))

    async def _send(
        self,
        ask: SendRequest,
        headers: dict[str, str],
        body: bytes,
        channel: Channel[HelperRequest],
        secrets: tuple[str, ...],
    ) -> None:
        masking = Masking(secrets)
        if ask.method == "GET":
            whole = await self._connections.get(
                ask.url, headers=headers, limit_bytes=ask.limit_bytes, timeouts=ask.timeouts
            )
            await channel.say(_head(whole.status, whole.headers, secrets, truncated=whole.truncated))
            if body := masking.feed(whole.body) + masking.end():
                await channel.piece(body)
        else:
            async with await self._connections.post_stream(
                ask.url, headers=headers, body=body, timeouts=ask.timeouts
            ) as response:
                await channel.say(_head(response.status, response.headers, secrets))
                async for chunk in response:
                    if piece := masking.feed(chunk):
                        await channel.piece(piece)
                if rest := masking.end():
                    await channel.piece(rest)
        await channel.say(ReplyEnd())

    def _with_key(self, ask: SendRequest, key: _Key | None) -> dict[str, str]:
        """The headers of a request. Raises ValueError for any other host than the provider's."""
        ours, asked = parse_url(self._errand.base_url), parse_url(ask.url)
        if asked.origin != ours.origin:
            raise ValueError(f"the key of {self._errand.provider} is only sent to {ours.origin}")
        if key is None:
            return dict(ask.headers)
        name = self._errand.header
        headers = {other: value for other, value in ask.headers.items() if other.lower() != name.lower()}
        return {**headers, name: f"{self._errand.scheme} {key.key}".lstrip()}


def _head(
    status: int, headers: Mapping[str, str], secrets: tuple[str, ...], *, truncated: bool = False
) -> HelperReply:
    return ReplyHead(status, {name: masked(value, secrets) for name, value in headers.items()}, truncated)


async def serve(errand: Errand, control: socket.socket, clock: Clock) -> None:
    """Until the engine is gone: then this process ends at once, whatever it is doing."""
    helper = Helper(errand, clock)
    requests: set[asyncio.Task[None]] = set()

    def listen() -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            os._exit(0)
        for descriptor in descriptors:
            task = asyncio.ensure_future(helper.answer(socket.socket(fileno=descriptor)))
            requests.add(task)
            task.add_done_callback(requests.discard)

    control.setblocking(False)
    asyncio.get_running_loop().add_reader(control, listen)
    while True:
        try:
            control.send(BEAT)
        except BlockingIOError:
            pass  # the engine is busy: beats enough wait for it
        except OSError:
            os._exit(0)
        await clock.sleep(BEAT_S)


def main(descriptor: str) -> None:
    keep_to_ourselves()
    control = socket.socket(fileno=int(descriptor))
    errand = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Errand)
    asyncio.run(serve(errand, control, SystemClock()))


if __name__ == "__main__":
    main(sys.argv[1])
