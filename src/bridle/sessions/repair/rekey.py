"""Encrypt the database with a new key.

The new key is on the disk before the database needs it, and takes the place of the old one after. Whoever opens the
database after a crash in between tries both (`database.Database.connect`).
"""

from __future__ import annotations

import contextlib
import os

from bridle.base.fs.files import sync_folder
from bridle.sessions.log.database import Database, copied
from bridle.sessions.repair.repair import refuse_while_running

_REKEYED = ".rekeyed"


def rekey(database: Database) -> None:
    """Raises `SessionBusy` or `StoreInUse` while another Bridle is at work."""
    database.connect().close()
    with database.locked(), database.errors():
        refuse_while_running(database.folder)
        fresh = database.path + _REKEYED
        for side in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh + side)
        try:
            with contextlib.closing(database.alone()) as connection:
                connection.pragma("wal_checkpoint", "truncate")
                with copied(database.path, fresh):
                    _encrypt_anew(database, fresh, database.key_file.make_next())
                    database.forget_key_proof()
                    os.replace(fresh, database.path)
                    sync_folder(database.folder)
                    database.key_file.adopt_next(lambda _key: True)
                    sync_folder(database.folder)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh)
    database.forget_key()


def _encrypt_anew(database: Database, path: str, key: str) -> None:
    with contextlib.closing(database.open_with(path, database.data_key())) as connection:
        connection.pragma("journal_mode", "delete")
        connection.pragma("rekey", f"raw:{key}")
    with contextlib.closing(database.open_with(path, key)) as connection:
        connection.pragma("journal_mode", "wal")
        connection.execute("select count(*) from events").fetchall()
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
