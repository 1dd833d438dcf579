"""Render a model's answer: Markdown, tables, coloured code, links.

Pure, but for what the stream holds back. A client puts colours on the styles and breaks rows where they are full; a row
that goes on begins with the `margin` of the piece it was broken in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from bridle.base.text.markdown import MarkdownStream, Style, StyledSpan, inline_spans
from bridle.base.text.markdown_table import Align, Table, table_of
from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.cells import cells_of, width_of
from bridle.clients.interaction.render.edit_rows import TokenStyle, coloured_lines

AnswerStyle: TypeAlias = Style | TokenStyle | Literal["rule"]


class AnswerPiece(NamedTuple):
    """Text of one look that may be sent to a terminal as it is. `address` is what a click on it opens, mostly nothing.

    A row that is broken in this piece goes on below its `margin`.
    """

    text: str
    style: AnswerStyle
    margin: str = ""
    address: str = ""


_LEAST_COLUMNS: Final = 6
_BETWEEN: Final = " │ "
_CROSSING: Final = "─┼─"
_ENDLESS: Final = 10_000

Links: TypeAlias = Callable[[StyledSpan], Iterable[AnswerPiece]]
_Line: TypeAlias = list[AnswerPiece]


def table_rows(text: str, columns: int, links: Links) -> list[AnswerPiece]:
    """The rows, each with its end. `columns` of zero or less mean that nothing is broken."""
    table = table_of(text)
    limit = columns - 1 if columns > 0 else _ENDLESS
    cells = [[_cell(cell, links) for cell in row] for row in (table.head, *table.rows)]
    natural = [max(_width(row[at]) for row in cells) for at in range(len(table.head))]
    widths = _fitted(natural, limit - len(_BETWEEN) * (len(natural) - 1))
    rows = _stacked(cells, limit) if widths is None else _gridded(table, cells, widths)
    return [piece for row in rows for piece in (*_trimmed(row), AnswerPiece("\n", "plain"))]


def _cell(text: str, links: Links) -> _Line:
    pieces: _Line = []
    for span in inline_spans(text):
        if span.style == "link":
            pieces += links(span)
        else:
            shown = visible_line(span.text).replace("\t", " ")
            pieces.append(AnswerPiece(shown, span.style))
    return pieces


def _fitted(natural: Sequence[int], room: int) -> list[int] | None:
    """The width of each column: the widest give way; None where even that is too little."""
    widths = [max(width, 1) for width in natural]
    while sum(widths) > room:
        widest = max(widths)
        if widest <= _LEAST_COLUMNS:
            return None
        at = widths.index(widest)
        second = max((width for width in widths if width < widest), default=0)
        widths[at] -= max(1, min(widest - max(second, _LEAST_COLUMNS), sum(widths) - room))
    return widths


def _gridded(table: Table, cells: Sequence[Sequence[_Line]], widths: Sequence[int]) -> Iterator[_Line]:
    for number, row in enumerate(cells):
        wrapped = [list(_wrapped(cell, width)) for cell, width in zip(row, widths, strict=True)]
        for at in range(max(map(len, wrapped))):
            line: _Line = []
            for column, (lines, width) in enumerate(zip(wrapped, widths, strict=True)):
                part = lines[at] if at < len(lines) else []
                line += [AnswerPiece(_BETWEEN, "rule")] if column else []
                line += _aligned(_bold(part) if number == 0 else part, width, table.aligns[column])
            yield line
        if number == 0:
            yield [AnswerPiece(_CROSSING.join("─" * width for width in widths), "rule")]


def _stacked(cells: Sequence[Sequence[_Line]], limit: int) -> Iterator[_Line]:
    """A row of the table as rows of the screen: the head of each column before its cell."""
    head, *rows = cells
    for number, row in enumerate(rows or [[[] for _ in head]]):
        if number:
            yield [AnswerPiece("─" * min(limit, 12), "rule")]
        for name, cell in zip(head, row, strict=True):
            line = [*_bold(name), AnswerPiece(": ", "plain"), *cell] if name else cell
            for at, part in enumerate(_wrapped(line, limit - 2)):
                yield [AnswerPiece("  ", "plain"), *part] if at else part


def _wrapped(line: _Line, width: int) -> Iterator[_Line]:
    """One cell in lines, broken at blanks; a word that is too long is cut."""
    letters = [(letter, piece) for piece in line for letter in piece.text]
    while sum(cells_of(letter) for letter, _ in letters) > width:
        used, cut, blank = 0, 0, -1
        for at, (letter, _) in enumerate(letters):
            used += cells_of(letter)
            if letter == " " and at and used <= width + 1:
                blank = at
            if used > width:
                cut = max(at, 1)
                break
        yield _joined(letters[: blank if blank > 0 else cut])
        letters = letters[blank + 1 if blank > 0 else cut :]
    yield _joined(letters)


def _joined(letters: Iterable[tuple[str, AnswerPiece]]) -> _Line:
    line: _Line = []
    last: AnswerPiece | None = None
    for letter, piece in letters:
        if last is piece:
            line[-1] = line[-1]._replace(text=line[-1].text + letter)
        else:
            line.append(piece._replace(text=letter))
        last = piece
    return line


def _aligned(line: _Line, width: int, align: Align) -> _Line:
    rest = width - _width(line)
    before = {"left": 0, "right": rest, "centre": rest // 2}[align]
    return [
        *([AnswerPiece(" " * before, "plain")] if before > 0 else []),
        *line,
        *([AnswerPiece(" " * (rest - before), "plain")] if rest > before else []),
    ]


def _bold(line: _Line) -> _Line:
    return [piece._replace(style="bold") if piece.style == "plain" else piece for piece in line]


def _trimmed(line: _Line) -> _Line:
    while line and not line[-1].text.strip() and not line[-1].address:
        line = line[:-1]
    return line


def _width(line: _Line) -> int:
    return sum(width_of(piece.text) for piece in line)


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
                yield AnswerPiece(visible_line(text).replace("\t", "    "), style or "plain")

    def links(self, span: StyledSpan) -> Iterator[AnswerPiece]:
        """A link: what it says, and where it leads unless that is the same."""
        address = address_of(span.target, self._folder()) if self._opens else ""
        text, target = visible_line(span.text), visible_line(span.target)
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
MAX_ADDRESS_CHARACTERS: Final = 2000


def address_of(target: str, folder: str = "") -> str:
    """The address to open, of characters no terminal obeys; empty where the target is not to be opened.

    `folder` is where relative paths begin; without one they are not opened.
    """
    if len(target) > MAX_ADDRESS_CHARACTERS:
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
