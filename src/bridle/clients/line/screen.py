"""What happens in a session, as a person reads it: streamed answers, one line per call, what a turn came to."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bridle.base.markdown import MarkdownStream, Style, StyledSpan
from bridle.base.phrases import counted
from bridle.base.visible import visible
from bridle.clients.interaction.cells import width_of, wrapped
from bridle.clients.interaction.compaction_report import WHERE_IT_WENT
from bridle.clients.interaction.diff_lines import diff_rows
from bridle.clients.interaction.question_card import Row, RowStyle
from bridle.clients.interaction.slash_table import grant_words
from bridle.clients.interaction.story import Story, describe_call
from bridle.clients.interaction.tally import Tally, cost_words
from bridle.clients.line.page import Ink, Page
from bridle.clients.line.start_info import MODE_WORDS, Fact, Facts
from bridle.clients.line.terminal import Look
from bridle.protocol import events as e

START_HINT: Final = "Type what you want.  / commands   @ files   ! shell   Ctrl-C stops, twice leaves"
_INDENT: Final = " " * 9
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


class Standing(NamedTuple):
    """Whether the models of a turn run on this machine, and how full the context is, where that is known.

    `estimated`: nobody counted it.
    """

    local: bool = False
    context: float | None = None
    estimated: bool = False


class Screen:
    """Prints events on a page. Knows the session only from its events."""

    def __init__(
        self,
        page: Page,
        *,
        look: Look,
        columns: int = 0,
        standing: Callable[[Tally], Standing] = lambda _turn: Standing(),
        said: set[str] | None = None,
    ) -> None:
        self._page = page
        self._look = look
        self._columns = columns
        self._standing = standing
        self._story = Story(hint=WHERE_IT_WENT)
        self._markdown = MarkdownStream()
        self._sentence = ""
        self._partial = False
        self._said: set[str] = set() if said is None else said  # sentences that are said once
        self._in_turn = False
        self._took_ms = 0.0
        self._turn = Tally()
        self.session = Tally()
        self._answer: list[str] = []
        self.running = ""

    def resize(self, columns: int) -> None:
        self._columns = columns

    def for_new_session(self) -> Screen:
        """A screen for another session on the same page; what is said once is not said again."""
        return Screen(
            self._page, look=self._look, columns=self._columns, standing=self._standing, said=self._said
        )

    @property
    def answer(self) -> str:
        """What the model said last, as it wrote it."""
        return "".join(self._answer)

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

    def start(
        self,
        facts: Facts,
        *,
        model: str,
        mode: e.Mode,
        confined: Fact | None = None,
        degraded: Sequence[e.Degraded],
    ) -> None:
        """The first lines: where we are, and each choice with its source."""
        where = visible(
            f"{facts.folder} (git {facts.branch})" if facts.branch else facts.folder, newlines=False
        )
        self.say(" · ".join(filter(None, (f"Bridle {facts.version}".rstrip(), where))), style="title")
        choices = (Fact("model", model, facts.model_from), Fact("mode", mode, MODE_WORDS[mode]), confined)
        for fact in (*filter(None, choices), *facts.lines):
            self.fact(fact)
        for event in degraded:
            self.degraded(event)
        self.blank()

    def fact(self, fact: Fact) -> None:
        """A line in columns; where they do not fit, what it means stands below."""
        value, detail = visible(fact.value, newlines=False), visible(fact.detail, newlines=False)
        line = f"{fact.name:<{_NAME_COLUMNS}}{value:<{_VALUE_COLUMNS}} {detail}".rstrip()
        if not detail or self._columns <= 0 or width_of(line) <= self._columns:
            self.say(line, indent=_INDENT)
        else:
            self.say(f"{fact.name:<{_NAME_COLUMNS}}{value}", indent=_INDENT)
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
                self._answer.append(text)
                self._stream(text)
                return
            case e.StepStarted():
                self._answer.clear()
            case e.StepEnded():
                self._end_text()
            case e.StepFailed():
                self._failed(event)
                return
            case e.ToolCallStarted():
                self.running = describe_call(event.tool, event.input)
            case e.ToolResult():
                self.running = ""
            case e.TurnStarted():
                self._in_turn = True
                self._turn = Tally()
            case e.CostIncremented():
                self._turn.add(event)
                self.session.add(event)
            case e.TurnTiming(durations_ms=durations_ms):
                self._took_ms = durations_ms.get("turn.total", 0)
            case e.TurnEnded():
                self._in_turn = False
                self._turn_ended(event)
            case e.Degraded():
                self.degraded(event)
                return
            case e.GrantAdded():
                self.say(f"allowed  {grant_words(event)}", indent=_INDENT)
            case e.GrantRevoked():
                self.say("revoked  the next such call asks again", indent=_INDENT)
            case e.ModelChanged(holds="this_turn"):  # a notice says why
                return
            case e.ModelChanged(holds=holds):
                later = self._in_turn and holds == "from_next_turn"
                from_when = "from the next turn on" if later else ""
                self.fact(Fact("model", f"{event.provider}:{event.model}", from_when))
            case e.ModeChanged():
                self.fact(Fact("mode", event.mode, MODE_WORDS[event.mode]))
            case e.ContextAdded(source="diff", content=content):
                for row in diff_rows(e.text_of(content)):
                    self.say(row.text, style=row.style)
                self.say("The model reads this with your next message.", style="faint")
            case e.Error() if event.message in self._said:
                return
            case e.Error():
                self._said.add(event.message)
            case _:
                pass
        self._tell(envelope)

    def _tell(self, envelope: e.Envelope) -> None:
        for line in self._story.told(envelope):
            self._end_text()
            self.say(line, indent=_INDENT)

    def waiting(self, failed: e.StepFailed, left_s: float) -> str:
        """What is said of a failed attempt while so much of the wait for the next one is left."""
        return visible(self._story.failure(failed, left_s=left_s))

    def fold(self, envelope: e.Envelope) -> None:
        """An event of the past: it counts, and prints nothing."""
        if not e.concerns(envelope):
            return
        match envelope.event:
            case e.CostIncremented() as cost:
                self.session.add(cost)
            case e.StepStarted():
                self._answer.clear()
            case e.TextDelta(text=text):
                self._answer.append(text)
            case _:
                pass

    def past_answer(self) -> None:
        """The last answer of a session that goes on."""
        if self._answer:
            self._stream("".join(self._answer))
            self._end_text()

    def _stream(self, text: str) -> None:
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

    def _end_text(self) -> None:
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
        self._end_text()
        for line in self._story.lines(event):
            self._said.add(event.message)
            self.say(line if line.endswith(kept) else line + kept, indent="  ")

    def _turn_ended(self, event: e.TurnEnded) -> None:
        self._end_text()
        self.running = ""
        if event.message and event.message not in self._said:
            self.say(visible(event.message))
        seconds = self._took_ms / 1000
        took = f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"
        now = self._standing(self._turn)
        costs = cost_words(
            self._turn, self.session, local=now.local, context=now.context, estimated=now.estimated
        )
        self.say(" · ".join((took, counted(event.steps, "step"), *costs)), style="faint")

    # Looks

    def _span(self, span: StyledSpan) -> Ink:
        return Ink(visible(span.text).replace("\t", "    "), self._code(_SPAN_CODES[span.style]))

    def _ink(self, row: Row) -> Ink:
        return Ink(row.text, self._code(_ROW_CODES[row.style]))

    def _code(self, codes: tuple[str, str]) -> str:
        if not self._look.codes:
            return ""
        return codes[0] if self._look.colour else codes[1]
