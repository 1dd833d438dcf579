"""What a search or a listing may show of the files below a folder. Names are compared; a file is looked up only for
what it holds, since it may have another name."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from bridle.base.secret_files import secret_matcher, suspect_rules
from bridle.engine.tools import SearchSight, Sight
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

    def hides_names(folder: str) -> bool:
        below = f"{folder.casefold().rstrip('/')}/"
        return denied is not None or below.startswith(own) or any(one.startswith(below) for one in own)

    def shows(path: str, *, second_names: bool) -> bool:
        if not shows_name(path):
            return False
        secret = looks_secret(path) or (
            private is not None
            and (private.hold(path) or (second_names and private.hold_second_name(_status(path))))
        )
        return not secret or policy.named_by_user(path, "read")

    def shows_named(path: str) -> bool:
        return not looks_secret(path) or policy.named_by_user(path, "read")

    def begin_search(folder: str) -> SearchSight:
        # where no private file has a second name, none of many thousand files has to be looked up for one
        second_names = private is not None and private.have_second_names()
        if second_names or hides_names(folder) or (private is not None and not private.are_never_in(folder)):
            return SearchSight(partial(shows, second_names=second_names))
        return SearchSight(shows_named, suspect_rules(policy.secret_files, folder))

    return Sight(
        shows_name=shows_name,
        shows_content=partial(shows, second_names=True),
        begin_search=begin_search,
        hides_names=hides_names,
    )


def without(seen: Sight, hidden: Callable[[str], bool]) -> Sight:
    """The same, but for what is `hidden`: neither its name nor what it holds."""

    def begin_search(folder: str) -> SearchSight:
        shows = seen.for_search(folder).shows
        return SearchSight(lambda path: not hidden(path) and shows(path))

    return Sight(
        shows_name=lambda path: not hidden(path) and seen.shows_name(path),
        shows_content=lambda path: not hidden(path) and seen.shows_content(path),
        begin_search=begin_search,
    )


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None
