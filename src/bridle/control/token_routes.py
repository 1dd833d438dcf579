"""Tokens over HTTP: a new one for the code that a person reads on a surface of their own, and the end of one.

GET /v1/auth/token shows the code and says where; POST /v1/auth/token with that code gives the token. A new token is
asked for on the engine's own socket alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.control.minting import MintRequest, PendingMint
from bridle.control.request_guard import Listener
from bridle.control.service import Service
from bridle.protocol.errors import CommandRefused
from bridle.protocol.tokens import Claims


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """What a request for a token is answered with: which one, and the code that was shown for it."""

    mint_id: str
    code: str


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    token: str


class RevokedToken(msgspec.Struct, frozen=True, kw_only=True):
    jti: str


async def begin_mint(
    service: Service, by: Claims, listener: Listener, wanted: Mapping[str, Any]
) -> PendingMint:
    if listener.name != "unix":
        raise CommandRefused("MintRefused", problem="it is asked for on the engine's own socket")
    try:
        request = msgspec.convert(wanted, MintRequest, strict=False)
    except msgspec.ValidationError as problem:
        raise CommandRefused("BadCommand", kind="MintRequest", problem=str(problem)) from None
    return await service.minting().begin(by, request)


def confirm_mint(service: Service, by: Claims, body: Mapping[str, Any]) -> NewToken:
    try:
        given = msgspec.convert(body, Confirmation)
    except msgspec.ValidationError as problem:
        raise CommandRefused("BadCommand", kind="Confirmation", problem=str(problem)) from None
    return NewToken(token=service.minting().confirm(by, given.mint_id, given.code))


def revoke_token(service: Service, by: Claims, jti: str) -> RevokedToken:
    if not service.minting().may_revoke(by, jti):
        raise CommandRefused("NotGranted", what="RevokeToken")
    service.revoke(jti, by.jti)
    return RevokedToken(jti=jti)
