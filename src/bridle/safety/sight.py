"""What a search or a listing may show of the files below a folder. Names are compared; a file is looked up only for
what it holds, since it may have another name."""

from __future__ import annotations

import os
from collections.abc import Callable

from bridle.base.secret_files import secret_matcher
from bridle.engine.tools import Sight
from bridle.safety.path_guard import PathPolicy


def sight(policy: PathPolicy, denied: Callable[[str], bool] | None) -> Sight:
    """Bridle's own folders and what is `denied` are out of sight; of files that look like they hold secrets the names
    may be shown.

    `denied` says whether a rule denies reading an absolute path, itself or with a folder it is in; None where there is
    no such rule. A secret file that a rule of the person's own names may be read like any other.
    """
    own = tuple(f"{os.path.realpath(folder).rstrip('/').casefold()}/" for folder in policy.protected)
    looks_secret = secret_matcher(policy.secret_files)
    private = policy.private

    def shows_name(path: str) -> bool:
        return not (f"{path.casefold()}/".startswith(own) or (denied is not None and denied(path)))

    def shows_content(path: str) -> bool:
        if not shows_name(path):
            return False
        secret = looks_secret(path) or (
            private is not None and (private.hold(path) or private.hold_second_name(_status(path)))
        )
        return not secret or policy.named_by_user(path, "read")

    return Sight(shows_name=shows_name, shows_content=shows_content)


def without(seen: Sight, hidden: Callable[[str], bool]) -> Sight:
    """The same, but for what is `hidden`: neither its name nor what it holds."""
    return Sight(
        shows_name=lambda path: not hidden(path) and seen.shows_name(path),
        shows_content=lambda path: not hidden(path) and seen.shows_content(path),
    )


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None
