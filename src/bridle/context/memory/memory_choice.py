"""Which memories go with a turn: by their tags and by the words of their names and descriptions. Pure.

The same memories and the same words give the same choice, whatever the order of the files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias
from unicodedata import normalize

import msgspec

MIN_WORD = 3
MIN_FUZZY = 5
"""A shorter word is compared as it stands: one letter makes another word of it."""

_WORD = re.compile(r"[^\W_]+")
_WITHOUT_SPACES = ("\u3040", "\ud7af")
"""From the first to the last of these, scripts put no spaces between words, or few."""
_SAY_NOTHING = frozenset({
    "about", "above", "after", "again", "all", "also", "and", "another", "any", "are", "because", "been",
    "before", "being", "below", "between", "both", "but", "can", "could", "did", "does", "doing", "done",
    "down", "each", "few", "for", "from", "further", "get", "got", "had", "has", "have", "having", "here",
    "how", "into", "its", "just", "let", "like", "make", "may", "more", "most", "much", "must", "need",
    "not", "now", "off", "once", "only", "other", "our", "out", "over", "own", "per", "please", "put",
    "same", "see", "should", "show", "some", "such", "tell", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "those", "through", "too", "under", "until", "use", "very", "want",
    "was", "way", "were", "what", "when", "where", "which", "while", "who", "whom", "why", "will", "with",
    "would", "you", "your", "yours"
})  # fmt: skip


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text that say something, each once, in the order they come.

    Where a script has no spaces between words, two neighbouring signs are one.
    """
    if not text.isascii():
        text = normalize("NFKC", text)
    found: dict[str, None] = {}
    for word in _WORD.findall(text.casefold()):
        if not word.isascii() and _WITHOUT_SPACES[0] <= max(word) <= _WITHOUT_SPACES[1]:
            found.update(dict.fromkeys(word[at : at + 2] for at in range(max(1, len(word) - 1))))
        elif len(word) >= MIN_WORD and word not in _SAY_NOTHING:
            found[stem(word)] = None
    return tuple(found)


def stem(word: str) -> str:
    """The word without the endings that say only how it is used, as far as letters tell."""
    if len(word) >= 6 and word.endswith("ing"):
        word = word[:-3]
    elif len(word) >= 5 and word.endswith("ed"):
        word = word[:-2]
    elif len(word) >= 4 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    return word[:-1] if len(word) >= 5 and word.endswith("e") else word


def is_near(one: str, other: str) -> bool:
    """Whether one slip of the fingers makes one of the other: a letter more, less, another, or two exchanged."""
    if len(one) > len(other):
        one, other = other, one
    if len(other) - len(one) > 1:
        return False
    at = next((at for at, sign in enumerate(one) if sign != other[at]), len(one))
    if len(one) < len(other):
        return one[at:] == other[at + 1 :]
    exchanged = one[at : at + 2] == other[at : at + 2][::-1] and one[at + 2 :] == other[at + 2 :]
    return exchanged or one[at + 1 :] == other[at + 1 :]


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
