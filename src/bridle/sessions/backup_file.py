"""The file of a backup: it has its name when all of it is written, and never over something else."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator

from bridle.base import files
from bridle.protocol.errors import UsageError


@contextlib.contextmanager
def new_files(path: str, *endings: str, beside: tuple[str, ...] = ()) -> Generator[str]:
    """The name to write under; `path`, and with each of the endings another file, are there when that is done.

    What else may be left `beside` goes. Raises `UsageError` where one of the names is taken or cannot be written.
    """
    for taken in (path, *(path + ending for ending in endings)):
        if os.path.lexists(taken):
            raise UsageError(f"{taken} is there already; nothing was written")
    partial = f"{path}.{os.urandom(4).hex()}.part"
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield partial
        for ending in (*endings, ""):
            os.chmod(partial + ending, 0o600)
            _sync(partial + ending)
            os.link(partial + ending, path + ending)
        files.sync_folder(os.path.dirname(path))
    except OSError as problem:
        raise UsageError(f"{path} cannot be written ({problem.strerror})") from None
    finally:
        for ending in ("", *endings, *beside):
            with contextlib.suppress(OSError):
                os.unlink(partial + ending)


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
