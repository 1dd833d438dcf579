"""What the model knows of files: by their absolute paths the digests of what it was shown or wrote, as results tell.

`seen_in` is what a result tells (`metadata.seen`), `Conversation.known_files` what all of them add up to. Contents are
cached beside that, to show what somebody else changed; nothing relies on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, cast

from bridle.base.memory_budget import MemoryBudget, MemoryCache

SEEN = "seen"
MAX_KNOWN = 2000
"""So many files are known; of more, the ones met last."""
MAX_DIGESTED_BYTES = 1 << 20
"""What a file holds behind that is not looked at."""


def content_digest(data: bytes) -> str:
    return sha256(data[:MAX_DIGESTED_BYTES]).hexdigest()[:32]


def digests(contents: Iterable[tuple[str, bytes]]) -> dict[str, str]:
    """What `metadata.seen` says of these files, each given with what it holds."""
    return {path: content_digest(data) for path, data in contents}


def seen_in(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What a result tells of files the model knows by it."""
    seen = metadata.get(SEEN)
    if not isinstance(seen, dict):
        return {}
    pairs = cast("dict[Any, Any]", seen).items()
    return {path: digest for path, digest in pairs if isinstance(path, str) and isinstance(digest, str)}


def learn(known: dict[str, str], seen: Mapping[str, str]) -> None:
    """Adds to what is known, and forgets what was met longest ago."""
    for path, digest in seen.items():
        known.pop(path, None)
        known[path] = digest
    for path in list(known)[: max(len(known) - MAX_KNOWN, 0)]:
        del known[path]


class KnownFiles:
    """The files a session knows, for its tools."""

    def __init__(self, known: Mapping[str, str], contents: MemoryCache[bytes] | None = None) -> None:
        self._known = known
        self._contents = contents or MemoryCache[bytes](MemoryBudget(), "", "")

    def digest(self, path: str) -> str | None:
        """Of what the model last saw or wrote there; None if it never did."""
        return self._known.get(path)

    def knows(self, path: str, data: bytes) -> bool:
        """Whether this is what the model last saw or wrote there."""
        return self.digest(path) == content_digest(data)

    def content(self, path: str) -> bytes | None:
        return self._contents.get(self.digest(path))

    def saw(self, path: str, data: bytes) -> dict[str, dict[str, str]]:
        """Cache what a file holds; return the part of the metadata by which the session knows it."""
        digest = content_digest(data)
        if len(data) <= MAX_DIGESTED_BYTES:
            self._contents.put(digest, data, len(data))
        return {SEEN: {path: digest}}
