"""Rank the definitions of a project for the repo map.

Files are ranked as pages are, by who refers to them: a reference counts the less the more files define that name. What
somebody asks for in particular is where the walk begins. The same tags give the same map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log1p, sqrt
from typing import Final

import msgspec

from bridle.base.text.token_estimate import CHARACTERS_PER_TOKEN

ROUNDS: Final = 15
DAMPING: Final = 0.85
MAX_DEFINERS: Final = 8
"""A name that more files define says nothing about any of them."""
FOCUS: Final = 50.0
IN_FOCUS: Final = 20.0
INSIDE: Final = 0.3
PER_FILE: Final = 15
"""So many definitions of one file at most."""
_SHORT_NAME: Final = 3


class Definition(msgspec.Struct, frozen=True, array_like=True):
    """Something a file defines: its name, its line counted from 1, and the text of that line."""

    name: str
    line: int
    text: str


class FileTags(msgspec.Struct, frozen=True, array_like=True):
    """What a file defines, in order, and the names it refers to, with how often."""

    defs: tuple[Definition, ...] = ()
    refs: dict[str, int] = {}


class RepoMap(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a map, and how many files and definitions are in it."""

    text: str
    files: int
    definitions: int


def repo_map(tags: Mapping[str, FileTags], *, focus: Sequence[str], max_tokens: int) -> RepoMap:
    """The most used definitions that fit, file by file, the highest ranked file first."""
    tags = dict(sorted(tags.items()))  # sums of fractions depend on their order
    words = [word.strip().removeprefix("./").casefold() for word in focus if word.strip()]
    ranks = file_ranks(tags, words)
    uses = _uses(tags)
    weights = {
        path: ranks[path] * (IN_FOCUS if _matches(path, file, words) else 1.0) for path, file in tags.items()
    }
    scored = sorted(
        (
            (-weights[path] * _worth(one, uses.get(one.name, 0.0)) * _wanted(one.name, words), path, one)
            for path, file in tags.items()
            for one in file.defs
        ),
        key=lambda entry: (entry[0], entry[1], entry[2].line, entry[2].name),
    )
    left = max_tokens * CHARACTERS_PER_TOKEN
    chosen: dict[str, dict[int, Definition]] = {}
    for _, path, one in scored:
        lines = chosen.get(path, {})
        cost = len(_line(one)) + 1 + (0 if lines else len(path) + 1)
        if len(lines) >= PER_FILE or one.line in lines or cost > left:
            continue
        left -= cost
        chosen.setdefault(path, lines)[one.line] = one
    return RepoMap(
        text="".join(_shown(chosen)), files=len(chosen), definitions=sum(map(len, chosen.values()))
    )


def file_ranks(tags: Mapping[str, FileTags], words: Sequence[str]) -> dict[str, float]:
    """How much each file counts; together they are 1. `words` are folded parts of paths, or names."""
    if not tags:
        return {}
    edges = _edges(tags)
    start = {path: 1.0 + FOCUS * _matches(path, file, words) for path, file in tags.items()}
    whole = sum(start.values())
    start = {path: weight / whole for path, weight in start.items()}
    ranks = dict(start)
    for _ in range(ROUNDS):
        lost = sum(ranks[path] for path in tags if path not in edges)
        following = {path: (1 - DAMPING + DAMPING * lost) * weight for path, weight in start.items()}
        for path, targets in edges.items():
            share = DAMPING * ranks[path]
            for target, weight in targets:
                following[target] += share * weight
        ranks = following
    return ranks


def _edges(tags: Mapping[str, FileTags]) -> dict[str, list[tuple[str, float]]]:
    """For each file the files it refers to, with shares that add up to 1."""
    definers: dict[str, list[str]] = {}
    for path, file in tags.items():
        for name in {one.name for one in file.defs}:
            definers.setdefault(name, []).append(path)
    edges: dict[str, list[tuple[str, float]]] = {}
    for path, file in tags.items():
        weights: dict[str, float] = {}
        for name, count in file.refs.items():
            there = definers.get(name, ())
            if 0 < len(there) <= MAX_DEFINERS:
                for target in there:
                    if target != path:
                        weights[target] = weights.get(target, 0.0) + _quality(name) * sqrt(count) / len(there)
        if whole := sum(weights.values()):
            edges[path] = [(target, weight / whole) for target, weight in sorted(weights.items())]
    return edges


def _uses(tags: Mapping[str, FileTags]) -> dict[str, float]:
    """How many files refer to each name, for each file that defines it."""
    defined: dict[str, int] = {}
    for file in tags.values():
        for name in {one.name for one in file.defs}:
            defined[name] = defined.get(name, 0) + 1
    used: dict[str, int] = {}
    for file in tags.values():
        for name in file.refs:
            if name in defined:
                used[name] = used.get(name, 0) + 1
    return {name: _quality(name) * count / defined[name] for name, count in used.items()}


def _quality(name: str) -> float:
    return 0.2 if name.startswith("_") or len(name) <= _SHORT_NAME else 1.0


def _matches(path: str, file: FileTags, words: Sequence[str]) -> bool:
    if not words:
        return False
    folded = path.casefold()
    names = {one.name.casefold() for one in file.defs}
    return any(word in folded or word in names for word in words)


def _worth(one: Definition, uses: float) -> float:
    """A definition at the top level tells more than one inside another."""
    return (1 + log1p(uses)) * (INSIDE if one.text[:1].isspace() else 1.0)


def _wanted(name: str, words: Sequence[str]) -> float:
    folded = name.casefold()
    return 10.0 if any(word in folded for word in words) else 1.0


def _shown(chosen: Mapping[str, Mapping[int, Definition]]) -> Iterator[str]:
    for path, lines in chosen.items():
        yield f"{path}\n"
        for line in sorted(lines):
            yield f"{_line(lines[line])}\n"


def _line(one: Definition) -> str:
    return f"{one.line:>5} {one.text}"
