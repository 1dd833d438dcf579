"""Which memories go with a turn: by their tags and by the words of their names and descriptions. Pure.

The same memories and the same words give the same choice, whatever the order of the files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from bridle.context.memory.memory_words import MIN_FUZZY, is_near, words_of

INDEX = "MEMORY.md"
ENDING = ".md"
MAX_CHOSEN = 5
"""So many memories join a turn at most,"""
MAX_CHOSEN_BYTES = 8 * 1024
"""so much of them together,"""
MAX_ENTRY_BYTES = 3 * 1024
"""and so much of each; the rest can be read with the tool."""
MAX_WORDS = 400
"""Of a long input so many different words count."""
ALWAYS = "always"
"""A memory with this tag is chosen whatever is said."""

_TAG, _NAME, _DESCRIPTION = 6, 6, 3
_ENOUGH = 6
"""A tag, a name, or two words of the description."""
_SLIP = 2 / 3
"""What a word counts that is only nearly the same."""
_COMMON_SHARE, _MIN_COMMON = 4, 8
"""A word in more than one of four memories, and in eight, counts half when the best are looked for."""
_MAX_SPREAD = 100
"""A word in more memories than this tells none of them from the others."""

MemoryScope: TypeAlias = Literal["user", "project"]


class MemoryRow(msgspec.Struct, frozen=True):
    """A memory file as it was read.

    `digest` tells which content it was. `problem` says, as a clause, why a file is no memory; it is then not chosen.
    `size` is how long it is, in bytes, and `text` the beginning of it, as much as goes with a turn.
    """

    scope: MemoryScope
    name: str
    digest: str = ""
    problem: str = ""
    description: str = ""
    type: str = ""
    updated: str = ""
    tags: tuple[str, ...] = ()
    size: int = 0
    text: str = ""

    @property
    def key(self) -> str:
        """What people and the model call it."""
        return f"{self.scope}/{self.name}"


class MemoryIndex:
    """The memories of a folder by name, and for each word the numbers of the memories with their weights."""

    def __init__(self, rows: Iterable[MemoryRow]) -> None:
        self.rows = tuple(rows)
        self.weights: dict[str, list[tuple[int, int]]] = {}
        self._beginnings: dict[str, list[str]] = {}
        for number, row in enumerate(self.rows):
            for word, weight in () if row.problem else _weights(row).items():
                self.weights.setdefault(word, []).append((number, weight))

    def meant(self, word: str) -> tuple[str, ...]:
        """The word itself where it is one of theirs; else those that somebody may have meant who typed it."""
        if word in self.weights:
            return (word,)
        if len(word) < MIN_FUZZY or not word.isascii():
            return ()
        if not self._beginnings:
            for known in self.weights:
                if len(known) >= MIN_FUZZY:
                    self._beginnings.setdefault(known[:2], []).append(known)
        return tuple(known for known in self._beginnings.get(word[:2], ()) if is_near(word, known))


def choose(
    indexes: Sequence[MemoryIndex], said: str, present: Collection[tuple[str, str]] = ()
) -> list[MemoryRow]:
    """What goes with these words, the best first. `present` are keys and digests that are there already."""
    chosen: list[MemoryRow] = []
    room = MAX_CHOSEN_BYTES
    for row in _ranked(indexes, words_of(said)[:MAX_WORDS]):
        size = min(row.size, MAX_ENTRY_BYTES)
        if (row.key, row.digest) in present or size > room:
            continue
        chosen.append(row)
        room -= size
        if len(chosen) == MAX_CHOSEN:
            break
    return chosen


def _ranked(indexes: Sequence[MemoryIndex], said: Sequence[str]) -> list[MemoryRow]:
    """The memories that count enough. A word that many have says that each fits, and not which fits best."""
    total = sum(len(index.rows) for index in indexes)
    common = max(_MIN_COMMON, total // _COMMON_SHARE)
    fits: dict[tuple[int, int], float] = {}
    ranks = {
        (which, number): float("inf")
        for which, index in enumerate(indexes)
        for number, row in enumerate(index.rows)
        if ALWAYS in row.tags and not row.problem
    }
    for word in said:
        best: dict[tuple[int, int], tuple[float, float]] = {}
        found = [(which, meant) for which, index in enumerate(indexes) for meant in index.meant(word)]
        spread = sum(len(indexes[which].weights[meant]) for which, meant in found)
        if spread > _MAX_SPREAD:
            continue
        share = 0.5 if spread > common else 1
        for which, meant in found:
            slip = 1 if meant == word else _SLIP
            for number, weight in indexes[which].weights[meant]:
                counted = (weight * slip, weight * slip * share)
                best[which, number] = max(best.get((which, number), (0, 0)), counted)
        for place, (weight, rank) in best.items():
            fits[place] = fits.get(place, 0) + weight
            ranks[place] = ranks.get(place, 0) + rank
    enough = [place for place, rank in ranks.items() if rank == float("inf") or fits.get(place, 0) >= _ENOUGH]
    rows = [(ranks[which, number], indexes[which].rows[number]) for which, number in enough]
    return [row for _, row in sorted(rows, key=_order)]


def _order(ranked: tuple[float, MemoryRow]) -> tuple[float, str, tuple[int, ...], str]:
    rank, row = ranked
    newest_first = tuple(-ord(sign) for sign in row.updated)
    return -rank, row.scope, newest_first, row.name


def _weights(row: MemoryRow) -> Mapping[str, int]:
    """What each word of a memory counts, where it counts most."""
    names = words_of(row.name)
    weights = dict.fromkeys(words_of(row.description), _DESCRIPTION)
    weights |= dict.fromkeys(names, _NAME if len(names) <= 2 else _NAME * 2 // 3)
    return weights | dict.fromkeys(words_of(" ".join(row.tags)), _TAG)
