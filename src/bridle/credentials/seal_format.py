"""The bytes of the encrypted credential file: one line that says how it is locked, then everything else, sealed.

    {"bridle":"credentials","format":1,"key_id":"…","lock":{…}}\\n
    nonce (12 bytes) ‖ AES-256-GCM(records as JSON, associated data = the line above)

The whole file is one seal: no record can be changed, exchanged for another provider's, taken out or put back by
itself, and the names of the providers are not readable either. Pure.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Literal

import msgspec

from bridle.credentials.locks import SealLock, checked

FORMAT = 1
NONCE_BYTES = 12
TAG_BYTES = 16
MAX_HEADER_BYTES = 1024


class NewerSeal(ValueError):
    """The file was written by a later version."""


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`key_id` tells a wrong key from a damaged file; it says nothing about the key."""

    bridle: Literal["credentials"] = "credentials"
    format: int = FORMAT
    key_id: str
    lock: SealLock


class _Versioned(msgspec.Struct, frozen=True):
    bridle: Literal["credentials"]
    format: int


def key_id(key: bytes) -> str:
    return hmac.new(key, b"bridle credentials: which key", hashlib.sha256).hexdigest()[:16]


def seal(plain: bytes, lock: SealLock, key: bytes, nonce: bytes) -> bytes:
    """The file. A nonce is used once for a key."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    line = msgspec.json.encode(Header(key_id=key_id(key), lock=lock)) + b"\n"
    return line + nonce + AESGCM(key).encrypt(nonce, plain, line)


def header_of(data: bytes) -> Header:
    """How a file is locked. Raises ValueError with one clause, and `NewerSeal`, before anything is spent on it."""
    line = _line(data)
    try:
        version = msgspec.json.decode(line, type=_Versioned).format
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ValueError("its first line is not one of ours") from None
    if version > FORMAT:
        raise NewerSeal("it was written by a newer Bridle")
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ValueError("its first line is not one of ours") from None
    if header.format != FORMAT:
        raise ValueError("its format is unknown")
    checked(header.lock)
    return header


def unseal(data: bytes, key: bytes) -> bytes:
    """What was sealed. Raises ValueError where a single bit is not as it was written, or the key is another."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    line = _line(data)
    nonce, sealed = data[len(line) :][:NONCE_BYTES], data[len(line) + NONCE_BYTES :]
    if len(sealed) < TAG_BYTES:
        raise ValueError("its end is missing")
    try:
        return AESGCM(key).decrypt(nonce, sealed, line)
    except InvalidTag:
        raise ValueError("its content is not what was written") from None


def _line(data: bytes) -> bytes:
    line, end, _ = data[:MAX_HEADER_BYTES].partition(b"\n")
    if not end:
        raise ValueError("its first line is not one of ours")
    return line + end
