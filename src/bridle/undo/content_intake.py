"""Contents of files on their way into the undo store."""

from __future__ import annotations

from bridle.base.threads import blocking
from bridle.engine.store_ports import UndoStore
from bridle.engine.undo_records import Contents

BATCH_BYTES = 4 << 20
"""Contents are written in parts of this size, so that a large workspace does not fill the memory."""


class Keeping:
    """Take contents in, part by part, in a worker thread. `rest` gives those that are not stored yet."""

    def __init__(self, store: UndoStore, now_ms: int) -> None:
        self._store = store
        self._keep = blocking(store.keep)
        self._now_ms = now_ms
        self._contents: dict[bytes, bytes] = {}
        self._bytes = 0

    def __call__(self, digest: bytes, data: bytes) -> None:
        self._contents[digest] = data
        self._bytes += len(data)
        if self._bytes >= BATCH_BYTES:
            self._keep(self.rest(), self._now_ms)

    async def flush(self) -> None:
        """Store what was given so far. The row that names it is awaited."""
        if contents := self.rest():
            await self._store.keep(contents, self._now_ms)

    def get(self, digest: bytes) -> bytes | None:
        """One of the contents that are not stored yet."""
        return self._contents.get(digest)

    def rest(self) -> Contents:
        contents, self._contents, self._bytes = self._contents, {}, 0
        return contents
