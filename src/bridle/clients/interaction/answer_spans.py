"""What a model says, as pieces to draw: Markdown with its tables laid out, its code coloured and its links looked at.

Pure, but for what the stream holds back. A client puts colours on the styles and breaks rows where they are full; a row
that goes on begins with the `margin` of the piece it was broken in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from urllib.parse import quote

from bridle.base.markdown import MarkdownStream, Style, StyledSpan
from bridle.base.visible import visible
from bridle.clients.interaction.answer_pieces import AnswerPiece
from bridle.clients.interaction.cells import width_of
from bridle.clients.interaction.syntax_colours import coloured_lines
from bridle.clients.interaction.table_rows import table_rows

_LEAD: Final = re.compile(r"[ \t]*(?:>[ \t]?)*")
_SHOWN_CHARACTERS: Final = 100
"""More of an address says nothing to a reader."""


class AnswerSpans:
    """One answer after the other. `opens`: whether a click can open something; `folder` is where paths begin.

    `colours`: whether code is told apart; without them nothing is loaded for it.
    """

    def __init__(
        self, *, opens: bool = False, colours: bool = False, folder: Callable[[], str] = lambda: ""
    ) -> None:
        self._stream = MarkdownStream()
        self._opens = opens
        self._colours = colours
        self._folder = folder
        self._lead = ""
        self._leading = True

    def render(self, text: str, columns: int) -> list[AnswerPiece]:
        """Takes more text; returns what it settles, for rows of so many columns."""
        return self._pieces(self._stream.render_chunk(text), columns)

    def flush(self, columns: int) -> list[AnswerPiece]:
        """Everything held, as if the answer ended here; the next one then begins."""
        pieces = self._pieces(self._stream.flush(), columns)
        self._lead, self._leading = "", True
        return pieces

    def _pieces(self, spans: Iterable[StyledSpan], columns: int) -> list[AnswerPiece]:
        pieces: list[AnswerPiece] = []
        for span in spans:
            match span.style:
                case "table":
                    pieces += table_rows(span.text, columns, self.links)
                    self._lead, self._leading = "", True
                case "code_block":
                    pieces += self._code(span)
                case "link":
                    self._leading = False
                    pieces += (piece._replace(margin=self._lead) for piece in self.links(span))
                case _:
                    pieces += self._lines(span)
        return pieces

    def _lines(self, span: StyledSpan) -> Iterator[AnswerPiece]:
        """The text with a piece for each line, so that each has the margin it begins with."""
        text = visible(span.text).replace("\t", "    ")
        while text:
            line, newline, text = text.partition("\n")
            if line:
                self._take_lead(line, span.style)
                yield AnswerPiece(line, span.style, self._lead)
            if newline:
                yield AnswerPiece("\n", "plain")
                self._lead, self._leading = "", True

    def _take_lead(self, text: str, style: Style) -> None:
        """What the rows of this line begin with: its blanks, the marks of a quote, and room for those of a list."""
        if not self._leading:
            return
        if style == "bullet":
            self._lead += " " * width_of(text)
            self._leading = False
            return
        found = _LEAD.match(text)
        lead = found[0] if found is not None else ""
        self._lead += lead
        self._leading = len(lead) == len(text)

    def _code(self, span: StyledSpan) -> Iterator[AnswerPiece]:
        self._lead, self._leading = "", True
        lines = None
        if self._colours and span.language:
            lines = coloured_lines(span.text, span.language)
        if lines is None:
            yield AnswerPiece(visible(span.text).replace("\t", "    "), "code_block")
            return
        for number, line in enumerate(lines):
            if number:
                yield AnswerPiece("\n", "plain")
            for text, style in line:
                yield AnswerPiece(visible(text, newlines=False).replace("\t", "    "), style or "plain")

    def links(self, span: StyledSpan) -> Iterator[AnswerPiece]:
        """A link: what it says, and where it leads unless that is the same."""
        address = address_of(span.target, self._folder()) if self._opens else ""
        text, target = visible(span.text, newlines=False), visible(span.target, newlines=False)
        yield AnswerPiece(text, "link", address=address)
        host = host_of(address)
        if text.removesuffix("/") in (target.removesuffix("/"), target.partition("//")[2].removesuffix("/")):
            return
        shown = host or target
        if len(shown) > _SHOWN_CHARACTERS:
            shown = f"{shown[: _SHOWN_CHARACTERS - 1]}…"
        yield AnswerPiece(f" ({shown})", "rule")


_WEB: Final = re.compile(r"(https?)://([A-Za-z0-9.-]+(?::[0-9]{1,5})?)(?=[/?#]|\Z)([!-~]*)")
_FILE: Final = re.compile(r"(?:\./)?([A-Za-z0-9_@+,. -][^\x00-\x1f\x7f:\\?#]*)(?:(?::[0-9]+)+|#L[0-9L-]+)?")
_SAFE: Final = "/?#[]!$&()*+,;=:@%~-._"
MAX_CHARACTERS: Final = 2000


def address_of(target: str, folder: str = "") -> str:
    """The address to open, of characters no terminal obeys; empty where the target is not to be opened.

    `folder` is where relative paths begin; without one they are not opened.
    """
    if len(target) > MAX_CHARACTERS:
        return ""
    if web := _WEB.fullmatch(target):
        return f"{web[1]}://{web[2].lower()}{quote(web[3], safe=_SAFE)}"
    file = _FILE.fullmatch(target)
    if file is None or not folder.startswith("/") or ".." in file[1].split("/"):
        return ""
    return "file://" + quote("/".join((folder.rstrip("/"), file[1])))


def host_of(address: str) -> str:
    """Where an address of the web leads; empty for a file."""
    return address.split("/")[2] if address.startswith("http") else ""
