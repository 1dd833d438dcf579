"""Paths as people and models read them."""

from __future__ import annotations

import os


def relative_path(resolved: str, cwd: str) -> str:
    """Relative in the working directory, which itself is `.`; absolute elsewhere."""
    root = os.path.realpath(cwd).rstrip("/")
    return "." if resolved == root else resolved.removeprefix(root + "/")


def shown_path(path: str) -> str:
    """A path on one line, whatever its characters are."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return text if text.isprintable() else repr(text)
