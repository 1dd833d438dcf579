"""The token of an open stream: said to expire five minutes before it does, and the end of the stream afterwards.

A stream may drain for a minute past the end of its token. One that was revoked ends when that is found out, within
seconds, also where another process revoked it.
"""

from __future__ import annotations

from collections.abc import Callable

from bridle.base.clock import Clock, Timer
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import TokenExpiring
from bridle.protocol.tokens import Claims

NOTICE_S = 300
DRAIN_S = 60
LOOK_S = 5.0

CheckClaims = Callable[[Claims], None]
"""Raises `CommandRefused` for claims that do not hold any more."""


class TokenWatch:
    """Looks at one token every few seconds. `wake` is called when there is something to say."""

    def __init__(self, claims: Claims, *, clock: Clock, check: CheckClaims, wake: Callable[[], None]) -> None:
        self.over: CommandRefused | None = None
        """Why the stream ends now."""
        self._claims = claims
        self._clock = clock
        self._check = check
        self._wake = wake
        self._told = self._due = False
        self._timer: Timer | None = None
        self._look()

    @property
    def has_news(self) -> bool:
        return self._due or self.over is not None

    def notice(self) -> TokenExpiring | None:
        """That it expires soon, once."""
        if not self._due:
            return None
        self._due, self._told = False, True
        return TokenExpiring(jti=self._claims.jti, expires_ms=self._claims.exp * 1000)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        left_s = self._claims.exp - self._clock.now_ms() / 1000
        try:
            self._check(self._claims)
        except CommandRefused as refusal:
            if refusal.reason != "TokenExpired" or left_s <= -DRAIN_S:
                self.over = refusal
        self._due = self._due or (not self._told and left_s <= NOTICE_S)
        if self.over is None:
            self._timer = self._clock.call_later(LOOK_S, self._look)
        if self.has_news:
            self._wake()
