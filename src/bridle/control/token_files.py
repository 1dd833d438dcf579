"""The files of capability tokens: the register with its secret in the state folder, and tokens in files of people.

One file holds the secret, what was issued and what is revoked: who loses or removes it invalidates every token, and
none of them comes back to life because a list was lost.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import stat
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from bridle.base.clock import Clock
from bridle.base.fs.files import FileLock, UntrustedFile, private_folder, read_trusted, write_atomic
from bridle.base.ids import Ids
from bridle.control.capability_tokens import SECRET_BYTES, Hear, IssuedToken, Tokens
from bridle.protocol.errors import CommandRefused, UsageError

REGISTER_LIMIT = 16 * 1024 * 1024
TOKEN_FILE_LIMIT = 64 * 1024
LOCK_WAIT_S = 5.0
KEPT_AFTER_EXPIRY_MS = 7 * 24 * 3600 * 1000
"""So long an expired token is still shown; then nothing is known of it."""
_DERIVED = b"bridle capability tokens 1"


class _Register(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    secret: str
    tokens: tuple[IssuedToken, ...] = ()


class TokenFile:
    """`control.TokenRegister` in `tokens.json` of the state folder, shared by all processes of a data folder. A
    replaced file is noticed at the next question. If the file is lost, so are revocations: nothing signed with its
    secret counts until restart."""

    def __init__(self, state: str, clock: Clock) -> None:
        self.path = os.path.join(state, "tokens.json")
        self._clock = clock
        self._seen: tuple[int, int, int] | None = None
        self._register: _Register | None = None
        self._secret: str | None = None
        self._revoked: dict[str, int] = {}

    @property
    def secret(self) -> bytes:
        """The key that signs, made with the file where there is none."""
        register = self._current()
        if register is None:
            register = self._change(lambda kept: kept)
        self._secret = register.secret
        return base64.b64decode(register.secret)

    def issued(self) -> Sequence[IssuedToken]:
        register = self._current()
        return () if register is None else register.tokens

    def add(self, token: IssuedToken) -> None:
        now_ms = self._clock.now_ms()

        def added(kept: _Register) -> _Register:
            tokens = [one for one in kept.tokens if _is_kept(one, now_ms)]
            return msgspec.structs.replace(kept, tokens=(*tokens, token))

        self._change(added)

    def revoke(self, jti: str, now_ms: int) -> bool:
        if all(one.claims.jti != jti for one in self.issued()):
            return False

        def revoked(kept: _Register) -> _Register:
            tokens = tuple(_revoked(one, now_ms) if one.claims.jti == jti else one for one in kept.tokens)
            return msgspec.structs.replace(kept, tokens=tokens)

        self._change(revoked)
        return True

    def revoked_ms(self, jti: str) -> int | None:
        self._current()
        return self._revoked.get(jti)

    def _change(self, change: Callable[[_Register], _Register]) -> _Register:
        lock = FileLock(f"{self.path}.lock")
        try:
            private_folder(os.path.dirname(self.path))
            if not lock.acquire(timeout_s=LOCK_WAIT_S):
                raise self._unusable("another Bridle keeps it locked")
            with lock:
                kept = self._current() or _Register(
                    secret=base64.b64encode(os.urandom(SECRET_BYTES)).decode()
                )
                changed = change(kept)
                write_atomic(self.path, msgspec.json.encode(changed))
                self._current()
        except OSError as problem:
            raise self._unusable(_why(problem)) from None
        return changed

    def _unusable(self, problem: str) -> CommandRefused:
        return CommandRefused("TokensUnusable", path=self.path, problem=problem)

    def _current(self) -> _Register | None:
        """What the file holds now; None where there is none. It is read again only when it is another one."""
        try:
            status = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            if self._secret is not None:
                raise self._unusable("it is gone; start the engine again") from None
            self._seen, self._register, self._revoked = None, None, {}
            return None
        except OSError as problem:
            raise self._unusable(_why(problem)) from None
        seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        if seen != self._seen:
            self._register = self._read()
            self._revoked = {
                one.claims.jti: one.revoked_ms for one in self._register.tokens if one.revoked_ms is not None
            }
            self._seen = seen
        if self._secret is not None and self._register is not None and self._register.secret != self._secret:
            raise self._unusable("it is another one than before; start the engine again")
        return self._register

    def _read(self) -> _Register:
        try:
            read = msgspec.json.decode(private_bytes(self.path, REGISTER_LIMIT), type=_Register)
            if len(base64.b64decode(read.secret, validate=True)) < SECRET_BYTES or read.version != 1:
                raise ValueError("it is not of this version")
        except (OSError, ValueError) as problem:
            raise self._unusable(_why(problem)) from None
        return read


def private_bytes(path: str, limit: int) -> bytes:
    """What a file holds that only its owner, us, may read. Raises OSError with a clause that says what to do."""
    read = read_trusted(path, limit)
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        raise UntrustedFile(1, f"others may read it (mode {mode:04o}); chmod 400 {path}", path)
    if read.truncated:
        raise UntrustedFile(1, "it is too long", path)
    return read.data


def read_token_file(path: str) -> str:
    """The token in a file that only we may read: as text, or as JSON with a field `token`."""
    try:
        data = private_bytes(path, TOKEN_FILE_LIMIT)
    except OSError as problem:
        raise UsageError(f"The token file {path} cannot be used: {_why(problem)}") from None
    try:
        text = data.decode().strip()
        if text.startswith("{"):
            text = msgspec.json.decode(text.encode(), type=dict[str, Any]).get("token")
    except ValueError:
        text = None
    if not isinstance(text, str) or not text:
        raise UsageError(f"The token file {path} holds no token")
    return text


def write_token_file(path: str, token: str, *, mode: int = 0o400) -> None:
    """A new file with a token, for its owner alone; one that is there already is not replaced."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} is there already; remove it first, or choose another name") from None
    except OSError as problem:
        raise UsageError(f"{path} cannot be written: {_why(problem)}") from None
    with os.fdopen(fd, "wb") as file:
        file.write(msgspec.json.encode({"token": token}) + b"\n")
        os.fchmod(fd, mode)


def open_tokens(
    register: TokenFile, *, clock: Clock, ids: Ids, machine_key: bytes | None, hear: Hear
) -> Tokens:
    """The tokens of this data folder. With a machine key, tokens of every engine that has the same are good here, and
    those minted here are good there: that is how one is made before the machine it is for."""
    secrets = [register.secret]
    if machine_key is not None:
        secrets.insert(0, hmac.new(machine_key, _DERIVED, hashlib.sha256).digest())
    return Tokens(secrets, clock=clock, ids=ids, register=register, hear=hear)


def _is_kept(token: IssuedToken, now_ms: int) -> bool:
    return token.claims.exp * 1000 + KEPT_AFTER_EXPIRY_MS > now_ms


def _revoked(token: IssuedToken, now_ms: int) -> IssuedToken:
    return token if token.revoked_ms is not None else msgspec.structs.replace(token, revoked_ms=now_ms)


def _why(problem: Exception) -> str:
    return (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
