"""Words as they are compared: small letters, without endings. Pure."""

from __future__ import annotations

import re
from unicodedata import normalize

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
