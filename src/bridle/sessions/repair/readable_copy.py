"""Read a store on a read-only disk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator

from bridle.base.fs.files import KEPT_OBJECTS
from bridle.sessions.log.database import cannot_be_written


@contextlib.contextmanager
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
