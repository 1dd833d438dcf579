"""The digests in a lock file, for a start that asks about hundreds and needs nothing else of it. Pure."""

from __future__ import annotations

from typing import Final

HEADER: Final = b"# bridle approved.lock 1\n"
_HEX: Final = b"0123456789abcdef"
_PLAIN: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+@=,~-"
_DIGITS_TO_ZERO: Final = bytes.maketrans(b"0123456789", b"0" * 10)
_TIME: Final = b"0000-00-00T00:00:00Z"


def plain_digests(data: bytes, kind: str) -> tuple[set[str], list[bytes]]:
    """The digests of a kind in lines of plain characters and the right shape, and the other lines of that kind.

    Together with what `lockfile.decode_line` makes of those others, they are what `lockfile.decode` would find.
    """
    found, others = set[str](), list[bytes]()
    if not data.startswith(HEADER):
        return found, others
    opening = f"{kind} sha256:".encode()
    for line in data.split(b"\n")[:-1]:
        if not line.startswith(opening):
            continue
        digest, *rest = line[len(opening) :].split(b" ")
        time = rest[0] if len(rest) == 3 and all(rest) else b""
        plain = time.translate(_DIGITS_TO_ZERO) == _TIME and not b"".join(rest[1:]).translate(None, _PLAIN)
        if plain and len(digest) == 64 and not digest.translate(None, _HEX) and _may_be_a_time(time):
            found.add(digest.decode())
        else:
            others.append(line + b"\n")
    return found, others


def _may_be_a_time(time: bytes) -> bool:
    """Whether a time in the right shape is one in every month; others are looked at closely."""
    return (
        b"01" <= time[5:7] <= b"12"
        and b"01" <= time[8:10] <= b"28"
        and time[11:19] <= b"23:59:59"
        and (max(time[14:15], time[17:18]) <= b"5" and time[:4] >= b"1000")
    )
