"""Instruction files of other agents that a project has and nobody listed: what a person said to each, by project.

Kept in the person's own state folder. Losing it costs nothing but being asked once more.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import Literal, TypeAlias

import msgspec

from bridle.base.fs.files import private_folder, read_limited, write_atomic

MAX_BYTES = 64 * 1024

Word: TypeAlias = Literal["used", "declined", "told"]
"""`told`: there was an AGENTS.md, so the person only heard that the other is there."""


class OfferedSources:
    """What the person said in the project with this root."""

    def __init__(self, state_folder: str, root: str) -> None:
        name = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self._folder = os.path.join(state_folder, "instruction-offers")
        self._path = os.path.join(self._folder, f"{name}.json")

    def said(self) -> dict[str, Word]:
        """The person's word by the name of the source; nothing where nobody was asked yet."""
        try:
            return msgspec.json.decode(read_limited(self._path, MAX_BYTES).data, type=dict[str, Word])
        except (OSError, msgspec.MsgspecError):
            return {}

    def used(self) -> tuple[str, ...]:
        """The sources that count here because the person said so."""
        return tuple(source for source, word in self.said().items() if word == "used")

    def keep(self, source: str, word: Word) -> None:
        said = self.said()
        if said.get(source) == word:
            return
        with suppress(OSError):
            private_folder(self._folder)
            write_atomic(self._path, msgspec.json.encode(said | {source: word}), durable=False)
