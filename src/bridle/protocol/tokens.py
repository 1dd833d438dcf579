"""The claims of a capability token: what its bearer may do, and until when.

Only the data and its reading live here; signing and the revocation list belong to the service. An absent list
and an empty one differ: absent sessions mean all of them (the bootstrap token), an empty list means none.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import IdentityClass

TOKEN_CLAIM_VERSION = 1
WATCH: tuple[str, ...] = ("AttachSession", "DetachSession", "FollowEvents", "DescribeSession", "CheckHealth")
"""What a token needs to look on: nothing of it changes a session."""
APPROVE: tuple[str, ...] = (*WATCH, "AnswerPermission", "AnswerQuestion", "DismissExpiry")
"""What it needs to answer the questions of a session as well."""


class Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`exp` and `nbf` are seconds since 1970. `name` says which person bears the token; without one it is the person
    at the engine's own terminal. `commands` are kinds of commands and queries, and `FollowEvents` for reading events.
    Beside the `sessions` named, those it `opens` itself are its own.
    """

    ver: int
    jti: str
    identity_class: IdentityClass
    exp: int
    nbf: int = 0
    sessions: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    commands: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    opens: bool = False
    can_mint: bool = False
    critical_claims: tuple[str, ...] = ()
    name: str = ""

    def covers_session(self, session: str) -> bool:
        return self.sessions is msgspec.UNSET or session in self.sessions

    def covers_command(self, kind: str) -> bool:
        return self.commands is msgspec.UNSET or kind in self.commands


def for_agent(claims: Claims) -> Claims:
    """The same claims for a program that drives sessions for a model of its own, never more than they were.

    It is of the class agent and mints nothing. With a person's token that names no sessions there are those it opens
    itself; a token that was made for an agent counts as it stands.
    """
    bound = claims.identity_class == "human" and claims.sessions is msgspec.UNSET
    return msgspec.structs.replace(
        claims,
        identity_class="agent",
        can_mint=False,
        sessions=() if bound else claims.sessions,
        opens=bound or claims.opens,
    )


def with_session(claims: Claims, session: str) -> Claims:
    """The same claims for one session more, which their bearer opened."""
    named = () if claims.sessions is msgspec.UNSET else claims.sessions
    if claims.sessions is msgspec.UNSET or session in named:
        return claims
    return msgspec.structs.replace(claims, sessions=(*named, session))


def read_claims(raw: bytes) -> Claims:
    """Decodes claims; fails closed on another version or on a critical claim this version does not know."""
    try:
        fields = msgspec.json.decode(raw, type=dict[str, Any])
        _refuse_unknown_critical(fields)
        claims = msgspec.convert(fields, Claims)
    except msgspec.ValidationError as problem:
        raise CommandRefused("TokenInvalid", problem=str(problem)) from None
    except msgspec.DecodeError:
        raise CommandRefused("TokenInvalid", problem="its claims are not JSON") from None
    if claims.ver != TOKEN_CLAIM_VERSION:
        raise CommandRefused("TokenInvalid", problem=f"claim version {claims.ver} is not known")
    return claims


def claims_said(token: str) -> Claims | None:
    """What a token says of itself, for who bears it; None where it cannot be read. Its engine says if it holds."""
    body = token.partition(".")[0]
    try:
        return read_claims(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, CommandRefused):
        return None


def only_session(claims: Claims | None) -> str:
    """The one session that claims are for; empty where they name none, or several."""
    named = () if claims is None or claims.sessions is msgspec.UNSET else claims.sessions
    return named[0] if len(named) == 1 else ""


def _refuse_unknown_critical(fields: Mapping[str, Any]) -> None:
    known = set(Claims.__struct_fields__)
    critical = fields.get("critical_claims", ())
    if not isinstance(critical, list | tuple):
        raise CommandRefused("TokenInvalid", problem="critical_claims is not a list")
    for name in critical:  # pyright: ignore[reportUnknownVariableType]
        if name not in known:
            raise CommandRefused("TokenInvalid", problem=f"critical claim {name!r} is not known")
