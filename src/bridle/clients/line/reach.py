"""What the line client can reach beyond its terminal and its session. Whoever starts it decides what that is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from bridle.clients.line.picker import Listed
from bridle.protocol.events import GrantAdded


def _no_paths() -> Sequence[str]:
    return ()


def _no_sessions() -> tuple[Listed, ...]:
    return ()


def _not_local(_model: str) -> bool:
    return False


def _unknown(_model: str) -> int | None:
    return None


def _untitled(_session: str) -> str:
    return ""


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Everything is optional: what is missing here is not offered.

    `paths` are the files and folders a mention may complete to. `edit` lets a person change a text in their own
    editor and gives it back, None if they did not save it. `save` writes a new file at a path a person named and
    returns where it is. `sessions` lists what may be resumed, `title_of` is a title a person gave, `rename` gives
    one. `pin` keeps the content of a session, or no longer; `branch` begins a session as another was after a turn,
    or after its last, and returns its id. `promote` makes a remembered yes a rule of the person's own settings and
    returns the file it stands in. `prompts` are the commands the engine has, each with what it does. `is_local` says
    whether a model runs on this machine, `window_of` how many tokens it takes, where that is known. Whatever does
    something may raise `BridleError`.
    """

    paths: Callable[[], Sequence[str]] = _no_paths
    edit: Callable[[str], Awaitable[str | None]] | None = None
    save: Callable[[str, str], str] | None = None
    sessions: Callable[[], tuple[Listed, ...]] = _no_sessions
    title_of: Callable[[str], str] = _untitled
    rename: Callable[[str, str], None] | None = None
    pin: Callable[[str, bool], None] | None = None
    branch: Callable[[str, int | None], str] | None = None
    promote: Callable[[GrantAdded], str] | None = None
    prompts: tuple[tuple[str, str], ...] = ()
    is_local: Callable[[str], bool] = _not_local
    window_of: Callable[[str], int | None] = _unknown
