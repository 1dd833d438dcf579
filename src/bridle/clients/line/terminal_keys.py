"""What a terminal sends, as keys: a pure decoder from bytes to typed text, named keys and pastes.

The result does not depend on where reads are cut, with two exceptions a person can tell apart: an escape that stays
alone is the Esc key (`settle`), and fifty or more characters in one read are a paste even where the terminal does not
mark it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from typing import Final

from bridle.clients.interaction.composer.keys import Key, Paste, Press, Text

PASTE_CHARACTERS: Final = 50
_LONGEST_SEQUENCE: Final = 32
_ESC: Final = "\x1b"
_PASTE_END: Final = "\x1b[201~"

_CONTROLS: Final[Mapping[str, str]] = {
    "\r": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x00": "ctrl-space",
    **{chr(code): f"ctrl-{chr(code + 96)}" for code in range(1, 27) if code not in (8, 9, 13)},
}
_AFTER_ESCAPE: Final[Mapping[str, str]] = {
    "\r": "alt-enter",
    "\n": "alt-enter",
    "\x7f": "alt-backspace",
    "\x08": "alt-backspace",
}
_FINALS: Final[Mapping[str, str]] = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "Z": "shift-tab",
}
_NUMBERED: Final[Mapping[str, str]] = {
    "1": "home",
    "2": "insert",
    "3": "delete",
    "4": "end",
    "5": "page-up",
    "6": "page-down",
    "7": "home",
    "8": "end",
    "200": "paste",
}
_CODED: Final[Mapping[str, str]] = {"13": "enter", "9": "tab", "27": "esc", "127": "backspace"}
_MODIFIERS: Final[Mapping[str, str]] = {"2": "shift-", "3": "alt-", "5": "ctrl-"}

_CSI: Final = re.compile(r"\x1b\[([0-?]*)[ -/]*([@-~])")
_CSI_BEGUN: Final = re.compile(r"\x1b\[[0-?]*[ -/]*")
_PLAIN: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")


class KeyDecoder:
    """Bytes in, keys out. What is not complete yet is held."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = ""
        self._pasting = False

    @property
    def waiting(self) -> bool:
        """Whether an escape is held that may be the Esc key."""
        return bool(self._held) and not self._pasting

    def feed(self, data: bytes) -> list[Key]:
        text = self._decode(data)
        if len(text) >= PASTE_CHARACTERS and _ESC not in text and not self._held and not self._pasting:
            return [Paste(_with_line_feeds(text))]
        self._held += text
        keys: list[Key] = []
        while self._held and self._read(keys):
            pass
        return _joined(keys)

    def settle(self) -> list[Key]:
        """No more bytes came: a held escape was the key itself, a cut sequence is nothing known."""
        if not self.waiting:
            return []
        held, self._held = self._held, ""
        return [Press("esc" if held == _ESC else "unknown")]

    def _read(self, keys: list[Key]) -> bool:
        """Takes one thing from what is held; False if more is needed."""
        if self._pasting:
            return self._read_paste(keys)
        if self._held[0] == _ESC:
            return self._read_escape(keys)
        if plain := _PLAIN.match(self._held):
            keys.append(Text(plain[0]))
            self._drop(plain.end())
            return True
        name = _CONTROLS.get(self._held[0])
        keys.append(Press(name or "unknown"))
        self._drop(1)
        return True

    def _read_paste(self, keys: list[Key]) -> bool:
        end = self._held.find(_PASTE_END)
        if end < 0:
            return False
        keys.append(Paste(_with_line_feeds(self._held[:end])))
        self._drop(end + len(_PASTE_END))
        self._pasting = False
        return True

    def _read_escape(self, keys: list[Key]) -> bool:
        held = self._held
        if len(held) == 1:
            return False
        if held[1] == "[":
            return self._read_csi(keys)
        if held[1] == "O":
            if len(held) == 2:
                return False
            keys.append(Press(_FINALS.get(held[2], "unknown")))
            self._drop(3)
        elif held[1] == _ESC:
            keys.append(Press("esc"))
            self._drop(1)
        else:
            keys.append(Press(_after_escape(held[1])))
            self._drop(2)
        return True

    def _read_csi(self, keys: list[Key]) -> bool:
        found = _CSI.match(self._held)
        if found is None:
            begun = _CSI_BEGUN.match(self._held)
            assert begun is not None
            if begun.end() == len(self._held) and begun.end() < _LONGEST_SEQUENCE:
                return False
            keys.append(Press("unknown"))
            self._drop(begun.end())
            return True
        name = _csi_name(found[1], found[2])
        self._drop(found.end())
        if name == "paste":
            self._pasting = True
        else:
            keys.append(Press(name))
        return True

    def _drop(self, count: int) -> None:
        self._held = self._held[count:]


class LineDecoder:
    """Input that is not a terminal: whole lines, each as its text and Enter."""

    waiting = False

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = ""

    def feed(self, data: bytes) -> list[Key]:
        *lines, self._held = (self._held + self._decode(data)).split("\n")
        keys: list[Key] = []
        for line in lines:
            if text := line.removesuffix("\r"):
                keys.append(Text(text))
            keys.append(Press("enter"))
        return keys

    def settle(self) -> list[Key]:
        """The input ended: an unfinished last line counts."""
        held, self._held = self._held, ""
        return [Text(held), Press("enter")] if held else []


def _after_escape(character: str) -> str:
    if name := _AFTER_ESCAPE.get(character):
        return name
    return f"alt-{character}" if _PLAIN.match(character) else "unknown"


def _csi_name(parameters: str, final: str) -> str:
    first, _, rest = parameters.partition(";")
    modifier, _, third = rest.partition(";")
    if final == "~" and first == "27":
        name = _CODED.get(third, "")
    elif final == "~":
        name = _NUMBERED.get(first, "")
    elif final == "u":
        name = _CODED.get(first, "")
    else:
        name = _FINALS.get(final, "")
    if not name or modifier not in ("", "1", *_MODIFIERS):
        return "unknown"
    return _MODIFIERS.get(modifier, "") + name


def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _joined(keys: list[Key]) -> list[Key]:
    joined: list[Key] = []
    for key in keys:
        if joined and isinstance(key, Text) and isinstance(last := joined[-1], Text):
            joined[-1] = Text(last.text + key.text)
        else:
            joined.append(key)
    return joined
