"""A table of an answer in rows that fit: columns as wide as they may be, or a row for each cell. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from bridle.base.markdown import StyledSpan, inline_spans
from bridle.base.markdown_table import Align, Table, table_of
from bridle.base.visible import visible
from bridle.clients.interaction.answer_pieces import AnswerPiece
from bridle.clients.interaction.cells import cells_of, width_of

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
            shown = visible(span.text, newlines=False).replace("\t", " ")
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
