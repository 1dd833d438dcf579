"""Finding what a command left that was cut off together with its engine, before anybody obeys it.

What masks missing files stays behind then, and shows where and when the command began. Repositories that name programs
since then are put aside, and files that later runs obey; so is what leads a repository elsewhere, whenever it came.
"""

from __future__ import annotations

import os

from bridle.base.stand_ins import is_stand_in, take_away
from bridle.safety.sandbox.aftermath import put_aside
from bridle.safety.sandbox.lookout import Came, Lookout

_MARGIN_NS = 20_000_000


def clear_up(workspace: str, masked: tuple[str, ...]) -> list[tuple[Came, str | OSError]]:
    """Takes away the masks that nobody holds, and puts aside what came beside them: each with its new path, or with
    why it has none."""
    began = [
        began_ns for name in masked if (began_ns := _taken_away(os.path.join(workspace, name))) is not None
    ]
    came: list[Came] = []
    redirection = os.path.join(workspace, ".git", "commondir")
    if os.path.lexists(redirection) and not is_stand_in(redirection):
        came.append(Came(redirection, "leads git elsewhere"))
    if began:
        came += Lookout((workspace,)).left_since(min(began) - _MARGIN_NS)
    found = ((what, _aside(what)) for what in came)
    return [(what, aside) for what, aside in found if aside]


def _aside(what: Came) -> str | OSError:
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
