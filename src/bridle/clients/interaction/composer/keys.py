"""Typed text, named keys and pastes, as values."""

from __future__ import annotations

from typing import TypeAlias

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
