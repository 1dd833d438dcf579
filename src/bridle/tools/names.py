"""Paths and failures as people and models read them, and the paths that file tools take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

from bridle.engine.tools import Subject, ToolOutput
from bridle.protocol.errors import sentence

MAX_NAMED = 5
"""How many of the files that were left out are named."""


class NamesPath(Protocol):
    @property
    def path(self) -> str: ...


def reads_path(args: NamesPath) -> tuple[Subject, ...]:
    return (Subject(kind="path", access="read", value=args.path),)


def writes_path(args: NamesPath) -> tuple[Subject, ...]:
    return (Subject(kind="path", access="write", value=args.path),)


def failed(reason: str, **data: str) -> ToolOutput:
    """Return the output of a failed call with the sentence of its reason."""
    return ToolOutput(outcome="error", reason=reason, content=sentence(reason, data))


def failed_path(reason: str, path: str, problem: OSError) -> ToolOutput:
    return failed(reason, path=path, problem=problem.strerror or str(problem))


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
