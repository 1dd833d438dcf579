"""An OAuth client registration at an authorization server, as data."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

ClientProof: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post"]
"""How a program proves who it is when it asks for a token (RFC 7591)."""


class ClientRegistration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A program at one authorization server, `issuer`; it is of no use at another. Its text shows no secret.

    `resource` is what its tokens are for, where requests say so; `scope` what was granted. `redirect_uri` is where a
    browser comes back to. `challenge` is what the resource last answered when that was not enough.
    """

    issuer: str
    token_url: str
    client_id: str
    client_secret: str = ""
    proof: ClientProof = "none"
    resource: str = ""
    scope: str = ""
    redirect_uri: str = ""
    challenge: str = ""

    def __repr__(self) -> str:
        return f"ClientRegistration(issuer={self.issuer!r}, client_id={self.client_id!r})"
