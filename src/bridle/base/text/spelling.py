"""Convert names between spellings, and find the nearest known name."""

from __future__ import annotations

import re
from collections.abc import Iterable

NEAR = 0.75
"""How alike two names are that differ by a slip of the hand; words with one half in common are less so."""


def folded_name(written: str) -> str:
    """`baseUrl`, `baseURL` → `base_url`; anything that is not camelCase stays."""
    if not written[:1].islower() or written.islower() or not written.isalnum():
        return written
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", written).lower()


def meant_words(name: str, known: Iterable[str]) -> str:
    """What is added to a sentence about an unknown name: ` Did you mean X?`, or nothing."""
    near = nearest(name, known)
    return f" Did you mean {near}?" if near else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name somebody probably meant; None where none is near."""
    from difflib import get_close_matches

    names, name = list(known), name[:80]
    swapped = [match for match in names if sorted(match) == sorted(name)]  # the commonest slip
    parts = [
        match for match in names if len(name) > 2 and (match.startswith(name) or match.endswith(f".{name}"))
    ]
    return next(iter((*swapped, *get_close_matches(name, names, n=1, cutoff=NEAR), *parts)), None)
