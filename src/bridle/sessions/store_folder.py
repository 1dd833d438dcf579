"""The folder of a store: lock the key in it, or copy what a read-only disk holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager

from bridle.base.fs import files
from bridle.base.fs.files import KEPT_OBJECTS
from bridle.sessions.log.database import Database, cannot_be_written
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


@contextmanager
def copied_where_unwritable(folder: str) -> Generator[str]:
    """The folder of a store; where its disk cannot be written, one with a copy of what is needed to read it."""
    if not (os.path.isdir(folder) and cannot_be_written(folder)):
        yield folder
        return
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(prefix="bridle-") as copy:
        for name in os.listdir(folder):
            path, target = os.path.join(folder, name), os.path.join(copy, name)
            if name.startswith("sessions.") and name != "sessions.lock" and os.path.isfile(path):
                shutil.copyfile(path, target)
            elif name == "tips":
                shutil.copytree(path, target)
            elif name == KEPT_OBJECTS:
                os.symlink(path, target)
        yield copy
