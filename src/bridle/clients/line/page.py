"""The paper: text is appended above, the line a person types on stays below it.

Where the terminal can, the lowest rows are live: the last unfinished row of streaming text, hints and the prompt are
drawn over themselves in one write, with carriage return, erase line and cursor up only; what scrolled up is never
touched. Where it cannot (`moves` is false) everything is appended, and the prompt is written again after what came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from bridle.clients.interaction.cells import cells_of, fitting, width_of, wrapped
from bridle.clients.interaction.composer.composer import Cells, shown_cell
from bridle.clients.line.terminal import Terminal

FAINT: Final = "\x1b[2m"

_ERASE: Final = "\x1b[K"
_CODES: Final = re.compile(r"\x1b\[[0-9;]*m|\x1b\][^\x1b]*\x1b\\")
_MAX_PROMPT_ROWS: Final = 12
_MIN_PROMPT_ROWS: Final = 3
_PIECE_CHARACTERS: Final = 256


class Ink(msgspec.Struct, frozen=True):
    """Text and the terminal codes around it; equal `on` means equal looks. Empty codes mean plain.

    A row that is broken in it goes on below its `margin`. A click on it opens its `address`, where it has one.
    """

    text: str
    on: str = ""
    margin: str = ""
    address: str = ""

    @property
    def coded(self) -> str:
        shown = f"{self.on}{self.text}\x1b[m" if self.on and self.text else self.text
        return f"\x1b]8;;{self.address}\x1b\\{shown}\x1b]8;;\x1b\\" if self.address else shown

    def with_text(self, text: str) -> Ink:
        return Ink(text, self.on, self.margin, self.address)


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """The rows below the output: what is under way, hints, then the line being typed, with the cursor's place in it.

    What stands in `above` takes one row each, whatever the width; without cursor movement it is not shown.
    """

    lead: str
    cells: Cells
    at: int
    hints: tuple[str, ...] = ()
    above: tuple[Ink, ...] = ()


class Page:
    """Where everything is printed. One `write` per change.

    `columns` and `rows` are asked each time: a terminal may have been resized. Rows of zero mean endless ones. One that
    `reflows` breaks what stands on it anew when it gets narrower.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        columns: Callable[[], int],
        rows: Callable[[], int] = lambda: 0,
        moves: bool,
        reflows: bool = True,
    ) -> None:
        self._reflows = reflows
        self._write = write
        self._columns = columns
        self._rows = rows
        self._moves = moves
        self._row: list[Ink] = []  # the unfinished row of streaming text
        self._margin = 0  # how much of it is the margin of a row that was broken
        self._prompt: Prompt | None = None
        self._live_rows = 0
        self._cursor_row = 0
        self._cursor_column = 0
        self._live_lines: list[str] = []
        self._drawn_columns = 0
        self._held: list[str] | None = None
        self._done: list[str] = []
        self._column = 0  # without moves: whether something stands on the last line
        self._echoed: Prompt | None = None

    @classmethod
    def of(cls, terminal: Terminal) -> Page:
        return cls(
            terminal.write,
            columns=lambda: terminal.columns,
            rows=lambda: terminal.rows,
            moves=terminal.look.moves,
            reflows=terminal.look.reflows,
        )

    def line(self, *inks: Ink) -> None:
        """One whole line, after the end of whatever was streaming."""
        self.end()
        self._done.append("".join(ink.coded for ink in inks))
        self._flush()

    def lines(self, rows: Sequence[Sequence[Ink]]) -> None:
        self.end()
        self._done += ["".join(ink.coded for ink in row) for row in rows]
        self._flush()

    def stream(self, *inks: Ink) -> None:
        """Text that goes on where the last stopped."""
        if not self._moves:
            self._append("".join(ink.coded for ink in inks))
            return
        for ink in inks:
            first, *rest = ink.text.split("\n")
            self._extend(ink.with_text(first))
            for text in rest:
                self._end_row()
                self._extend(ink.with_text(text))
        self._flush()

    def end(self) -> None:
        """Streaming text is complete: what comes next begins a line."""
        if self._row:
            self._end_row()
        elif not self._moves:
            self._fresh_line()

    def prompt(self, prompt: Prompt | None) -> None:
        """Sets the rows below the output; None takes them away."""
        if prompt == self._prompt:
            return
        self._prompt = prompt
        if self._moves:
            self._flush()
        else:
            self._echo()

    def keep_prompt(self, lead: str, text: str, on: str = "") -> None:
        """The typed line becomes part of the paper; where it stands there already, it is not written twice."""
        if self._moves:
            self.lines([[Ink(row, on)] for row in _kept_rows(lead, text, self._columns())])
            return
        self.prompt(Prompt(lead=lead, cells=tuple(text), at=len(text)))
        self._prompt = None
        self._fresh_line()

    def resized(self) -> None:
        """The terminal has another width: the live rows are drawn for it, over all that became of them."""
        if self._moves:
            self._flush()

    @contextmanager
    def holding(self) -> Generator[list[str]]:
        """Meanwhile nothing is written: what would be is collected, a row or a piece at a time."""
        self._held = held = []
        try:
            yield held
            self.end()
            self._flush()
        finally:
            self._held = None
            self._column = 0

    def redraw(self) -> None:
        """Draws the live rows anew, over themselves."""
        if self._moves:
            self._flush()

    def begin_anew(self) -> None:
        """Draws the live rows from a fresh line on, after another program was on the screen."""
        self._live_rows = self._cursor_row = 0
        self._live_lines = []
        if self._moves:
            self._flush()
        else:
            self._echoed = None
            self._echo()

    def leave(self) -> None:
        """Takes the prompt away and leaves the cursor at the beginning of a line."""
        self.end()
        self._prompt = None
        if self._moves:
            self._flush()
        else:
            self._fresh_line()

    # Streaming rows

    def _extend(self, ink: Ink) -> None:
        """Adds to the unfinished row, some hundred characters at a time: breaking looks at all that is there."""
        for start in range(0, len(ink.text), _PIECE_CHARACTERS):
            piece = ink.text[start : start + _PIECE_CHARACTERS]
            last = self._row[-1] if self._row else None
            if last is not None and (last.on, last.margin, last.address) == (ink.on, ink.margin, ink.address):
                self._row[-1] = ink.with_text(last.text + piece)
            else:
                self._row.append(ink.with_text(piece))
            self._break_to_fit()

    def _break_to_fit(self) -> None:
        limit = max(self._columns() - 1, 1) if self._columns() > 0 else 0
        while limit and sum(width_of(part.text) for part in self._row) > limit:
            self._break(limit)

    def _break(self, limit: int) -> None:
        """Ends the row at its last blank; a word longer than the row is cut."""
        letters = [(letter, part) for part in self._row for letter in part.text]
        used = cut = 0
        blank = -1
        first = self._margin if self._margin < limit else 0
        for index, (letter, _) in enumerate(letters):
            used += cells_of(letter)
            if letter == " " and used <= limit + 1 and index > first:
                blank = index
            if used > limit:
                cut = max(index, first + 1, 1)
                break
        end, begin = (blank, blank + 1) if blank > 0 else (cut, cut)
        self._row = _inked(letters[:end])
        self._end_row()
        part = letters[min(begin, len(letters) - 1)][1]
        margin = part.margin if width_of(part.margin) <= limit // 2 else ""
        self._row = [*([Ink(margin, part.on)] if margin else []), *_inked(letters[begin:])]
        self._margin = len(margin)

    def _end_row(self) -> None:
        self._done.append("".join(ink.coded for ink in self._row).rstrip(" "))
        self._row = []
        self._margin = 0

    # With cursor movement: draw over the live rows

    def _flush(self) -> None:
        if not self._moves:
            done, self._done = self._done, []
            for line in done:
                self._append(line + "\n")
            return
        if self._held is not None:
            self._held += self._done
            self._done = []
            return
        columns = self._columns()
        if columns != self._drawn_columns:  # whoever draws first finds it, the signal may come later
            self._take_width(columns)
        live, row, column = self._live()
        old = max(1, self._live_rows)
        out = ["\r", _up(self._cursor_row), "\n".join([_ERASE] * old), _up(old - 1), "\r"]
        out += [f"{line}\n" for line in self._done]
        out += ["\n".join(live), _up(len(live) - 1 - row), "\r"]
        if column:
            out.append(f"\x1b[{column}C")
        self._done = []
        self._live_rows, self._cursor_row, self._cursor_column = len(live), row, column
        self._live_lines = live
        self._write("".join(out))

    def _take_width(self, columns: int) -> None:
        """Works out how many rows the terminal has made of the live ones, and where the cursor went with them."""
        self._drawn_columns = columns
        if self._reflows and columns > 0:
            widths = (width_of(_CODES.sub("", line)) for line in self._live_lines)
            taken = [max(1, -(-width // columns)) for width in widths]
            self._cursor_row = sum(taken[: self._cursor_row]) + self._cursor_column // columns
            self._live_rows = sum(taken)
        self._break_to_fit()

    def _live(self) -> tuple[list[str], int, int]:
        """The live rows, and where the cursor stands in them."""
        rows = ["".join(ink.coded for ink in self._row)] if self._row else []
        if self._prompt is None:
            return rows, max(0, len(rows) - 1), sum(width_of(ink.text) for ink in self._row)
        limit = max(self._columns() - 1, 8)
        most = self._rows() or _MAX_PROMPT_ROWS * 3
        typed, row, column = typed_rows(self._prompt, limit, most=most // 3)
        hints = [Ink(ink.text[: fitting(ink.text, limit)], ink.on).coded for ink in self._prompt.above]
        hints += [row for hint in self._prompt.hints for row in wrapped(hint, limit)]
        room = max(0, most - 1 - len(rows) - len(typed))  # what is scrolled away cannot be drawn over
        hints = hints[-room:] if room else []
        return [*rows, *hints, *typed], len(rows) + len(hints) + row, column

    # Without cursor movement: append

    def _append(self, text: str) -> None:
        if not text:
            return
        if self._held is not None:
            self._held.append(text)
            self._column = 0 if text.endswith("\n") else 1
            return
        if self._echoed is not None:
            self._fresh_line()
        self._write(text)
        self._column = 0 if text.endswith("\n") else 1

    def _fresh_line(self) -> None:
        if self._column and self._held is not None:
            self._held.append("\n")
        elif self._column:
            self._write("\n")
        self._column = 0
        self._echoed = None

    def _echo(self) -> None:
        """Shows the prompt by adding to it where that is enough, else on a new line."""
        prompt, before = self._prompt, self._echoed
        if prompt is None:
            return
        text = "".join(map(shown_cell, prompt.cells))
        if before is not None and before.lead == prompt.lead and before.hints == prompt.hints:
            old = "".join(map(shown_cell, before.cells))
            if text.startswith(old):
                self._write(text[len(old) :])
            elif old.startswith(text) and "\n" not in old[len(text) :]:
                self._write("\b \b" * width_of(old[len(text) :]))
            else:
                self._write(f"\n{prompt.lead}{text}")
        else:
            self._fresh_line()
            self._write("".join(f"{hint}\n" for hint in prompt.hints) + prompt.lead + text)
        self._echoed = prompt
        self._column = 1


def typed_rows(prompt: Prompt, limit: int, *, most: int = _MAX_PROMPT_ROWS) -> tuple[list[str], int, int]:
    """The typed line in rows of at most `limit`, and the cursor's row and column. Long ones show a part of it."""
    most = min(max(most, _MIN_PROMPT_ROWS), _MAX_PROMPT_ROWS)
    rows = [prompt.lead]
    used = width_of(prompt.lead)
    margin = " " * used
    cursor = (0, used)
    for index, cell in enumerate((*prompt.cells, None)):
        if index == prompt.at:
            cursor = (len(rows) - 1, used)
        if cell is None:
            break
        if cell == "\n":
            rows.append(margin)
            used = len(margin)
            continue
        text = shown_cell(cell).replace("\t", "    ")
        if used + width_of(text) > limit:
            rows.append("")
            used = 0
            if index == prompt.at:
                cursor = (len(rows) - 1, 0)
        rows[-1] += text
        used += width_of(text)
    first = max(0, min(cursor[0], len(rows) - most))
    return rows[first : first + most], cursor[0] - first, cursor[1]


def _kept_rows(lead: str, text: str, columns: int) -> Iterator[str]:
    for index, line in enumerate(text.split("\n")):
        begin = " " * len(lead) if index else lead
        yield from (row.rstrip() for row in wrapped(begin + line, columns, indent=" " * len(lead)))


def _up(rows: int) -> str:
    return f"\x1b[{rows}A" if rows > 0 else ""


def _inked(letters: Sequence[tuple[str, Ink]]) -> list[Ink]:
    inks: list[Ink] = []
    last: Ink | None = None
    for letter, part in letters:
        if last is not None and (part is last or (part.on, part.address) == (last.on, last.address)):
            inks[-1] = inks[-1].with_text(inks[-1].text + letter)
        else:
            inks.append(part.with_text(letter))
        last = part
    return inks
