"""Escape control and invisible characters in untrusted text, for terminals and for JSON.

What a terminal would execute (control characters, escape sequences) and what a screen would not show
(zero-width, direction-changing and tag characters) is written out, like ⟨ESC⟩ or ⟨U+200B⟩. Ordinary text
and emoji stay.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec

_SHORT_NAMES = {0x00: "NUL", 0x07: "BEL", 0x08: "BS", 0x0A: "LF", 0x0D: "CR", 0x1B: "ESC", 0x7F: "DEL"}

_ZERO_WIDTH_JOINER = "\u200d"
_EMOJI_STYLE = "\ufe0f"
_TEXT_STYLE = "\ufe0e"

# Everything that is looked at more closely. Tab and line feed are not here, and neither are the visible
# Arabic, Syriac and Kaithi number marks, although Unicode counts them among the format characters.
_SUSPECT = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # fillers and joiners without width
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"  # zero width, direction, separators
    r"\ud800-\udfff"  # lone surrogates: invalid, and whatever prints them fails
    r"\ufe00-\ufe0f"  # variation selectors
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # layout of old scripts and music
    r"\U000e0000-\U000e0fff"  # tags and more variation selectors
)

_EMOJI = (
    r"\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935"
    r"\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)


def visible(text: str, *, newlines: bool = True) -> str:
    """`text` with every character a terminal would obey or hide written out. Idempotent.

    Line feeds stay where `newlines` allows them, tabs always. A joiner stays between two emoji, a style
    selector right after an emoji or inside a keycap.
    """
    written = suspects().sub(
        lambda match: match[0] if _is_ordinary(text, match.start()) else _written(match[0]), text
    )
    return written if newlines else written.replace("\n", _written("\n"))


def visible_line(text: str) -> str:
    """The same on one line: line feeds are written out too. Idempotent."""
    return visible(text, newlines=False)


def hidden_characters(text: str) -> list[tuple[int, int]]:
    """Every character that `visible` would write out, as (line, code point), lines counted from 1.

    The carriage return of a Windows line end is not one of them: nobody hides anything with it.
    """
    found: list[tuple[int, int]] = []
    line, counted = 1, 0
    for match in suspects().finditer(text):
        at = match.start()
        if _is_ordinary(text, at) or text.startswith("\r\n", at):
            continue
        line += text.count("\n", counted, at)
        counted = at
        found.append((line, ord(match[0])))
    return found


def _written(character: str) -> str:
    code = ord(character)
    return f"⟨{_SHORT_NAMES.get(code) or f'U+{code:04X}'}⟩"


def _is_ordinary(text: str, at: int) -> bool:
    """Whether a suspect character does what it is meant for: joining emoji, or choosing how one looks."""
    character = text[at]
    if character == _ZERO_WIDTH_JOINER:
        before = at - 1
        if text[before : before + 1] == _EMOJI_STYLE:
            before -= 1
        return _is_emoji(text, before) and _is_emoji(text, at + 1)
    if character in {_EMOJI_STYLE, _TEXT_STYLE}:
        keycap = at > 0 and text[at - 1] in "0123456789#*" and text.startswith("\u20e3", at + 1)
        return keycap or _is_emoji(text, at - 1)
    return False


def _is_emoji(text: str, at: int) -> bool:
    return 0 <= at < len(text) and _emoji().match(text, at) is not None


@functools.cache
def suspects() -> re.Pattern[str]:
    """One character that a terminal may obey or hide, whatever it does where it stands."""
    return re.compile(f"[{_SUSPECT}]")


@functools.cache
def _emoji() -> re.Pattern[str]:
    return re.compile(f"[{_EMOJI}]")


def json_line(value: Any) -> str:
    return escaped(msgspec.json.encode(value).decode()) + "\n"


def escaped(text: str) -> str:
    r"""JSON text with every character that `visible` looks at more closely as a \u escape. Same values, idempotent.

    Such characters stand inside strings only, so an escape can take their place wherever they are.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return suspects().sub(_escape, text)


def _escape(match: Any) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
