# ruff: noqa: RUF001  letters that look like others are what this is about
"""Spell out letters that look like others, so that a command is not mistaken for another.

A Cyrillic or Greek letter inside a Latin word, letters that mathematics or a typewriter made wide, slashes, dashes and
blanks that are none, marks piled upon a letter: each is written like ⟨U+0455⟩. Other languages stay as they are: a
letter is written out only where its word also has Latin letters, or where nothing in the text shows that its script is
meant. So a Russian word of nothing but such letters, alone in a text, is taken for what it looks like.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator

_SCRIPTS = {
    "CYRILLIC": ("асԁеһіјӏорԛѕѵԝхуАВСЕНІЈКМОРЅТХУҮԌԚԜ", "acdehijlopqsvwxyABCEHIJKMOPSTXYYGQW"),
    "GREEK": ("ινορυϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ivopujABEZHIKMNOPTYX"),
    "ARMENIAN": ("օսոհցզլյՕՍՏԼ", "ounhgqljOUSL"),
    "CHEROKEE": ("ᎪᏴᏟᎠᎬᎶᎻᎫᏦᏞᎷᏢᎡᏚᎢᏙᎳᏃ", "ABCDEGHJKLMPRSTVWZ"),
    "LISU": ("ꓐꓚꓓꓰꓝꓖꓧꓙꓗꓡꓟꓠꓳꓑꓣꓢꓔꓴꓦꓪꓫꓬꓜ", "BCDEFGHJKLMNOPRSTUVWXYZ"),
    "LATIN": ("ɑɡɩᴄᴏᴠᴡᴢꜱ", "agicovwzs"),  # of phonetics
}
"""Letters by their script, and the ones they look like."""
_STYLED = r"\u2100-\u214f\u2160-\u217f\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff"
"""Latin letters in another dress; what they are is what Unicode says they can be replaced by."""
_SIGNS = {
    **dict.fromkeys("\u2044\u2215\u29f8\u2571", "/"),
    **dict.fromkeys("\u2216\u29f5\u29f9", "\\"),
    **dict.fromkeys("\u2236\ua789", ":"),
    "\u2024": ".",
    "\u037e": ";",
    "\u01c0": "|",
}
_DASHES = "\u2010\u2011\u2012\u2212\u02d7"
_BLANKS = "\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u2800"
_WIDE = r"\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""What stands between wide letters where they are meant."""
_MARKS = r"\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
"""Marks of no script in particular. Scripts whose own marks stand upon each other do not use these."""
_MOST_MARKS = 2
_KEYCAP = "\u20e3"


def mark_lookalikes(text: str, *, prose: bool = False) -> str:
    """`text` with everything that looks like something else written out. Idempotent.

    In `prose` dashes and blanks of all kinds stay: they are how people write.
    """
    if text.isascii():
        return text
    while (marked := _marked(text, prose=prose)) != text:  # a mark written out parts a word in two
        text = marked
    return text


def _marked(text: str, *, prose: bool) -> str:
    odd = {match.start() for match in _sign(prose).finditer(text)}
    meant = _scripts_meant(text)
    for word in _word().finditer(text):
        odd.update(_odd_letters(text, word.start(), word.end(), meant))
    for pile in _pile().finditer(text):
        odd.update(_odd_marks(text, pile.start(), pile.end(), odd))
    return "".join(_written(character) if at in odd else character for at, character in enumerate(text))


def lookalike_words(marked: str) -> str:
    """What was written out looks like, in a few words; empty where nothing was."""
    codes = dict.fromkeys(int(code, 16) for code in re.findall(r"⟨U\+([0-9A-F]{4,5})⟩", marked))
    looks = {code: _looks_like(chr(code)) for code in codes}
    return ", ".join(f"{_written(chr(code))} looks like {other}" for code, other in looks.items() if other)


def _odd_letters(text: str, start: int, end: int, meant: frozenset[str]) -> Iterator[int]:
    """Of a word: its look-alikes, where it has Latin letters too or consists of nothing else."""
    letters = [at for at in range(start, end) if text[at].isalpha() or _styled().match(text[at])]
    odd = [at for at in letters if _looks_like(text[at])]
    mixed = bool(odd) and any(_script(text[at]) == "LATIN" for at in letters if at not in odd)
    if mixed or len(odd) == len(letters):
        yield from (at for at in odd if mixed or not (_script(text[at]) in meant or len(letters) == 1))


def _scripts_meant(text: str) -> frozenset[str]:
    """The scripts of which the text has letters that look like no others."""
    clear = (letter for letter in set(text) if letter.isalpha() and not _looks_like(letter))
    meant = {script for letter in clear if (script := _script(letter)) != "LATIN"}
    return frozenset((*meant, "FULLWIDTH") if _wide().search(text) else meant)


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _odd_marks(text: str, start: int, end: int, odd: set[int]) -> range:
    """Of a pile of marks: those beyond two, or all of them where they stand on no letter or on one written out."""
    base = text[start - 1] if start else " "
    if start - 1 not in odd and (base.isalpha() or unicodedata.category(base).startswith("M")):
        return range(start + _MOST_MARKS, end)
    return range(start, start if text[start:end] == _KEYCAP else end)


def _looks_like(character: str) -> str:
    if character.isascii():
        return ""
    if _styled().match(character):
        plain = unicodedata.normalize("NFKC", character)
        return plain if plain.isascii() and plain.isalpha() else ""
    return _looks().get(character, "")


def _written(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


@functools.cache
def _looks() -> dict[str, str]:
    letters = {odd: plain for pair in _SCRIPTS.values() for odd, plain in zip(*pair, strict=True)}
    return {**letters, **_SIGNS, **dict.fromkeys(_DASHES, "-"), **dict.fromkeys(_BLANKS, "a blank")}


@functools.cache
def _word() -> re.Pattern[str]:
    return re.compile(rf"[\w{_MARKS}]+")


@functools.cache
def _sign(prose: bool) -> re.Pattern[str]:
    return re.compile(f"[{''.join(_SIGNS)}{'' if prose else _DASHES + _BLANKS}]")


@functools.cache
def _styled() -> re.Pattern[str]:
    return re.compile(f"[{_STYLED}]")


@functools.cache
def _wide() -> re.Pattern[str]:
    return re.compile(f"[{_WIDE}]")


@functools.cache
def _pile() -> re.Pattern[str]:
    return re.compile(f"[{_MARKS}]+")
