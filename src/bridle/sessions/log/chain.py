"""The hash chain over a log's events.

A link covers the digest of the payload, not the payload, so a payload can be deleted later (with its salt, so
that it cannot be guessed from the digest) while the chain still holds.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

# MessagePack gives every field its type and length, so no two different events have the same bytes.
_encode = msgspec.msgpack.Encoder().encode

SALT_BYTES = 16


def origin(log_id: str) -> bytes:
    return sha256(b"bridle log " + log_id.encode()).digest()


def branch_origin(log_id: str, parent_chain: bytes) -> bytes:
    """What stands before the first link of a branch: it follows from the parent's link it was branched at."""
    return sha256(b"bridle branch " + log_id.encode() + parent_chain).digest()


def digest(salt: bytes, payload: bytes) -> bytes:
    return sha256(salt + payload).digest()


def link(
    previous: bytes,
    event_id: int,
    kind: str,
    ts_ms: int,
    originator: str,
    place: tuple[int | None, str | None, str | None],
    payload_digest: bytes,
) -> bytes:
    """The link of one event. `place` is its turn, agent path and invocation: who did it, not only what."""
    return sha256(_encode((previous, event_id, kind, ts_ms, originator, place, payload_digest))).digest()
