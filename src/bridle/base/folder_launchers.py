"""Launchers that run what the folder they start in says: `npm start`, `make`, `cargo run`. Which file it is said in.

No digest tells what they run: whoever writes the folder does. So it is said, and the file that names what runs is
known, for whoever wants to hear that it changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

_FOLDER_RUNNERS: Final[Mapping[str, tuple[frozenset[str] | None, tuple[str, ...]]]] = {
    "npm": (frozenset({"start", "run", "run-script", "test", "t", "restart", "stop"}), ("package.json",)),
    "pnpm": (None, ("package.json",)),
    "yarn": (None, ("package.json",)),
    "bun": (frozenset({"run", "start", "test"}), ("package.json",)),
    "deno": (frozenset({"task"}), ("deno.json", "deno.jsonc", "package.json")),
    "make": (None, ("GNUmakefile", "makefile", "Makefile")),
    "gmake": (None, ("GNUmakefile", "makefile", "Makefile")),
    "just": (None, ("justfile", "Justfile", ".justfile")),
    "task": (None, ("Taskfile.yml", "Taskfile.yaml", "taskfile.yml", "taskfile.yaml")),
    "cargo": (None, ("Cargo.toml",)),
    "go": (frozenset({"run", "tool", "generate", "test"}), ("go.mod",)),
    "poetry": (frozenset({"run"}), ("pyproject.toml",)),
    "pdm": (frozenset({"run"}), ("pyproject.toml",)),
    "hatch": (frozenset({"run"}), ("pyproject.toml", "hatch.toml")),
    "pipenv": (frozenset({"run"}), ("Pipfile",)),
    "bundle": (frozenset({"exec"}), ("Gemfile",)),
    "rake": (None, ("Rakefile", "rakefile")),
    "composer": (None, ("composer.json",)),
    "gradle": (None, ("build.gradle", "build.gradle.kts")),
    "gradlew": (None, ("build.gradle", "build.gradle.kts")),
    "mvn": (None, ("pom.xml",)),
    "mvnw": (None, ("pom.xml",)),
    "dotnet": (frozenset({"run", "watch"}), ()),
    "swift": (frozenset({"run"}), ("Package.swift",)),
    "mix": (None, ("mix.exs",)),
}  # fmt: skip
"""Launchers that run what a folder says: their words that do, None where all do, and the file it is said in."""
_MANIFEST_OPTIONS: Final = frozenset(
    {"-f", "--file", "--makefile", "--manifest-path", "--justfile", "--taskfile"}
)
_FOLDER_OPTIONS: Final = frozenset({
    "-C", "--prefix", "--dir", "--cwd", "--directory", "-d", "--working-directory", "--project", "-p",
})  # fmt: skip
"""Theirs that name such a file, and the folder to look in."""


class FolderRun(NamedTuple):
    """A folder whose code runs, and the files that say which."""

    path: str
    manifests: tuple[str, ...]

    @property
    def unpinned(self) -> str:
        """What of it can be other code the next time, as a sentence."""
        names = ", ".join(dict.fromkeys(map(os.path.basename, self.manifests)))
        but = f" but {names}" if names else ""
        return f"runs code of the folder it starts in; nothing of it is pinned{but}"


def folder_run(launcher: str, words: Sequence[str], *, cwd: str) -> FolderRun | None:
    """What a launcher runs with these words, started in `cwd`; None where it does not run what a folder says."""
    which, manifests = _FOLDER_RUNNERS.get(launcher, (frozenset[str](), ()))
    given, plain = _given(words)
    if which is not None and not which & {*plain[:1]}:
        return None
    named = [os.path.join(cwd, given[one]) for one in _FOLDER_OPTIONS & given.keys()]
    folder = next(filter(os.path.isdir, named), cwd)
    files = [os.path.join(folder, given[one]) for one in _MANIFEST_OPTIONS & given.keys()]
    found = [path for path in files if os.path.isfile(path)] or _nearest(folder, manifests)
    return FolderRun(folder, tuple(found))


def upward(folder: str) -> Iterator[str]:
    """The folder and all above it."""
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _nearest(folder: str, names: Sequence[str]) -> list[str]:
    """The first of these files in the folder, or in the nearest above it that has one."""
    paths = (os.path.join(place, name) for place in upward(folder) for name in names)
    found = next(filter(os.path.isfile, paths), None)
    return [] if found is None else [found]


def _given(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The options that name a file or a folder, wherever they stand, and the words that are no options."""
    given: dict[str, str] = {}
    plain: list[str] = []
    at = 0
    while at < len(words) and words[at] != "--":
        word, at = words[at], at + 1
        name, has_value, value = word.partition("=")
        if name in _MANIFEST_OPTIONS | _FOLDER_OPTIONS:
            if not has_value and at < len(words):
                value, at = words[at], at + 1
            given[name] = value
        elif word[:2] in ("-C", "-f") and not word.startswith("--"):  # as make takes them
            given[word[:2]] = word[2:]
        elif not word.startswith("-"):
            plain.append(word)
    return given, plain
