"""Where the tables of the database begin, kept outside of it: its first page is the one nothing can be read without.

No word that was said is in it: names of tables, numbers of pages, and a proof that it was written with the data key.
The proof also tells a damaged file from a wrong key.
"""

from __future__ import annotations

import msgspec

from bridle.base import files

_MAX_BYTES = 64 * 1024
ROOTS = "select name, rootpage from sqlite_schema where rootpage > 0"


class Head(msgspec.Struct, frozen=True):
    roots: dict[str, int]
    proof: bytes


def keep(path: str, roots: dict[str, int], key: str) -> None:
    """Writes what `read` reads. It changes with the form and the key of the database only: both remove it first."""
    files.write_atomic(path, msgspec.json.encode(Head(roots, _proof(roots, key))))


def read(path: str) -> Head | None:
    """None where there is none, or nothing that could be one."""
    try:
        return msgspec.json.decode(files.read_limited(path, _MAX_BYTES).data, type=Head)
    except (OSError, msgspec.DecodeError, ValueError):
        return None


def is_of(head: Head, key: str) -> bool:
    """Whether it was written with this key."""
    from hmac import compare_digest

    return compare_digest(head.proof, _proof(head.roots, key))


def _proof(roots: dict[str, int], key: str) -> bytes:
    from hmac import digest

    return digest(
        bytes.fromhex(key), b"sessions.head\n" + msgspec.json.encode(roots, order="sorted"), "sha256"
    )
