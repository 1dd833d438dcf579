"""Prompts that the user typed in a folder, for the arrow keys."""

from __future__ import annotations

import hashlib
import os

import msgspec

from bridle.base.fs.files import private_folder, read_limited

KEPT = 500
MAX_BYTES = 4 * 1024 * 1024


class PromptHistory:
    """One private file per folder, one JSON text a line, oldest first. Losing it costs nothing but comfort."""

    def __init__(self, state_folder: str, cwd: str) -> None:
        name = hashlib.sha256(cwd.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self._folder = os.path.join(state_folder, "history")
        self._path = os.path.join(self._folder, f"{name}.jsonl")

    def prompts(self) -> tuple[str, ...]:
        try:
            lines = read_limited(self._path, MAX_BYTES).data.splitlines()
        except OSError:
            return ()
        found: list[str] = []
        for line in lines[-KEPT:]:
            try:
                found.append(msgspec.json.decode(line, type=str))
            except msgspec.MsgspecError:
                continue
        return tuple(found)

    def add(self, prompt: str) -> None:
        try:
            private_folder(self._folder)
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(fd, msgspec.json.encode(prompt) + b"\n")
            finally:
                os.close(fd)
        except (OSError, UnicodeEncodeError):
            return
