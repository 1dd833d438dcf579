"""How long a token holds for who stays: a stream is ended when it was revoked, or has been over for a minute."""

from __future__ import annotations

from bridle.base.clock import Clock
from bridle.control.request_guard import TokenReader
from bridle.protocol.errors import CommandRefused
from bridle.protocol.tokens import Claims

LOOK_S = 5.0
DRAIN_S = 60.0
"""So long what was begun with a token goes on after the token is over; nothing new is taken with it."""


async def token_holds(tokens: TokenReader, claims: Claims, clock: Clock) -> CommandRefused:
    """Returns when it holds no more, with the reason."""
    while True:
        try:
            tokens.check(claims)
        except CommandRefused as refusal:
            if refusal.reason != "TokenExpired" or clock.now_ms() >= (claims.exp + DRAIN_S) * 1000:
                return refusal
        await clock.sleep(LOOK_S)
