"""Ways to a server for the scenarios of the wire: an engine in this process."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from bridle.app.engine import Engine
from bridle.conformance.wire_scenarios import NotOffered
from bridle.protocol.connection import Connection
from bridle.protocol.events import IdentityClass
from bridle.protocol.handshake import TOKEN_CLAIM_VERSION
from bridle.protocol.tokens import Claims

FAR_AWAY_S = 4_000_000_000


class EngineDoor:
    """An engine of this process, without a wire: claims are handed over, not signed."""

    models = "demo:"

    def __init__(self, engine: Engine, cwd: str) -> None:
        self.cwd = cwd
        self._engine = engine

    async def connect(
        self,
        *,
        name: str,
        identity: IdentityClass = "human",
        sessions: Sequence[str] | None = None,
        commands: Sequence[str] | None = None,
    ) -> Connection:
        claims = None
        if sessions is not None or commands is not None:
            claims = Claims(
                ver=TOKEN_CLAIM_VERSION,
                jti=name,
                identity_class=identity,
                exp=FAR_AWAY_S,
                sessions=UNSET if sessions is None else tuple(sessions),
                commands=UNSET if commands is None else tuple(commands),
            )
        return self._engine.connect(name=name, identity=identity, answers=identity == "human", claims=claims)

    async def knock(self, token: str) -> None:
        raise NotOffered("inside one process there are no tokens")

    def tokens(self) -> dict[str, str]:
        raise NotOffered("inside one process there are no tokens")
