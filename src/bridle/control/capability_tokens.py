"""Capability tokens: signed claims, read and checked for every request.

A token is `base64url(claims as JSON) "." base64url(HMAC-SHA256)`. Where issued tokens and revocations are kept is a
port that the composition root gives: every process of one data folder sees the same, so a revocation holds at once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from bridle.base.clock import Clock, iso_ms
from bridle.base.ids import TOK, Ids, is_id
from bridle.protocol.errors import CommandRefused
from bridle.protocol.tokens import TOKEN_CLAIM_VERSION, Claims, read_claims

SECRET_BYTES = 32
TOKEN_LIFE_S = 24 * 3600
ENGINE_LIFE_S = 400 * 24 * 3600
"""The token an engine is started with is good for as long as the engine runs; it is none of this long."""
LONGEST_TOKEN = 64 * 1024
FAILURES_A_MINUTE = 20
_WINDOW_S = 60.0
_PEERS = 1_000


class IssuedToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a token that was issued: its claims, never the token. `by` is the token that minted it, empty
    for a person at a terminal; `revoked_ms` is when it was revoked."""

    claims: Claims
    issued_ms: int
    by: str = ""
    revoked_ms: int | None = None


class TokenRegister(Protocol):
    """The issued tokens of a data folder, and which of them are revoked. One check: `conformance.port_checks`."""

    def issued(self) -> Sequence[IssuedToken]:
        """All that are known, in the order of their issue; those that expired long ago are gone."""
        ...

    def add(self, token: IssuedToken) -> None:
        """Is kept when this returns. Raises OSError where it could not be."""
        ...

    def revoke(self, jti: str, now_ms: int) -> bool:
        """False for one that nobody knows. The first time stays; it holds for every process when this returns."""
        ...

    def revoked_ms(self, jti: str) -> int | None:
        """When this one was revoked, by whichever process. Asked for every request: it is quick."""
        ...


Hear = Callable[[str, Mapping[str, Any]], None]
"""Hears of a refusal: its reason, and what may be logged of it, which is never a token."""


class Tokens:
    """Issues and reads tokens. The first of `secrets` signs, all are accepted. A token for all sessions must be one
    that this engine was started with. `hear` is told of every refusal, `refusals` counts them by reason."""

    def __init__(
        self,
        secrets: Sequence[bytes],
        *,
        clock: Clock,
        ids: Ids,
        register: TokenRegister,
        hear: Hear = lambda _reason, _data: None,
    ) -> None:
        if not secrets or any(len(secret) < SECRET_BYTES for secret in secrets):
            raise ValueError(f"the secret that signs tokens has at least {SECRET_BYTES} bytes")
        self._secrets = [bytearray(secret) for secret in secrets]
        self._clock = clock
        self._ids = ids
        self._register = register
        self._hear = hear
        self._bootstrap: set[str] = set()
        self._revoked: dict[str, int] = {}
        """Of those this engine was started with, which stand on no register."""
        self._failures = FailureLimit(clock)
        self.refusals: Counter[str] = Counter()

    # Issuing

    def new_claims(self, *, life_s: int = TOKEN_LIFE_S, **claims: Any) -> Claims:
        """Claims with an id of their own that hold from now on for so long."""
        now_s = self._clock.now_ms() // 1000
        return Claims(ver=TOKEN_CLAIM_VERSION, jti=self._ids.new(TOK), exp=now_s + life_s, **claims)

    def issue(self, claims: Claims, *, by: str = "") -> str:
        """The token of these claims, which is on the register from now on. Who may have it was asked before."""
        if claims.sessions is msgspec.UNSET:
            raise CommandRefused("MintRefused", problem="it names no sessions")
        self._register.add(IssuedToken(claims=claims, issued_ms=self._clock.now_ms(), by=by))
        return self._signed(claims)

    def issue_bootstrap(self, *, life_s: int = ENGINE_LIFE_S) -> str:
        """The token this engine's own clients find: everything a person at its terminal may do, and nothing once the
        engine is gone."""
        claims = self.new_claims(life_s=life_s, identity_class="human", can_mint=True)
        self._bootstrap.add(claims.jti)
        return self._signed(claims)

    def issue_provisioned(self, claims: Claims) -> str:
        """A token to put into a file that an engine elsewhere is started with; it may name no sessions."""
        self._register.add(IssuedToken(claims=claims, issued_ms=self._clock.now_ms()))
        return self._signed(claims)

    def start_with(self, token: str) -> Claims:
        """Takes a token from a file a person put there: it may name no sessions. Raises as `read` does."""
        claims = self._checked(token)
        self._bootstrap.add(claims.jti)
        if all(one.claims.jti != claims.jti for one in self._register.issued()):
            self._register.add(IssuedToken(claims=claims, issued_ms=self._clock.now_ms()))
        return claims

    def _signed(self, claims: Claims) -> str:
        body = msgspec.json.encode(claims)
        return f"{_encoded(body)}.{_encoded(_mac(self._secrets[0], body))}"

    # Reading

    def read(self, token: str, *, peer: str = "") -> Claims:
        """The claims of a token that holds now.

        Raises `CommandRefused`: TokenInvalid, TokenNotYetValid, TokenExpired, TokenRevoked; TooManyFailures where too
        many came from this `peer` lately. One that holds is never refused for the failures of others.
        """
        try:
            claims = self._checked(token)
            self._refuse_unbound(claims)
        except CommandRefused as refusal:
            raise self._counted(refusal, peer) from None
        return claims

    def check(self, claims: Claims) -> None:
        """The same for claims that were read before: whether they hold still."""
        now_ms = self._clock.now_ms()
        revoked_ms = self._revoked.get(claims.jti) or self._register.revoked_ms(claims.jti)
        if revoked_ms is not None:
            raise CommandRefused("TokenRevoked", jti=claims.jti, ts=iso_ms(revoked_ms))
        if now_ms < claims.nbf * 1000:
            raise CommandRefused("TokenNotYetValid", nbf=_iso_s(claims.nbf))
        if now_ms >= claims.exp * 1000:
            raise expired(claims)

    def _checked(self, token: str) -> Claims:
        claims = read_claims(self._body(token))
        if not is_id(claims.jti, TOK):
            raise CommandRefused("TokenInvalid", problem="its jti is no id of a token")
        self.check(claims)
        return claims

    def _body(self, token: str) -> bytes:
        """The claims as bytes, once the signature was found good: nothing unsigned is decoded."""
        body, dot, mac = token.partition(".")
        if len(token) > LONGEST_TOKEN or not dot:
            raise CommandRefused("TokenInvalid", problem="it is no token of this engine")
        try:
            claims, signature = _decoded(body), _decoded(mac)
        except (binascii.Error, ValueError):
            raise CommandRefused("TokenInvalid", problem="it is no token of this engine") from None
        good = [hmac.compare_digest(_mac(secret, claims), signature) for secret in self._secrets]
        if not any(good):
            raise CommandRefused("TokenInvalid", problem="its signature is not this engine's")
        return claims

    def _refuse_unbound(self, claims: Claims) -> None:
        if claims.sessions is msgspec.UNSET and claims.jti not in self._bootstrap:
            raise CommandRefused(
                "TokenInvalid", problem="it names no sessions, and this engine was not started with it"
            )

    def _counted(self, refusal: CommandRefused, peer: str) -> CommandRefused:
        wait_s = self._failures.failed(peer)
        if wait_s:
            refusal = CommandRefused("TooManyFailures", retry_after_s=wait_s)
        self.note_refusal(refusal.reason, peer=peer)
        return refusal

    def note_refusal(self, reason: str, **data: Any) -> None:
        """Counts and logs a refusal: of a token here, of a request by whoever carries it."""
        self.refusals[reason] += 1
        self._hear(reason, data)

    # Keeping

    @property
    def issued(self) -> Sequence[IssuedToken]:
        return self._register.issued()

    def revoke(self, jti: str) -> None:
        """From now on nobody is admitted with it. Raises UnknownToken."""
        now_ms = self._clock.now_ms()
        if self._register.revoke(jti, now_ms):
            return
        if jti not in self._bootstrap:
            raise CommandRefused("UnknownToken", jti=jti)
        self._revoked.setdefault(jti, now_ms)

    def close(self) -> None:
        """Nothing is signed or accepted any more; the secrets are overwritten."""
        for secret in self._secrets:
            secret[:] = bytes(len(secret))
        self._secrets = []
        self._bootstrap.clear()


class FailureLimit:
    """How many failures of one peer are answered in a minute. Only so many peers are remembered."""

    def __init__(self, clock: Clock, *, most: int = FAILURES_A_MINUTE) -> None:
        self._clock = clock
        self._most = most
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def failed(self, peer: str) -> int:
        """Takes a failure down; the whole seconds to wait where there were too many, else 0."""
        now = self._clock.monotonic()
        times = self._failed.setdefault(peer, deque(maxlen=self._most))
        self._failed.move_to_end(peer)
        while len(self._failed) > _PEERS:
            self._failed.popitem(last=False)
        while times and times[0] <= now - _WINDOW_S:
            times.popleft()
        if len(times) == self._most:
            return max(1, round(times[0] + _WINDOW_S - now))
        times.append(now)
        return 0


def expired(claims: Claims) -> CommandRefused:
    sessions = () if claims.sessions is msgspec.UNSET else claims.sessions
    return CommandRefused(
        "TokenExpired",
        exp=_iso_s(claims.exp),
        session=sessions[0] if sessions else "ID",
        identity_class=claims.identity_class,
    )


def _iso_s(seconds: int) -> str:
    try:
        return iso_ms(seconds * 1000)
    except ValueError:
        return str(seconds)


def _mac(secret: bytearray, body: bytes) -> bytes:
    return hmac.new(secret, body, hashlib.sha256).digest()


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    """Strict: one spelling for one token."""
    data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if _encoded(data) != text:
        raise ValueError("another spelling")
    return data
