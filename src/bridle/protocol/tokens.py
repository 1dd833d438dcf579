"""The claims of a capability token: what its bearer may do, and until when.

Only the data and its reading live here; signing and the revocation list belong to the service. An absent list
and an empty one differ: absent sessions mean all of them (the bootstrap token), an empty list means none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import IdentityClass
from bridle.protocol.handshake import TOKEN_CLAIM_VERSION

WATCH: tuple[str, ...] = ("AttachSession", "DetachSession", "FollowEvents", "DescribeSession", "CheckHealth")
"""What a token needs to look on: nothing of it changes a session."""
APPROVE: tuple[str, ...] = (*WATCH, "AnswerPermission", "AnswerQuestion", "DismissExpiry")
"""What it needs to answer the questions of a session as well."""


class Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`exp` and `nbf` are seconds since 1970. `name` says which person bears the token; without one it is the person
    at the engine's own terminal. `commands` are kinds of commands and queries, and `FollowEvents` for reading events.
    """

    ver: int
    jti: str
    identity_class: IdentityClass
    exp: int
    nbf: int = 0
    sessions: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    commands: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    can_mint: bool = False
    critical_claims: tuple[str, ...] = ()
    name: str = ""

    def covers_session(self, session: str) -> bool:
        return self.sessions is msgspec.UNSET or session in self.sessions

    def covers_command(self, kind: str) -> bool:
        return self.commands is msgspec.UNSET or kind in self.commands


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


def _refuse_unknown_critical(fields: Mapping[str, Any]) -> None:
    known = set(Claims.__struct_fields__)
    critical = fields.get("critical_claims", ())
    if not isinstance(critical, list | tuple):
        raise CommandRefused("TokenInvalid", problem="critical_claims is not a list")
    for name in critical:  # pyright: ignore[reportUnknownVariableType]
        if name not in known:
            raise CommandRefused("TokenInvalid", problem=f"critical claim {name!r} is not known")
