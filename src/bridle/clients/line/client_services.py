"""What the line client can reach beyond its terminal and its connection. Whoever starts it decides what that is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from bridle.protocol.events import GrantAdded


def _no_paths() -> Sequence[str]:
    return ()


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Everything is optional: what is missing here is not offered.

    `paths` are the files and folders a mention may complete to. `edit` lets a person change a text in their own
    editor and gives it back, None if they did not save it. `save` writes a new file at a path a person named and
    returns where it is. `promote` makes a remembered yes a rule of the person's own settings and returns the file it
    stands in. Whatever does something may raise `BridleError`.
    """

    paths: Callable[[], Sequence[str]] = _no_paths
    edit: Callable[[str], Awaitable[str | None]] | None = None
    save: Callable[[str, str], str] | None = None
    promote: Callable[[GrantAdded], str] | None = None
