"""Where the clients of the scenarios get their tokens: from the engine that is tried, or from files of a person."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import UNSET

from bridle.conformance.wire_scenarios import NotOffered
from bridle.control.capability_tokens import Tokens
from bridle.protocol.events import IdentityClass
from bridle.protocol.tokens import Claims

_YEAR_S = 365 * 24 * 3600


class TokenDesk(Protocol):
    """Gives tokens. Every method raises `NotOffered` where it has none of the kind."""

    def token(self, name: str, identity: IdentityClass, *, alone: bool) -> str:
        """For everything a person or an agent may do. `alone`: nobody else in this scenario has it."""
        ...

    def bound_token(
        self,
        name: str,
        identity: IdentityClass,
        sessions: Sequence[str] | None,
        commands: Sequence[str] | None,
    ) -> str:
        """For these sessions and kinds of commands alone."""
        ...

    def any_token(self) -> str: ...

    def fresh_token(self) -> str:
        """One that nobody came with before."""
        ...

    def bad_tokens(self) -> dict[str, str]:
        """Tokens that must be refused, by what is wrong with them."""
        ...

    def left(self) -> None:
        """A scenario is over: what it had can be had again."""
        ...


class EngineDesk:
    """An engine of our own: it signs what a scenario asks for."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def token(self, name: str, identity: IdentityClass, *, alone: bool) -> str:
        claims = self._tokens.new_claims(identity_class=identity, name=name)
        signed = self._tokens.issue_provisioned(claims)
        self._tokens.start_with(signed)
        return signed

    def bound_token(
        self,
        name: str,
        identity: IdentityClass,
        sessions: Sequence[str] | None,
        commands: Sequence[str] | None,
    ) -> str:
        return self._tokens.issue(
            self._tokens.new_claims(
                identity_class=identity,
                name=name,
                sessions=tuple(sessions or ()),
                commands=UNSET if commands is None else tuple(commands),
            )
        )

    def any_token(self) -> str:
        return self.fresh_token()

    def fresh_token(self) -> str:
        return self.token("stranger", "human", alone=True)

    def bad_tokens(self) -> dict[str, str]:
        now = self._tokens.new_claims(identity_class="human", sessions=())
        revoked = self._tokens.new_claims(identity_class="human", sessions=())
        bad = {
            "forged": forged(self._tokens.issue(now)),
            "widened": _widened(self._tokens.issue(now), now),
            "expired": self._tokens.issue(msgspec.structs.replace(now, exp=now.exp - _YEAR_S)),
            "not yet good": self._tokens.issue(
                msgspec.structs.replace(now, nbf=now.exp, exp=now.exp + _YEAR_S)
            ),
            "revoked": self._tokens.issue(revoked),
        }
        self._tokens.revoke(revoked.jti)
        return bad

    def left(self) -> None:
        """There are always more."""


class FileDesk:
    """Tokens that were given by hand: the first is the person, the others are more people, or agents."""

    def __init__(self, people: Sequence[str], agents: Sequence[str]) -> None:
        self._given: dict[IdentityClass, tuple[str, ...]] = {"human": tuple(people), "agent": tuple(agents)}
        self._used: set[str] = set()

    def token(self, name: str, identity: IdentityClass, *, alone: bool) -> str:
        given = self._given[identity]
        if not given:
            raise NotOffered("an agent comes with --agent-token-file, and none is given")
        free = [token for token in given if token not in self._used]
        if not free and alone:
            raise NotOffered(
                f"over requests a token is one client: it takes {len(given) + 1} of --token-file"
                if identity == "human"
                else "over requests a token is one client: it takes another --agent-token-file"
            )
        token = free[0] if free else given[0]
        self._used.add(token)
        return token

    def bound_token(
        self,
        name: str,
        identity: IdentityClass,
        sessions: Sequence[str] | None,
        commands: Sequence[str] | None,
    ) -> str:
        raise NotOffered("it takes a token for one session, which a person mints while the session runs")

    def any_token(self) -> str:
        return self._given["human"][0]

    def fresh_token(self) -> str:
        raise NotOffered("it takes a token that nobody came with before")

    def bad_tokens(self) -> dict[str, str]:
        return {"forged": forged(self.any_token()), "nonsense": "no-token"}

    def left(self) -> None:
        self._used.clear()


def forged(token: str) -> str:
    """The same with another signature: its last part, turned around."""
    body, dot, end = token.rpartition(".")
    return f"{body}{dot}{end[::-1]}"


def _widened(token: str, claims: Claims) -> str:
    """Its bearer made it good for more, and signed nothing."""
    body = msgspec.json.encode(msgspec.structs.replace(claims, sessions=UNSET))
    return f"{base64.urlsafe_b64encode(body).rstrip(b'=').decode()}.{token.rpartition('.')[2]}"
