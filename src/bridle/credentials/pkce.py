"""Proof key for code exchange (RFC 7636), method S256 only. Pure."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable

VERIFIER_BYTES = 48
"""64 characters: between the 43 and 128 that are allowed."""

_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


def new_verifier(random: Callable[[int], bytes]) -> str:
    """A secret that only this sign-in knows."""
    return urlsafe(random(VERIFIER_BYTES))


def challenge_of(verifier: str) -> str:
    """What stands for the verifier in the address a browser is sent to. Raises ValueError for one that is none."""
    if not _VERIFIER.fullmatch(verifier):
        raise ValueError("a verifier has 43 to 128 of the characters A-Z a-z 0-9 - . _ ~")
    return urlsafe(hashlib.sha256(verifier.encode("ascii")).digest())


def urlsafe(data: bytes) -> str:
    """Base64 in the alphabet of addresses, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
