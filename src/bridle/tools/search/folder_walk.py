"""Walk folders in a fixed order, past ignored files.

`.gitignore` files are obeyed from the workspace down. Their rules are git's, with one addition ripgrep also makes:
`{a,b}` names alternatives. (For ripgrep `[!a]` may also be a slash; for git and here it may not.)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from bridle.base.fs.files import open_beneath, read_limited
from bridle.base.fs.path_patterns import BadPathPattern, PathPattern, Reached, anywhere

ALWAYS_SKIPPED = frozenset({".git", "node_modules"})
# fmt: off
BUILD_OUTPUT = frozenset({
    "build", "dist", "target", "__pycache__", ".venv", "venv", ".tox", ".nox", ".eggs", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".gradle", ".next", ".nuxt", ".svelte-kit", ".turbo", ".parcel-cache",
    "coverage", "htmlcov", ".hg", ".svn",
})
# fmt: on
MAX_DEPTH = 100
_MAX_RULES_BYTES = 1 << 20


class Found(NamedTuple):
    """A file below the folder; `entry` is good until the next one is asked for."""

    path: str
    entry: os.DirEntry[str]


class _Rule(NamedTuple):
    pattern: PathPattern
    keeps: bool
    only_folders: bool


class IgnoreRules:
    """What the `.gitignore` files say about the paths below `folder`.

    Those of the folders above it count too, up to `top`, which is `folder` itself or contains it. What they
    say about `folder` does not: it was asked for by name.
    """

    def __init__(self, folder: str, top: str) -> None:
        above = os.path.relpath(folder, top)
        self._above = () if above == "." else tuple(above.split("/"))
        self._top = top
        self._files: dict[tuple[str, ...], tuple[_Rule, ...]] = {}

    def ignores(self, parts: Sequence[str], *, is_folder: bool) -> bool:
        """Whether the path itself is ignored; the folders it is in are not looked at."""
        whole = (*self._above, *parts)
        for depth in range(len(whole) - 1, -1, -1):  # the nearest file that has something to say decides
            for rule in reversed(self._rules(whole[:depth])):
                if (is_folder or not rule.only_folders) and rule.pattern.matches(whole[depth:]):
                    return not rule.keeps
        return False

    def leaves_out(self, parts: Sequence[str]) -> bool:
        """Whether a file is out of sight, itself or with a folder it is in."""
        return any(
            self.ignores(parts[:length], is_folder=length < len(parts)) for length in range(1, len(parts) + 1)
        )

    def _rules(self, folder: tuple[str, ...]) -> tuple[_Rule, ...]:
        if folder not in self._files:
            self._files[folder] = _read_rules(os.path.join(self._top, *folder, ".gitignore"))
        return self._files[folder]


def walk(
    folder: str,
    *,
    skipped: Collection[str],
    pattern: PathPattern | None = None,
    rules: IgnoreRules | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Found]:
    """The files and links below a resolved folder, by name, folder by folder; of a pattern, those that match.

    `skipped` are names of folders that are not entered, nor are those that `rules` ignore; a file they ignore is still
    found. A folder that cannot be read is passed over; only `folder` itself must be readable (OSError).
    """
    fd = open_beneath(folder, os.O_RDONLY | os.O_DIRECTORY)
    pattern = pattern or PathPattern("**")
    return _Walk(skipped, pattern, rules, should_stop).below(fd, (), pattern.top)


class _Walk:
    def __init__(
        self,
        skipped: Collection[str],
        pattern: PathPattern,
        rules: IgnoreRules | None,
        should_stop: Callable[[], bool],
    ) -> None:
        self._skipped = skipped
        self._pattern = pattern
        self._rules = rules
        self._should_stop = should_stop

    def below(self, fd: int, parts: tuple[str, ...], reached: Reached) -> Iterator[Found]:
        """Closes `fd` at the end."""
        above = "".join(f"{part}/" for part in parts)
        fits = self._pattern.fits(reached)
        try:
            with os.scandir(fd) as entries:
                found = sorted(entries, key=lambda entry: os.fsencode(entry.name))
            for entry in found:
                if self._should_stop():
                    return
                if not _is_folder(entry):
                    if fits(entry.name):
                        yield Found(above + entry.name, entry)
                elif (
                    (inside := self._pattern.inside(reached, entry.name))
                    and self._enters(parts, entry.name)
                    and (deeper := _opened(entry.name, fd)) is not None
                ):
                    yield from self.below(deeper, (*parts, entry.name), inside)
        except OSError:
            return  # it went away while we were reading
        finally:
            os.close(fd)

    def _enters(self, parts: tuple[str, ...], name: str) -> bool:
        if name in self._skipped or len(parts) + 1 >= MAX_DEPTH:
            return False
        return self._rules is None or not self._rules.ignores((*parts, name), is_folder=True)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _opened(name: str, where: int) -> int | None:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=where)
    except OSError:
        return None


def _read_rules(path: str) -> tuple[_Rule, ...]:
    try:
        data = read_limited(path, _MAX_RULES_BYTES).data
    except OSError:
        return ()
    lines = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff").split("\n")
    return tuple(rule for line in lines if (rule := _rule(line.removesuffix("\r"))) is not None)


def _rule(line: str) -> _Rule | None:
    """One line of a `.gitignore`; None for a comment, a blank line and what is no pattern."""
    if line.startswith("#"):
        return None
    line = _without_spaces_at_end(line)
    keeps = line.startswith("!")
    pattern = line[1:] if keeps else line
    only_folders = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    if not pattern:
        return None
    try:
        return _Rule(PathPattern(anywhere(pattern)), keeps, only_folders)
    except BadPathPattern:
        return None


def _without_spaces_at_end(line: str) -> str:
    stripped = line.rstrip(" ")
    return stripped + " " if stripped.endswith("\\") and stripped != line else stripped
