"""The files of a check: what its command names, tests, and what test runners obey, each with what it held.

What a command reads cannot be known in general. These are the files by which a check is made to pass without the work
being done, as far as names tell; the bounds are said where they are reached.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, TypeAlias


class WatchBounds(NamedTuple):
    """How much is looked at: entries of folders, files, and bytes of all of them together. Of files beyond those bytes,
    size and time tell whether they changed."""

    entries: int = 50_000
    files: int = 2_000
    read_bytes: int = 64 * 1024 * 1024


BOUNDS: Final = WatchBounds()

_TESTS: Final = (
    "test_*", "*_test.*", "*.test.*", "*_tests.*", "*.spec.*", "*_spec.*", "*Test.*", "*Tests.*", "*IT.java", "*.bats",
    "conftest.py",
)  # fmt: skip
_TEST_FOLDERS: Final = frozenset({
    "test", "tests", "__tests__", "spec", "specs", "testdata", "__snapshots__", "fixtures",
})  # fmt: skip
_RUNNER_FILES: Final = (
    "pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "pytest.ini", ".pytest.ini", "noxfile.py", ".coveragerc",
    "mypy.ini", "pyrightconfig.json", "ruff.toml", ".ruff.toml", ".flake8", "package.json", "tsconfig*.json",
    "jest.config.*", "vitest.config.*", "vite.config.*", "playwright.config.*", "cypress.config.*", "karma.conf.*",
    ".mocharc*", "babel.config.*", "eslint.config.*", ".eslintrc*", "Makefile", "makefile", "GNUmakefile", "justfile",
    "Justfile", "CMakeLists.txt", "meson.build", "Cargo.toml", "go.mod", "pom.xml", "build.gradle", "build.gradle.kts",
    "Rakefile", "Gemfile", ".rspec", "phpunit.xml*", "composer.json", "deno.json", "bunfig.toml", "mix.exs",
)  # fmt: skip
_PASSED_OVER: Final = frozenset({
    ".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", "target", "dist", ".next",
})  # fmt: skip

_Stat: TypeAlias = tuple[int, int, int, int]
_Held: TypeAlias = dict[str, str]
"""What each file holds, by its path in the folder."""


class CheckFiles:
    """The files of one check in `cwd`, as they were and as they are. `words` are those of its command, as far as they
    are known. All of it reads the disk: call it in a thread."""

    def __init__(self, cwd: str, words: Iterable[str], bounds: WatchBounds = BOUNDS) -> None:
        self._bounds = bounds
        self._cwd = os.path.realpath(cwd)
        self._named, self._folders = _named(self._cwd, words)
        self._known: dict[str, tuple[_Stat, str]] = {}
        self.is_cut = False
        """Whether there are more than are watched."""
        self._begun = self._now = self._look()

    def __len__(self) -> int:
        return len(self._begun)

    def changed(self) -> tuple[str, ...]:
        """Those that are not as they were when this began, and new ones; what the check did itself does not count."""
        self._now = self._look()
        return tuple(sorted(_differ(self._begun, self._now)))

    def forgive_check(self) -> None:
        """What has changed since `changed` was asked is the check's own doing, unless it had been changed before."""
        before, self._now = self._now, self._look()
        for path in _differ(before, self._now):
            if self._begun.get(path) == before.get(path):
                _set(self._begun, path, self._now.get(path))

    def _look(self) -> _Held:
        held: _Held = {}
        left = self._bounds.read_bytes
        for path in self._paths():
            if path in held:
                continue
            if len(held) >= self._bounds.files:
                self.is_cut = True
                break
            found = self._content(path, left)
            if found is not None:
                held[path], read = found
                left -= read
        return held

    def _paths(self) -> Iterator[str]:
        """What the command names first: the bounds are for the others."""
        yield from self._named
        yield from self._runner_files()
        looked_at = 0
        for folder in self._folders:
            for path in _below(self._cwd, folder):
                looked_at += 1
                if looked_at > self._bounds.entries:
                    self.is_cut = True
                    return
                if is_of_tests(path):
                    yield path

    def _runner_files(self) -> Iterator[str]:
        """What a runner obeys lies where it is started, and on the way to what it is given."""
        on_the_way = {""}
        for path in (*self._named, *(f"{folder}/" for folder in self._folders if folder)):
            while path := os.path.dirname(path):
                on_the_way.add(path)
        for folder in sorted(on_the_way):
            for entry in _entries(os.path.join(self._cwd, folder)):
                if any(fnmatchcase(entry.name, one) for one in (*_RUNNER_FILES, "conftest.py")):
                    yield os.path.join(folder, entry.name)

    def _content(self, path: str, most: int) -> tuple[str, int] | None:
        """What stands for the content of a file, and how much of it was read; None where it is no file."""
        try:
            fd = os.open(os.path.join(self._cwd, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                return None
            seen = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            known = self._known.get(path)
            if known is not None and known[0] == seen:
                return known[1], 0
            if status.st_size > most:
                return f"{status.st_size} {status.st_mtime_ns}", 0
            with open(fd, "rb", closefd=False) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return None
        finally:
            os.close(fd)
        self._known[path] = seen, digest
        return digest, status.st_size


def is_of_tests(path: str) -> bool:
    """Whether a file is one of tests by its name, or by that of a folder it is in; or one that runners obey. Pure."""
    *folders, name = path.split("/")
    return not _TEST_FOLDERS.isdisjoint(folders) or any(
        fnmatchcase(name, pattern) for pattern in (*_TESTS, *_RUNNER_FILES)
    )


def _named(cwd: str, words: Iterable[str]) -> tuple[list[str], list[str]]:
    """The files and folders that words name, both inside the folder; the folder itself where they name none."""
    files: list[str] = []
    folders: list[str] = []
    for word in words:
        for name in _spellings(word):
            path = os.path.relpath(os.path.realpath(os.path.join(cwd, name)), cwd)
            if path.startswith("../") or path == "..":
                continue
            if os.path.isfile(os.path.join(cwd, path)):
                files.append(path)
            elif os.path.isdir(os.path.join(cwd, path)):
                folders.append("" if path == "." else path)
    files, folders = list(dict.fromkeys(files)), list(dict.fromkeys(folders))
    return files, folders if files or folders else [""]


def _spellings(word: str) -> Iterator[str]:
    """The names a word may hold: `--config=a.toml` that of a file, `a.py::test_b` and `a.rb:12` the one of its file."""
    for text in (word, word.partition("=")[2] if word.startswith("-") else ""):
        if text and "\0" not in text and len(text) < 4096:
            yield from dict.fromkeys((text, text.partition("::")[0], text.partition(":")[0]))


def _below(cwd: str, folder: str) -> Iterator[str]:
    """Every file below a folder; links to folders are not followed."""
    waiting = [folder]
    while waiting:
        within = waiting.pop()
        for entry in _entries(os.path.join(cwd, within)):
            path = os.path.join(within, entry.name)
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
            except OSError:
                continue
            if is_folder and entry.name not in _PASSED_OVER:
                waiting.append(path)
            elif not is_folder:
                yield path


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []


def _differ(one: _Held, other: _Held) -> set[str]:
    return {path for path in one.keys() | other.keys() if one.get(path) != other.get(path)}


def _set(held: _Held, path: str, content: str | None) -> None:
    if content is None:
        held.pop(path, None)
    else:
        held[path] = content
