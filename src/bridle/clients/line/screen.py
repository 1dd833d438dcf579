"""What happens in a session, as a person reads it: streamed answers, one line per call, what a turn came to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.cells import fitting, width_of, wrapped
from bridle.clients.interaction.effects import OpenDiff
from bridle.clients.interaction.engine_info import EngineInfo
from bridle.clients.interaction.questions.question_card import Row, RowStyle
from bridle.clients.interaction.render.answer_spans import AnswerPiece, AnswerSpans, AnswerStyle
from bridle.clients.interaction.render.call_text import coloured_parts, excerpt, output_lines
from bridle.clients.interaction.render.edit_rows import (
    EditPiece,
    TokenStyle,
    diff_rows,
    edit_rows,
    short_edit_rows,
)
from bridle.clients.interaction.render.event_rows import EventRow, EventRows, RowKind, Wording, failure_text
from bridle.clients.interaction.render.progress_text import SAID_LINES, plan_rows, plan_title, said_lines
from bridle.clients.interaction.render.session_fold import changed_paths, edited_files
from bridle.clients.interaction.render.start_info import (
    StartInfo,
    StartLine,
    new_lines,
    start_lines,
    start_title,
)
from bridle.clients.interaction.render.usage import WHERE_IT_WENT
from bridle.clients.interaction.session.controller import MARK
from bridle.clients.interaction.session.status_line import changed_words, turn_words
from bridle.clients.interaction.view import SessionView
from bridle.clients.line.page import Ink, Page
from bridle.clients.line.terminal import Look
from bridle.protocol import events as e
from bridle.protocol.display_values import EditedFile

_WORD_COLUMNS: Final = 8
_CALL_COLUMNS: Final = 40
_INDENT: Final = " " * (_WORD_COLUMNS + 1)
_OUTPUT_INDENT: Final = " " * 4
_ROWS_BELOW: Final = 8
"""What stands below the end of a past: where we are, the hint, the prompt."""
_LEAST_ROWS: Final = 8
_MOST_ROWS: Final = 4
"""So many rows one line of a change takes."""
_LEVELS: Final = 1
"""So many levels of agents below the one a person talks to are shown at work."""
LEFT_OUT: Final = frozenset[RowKind]({"start", "told_call", "waiting", "branch", "gap", "child_ended"})
"""`start` is on the first page, questions are put to the user, and the rest is in exports."""
_NOT_IN_THE_PAST: Final = frozenset[RowKind]({"degraded", "setting", "grant"})
_NAME_COLUMNS: Final = 9
_VALUE_COLUMNS: Final = 24
_SENTENCE_END: Final = re.compile(r"[.!?:]\s|\n")

_BOLD, _FAINT, _ITALIC, _UNDERLINED = "\x1b[1m", "\x1b[2m", "\x1b[3m", "\x1b[4m"
_TOKEN_CODES: Final[dict[TokenStyle, tuple[str, str]]] = {  # in colour, without
    "keyword": ("\x1b[35m", ""),
    "string": ("\x1b[32m", ""),
    "comment": (_FAINT, ""),
    "number": ("\x1b[36m", ""),
    "name": (_BOLD, ""),
}
_ANSWER_CODES: Final[dict[AnswerStyle, tuple[str, str]]] = {
    **_TOKEN_CODES,
    "plain": ("", ""),
    "bold": (_BOLD, _BOLD),
    "italic": (_ITALIC, _ITALIC),
    "bold_italic": (_BOLD + _ITALIC, _BOLD + _ITALIC),
    "code": ("\x1b[36m", _BOLD),
    "heading": (_BOLD, _BOLD),
    "bullet": ("\x1b[36m", ""),
    "quote": (_FAINT, _FAINT),
    "link": (_UNDERLINED, _UNDERLINED),
    "rule": (_FAINT, _FAINT),
    "code_block": ("\x1b[36m", ""),
    "table": ("", ""),
}
_ROW_CODES: Final[dict[RowStyle | TokenStyle, tuple[str, str]]] = {
    **_TOKEN_CODES,
    "plain": ("", ""),
    "title": (_BOLD, _BOLD),
    "added": ("\x1b[32m", ""),
    "removed": ("\x1b[31m", ""),
    "faint": (_FAINT, _FAINT),
    "own": ("\x1b[1;36m", _BOLD),
}


class Screen:
    """Prints events on a page. Knows the session only from its events; `reader` is the name of who reads it."""

    def __init__(
        self,
        page: Page,
        view: SessionView,
        info: EngineInfo,
        *,
        look: Look,
        columns: int = 0,
        reader: str = "",
    ) -> None:
        self._reader = reader
        self._page = page
        self._info = info
        self._look = look
        self._columns = columns
        self._said: set[str] = set()  # sentences that are said once
        self.enter(view)

    def enter(self, view: SessionView) -> None:
        """What follows is about another session; what is said once is not said again."""
        self._view = view
        wording = Wording(compaction_hint=WHERE_IT_WENT, reader=self._reader)
        self._rows = EventRows(left_out=LEFT_OUT, wording=wording)
        self._answer = AnswerSpans(opens=self._look.links, colours=self._look.colour, folder=self._folder)
        self._sentence = ""
        self._partial = False

    def resize(self, columns: int) -> None:
        self._columns = columns

    # Lines

    def say(self, text: str, *, style: RowStyle = "plain", indent: str = "") -> None:
        """A line or several, broken at blanks where they are too long."""
        columns = 0 if self._look.reader else self._columns
        rows = [row for line in text.split("\n") for row in wrapped(line, columns, indent=indent)]
        self._page.lines([[self._ink(Row(row, style))] for row in rows])

    def rows(self, rows: Sequence[Row]) -> None:
        self._page.lines([[self._ink(row)] for row in rows])

    def blank(self) -> None:
        self._page.line()

    def start(self, start: StartInfo, folder: str) -> None:
        """The first lines: where we are, and each choice with its source."""
        view = self._view
        self.say(start_title(start, folder), style="title")
        keys = self._info.key_words(view.model.partition(":")[0])
        lines = start_lines(start, model=view.model, mode=view.mode, created=view.created, keys=keys)
        for line in new_lines(start, lines):
            self.choice(line)
        for event in view.degraded.values():
            self.degraded(visible(event.message))
        self.blank()

    def choice(self, line: StartLine) -> None:
        """A line in columns; where they do not fit, what it means stands below."""
        value, detail = visible_line(line.value), visible_line(line.detail)
        text = f"{line.name:<{_NAME_COLUMNS}}{value:<{_VALUE_COLUMNS}} {detail}".rstrip()
        if not detail or self._columns <= 0 or width_of(text) <= self._columns:
            self.say(text, indent=_INDENT)
        else:
            self.say(f"{line.name:<{_NAME_COLUMNS}}{value}", indent=_INDENT)
            self.say(f"{_INDENT}{detail}", indent=_INDENT)

    def degraded(self, message: str) -> None:
        """Said once, at the top."""
        if message not in self._said:
            self._said.add(message)
            self.say(f"! {message}", indent="  ")

    # Events

    def show(self, envelope: e.Envelope) -> None:
        for row in self._rows.take(envelope):
            if row.kind not in ("input", "command"):  # the composer has shown them
                self._draw(row)

    def _draw(self, row: EventRow) -> None:
        match row.kind:
            case "delta":
                self.stream(row.text)
            case "said" | "answer":  # streamed
                self.end_text()
            case "setting" if row.setting is not None:
                self.choice(row.setting)
            case "grant" | "queue":
                self.say(row.text, indent=_INDENT)
            case "diff":
                for line in (
                    *diff_rows(row.text),
                    Row("The model reads this with your next message.", "faint"),
                ):
                    self.say(line.text, style=line.style)
            case "degraded":
                self.degraded(row.text)
            case _ if row.depth or row.kind == "child_said":
                self._nest(row)
            case "retry" | "failure":
                self._failed(row.text)
            case "ended" if row.ended is not None:
                self._turn_ended(row.ended)
            case "printed" | "call" | "edit" | "output":
                self._call(row)
            case "plan":
                self._plan(row.todos)
            case "error" if row.text in self._said:
                return
            case _:
                self._said |= {row.text} if row.kind == "error" else set()
                self.end_text()
                self._line(row.text)

    def _call(self, row: EventRow) -> None:
        """A call that has ended, the start of its edits, or some lines of its output."""
        result = row.call.result if row.call is not None else None
        if row.kind == "printed":
            self.end_text()
            self.output(row.text, whole=True)
        elif row.kind == "call":
            self.end_text()
            self._line(row.text)
            is_typed = row.call is not None and row.call.is_typed
            if is_typed and result is not None and (words := changed_words(len(changed_paths(result)))):
                self.say(words, style="faint")
        elif result is not None and row.kind == "edit":
            files = edited_files(result)
            self._edited(files, names=result.tool == "apply_patch" or len(files) > 1)
        elif result is not None:
            self.output("\n".join(excerpt(result, more=": /output")))

    def _edited(self, files: Sequence[EditedFile], *, names: bool) -> None:
        """The change itself, as much of it as fits beside the conversation."""
        room = max(self._columns - 1, 2 * len(_INDENT)) if self._columns and not self._look.reader else 0
        rows = short_edit_rows(files, names=names, colours=self._look.colour, more=": /diff")
        inks = [[self._edit_ink(piece) for piece in row] for row in rows]
        self._page.lines([part for row in inks for part in _chopped(row, room)])

    def diff(self, changes: OpenDiff) -> None:
        """Whole changes on the page."""
        self._page.lines(self._diff_rows(changes))

    def diff_text(self, changes: OpenDiff) -> str:
        """Whole changes as another program may send them to this terminal."""
        rows = self._diff_rows(changes)
        return "".join(f"{''.join(ink.coded for ink in row).rstrip()}\n" for row in rows)

    def _diff_rows(self, changes: OpenDiff) -> list[list[Ink]]:
        said = [Row(changes.title, "title")] if changes.title else []
        notes = [Row(visible_line(note), "faint") for note in changes.notes]
        rows = edit_rows(changes.files, colours=self._look.colour)
        return [
            *([self._ink(row)] for row in said),
            *([self._edit_ink(piece) for piece in row] for row in rows),
            *([self._ink(row)] for row in notes),
        ]

    def _edit_ink(self, piece: EditPiece) -> Ink:
        code = self._code(_ROW_CODES[piece.style])
        return Ink(piece.text, code + (_BOLD + _UNDERLINED if piece.marked and self._look.codes else ""))

    def _nest(self, row: EventRow) -> None:
        """A row of a subagent, below the agent that started it. Of deeper subagents only their start and end show."""
        if row.depth > _LEVELS or row.kind in ("edit", "output"):
            return
        for line in said_lines(row.text, SAID_LINES) if row.kind == "child_said" else [row.text]:
            self.end_text()
            self._line(line, lead=row.lead, indent="  " * row.depth)

    def _line(self, line: str, *, lead: str = "", indent: str = "") -> None:
        line = self._without_columns(line, self._columns - len(lead))
        below = _INDENT if line[_WORD_COLUMNS:].startswith(" ") else "  "
        self.say(f"{lead}{line}", indent=indent + below)

    def _without_columns(self, line: str, columns: int) -> str:
        """Where a line does not fit, what became of a call stands right behind it instead of in a column."""
        call = line[:_CALL_COLUMNS].rstrip(" ")
        if self._columns <= 0 or width_of(line) <= columns or len(call) > _CALL_COLUMNS - 4:
            return line
        return f"{call}   {line[_CALL_COLUMNS:]}".rstrip()

    def waiting(self, failed: e.StepFailed, left_s: float) -> str:
        """What is said of a failed attempt while so much of the wait for the next one is left."""
        return failure_text(failed, self._rows.fold.main.provider, left_s=left_s)

    def past(self, envelopes: Sequence[e.Envelope], rows: int) -> None:
        """The end of what happened in a session that goes on: about a screenful, or for people who listen the last
        answer."""
        if self._look.reader:
            self.say("The last answer:")
            self.stream(self._view.answer)
            self.end_text()
            return
        with self._page.holding() as held:
            self._past(envelopes)
        lines = "".join(held).splitlines() if not self._look.moves else held
        cut = len(lines) - max(rows - _ROWS_BELOW, _LEAST_ROWS)
        if cut > 1:
            self.say(f"… {counted(cut, 'row')} before this: /export writes all of it", style="faint")
            lines = lines[cut:]
        self._page.lines([[Ink(line)] for line in lines])

    def _past(self, envelopes: Sequence[e.Envelope]) -> None:
        said: dict[int | None, str] = {}
        ends = (
            at for at, one in enumerate(envelopes) if isinstance(one.event, e.TurnEnded) and e.concerns(one)
        )
        last = max(ends, default=-1)
        for at, envelope in enumerate(envelopes):
            rows = self._rows.take(envelope)
            if isinstance(envelope.event, e.TurnStarted) and envelope.event.input in said:
                self.own(MARK, said[envelope.event.input])
            for row in rows:
                if row.kind == "input":
                    said[envelope.id] = visible(row.text)
                elif row.kind == "command":
                    self.own(MARK, f"!{row.text}")
                elif row.kind == "ended" and at != last:
                    self.end_text()
                elif row.kind not in _NOT_IN_THE_PAST:
                    self._draw(row)
        self.end_text()

    def own(self, lead: str, text: str) -> None:
        for number, line in enumerate(text.split("\n")):
            begin = " " * len(lead) if number else lead
            self.say(f"{begin}{line}", indent=" " * len(lead), style="own")

    @property
    def own_code(self) -> str:
        return self._code(_ROW_CODES["own"])

    def _folder(self) -> str:
        return self._view.created.cwd if self._view.created is not None else ""

    def stream(self, text: str) -> None:
        self._partial = True
        if not self._look.codes:
            self._stream_plain(text)
            return
        self._page.stream(*map(self._piece, self._answer.render(text, self._columns)))

    def _stream_plain(self, text: str) -> None:
        """Raw Markdown; to people who listen, a sentence at a time."""
        if not self._look.reader:
            self._page.stream(Ink(visible(text)))
            return
        self._sentence += text
        ends = [found.end() for found in _SENTENCE_END.finditer(self._sentence)]
        if ends:
            self._page.stream(Ink(visible(self._sentence[: ends[-1]])))
            self._sentence = self._sentence[ends[-1] :]

    def end_text(self) -> None:
        """What the model said is complete: something else follows."""
        if not self._partial:
            return
        self._partial = False
        rest, self._sentence = self._sentence, ""
        if self._look.codes:
            self._page.stream(*map(self._piece, self._answer.flush(self._columns)))
        elif rest:
            self._page.stream(Ink(visible(rest)))
        self._page.end()

    def _failed(self, text: str) -> None:
        kept = " Nothing partial was kept." if self._partial else ""
        self.end_text()
        self._said.add(text)
        self.say(text if text.endswith(kept) else text + kept, indent="  ")

    def output(self, text: str, *, whole: bool = False) -> None:
        """What a command printed, a row for each line: the beginning of it, or the `whole` line."""
        if text:
            self._page.lines([self._output(line, whole=whole) for line in output_lines(text)])

    def terminal_text(self, text: str) -> str:
        """What a command printed as another program may send it to this terminal."""
        return "".join(
            f"{''.join(self._coloured(part, code).coded for part, code in coloured_parts(line))}\n"
            for line in output_lines(text)
        )

    def _coloured(self, text: str, code: str, otherwise: str = "") -> Ink:
        on = f"\x1b[{code}m" if code and self._look.colour else otherwise
        return Ink(visible_line(text).replace("\t", "    "), on)

    def _output(self, line: str, *, whole: bool) -> list[Ink]:
        """One row, faint, in its own colours where there are any."""
        endless = whole or self._look.reader or not self._columns
        room = 0 if endless else max(self._columns - len(_OUTPUT_INDENT) - 1, 8)
        faint = self._code((_FAINT, _FAINT))
        inks = [self._coloured(text, code, faint) for text, code in coloured_parts(line)]
        return [Ink(_OUTPUT_INDENT), *_fitted(inks, room)]

    def _plan(self, todos: tuple[e.Todo, ...]) -> None:
        self.end_text()
        self.say(plan_title(todos))
        for row in plan_rows(todos, spoken=self._look.reader):
            self.say(f"  {row.text}", style=row.style, indent="    ")

    def _turn_ended(self, event: e.TurnEnded) -> None:
        self.end_text()
        message = visible(event.message or "")
        if message and message not in self._said:
            self.say(message)
        if words := changed_words(len(self._view.changed)):
            self.say(words, style="faint")
        self.say(turn_words(event, self._view, self._info), style="faint")

    # Looks

    def _piece(self, piece: AnswerPiece) -> Ink:
        return Ink(piece.text, self._code(_ANSWER_CODES[piece.style]), piece.margin, piece.address)

    def _ink(self, row: Row) -> Ink:
        return Ink(row.text, self._code(_ROW_CODES[row.style]))

    def _code(self, codes: tuple[str, str]) -> str:
        if not self._look.codes:
            return ""
        return codes[0] if self._look.colour else codes[1]


def _fitted(inks: Sequence[Ink], room: int) -> list[Ink]:
    """A row that ends with a mark where there is no room for all of it; zero means endless room."""
    shown: list[Ink] = []
    for ink in inks:
        if room and width_of(ink.text) > room:
            return [*shown, ink.with_text(f"{ink.text[: fitting(ink.text, room - 1)]}…")]
        shown.append(ink)
        room = max(room - width_of(ink.text), 1) if room else 0
    return shown


def _chopped(inks: Sequence[Ink], room: int) -> Iterator[list[Ink]]:
    """A row exactly as it stands, in a few if it takes them: of code every blank counts. Zero means endless room."""
    row: list[Ink] = []
    used = rows = 0
    for ink in inks:
        rest = ink.text
        while room and used + width_of(rest) > room:
            rows += 1
            if rows == _MOST_ROWS:
                yield [*row, *_fitted([ink.with_text(rest)], room - used)]
                return
            cut = fitting(rest, room - used) if room > used else 0
            yield [*row, ink.with_text(rest[:cut])]
            rest, row, used = rest[cut:], [Ink(_INDENT)], len(_INDENT)
        row.append(ink.with_text(rest))
        used += width_of(rest)
    yield row
