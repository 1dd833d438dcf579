"""A piece of an answer as it is drawn: text, its look, and what a click on it opens. Plain data."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from bridle.base.markdown import Style
from bridle.clients.interaction.syntax_colours import TokenStyle

AnswerStyle: TypeAlias = Style | TokenStyle | Literal["rule"]


class AnswerPiece(NamedTuple):
    """Text of one look that may be sent to a terminal as it is. `address` is what a click on it opens, mostly nothing.

    A row that is broken in this piece goes on below its `margin`.
    """

    text: str
    style: AnswerStyle
    margin: str = ""
    address: str = ""
