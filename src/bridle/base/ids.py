"""Identifiers: a short prefix that says what is named, and a ULID that sorts by time of birth.

`sess_01JV…`: 48 bits of milliseconds and 80 random bits as 26 characters of Crockford's base32. Owns their
making, checking and rewriting; it does not know who uses them.
"""

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Final

SESS: Final = "sess"
LOG: Final = "log"
CALL: Final = "call"
TOK: Final = "tok"
CLI: Final = "cli"
RUN: Final = "run"

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID_CHARS: Final = 26
_RANDOM_BITS: Final = 80
_LAST_MS: Final = 2**48 - 1
_LAST_ULID: Final = 2**128 - 1
SHORT_ID: Final = 10
"""The part of an id that is its time. With less of it, what is born soon after would fit too."""


class Ids:
    """A source of ids, each greater than the one before, whatever the clock does.

    `random_bytes(n)` must be unpredictable, like `os.urandom`. Not for use by several threads at once.
    """

    def __init__(self, now_ms: Callable[[], int], random_bytes: Callable[[int], bytes]) -> None:
        self._now_ms = now_ms
        self._random_bytes = random_bytes
        self._last = -1

    def new(self, prefix: str) -> str:
        """A fresh id `prefix_…`. Raises OverflowError when no greater one exists (after the year 10889)."""
        now_ms = max(0, min(self._now_ms(), _LAST_MS))
        if now_ms > self._last >> _RANDOM_BITS:
            noise = int.from_bytes(self._random_bytes(_RANDOM_BITS // 8), "big")
            self._last = now_ms << _RANDOM_BITS | noise
        elif self._last < _LAST_ULID:
            # Same millisecond, or the clock went back: the next value, which may carry into the time.
            self._last += 1
        else:
            raise OverflowError("this source has no greater id left")
        return f"{prefix}_{_encoded(self._last)}"


def is_id(text: str, prefix: str) -> bool:
    """Whether the text is a well-formed id of this kind."""
    start = len(prefix) + 1
    return (
        len(text) == start + _ULID_CHARS
        and text.startswith(f"{prefix}_")
        and text[start] in "01234567"  # 26 characters hold 130 bits, a ULID has 128
        and all(char in _ALPHABET for char in text[start:])
    )


def rewritten(old_id: str, new_log_id: str) -> str:
    """The id that stands for `old_id` in a branched log: same prefix, the same for everyone who branches."""
    prefix, underscore, _ = old_id.rpartition("_")
    if not underscore:
        raise ValueError(f"not an id: {old_id!r}")
    digest = sha256(f"{old_id}{new_log_id}".encode()).digest()
    return f"{prefix}_{_encoded(int.from_bytes(digest[:16], 'big'))}"


def _encoded(ulid: int) -> str:
    return "".join([_ALPHABET[ulid >> shift & 31] for shift in range(125, -1, -5)])


def list_place(at_ms: int, own_id: str) -> str:
    """A place in a list that is ordered by time and id, the last first: behind the entry that has these."""
    return f"{at_ms}-{own_id.partition('_')[2]}"


def read_list_place(text: str, prefix: str) -> tuple[int, str] | None:
    """What `list_place` wrote, for ids of this kind; None for any other text."""
    at_ms, _, ulid = text.partition("-")
    own_id = f"{prefix}_{ulid}"
    if not (at_ms.isascii() and at_ms.isdigit() and len(at_ms) <= 15 and is_id(own_id, prefix)):
        return None
    return int(at_ms), own_id


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """By id: the shortest beginning that names this one and no other, without its prefix."""
    ordered = sorted(ids)
    bare = ["", *(one.partition("_")[2] for one in ordered), ""]
    return {
        one: own[: max(SHORT_ID, 1 + max(_alike(own, bare[at]), _alike(own, bare[at + 2])))]
        for at, (one, own) in enumerate(zip(ordered, bare[1:-1], strict=True))
    }


def _alike(one: str, other: str) -> int:
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
