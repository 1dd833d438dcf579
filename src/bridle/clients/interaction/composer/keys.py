"""Keys as values, and the list of what they do."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec


class Text(msgspec.Struct, frozen=True):
    """Printable characters, as typed."""

    text: str


class Paste(msgspec.Struct, frozen=True):
    """Pasted text, whole, with line feeds as line ends. Never a key, whatever is in it."""

    text: str


class Press(msgspec.Struct, frozen=True):
    """A key with a name: `enter`, `up`, `ctrl-c`, `alt-b` … `unknown` for sequences this table lacks."""

    name: str


Key: TypeAlias = Text | Paste | Press

KEYS: Final = (
    "Enter      send; during a turn it waits until the turn ends",
    "Ctrl-S     say it now, during a turn: before what is queued",
    "Ctrl-J     new line, also Alt-Enter or a backslash before Enter",
    "Tab        complete /names and @paths; answer a waiting question",
    "Shift-Tab  next mode: default, auto, plan",
    "Up, Down   earlier prompts",
    "Ctrl-R     search earlier prompts",
    "Ctrl-G     write in your editor, also Ctrl-X Ctrl-E",
    "Ctrl-V     an image from the clipboard; a pasted or dropped path to one works too",
    "Ctrl-O     what the model thought last",
    "Ctrl-L     draw the line again",
    "Ctrl-Z     suspend; fg comes back",
    "Esc        stop the turn, after Esc again to stop",
    "Ctrl-C     stop the turn; twice within 2 s leaves",
    "Ctrl-D     leave",
    "@path      show the model a file",
    "!command   run a command yourself; !!command also shows it to the model",
    "As text    begin with a blank, or with //",
)
"""What the keys do at a terminal, a line each."""
