"""Accept policy files that match a commit.

Nothing is run: git's own list of the files it has taken up (the index) says what each of them holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha1, sha256

from bridle.base.fs.files import files_below, read_limited
from bridle.base.fs.paths import is_beneath
from bridle.base.git.git_config import committed_contents
from bridle.sandbox.confinement import Confinement
from bridle.sandbox.git_places import find_repository

_MAX_BYTES = 1 << 20
_TAIL_BYTES = 16 * 1024
_SHA1_BYTES = 20


def is_committed(path: str) -> bool:
    """Whether all of a file or folder is as the repository around it has taken it up, or left so by a stopped merge."""
    git = find_repository(os.path.dirname(path))
    if git is None or not git.ours:
        return False
    known = committed_contents(git.git_dir)
    return all(_holds(file, known.get(os.path.relpath(file, git.top), set())) for file in _files_in(path))


def stayed_behind(confinement: Confinement, began_ns: int) -> list[str]:
    """What was held while git went to another commit, and is not as it is there."""
    found: list[str] = []
    for tree in confinement.working_trees:
        if not _moved(tree.git_dir, began_ns):
            continue
        held = [
            os.path.relpath(path, tree.top)
            for path in (*confinement.read_only, *confinement.absent)
            if is_beneath(path, tree.top) and not is_beneath(path, tree.git_dir)
        ]
        for name, digests in committed_contents(tree.git_dir).items():
            path = os.path.join(tree.top, name)
            if any(name == above or name.startswith(f"{above}/") for above in held) and not _holds(
                path, digests
            ):
                found.append(path)
    return found


def _moved(git_dir: str, began_ns: int) -> bool:
    """Whether git went to another commit since then, other than by making one."""
    log = os.path.join(git_dir, "logs", "HEAD")
    try:
        if os.lstat(log).st_ctime_ns < began_ns:
            return False
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).split(b"\n")
    except OSError:
        return False
    for line in lines:
        who, tab, message = line.partition(b"\t")
        told = who.split(b" ")[-2:-1]
        is_new = bool(told) and told[0].isdigit() and int(told[0]) >= began_ns // 1_000_000_000
        if tab and is_new and not message.startswith(b"commit"):
            return True
    return False


def _files_in(path: str) -> Iterator[str]:
    if os.path.islink(path) or not os.path.isdir(path):
        yield path
        return
    yield from files_below(path)


def _holds(path: str, digests: set[bytes]) -> bool:
    if not digests or b"" in digests:
        return bool(digests)
    try:
        data = os.fsencode(os.readlink(path)) if os.path.islink(path) else read_limited(path, _MAX_BYTES).data
    except OSError:
        return False
    new = sha1 if all(len(digest) == _SHA1_BYTES for digest in digests) else sha256
    forms = (data, data.replace(b"\r\n", b"\n"))
    return any(new(b"blob %d\0%b" % (len(form), form)).digest() in digests for form in forms)
