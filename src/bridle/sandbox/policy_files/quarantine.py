"""Quarantine new or changed policy files and restore the old content.

Some names cannot be kept missing while git runs, because git would stumble over whatever stands there; and a link
cannot be held in its place. So this is done once a command is over: for policy files, for files that would lead git
to other settings, for settings of git that came to name programs, and for submodules that would run theirs. What is
quarantined is renamed where it is, so nothing is lost and no program obeys it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

from bridle.base.fs.files import open_beneath, read_limited
from bridle.base.fs.paths import is_beneath_any
from bridle.base.fs.placeholders import is_stand_in
from bridle.base.git.git_config import MAX_CONFIG_BYTES, is_odd, submodule_folders, unproven_settings
from bridle.base.secrets.secret_files import is_held_file
from bridle.sandbox.confinement import Confinement, UnheldEntry, WatchedGitSettings
from bridle.sandbox.policy_files.policy_snapshot import PolicyChange

PUT_ASIDE = ".put-aside"
_MAX_BYTES = 4_096
_MAX_NAME_BYTES = 255
_MOST_NUMBERED = 100
_MOST_DIGITS = 24


def put_right(
    confinement: Confinement, cannot: Callable[[str, OSError], None] | None = None, *, since_ns: int = 0
) -> tuple[str, ...]:
    """Put back everything in git's own folder that a command may not have changed. Return the paths it had changed.

    `cannot` hears of each that could not be put back. What was as it is before `since_ns` stays.
    """
    missing = (*confinement.unwanted, *(path for path, _ in confinement.filled))
    tampered = [path for path in dict.fromkeys(missing) if os.path.lexists(path) and not is_stand_in(path)]
    tampered += [kept.path for kept in confinement.kept if not _is_as_it_was(kept)]
    tampered += [watched.path for watched in confinement.watched if _names_new_programs(watched)]
    for tree in confinement.working_trees:
        came = set(filter(is_odd, submodule_folders(tree.top, tree.git_dir))) - tree.odd
        tampered += [
            os.path.join(folder, ".git")
            for folder in sorted(came)
            if is_beneath_any(folder, confinement.writable)
        ]
    tampered = [path for path in tampered if _changed_ns(path) >= since_ns]
    by_path = {kept.path: kept for kept in confinement.kept}
    by_path |= {
        watched.path: UnheldEntry(path=watched.path, content=watched.content)
        for watched in confinement.watched
        if watched.content is not None
    }
    for path in tampered:
        try:
            _put_back(path, by_path.get(path))
        except OSError as problem:
            # Where a folder on the way was moved, the name means nothing any more.
            if cannot is not None and os.path.lexists(path):
                cannot(path, problem)
    return tuple(tampered)


def _changed_ns(path: str) -> int:
    """Return when it came, changed or went, as far as its folder tells."""
    changed = 0
    for one in (path, os.path.dirname(path)):
        with contextlib.suppress(OSError):
            changed = max(changed, os.lstat(one).st_ctime_ns)
    return changed


def _is_as_it_was(kept: UnheldEntry) -> bool:
    try:
        if kept.link:
            name = os.path.basename(kept.path)
            is_compared = name != ".git" and is_held_file(name)  # `policy_check` knows better what it was
            return os.readlink(kept.path) == kept.link or is_compared
        if not os.path.lexists(kept.path):
            return True
        return not os.path.islink(kept.path) and read_limited(kept.path, _MAX_BYTES).data == kept.content
    except OSError:
        return False


def _names_new_programs(watched: WatchedGitSettings) -> bool:
    try:
        now = read_limited(watched.path, MAX_CONFIG_BYTES)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    before = unproven_settings(os.fsdecode(watched.content or b""))
    return now.truncated or not unproven_settings(os.fsdecode(now.data)) <= before


def quarantine(change: PolicyChange) -> str:
    """Rename what came to be and put back what was there. Return its new path; empty where nothing is there any more.

    Raise `OSError` where that cannot be: the folder is another user's, or nothing in it can be changed.
    """
    before = change.before
    kept = None
    if before is not None and before.link:
        kept = UnheldEntry(path=change.path, link=os.fsdecode(before.link), mode=before.mode)
    elif before is not None and before.content is not None:
        kept = UnheldEntry(path=change.path, content=before.content, mode=before.mode)
    try:
        return _put_back(change.path, kept)
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _put_back(path: str, kept: UnheldEntry | None) -> str:
    """Works on the folder itself: a command may have put a link to somewhere else in its place."""
    aside = ""
    folder, name = os.path.split(path)
    where = open_beneath(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if (
            mode := os.fstat(where).st_mode & 0o7777
        ) & 0o300 != 0o300:  # the command took the right to rename
            os.fchmod(where, mode | 0o300)
        with contextlib.suppress(FileNotFoundError):
            free = _free_name(name, where)
            os.rename(name, free, src_dir_fd=where, dst_dir_fd=where)
            aside = os.path.join(folder, free)
        if kept is not None:
            _restore(kept, name, where)
    finally:
        os.close(where)
    return aside


def _restore(kept: UnheldEntry, name: str, where: int) -> None:
    """Put it there in one step, also over what another command made there meanwhile."""
    begun = f"{PUT_ASIDE}-{os.urandom(8).hex()}"
    try:
        if kept.link:
            os.symlink(kept.link, begun, dir_fd=where)
        else:
            fd = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=where)
            with os.fdopen(fd, "wb") as file:
                file.write(kept.content)
                os.fchmod(fd, kept.mode)
        os.rename(begun, name, src_dir_fd=where, dst_dir_fd=where)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(begun, dir_fd=where)
        raise


def _free_name(name: str, where: int) -> str:
    """A command may have taken the first names, or made this one so long that none fits behind it."""
    room = _MAX_NAME_BYTES - len(PUT_ASIDE) - _MOST_DIGITS
    short = os.fsdecode(os.fsencode(name)[:room])
    for number in range(1, _MOST_NUMBERED):
        candidate = f"{short}{PUT_ASIDE}-{number}"
        try:
            os.lstat(candidate, dir_fd=where)
        except FileNotFoundError:
            return candidate
    return f"{short}{PUT_ASIDE}-{time.time_ns()}"
