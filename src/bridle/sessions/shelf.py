"""What everything that works on stored sessions is given: where they are, how to read and write them, time and ids."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator

import msgspec

from bridle.base.clock import Clock
from bridle.base.fs.files import FileLock
from bridle.base.ids import Ids
from bridle.sessions.log.database import Connection, Database
from bridle.sessions.log.writer import Writer


class Shelf(msgspec.Struct, frozen=True, kw_only=True):
    """`reader` belongs to the thread of whoever made the shelf; `writer` may be used from any."""

    folder: str
    database: Database
    writer: Writer
    reader: Callable[[], Connection]
    ids: Ids
    clock: Clock

    @contextlib.contextmanager
    def elsewhere(self) -> Generator[Shelf]:
        opened: list[Connection] = []

        def reader() -> Connection:
            if not opened:
                opened.append(self.database.connect())
            return opened[0]

        try:
            yield msgspec.structs.replace(self, reader=reader)
        finally:
            for connection in opened:
                connection.close()

    def tip_path(self, log_id: str) -> str:
        return os.path.join(self.folder, "tips", log_id)

    def lock_of(self, log_id: str) -> FileLock:
        return FileLock(os.path.join(self.folder, "locks", log_id))
