"""Minting tokens: who may, for what at most, and the code that a person reads on a surface of their own first.

A request is answered with an id and the name of the surface; whoever asked has a minute to bring the six digits that
are shown there. Three wrong ones void it, and it takes its place until its minute is over: nobody guesses faster than
people read. A person at a terminal who mints for themselves needs no code.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

import msgspec

from bridle.base.clock import Clock, Timer
from bridle.base.ids import Ids
from bridle.base.text.terminal_text import visible
from bridle.control.capability_tokens import TOKEN_LIFE_S, Tokens
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import IdentityClass
from bridle.protocol.tokens import Claims

CODE_S = 60
WRONG_CODES = 3
MOST_WAITING = 3
LONGEST_NAME = 64
TERMINAL = "terminal"
"""Nobody is called this: it is the one who sits at the engine's own terminal."""

Channel: TypeAlias = Literal["client", "terminal", "desktop"]


class MintRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What somebody wants a token for. Absent commands are all of them, absent sessions none at all."""

    identity_class: IdentityClass
    sessions: tuple[str, ...] = ()
    commands: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    life_s: int = TOKEN_LIFE_S
    nbf: int = 0
    can_mint: bool = False
    name: str = ""


class ShownCode(msgspec.Struct, frozen=True, kw_only=True):
    """What a person reads on their own surface: the code, and what it is for."""

    mint_id: str
    code: str
    request: MintRequest
    expires_ms: int


class PendingMint(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request: where its code is shown, and until when it counts."""

    mint_id: str
    channel: Channel
    expires_ms: int


class Surfaces(msgspec.Struct, frozen=True, kw_only=True):
    """Where a code can be shown: `show` takes the best surface there is, and gives its name or None. `hide` is called
    when the code counts no more."""

    show: Callable[[ShownCode], Awaitable[Channel | None]]
    hide: Callable[[str], None] = lambda _mint_id: None


class _Waiting(msgspec.Struct, kw_only=True):
    code: str
    claims: Claims
    by: str
    timer: Timer
    wrong: int = 0

    @property
    def is_void(self) -> bool:
        return self.wrong >= WRONG_CODES


class Minting:
    """The requests for tokens that wait for their code."""

    def __init__(
        self,
        tokens: Tokens,
        *,
        clock: Clock,
        ids: Ids,
        random_bytes: Callable[[int], bytes],
        surfaces: Surfaces,
        hear: Callable[[str, dict[str, Any]], None] = lambda _what, _data: None,
    ) -> None:
        self._tokens = tokens
        self._clock = clock
        self._ids = ids
        self._random_bytes = random_bytes
        self._surfaces = surfaces
        self._hear = hear
        self._waiting: dict[str, _Waiting] = {}

    async def begin(self, by: Claims, request: MintRequest) -> PendingMint:
        """Shows a code for this request. Raises `MintRefused`; `NoConfirmation` where there is nowhere to show it."""
        claims = claims_for(self._tokens, by, request)
        if len(self._waiting) >= MOST_WAITING:
            raise CommandRefused("MintRefused", problem="other requests wait for their code; try in a minute")
        mint_id = self._ids.new("mint")
        code = f"{int.from_bytes(self._random_bytes(8), 'big') % 1_000_000:06}"
        expires_ms = self._clock.now_ms() + CODE_S * 1000
        timer = self._clock.call_later(CODE_S, lambda: self._too_late(mint_id))
        self._waiting[mint_id] = _Waiting(code=code, claims=claims, by=by.jti, timer=timer)
        shown = ShownCode(mint_id=mint_id, code=code, request=request, expires_ms=expires_ms)
        channel = None
        try:
            channel = await self._surfaces.show(shown)
        finally:
            if channel is None:
                self._forget(mint_id)
        if channel is None:
            raise CommandRefused("NoConfirmation")
        self._hear("asked", {"mint": mint_id, "by": by.jti, "channel": channel})
        return PendingMint(mint_id=mint_id, channel=channel, expires_ms=expires_ms)

    def confirm(self, by: Claims, mint_id: str, code: str) -> str:
        """The token, for whoever asked and brings the code. Raises `NoSuchMint`, `WrongCode`."""
        waiting = self._waiting.get(mint_id)
        if waiting is None or waiting.by != by.jti or waiting.is_void:
            raise CommandRefused("NoSuchMint")
        if not hmac.compare_digest(code.encode(), waiting.code.encode()):
            waiting.wrong += 1
            self._tokens.note_refusal("WrongCode", mint=mint_id)
            if waiting.is_void:
                self._surfaces.hide(mint_id)
            raise CommandRefused("WrongCode", left=WRONG_CODES - waiting.wrong)
        self._forget(mint_id)
        self._tokens.check(by)  # it may be over since
        token = self._tokens.issue(waiting.claims, by=by.jti)
        self._hear("minted", described(waiting.claims, by=by.jti))
        return token

    def may_revoke(self, by: Claims, jti: str) -> bool:
        """Everybody the token they have; a person who mints also what came of it. One bound to no sessions is a person
        at the engine's own terminal, who may revoke any."""
        if jti == by.jti:
            return True
        if by.identity_class != "human" or not by.can_mint:
            return False
        if by.sessions is msgspec.UNSET:
            return True
        minters = {one.claims.jti: one.by for one in self._tokens.issued}
        while jti := minters.pop(jti, ""):
            if jti == by.jti:
                return True
        return False

    def refuse(self, mint_id: str) -> bool:
        """The person who was shown the code does not want it. False where nothing waits."""
        if self._forget(mint_id):
            self._tokens.note_refusal("MintRefused", mint=mint_id)
            return True
        return False

    def _too_late(self, mint_id: str) -> None:
        self._forget(mint_id)

    def _forget(self, mint_id: str) -> bool:
        waiting = self._waiting.pop(mint_id, None)
        if waiting is None:
            return False
        waiting.timer.cancel()
        if not waiting.is_void:
            self._surfaces.hide(mint_id)
        return True


def claims_for(tokens: Tokens, by: Claims, request: MintRequest) -> Claims:
    """The claims of what is wanted, never more than whoever asks has. Raises `MintRefused`."""
    if by.identity_class != "human" or not by.can_mint:
        raise CommandRefused("MintRefused", problem="the token that asks for it may not mint")
    for session in request.sessions:
        if not by.covers_session(session):
            raise CommandRefused(
                "MintRefused", problem=f"it would reach {session}, which its minter does not"
            )
    wanted = by.commands if request.commands is msgspec.UNSET else request.commands
    if by.commands is not msgspec.UNSET and wanted is not msgspec.UNSET:
        for kind in wanted:
            if not by.covers_command(kind):
                raise CommandRefused("MintRefused", problem=f"it would do {kind}, which its minter may not")
    claims = tokens.new_claims(
        life_s=request.life_s,
        identity_class=request.identity_class,
        sessions=request.sessions,
        commands=wanted,
        nbf=max(request.nbf, by.nbf),
        can_mint=request.can_mint,
        name=_name_for(by, request),
    )
    if request.life_s <= 0 or claims.exp > by.exp or claims.nbf >= claims.exp:
        raise CommandRefused("MintRefused", problem="its time is empty, or longer than its minter's")
    if request.can_mint and request.identity_class != "human":
        raise CommandRefused("MintRefused", problem="an agent mints no tokens")
    return claims


def _name_for(by: Claims, request: MintRequest) -> str:
    """Who bears it. A person with a name of their own gives no other: they would be two."""
    name = request.name.strip()
    if by.name and name.casefold() not in ("", by.name.casefold()):
        raise CommandRefused("MintRefused", problem=f"{by.name} mints tokens for {by.name} only")
    refuse_bad_name(name)
    return by.name or name


def refuse_bad_name(name: str) -> None:
    if name.casefold() == TERMINAL or len(name) > LONGEST_NAME or visible(name, newlines=False) != name:
        problem = f'"{visible(name[:LONGEST_NAME], newlines=False)}" is no name to show with an answer'
        raise CommandRefused("MintRefused", problem=problem)


def described(claims: Claims, **more: Any) -> dict[str, Any]:
    """What may be logged of a token: what it is for, never the token."""
    return {
        "jti": claims.jti,
        "name": claims.name,
        "identity_class": claims.identity_class,
        "sessions": None if claims.sessions is msgspec.UNSET else list(claims.sessions),
        "commands": None if claims.commands is msgspec.UNSET else list(claims.commands),
        "exp": claims.exp,
        **more,
    }
