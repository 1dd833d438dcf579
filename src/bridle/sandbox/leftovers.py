"""Finding what a command left that was cut off together with its engine, before anybody obeys it.

What masks missing files stays behind then, or a note of it that a guardian left, and shows where and when the command
began; of a process that stays, a note of its engine shows since when nobody looked after it. Repositories that name
programs since then are put aside, and files that later runs obey; so is what leads a repository elsewhere, whenever it
came.
"""

from __future__ import annotations

import contextlib
import os
import time

from bridle.base.files import read_limited
from bridle.base.stand_ins import CLOCK_TICK_NS, is_stand_in, noted, take_away
from bridle.sandbox.aftermath import put_aside
from bridle.sandbox.cut_off_note import cut_off_notes
from bridle.sandbox.lookout import Lookout, MadeFile


def clear_up(workspace: str, masked: tuple[str, ...], *, notes: str) -> list[tuple[MadeFile, str | OSError]]:
    """Takes away the masks that nobody holds, and puts aside what came beside them: each with its new path, or with
    why it has none.

    `notes` is the folder in which a guardian noted what it has taken away.
    """
    paths = [os.path.join(workspace, name) for name in masked]
    read = [noted(notes, path) for path in paths]
    began = [
        began_ns for began_ns in (*map(_taken_away, paths), *map(_noted_ns, read)) if began_ns is not None
    ]
    came: list[MadeFile] = []
    redirection = os.path.join(workspace, ".git", "commondir")
    if os.path.lexists(redirection) and not is_stand_in(redirection):
        came.append(MadeFile(redirection, "leads git elsewhere"))
    stayed = {note: since for note in cut_off_notes(notes, workspace) if (since := _noted_ns(note))}
    if began or stayed:
        since_ns = min(*began, *stayed.values(), time.time_ns()) - CLOCK_TICK_NS
        came += Lookout((workspace,)).left_since(since_ns, top_held=not stayed)
    found = [(what, aside) for what in came if (aside := _aside(what))]
    for note in (*read, *stayed):  # not sooner: we may be killed too
        with contextlib.suppress(OSError):
            os.unlink(note)
    return found


def _aside(what: MadeFile) -> str | OSError:
    try:
        return put_aside(what)
    except OSError as problem:
        return problem


def _taken_away(path: str) -> int | None:
    """When a mask that nobody holds was made; None where there is none."""
    try:
        made_ns = os.lstat(path).st_mtime_ns
    except OSError:
        return None
    return made_ns if is_stand_in(path) and take_away(path) else None


def _noted_ns(note: str) -> int | None:
    try:
        return int(read_limited(note, 100).data)
    except (OSError, ValueError):
        return None
