"""What was said at the last start in a folder, so that the next one says only what is new."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from bridle.base.files import private_folder, read_limited, write_atomic

MAX_BYTES = 64 * 1024


class StartMemory:
    """One private file per folder. Losing it costs nothing but a few lines more at the next start."""

    def __init__(self, state_folder: str, cwd: str) -> None:
        name = hashlib.sha256(cwd.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self._folder = os.path.join(state_folder, "starts")
        self._path = os.path.join(self._folder, f"{name}.json")

    def said(self) -> dict[str, str]:
        """What each line said, by its name; nothing where nobody started here yet."""
        try:
            return msgspec.json.decode(read_limited(self._path, MAX_BYTES).data, type=dict[str, str])
        except (OSError, msgspec.MsgspecError):
            return {}

    def keep(self, said: Mapping[str, str]) -> None:
        if said == self.said():
            return
        with suppress(OSError):
            private_folder(self._folder)
            write_atomic(self._path, msgspec.json.encode(said), durable=False)
