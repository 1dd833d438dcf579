"""Paths as people and models read them."""

from __future__ import annotations

import os
from collections.abc import Sequence

MAX_NAMED = 5
"""How many of the files that were left out are named."""


def relative_path(resolved: str, cwd: str) -> str:
    """Relative in the working directory, which itself is `.`; absolute elsewhere."""
    root = os.path.realpath(cwd).rstrip("/")
    return "." if resolved == root else resolved.removeprefix(root + "/")


def left_out_note(count: int, names: Sequence[str] = (), *, what: str = "file") -> str:
    """The line that says that an answer is not whole; `names` are those of the left out that may be said."""
    shown = [shown_path(name) for name in names[:MAX_NAMED]]
    if shown and len(shown) < count:
        shown.append("…")
    plural = what if count == 1 else "entries" if what == "entry" else f"{what}s"
    return f"[{count} {plural} left out{': ' if shown else ''}{', '.join(shown)}]"


def shown_path(path: str) -> str:
    """A path on one line, whatever its characters are."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return text if text.isprintable() else repr(text)
