"""The sign-ins at MCP servers, from where credentials are stored: what `bridle.mcp` asks for tokens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from bridle.app.stored_keys import StoredKeys
from bridle.base.http import HttpConnections
from bridle.credentials.records import SignIn
from bridle.mcp.server_tokens import ServerTokens, TokensUnavailable
from bridle.protocol.errors import BridleError


def stored_tokens(
    stored: StoredKeys, connections: Callable[[], HttpConnections]
) -> Callable[[str], ServerTokens]:
    """The tokens of each sign-in, by its name, renewed over these connections."""
    return lambda name: _StoredTokens(name, stored, connections)


class _StoredTokens:
    def __init__(self, name: str, stored: StoredKeys, connections: Callable[[], HttpConnections]) -> None:
        self._name = name
        self._stored = stored
        self._connections = connections
        self._found: SignIn | None = None

    async def current(self, *, refused: str = "") -> str | None:
        try:
            found = await self._stored.server_sign_in(self._name, self._connections, refused=refused)
        except BridleError as problem:
            raise TokensUnavailable(problem.message.rstrip(".")) from None
        self._found = found
        return None if found is None else found.access_token

    async def challenged(self, challenge: str) -> None:
        if self._found is not None:
            with suppress(BridleError):  # the next sign-in finds out anew
                await self._stored.keep_challenge(self._found, challenge)
