"""A mask for a known secret in bytes that come in pieces, whichever way they are cut. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MASK: Final = b"[redacted]"
SHORTEST: Final = 8
"""What is shorter is no secret, and would turn up by chance."""


class Masking:
    """One stream. Held back is only an end of it that may be the beginning of a secret."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = _spellings(secrets)
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets))) if self._secrets else None
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What may go on. It may be nothing."""
        if self._pattern is None:
            return data
        data = self._held + data
        after = 0
        for found in self._pattern.finditer(data):
            after = found.end()
        held = self._held_back(data, after)
        ready = data[: len(data) - held]
        self._held = data[len(ready) :]
        return self._pattern.sub(MASK, ready) if after else ready

    def end(self) -> bytes:
        """What was held back: no secret after all."""
        held, self._held = self._held, b""
        return held

    def _held_back(self, data: bytes, after: int) -> int:
        """How many bytes at the end of `data`, from `after` on, are the beginning of a secret."""
        most = 0
        for secret in self._secrets:
            at = max(after, len(data) - len(secret) + 1)
            while (at := data.find(secret[:1], at)) >= 0:
                if secret.startswith(data[at:]):
                    most = max(most, len(data) - at)
                    break
                at += 1
        return most


def masked(text: str, secrets: Iterable[str]) -> str:
    """A short text without any of the secrets."""
    for secret in _spellings(secrets):
        text = text.replace(secret.decode(), MASK.decode())
    return text


def _spellings(secrets: Iterable[str]) -> list[bytes]:
    """The secrets as they may appear, longest first; JSON may write a slash in two characters."""
    plain = {secret for secret in secrets if len(secret) >= SHORTEST}
    spelled = plain | {secret.replace("/", r"\/") for secret in plain}
    return sorted((secret.encode() for secret in spelled), key=len, reverse=True)
