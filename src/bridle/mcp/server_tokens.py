"""Sign-ins at servers that listen, as the rest of this package knows them: where tokens come from, under which name."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from hashlib import sha256
from typing import Protocol

import httpx2

from bridle.base.fs.files import private_folder, read_limited, write_atomic
from bridle.base.net.http_routes import is_loopback, parse_url
from bridle.mcp.server_definitions import ServerDefinition

PREFIX = "mcp:"
MOST_CHALLENGE = 2_000
"""So many characters of what a server says to those it does not let in are kept."""


class TokensUnavailable(Exception):
    """There is a sign-in that cannot be used now, and why, as the end of a sentence."""


class ServerTokens(Protocol):
    """The tokens of one server, wherever they are kept."""

    async def current(self, *, refused: str = "") -> str | None:
        """A token for a request now; None where nobody signed in, or that has ended.

        `refused` is one that the server did not take. Raises `TokensUnavailable`.
        """
        ...

    async def challenged(self, challenge: str) -> None:
        """The server wants more than was granted: kept for the next sign-in."""
        ...


def sign_in_name(written: ServerDefinition, launched: ServerDefinition) -> str:
    """Under which name its sign-in is stored: of that server at that very address, and of no other.

    What references in the address stand for is told by a digest: it may be a secret.
    """
    name = f"{PREFIX}{written.name}@{written.url}"
    if launched.url == written.url:
        return name
    return f"{name}#{sha256(launched.url.encode()).hexdigest()[:16]}"


def takes_tokens(definition: ServerDefinition) -> bool:
    """Whether it could be signed in at: it listens, nobody can overhear it, and no header says who asks."""
    if definition.transport == "stdio" or any(name.lower() == "authorization" for name in definition.headers):
        return False
    return is_safe_address(definition.url)


def is_safe_address(address: str) -> bool:
    """Whether tokens may travel there: over https, or to this very machine."""
    try:
        url = parse_url(address)
    except ValueError:
        return False
    return url.secure or is_loopback(url.host)


def login_command(name: str) -> str:
    return f"bridle mcp login {shlex.quote(name)}"


class SignInMarks:
    """Which servers let nobody in when they were last asked, by the digest of their launch, each with what it said to
    that: for those who only look, and for the next sign-in."""

    def __init__(self, state_folder: str) -> None:
        self._folder = os.path.join(state_folder, "mcp", "sign-in")

    def keep(self, launch: str, challenge: str) -> None:
        """Nobody depends on it: where it cannot be kept, it is not."""
        with suppress(OSError):
            private_folder(self._folder)
            write_atomic(os.path.join(self._folder, launch), challenge.encode(), durable=False)

    def drop(self, launch: str) -> None:
        with suppress(OSError):
            os.unlink(os.path.join(self._folder, launch))

    def read(self, launch: str) -> str | None:
        """What it said; None where it lets people in, as far as is known."""
        try:
            found = read_limited(os.path.join(self._folder, launch), MOST_CHALLENGE).data.decode("ascii")
        except (OSError, UnicodeDecodeError):
            return None
        return found if found.isprintable() else ""


# Imports the `mcp` package's HTTP client: loaded with the first connection. Signing in is `server_login`.


class TokenAuth(httpx2.Auth):
    """Sends what is stored, once more with a renewed one where it was not taken, and never asks a third time.

    `problem` says what stood in the way of the last request, as the end of a sentence; `wants_sign_in` whether only a
    person can mend it. `is_locked_out`: nothing is let in, `refused` is the token that was not taken, and
    `challenge` what the server said to it.
    """

    def __init__(self, tokens: ServerTokens, login: str, not_let_in: Callable[[], None]) -> None:
        self.problem = self.refused = self.challenge = ""
        self.wants_sign_in = self.is_locked_out = False
        self._tokens = tokens
        self._login = login
        self._not_let_in = not_let_in

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        token = await self._token()
        _bear(request, token)
        response = yield request
        if response.status_code == 401 and token:
            fresh = await self._token(refused=token)
            if fresh and fresh != token:
                _bear(request, fresh)
                token = fresh
                response = yield request
        if response.status_code == 401:
            self.refused, self.challenge = token or "", _challenge(response)
            self.is_locked_out = True
            self._note(self.problem or f"needs sign-in: {self._login}")
        elif response.status_code == 403 and (challenge := _wants_more(response)):
            await self._tokens.challenged(challenge)
            self._note(f"needs sign-in for more than it was allowed: {self._login}")
        elif response.status_code < 400:
            self.problem = ""
            self.wants_sign_in = self.is_locked_out = False

    async def _token(self, *, refused: str = "") -> str | None:
        try:
            return await self._tokens.current(refused=refused)
        except TokensUnavailable as problem:
            self.problem = f"has a sign-in that cannot be used: {problem}"
            return None

    def _note(self, problem: str) -> None:
        self.problem, self.wants_sign_in = problem, True
        self._not_let_in()


def _bear(request: httpx2.Request, token: str | None) -> None:
    if token:
        request.headers["Authorization"] = f"Bearer {token}"


def _wants_more(response: httpx2.Response) -> str:
    """The challenge of a server for which the token is good but not enough; else empty."""
    challenge = _challenge(response)
    return challenge if re.search(r'\berror="?insufficient_scope\b', challenge) else ""


def _challenge(response: httpx2.Response) -> str:
    """What the server says of who it lets in; empty for what is none."""
    challenge = response.headers.get("www-authenticate", "")
    plain = challenge.isascii() and challenge.isprintable() and len(challenge) <= MOST_CHALLENGE
    return challenge if plain else ""
