"""What happens in a session, as a person reads it: streamed answers, one line per call, what a turn came to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from bridle.base.markdown import MarkdownStream, Style, StyledSpan
from bridle.base.visible import visible
from bridle.clients.interaction.cells import fitting, width_of, wrapped
from bridle.clients.interaction.compaction_report import WHERE_IT_WENT
from bridle.clients.interaction.effects import SayWords
from bridle.clients.interaction.engine_info import EngineInfo
from bridle.clients.interaction.event_rows import event_rows, turn_words
from bridle.clients.interaction.output_excerpt import coloured_parts, output_lines
from bridle.clients.interaction.plan_lines import plan_rows, plan_title
from bridle.clients.interaction.question_card import Row, RowStyle
from bridle.clients.interaction.start_info import StartInfo, StartLine, start_lines, start_title
from bridle.clients.interaction.story import Story
from bridle.clients.interaction.view import SessionView
from bridle.clients.line.page import Ink, Page
from bridle.clients.line.terminal import Look
from bridle.protocol import events as e

START_HINT: Final = "Type what you want.  / commands   @ files   ! shell   Ctrl-C stops, twice leaves"
_INDENT: Final = " " * 9
_OUTPUT_INDENT: Final = " " * 4
_NAME_COLUMNS: Final = 9
_VALUE_COLUMNS: Final = 24
_SENTENCE_END: Final = re.compile(r"[.!?:]\s|\n")

_BOLD, _FAINT, _ITALIC = "\x1b[1m", "\x1b[2m", "\x1b[3m"
_SPAN_CODES: Final[dict[Style, tuple[str, str]]] = {  # in colour, without
    "plain": ("", ""),
    "bold": (_BOLD, _BOLD),
    "italic": (_ITALIC, _ITALIC),
    "bold_italic": (_BOLD + _ITALIC, _BOLD + _ITALIC),
    "code": ("\x1b[36m", _BOLD),
    "heading": (_BOLD, _BOLD),
    "bullet": ("\x1b[36m", ""),
    "quote": (_FAINT, _FAINT),
    "code_block": ("\x1b[36m", ""),
}
_ROW_CODES: Final[dict[RowStyle, tuple[str, str]]] = {
    "plain": ("", ""),
    "title": (_BOLD, _BOLD),
    "added": ("\x1b[32m", ""),
    "removed": ("\x1b[31m", ""),
    "faint": (_FAINT, _FAINT),
}


class Screen:
    """Prints events on a page. Knows the session only from its events."""

    def __init__(
        self, page: Page, view: SessionView, info: EngineInfo, *, look: Look, columns: int = 0
    ) -> None:
        self._page = page
        self._info = info
        self._look = look
        self._columns = columns
        self._said: set[str] = set()  # sentences that are said once
        self.enter(view)

    def enter(self, view: SessionView) -> None:
        """What follows is about another session; what is said once is not said again."""
        self._view = view
        self._story = Story(hint=WHERE_IT_WENT)
        self._markdown = MarkdownStream()
        self._sentence = ""
        self._partial = False

    def resize(self, columns: int) -> None:
        self._columns = columns

    # Lines

    def say(self, text: str, *, style: RowStyle = "plain", indent: str = "") -> None:
        """A line or several, broken at blanks where they are too long."""
        columns = 0 if self._look.reader else self._columns
        rows = [row for line in text.split("\n") for row in wrapped(line, columns, indent=indent)]
        self._page.lines([self._ink(Row(row, style)) for row in rows])

    def rows(self, rows: Sequence[Row]) -> None:
        self._page.lines([self._ink(row) for row in rows])

    def blank(self) -> None:
        self._page.line()

    def start(self, start: StartInfo, folder: str) -> None:
        """The first lines: where we are, and each choice with its source."""
        view = self._view
        self.say(start_title(start, folder), style="title")
        keys = self._info.key_words(view.model.partition(":")[0])
        for line in start_lines(start, model=view.model, mode=view.mode, created=view.created, keys=keys):
            self.choice(line)
        for event in view.degraded.values():
            self.degraded(event)
        self.blank()

    def choice(self, line: StartLine) -> None:
        """A line in columns; where they do not fit, what it means stands below."""
        value, detail = visible(line.value, newlines=False), visible(line.detail, newlines=False)
        text = f"{line.name:<{_NAME_COLUMNS}}{value:<{_VALUE_COLUMNS}} {detail}".rstrip()
        if not detail or self._columns <= 0 or width_of(text) <= self._columns:
            self.say(text, indent=_INDENT)
        else:
            self.say(f"{line.name:<{_NAME_COLUMNS}}{value}", indent=_INDENT)
            self.say(f"{_INDENT}{detail}", indent=_INDENT)

    def degraded(self, event: e.Degraded) -> None:
        """Said once, at the top."""
        if event.message not in self._said:
            self._said.add(event.message)
            self.say(f"! {visible(event.message)}", indent="  ")

    # Events

    def show(self, envelope: e.Envelope) -> None:
        """What this event adds to the page."""
        event = envelope.event
        if not e.concerns(envelope):
            self._tell(envelope)
            return
        match event:
            case e.TextDelta(text=text):
                self.stream(text)
                return
            case e.StepEnded():
                self.end_text()
            case e.StepFailed():
                self._failed(event)
                return
            case e.TurnEnded():
                self._turn_ended(event)
            case e.ToolResult():
                self._tell(envelope)
                self.output("\n".join(self._story.excerpt(event, more=": /output")))
                return
            case e.TodosChanged():
                self._plan(envelope, event.todos)
                return
            case e.Degraded():
                self.degraded(event)
                return
            case e.Error() if event.message in self._said:
                return
            case e.Error():
                self._said.add(event.message)
            case _:
                for row in event_rows(event, self._view):
                    self._add(row)
        self._tell(envelope)

    def _add(self, row: SayWords | Row | StartLine) -> None:
        match row:
            case SayWords(text=text, indent=indent):
                self.say(text, indent=indent)
            case Row(text=text, style=style):
                self.say(text, style=style)
            case StartLine():
                self.choice(row)

    def _tell(self, envelope: e.Envelope) -> None:
        for line in self._story.told(envelope):
            self.end_text()
            self.say(line, indent=_INDENT)

    def waiting(self, failed: e.StepFailed, left_s: float) -> str:
        """What is said of a failed attempt while so much of the wait for the next one is left."""
        return visible(self._story.failure(failed, left_s=left_s))

    def past_answer(self) -> None:
        """The last answer of a session that goes on."""
        if answer := self._view.answer:
            self.stream(answer)
            self.end_text()

    def stream(self, text: str) -> None:
        """More of what the model says."""
        self._partial = True
        if not self._look.codes:
            self._stream_plain(text)
            return
        self._page.stream(*map(self._span, self._markdown.render_chunk(text)))

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
            self._page.stream(*map(self._span, self._markdown.flush()))
        elif rest:
            self._page.stream(Ink(visible(rest)))
        self._page.end()

    def _failed(self, event: e.StepFailed) -> None:
        kept = " Nothing partial was kept." if self._partial else ""
        self.end_text()
        for line in self._story.lines(event):
            self._said.add(event.message)
            self.say(line if line.endswith(kept) else line + kept, indent="  ")

    def output(self, text: str) -> None:
        """What a command printed, a row for each line."""
        for line in output_lines(text) if text else ():
            self._output(line)

    def terminal_text(self, text: str) -> str:
        """What a command printed as another program may send it to this terminal."""
        return "".join(
            f"{''.join(self._coloured(part, code).coded for part, code in coloured_parts(line))}\n"
            for line in output_lines(text)
        )

    def _coloured(self, text: str, code: str, otherwise: str = "") -> Ink:
        on = f"\x1b[{code}m" if code and self._look.colour else otherwise
        return Ink(visible(text, newlines=False).replace("\t", "    "), on)

    def _output(self, line: str) -> None:
        """One row, faint, in its own colours where there are any."""
        room = (
            max(self._columns - len(_OUTPUT_INDENT) - 1, 8) if self._columns and not self._look.reader else 0
        )
        inks = [Ink(_OUTPUT_INDENT)]
        for text, code in coloured_parts(line):
            ink = self._coloured(text, code, self._code((_FAINT, _FAINT)))
            if room and width_of(ink.text) > room:
                inks.append(Ink(f"{ink.text[: fitting(ink.text, room - 1)]}…", ink.on))
                break
            inks.append(ink)
            room = max(room - width_of(ink.text), 1) if room else 0
        self._page.line(*inks)

    def _plan(self, envelope: e.Envelope, todos: tuple[e.Todo, ...]) -> None:
        """The checklist, where it is another than the last."""
        if self._story.told(envelope):
            self.end_text()
            self.say(plan_title(todos))
            for row in plan_rows(todos, spoken=self._look.reader):
                self.say(f"  {row.text}", style=row.style, indent="    ")

    def _turn_ended(self, event: e.TurnEnded) -> None:
        self.end_text()
        if event.message and event.message not in self._said:
            self.say(visible(event.message))
        self.say(turn_words(event, self._view, self._info), style="faint")

    # Looks

    def _span(self, span: StyledSpan) -> Ink:
        return Ink(visible(span.text).replace("\t", "    "), self._code(_SPAN_CODES[span.style]))

    def _ink(self, row: Row) -> Ink:
        return Ink(row.text, self._code(_ROW_CODES[row.style]))

    def _code(self, codes: tuple[str, str]) -> str:
        if not self._look.codes:
            return ""
        return codes[0] if self._look.colour else codes[1]
