"""The key of the session log, for those who change how it is locked."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from bridle.base.fs import files
from bridle.sessions.log.database import Database
from bridle.sessions.log.log_key import KeyFile, KeyWrap


@contextmanager
def locked_key(
    folder: str, *, now_ms: Callable[[], int], notice: Callable[[str], None], key_wrap: KeyWrap
) -> Generator[KeyFile]:
    """The key file of the log in `folder`, while nobody else makes, migrates or locks it. Raises `StoreError`."""
    database = Database(folder, now_ms=now_ms, notice=notice, key_wrap=key_wrap)
    with database.errors():
        files.private_folder(folder)
        with database.locked():
            yield database.key_file
