"""What a person has approved, by content: one line per digest in a private file outside every workspace."""

from __future__ import annotations

import os

from bridle.base.files import FileLock, private_folder, read_limited, write_atomic

MAX_BYTES = 4 * 1024 * 1024


class Approvals:
    """The approved contents of one user. A missing file means nothing is approved; so does an unreadable one."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "approved.lock")

    def holds(self, sha256: str) -> bool:
        return any(line.split(" ", 1)[0] == sha256 for line in self._lines())

    def add(self, path: str, sha256: str) -> None:
        """Remembers a content, and for people the path it was seen at. Two processes may do so at once."""
        private_folder(os.path.dirname(self._path))
        with FileLock(self._path + ".lock") as lock:
            lock.acquire(timeout_s=5)
            if not self.holds(sha256):
                text = "".join(f"{line}\n" for line in (*self._lines(), f"{sha256}  {path}"))
                write_atomic(self._path, text.encode("utf-8", "replace"))

    def _lines(self) -> list[str]:
        try:
            return read_limited(self._path, MAX_BYTES).data.decode("utf-8", "replace").splitlines()
        except OSError:
            return []
