"""Which files of a workspace a hook would run, and whether a person has approved them as they stand.

A hook written inside the workspace counts only once its own file is approved. Whoever wrote a hook: every word of its
command that names a file of the workspace is code somebody else may have written, and an agent may have changed. All of
it is looked at again right before each run. What such a program loads by itself is beyond this.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from bridle.base.fs.files import read_limited
from bridle.base.fs.paths import is_beneath_any
from bridle.safety.hooks.definitions import Hook

IsTrusted: TypeAlias = Callable[[str, str], bool]
"""Whether the content with this SHA-256 may be used from this path."""

MAX_BYTES = 16 << 20
_WORD = re.compile(r"""[^\s"'`|&;<>()$={}]+""")


def unapproved(hook: Hook, *, cwd: str, workspaces: Iterable[str], is_trusted: IsTrusted) -> str | None:
    """The first file that has to be approved and is not, as it stands now; None if the hook may run."""
    for path in _distinct((*hook.approved, *_workspace_files(hook, cwd, tuple(workspaces)))):
        digest = content_digest(path)
        if digest is None or not is_trusted(path, digest):
            return path
    return None


def content_digest(path: str) -> str | None:
    """The digest of a file; None if it cannot be read or is no plain file of sensible size."""
    try:
        contents = read_limited(path, MAX_BYTES)
    except OSError:
        return None
    return None if contents.truncated else hashlib.sha256(contents.data).hexdigest()


def _workspace_files(hook: Hook, cwd: str, workspaces: tuple[str, ...]) -> Iterator[str]:
    folder = hook.folder or cwd
    for word in _words(hook.argv):
        try:
            path = os.path.realpath(os.path.join(folder, word))
            if is_beneath_any(path, workspaces) and stat.S_ISREG(os.stat(path).st_mode):
                yield path
        except (OSError, ValueError):  # no file, or no name a file can have
            continue


def _words(argv: tuple[str, ...]) -> Iterator[str]:
    """Every word that may name a file: whole, and the pieces a shell or an option would make of it."""
    for word in argv:
        yield word
        if found := _WORD.findall(word):
            yield from (piece for piece in found if piece != word)


def _distinct(paths: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(paths)
