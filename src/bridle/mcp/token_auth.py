"""The token of a sign-in on every request to a server that listens. Nobody is asked and no browser opened here.

Imports the `mcp` package's HTTP client: loaded with the first connection. Signing in is `server_login`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable

import httpx2

from bridle.mcp.server_tokens import MOST_CHALLENGE, ServerTokens, TokensUnavailable


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
