"""The live part of the terminal: the rows below the output, questions, the session list, and lending the terminal."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final

from bridle.base.clock import Clock, SystemClock, Timer
from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.composer.composer import search_words
from bridle.clients.interaction.composer.keys import Key
from bridle.clients.interaction.composer.picker import (
    Deed,
    Gone,
    Picked,
    Picker,
    picker_lines,
    press,
    relisted,
    unwarned,
)
from bridle.clients.interaction.questions.question_card import Hint, Question, Show
from bridle.clients.interaction.session.controller import MARK
from bridle.clients.interaction.session.key_router import KeyRouter
from bridle.clients.interaction.session.keyboard import LEAVE_S
from bridle.clients.interaction.session.opening import ChangeSession
from bridle.clients.interaction.session.status_line import REFRESH_S
from bridle.clients.line.page import FAINT, Ink, Page, Prompt
from bridle.clients.line.screen import Screen
from bridle.clients.line.terminal import Look, Terminal
from bridle.protocol.errors import BridleError

HINT_S: Final = LEAVE_S
"""A hint at a second key stays for as long as that key counts."""
STILL_WORKING_S: Final = 30.0
"""How often people who listen are told that a turn still runs."""


class Footer:
    """Draws the line that has the keyboard. `say` prints a line, where a hint cannot be taken away again.

    `active` says whether anything is under way that a person waits for, `beside` whether somebody works in the
    background, and `status` what, in rows; it is asked at most four times a second.
    `mode` is named before the mark while it is not the usual one; `instead` is a prompt that has taken the place of
    that line. Where nobody types (`interactive`) there is none.
    """

    def __init__(
        self,
        page: Page,
        router: KeyRouter,
        *,
        look: Look,
        clock: Clock,
        interactive: bool,
        say: Callable[[str], None],
        active: Callable[[], bool],
        status: Callable[[], Sequence[str]],
        beside: Callable[[], bool] = lambda: False,
        mode: Callable[[], str] = lambda: "default",
        instead: Callable[[], Prompt | None] = lambda: None,
    ) -> None:
        self._page = page
        self._router = router
        self._look = look
        self._clock = clock
        self._say = say
        self._active = active
        self._ask_status = status
        self._beside = beside
        self._mode = mode
        self._instead = instead
        self._hint = ""
        self._countdown = ""
        self._status: Sequence[str] = ()
        self._status_s = float("-inf")
        self._timers: dict[str, Timer] = {}
        self._closed = not interactive

    @property
    def answer_lead(self) -> str:
        return "Answer: " if self._look.reader else MARK

    @property
    def draft_lead(self) -> str:
        return MARK if self._mode() == "default" else f"{self._mode()} {MARK}"

    def hint(self, text: str, *, lasting: bool = False) -> None:
        """A hint above the prompt; it goes with its two seconds, or is a line where nothing can be redrawn."""
        self._stop_timer("hint")
        if not self._look.moves:
            if text:
                self._say(text)
            return
        self._hint = text
        if text and not lasting:
            self._start_timer("hint", HINT_S, self._hint_is_over)

    @property
    def counts(self) -> bool:
        """Whether a line can change in place here."""
        return self._look.moves and not self._closed

    def count_down(self, seconds: float, words: Callable[[float], str]) -> None:
        """A line above the prompt that says every second how long it still is, until `counted`."""
        self._countdown = words(math.ceil(seconds))
        if seconds > 1:
            self._start_timer("countdown", 1, lambda: self.count_down(seconds - 1, words))
        self.draw()

    def counted(self) -> None:
        self._countdown = ""
        self._stop_timer("countdown")

    def draw(self) -> None:
        """Shows the line that has the keyboard. Where nothing can be redrawn, only when it is somebody's turn."""
        if self._closed:
            return
        if (other := self._instead()) is not None:
            self._page.prompt(other)
            return
        self._let_the_question_wait()
        card, composer = self._router.card, self._router.composer
        if card is not None and self._router.focus == "question":
            confirm = f"{card.confirming.confirm} " if card.confirming is not None else ""
            lead = confirm + self.answer_lead
            cells = tuple(card.line)
            self._page.prompt(Prompt(lead=lead, cells=cells, at=len(cells), hints=self._hints()))
        elif self._look.moves or not self._active() or card is not None or not composer.empty:
            lead, cells = self.draft_lead, composer.cells
            status = self._refreshed_status() if card is None else ()
            self._page.prompt(
                Prompt(lead=lead, cells=cells, at=composer.at, hints=self._hints(), above=status)
            )
        else:
            self._page.prompt(None)

    def working(self, after_s: float = STILL_WORKING_S) -> None:
        """A turn has begun. People who listen hear from it now and then; others see it."""
        if not self._look.reader or self._closed:
            return

        def say() -> None:
            self._say(f"still working, {after_s:.0f} s")
            self.working(after_s + STILL_WORKING_S)

        self._start_timer("working", STILL_WORKING_S, say)

    def rested(self) -> None:
        self._stop_timer("working")

    def close(self) -> None:
        """Takes everything away; nothing is drawn any more."""
        self._closed = True
        for name in list(self._timers):
            self._stop_timer(name)
        self._page.leave()

    def _start_timer(self, name: str, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` later, in place of what waits under this name."""
        self._stop_timer(name)
        self._timers[name] = self._clock.call_later(seconds, act)

    def _stop_timer(self, name: str) -> None:
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()

    def _refreshed_status(self) -> tuple[Ink, ...]:
        """What is under way, as it was a moment ago or is now. While there is something, it is drawn again and again.

        A wait that is counted down, or a hint, has its place meanwhile.
        """
        if not self._look.moves or not (self._active() or self._beside()):
            self._status = ()
            self._status_s = float("-inf")
            return ()
        now_s = self._clock.monotonic()
        if now_s - self._status_s >= REFRESH_S:
            self._status, self._status_s = self._ask_status(), now_s
        if "status" not in self._timers:
            self._start_timer("status", self._status_s + REFRESH_S - now_s, self._status_is_due)
        if self._countdown or self._hint:
            return ()
        return tuple(Ink(row, FAINT) for row in self._status)

    def _status_is_due(self) -> None:
        self._stop_timer("status")
        self.draw()

    def _hint_is_over(self) -> None:
        self._hint = ""
        self.draw()

    def _let_the_question_wait(self) -> None:
        """A question gets the keyboard when it has been quiet long enough."""
        self._stop_timer("quiet")
        left_s = self._router.settle(self._clock.monotonic())
        if left_s is not None:
            self._start_timer("quiet", left_s, self.draw)

    def _hints(self) -> tuple[str, ...]:
        hints: list[str] = []
        if self._router.card is not None and self._router.focus == "draft":
            hints.append("A question is waiting: Tab to answer")
        if self._look.moves:
            hints += [self._countdown] if self._countdown else []
            hints += [self._hint] if self._hint else []
            if (search := self._router.composer.search) is not None and self._router.focus == "draft":
                hints.append(search_words(search))
        return tuple(hints)


class LiveTerminal:
    """A `KeyboardScreen`. `suspended`: this client stopped the job a moment ago; `lent`: another program has it."""

    def __init__(
        self,
        terminal: Terminal,
        page: Page,
        screen: Screen,
        footer: Footer,
        router: KeyRouter,
        clock: Clock,
    ) -> None:
        self._terminal = terminal
        self._page = page
        self._screen = screen
        self._footer = footer
        self._router = router
        self._clock = clock
        self.suspended = False
        self.lent = False
        self.draw = footer.draw
        self.hint = footer.hint
        self.redraw = page.redraw

    @property
    def columns(self) -> int:
        return self._terminal.columns

    def show(self, more: Show | Hint) -> None:
        if isinstance(more, Show):
            self._screen.rows(more.rows)
        else:
            self._screen.say(more.text)

    def keep_answer(self, line: str) -> None:
        self._page.keep_prompt(self._footer.answer_lead, visible(line))

    def read_keys(self) -> list[Key]:
        return self._terminal.read_now()

    def ask(self, question: Question, position: str = "") -> None:
        """Draw a question and call the user. Keys typed until now are to be read before."""
        reader = self._terminal.look.reader
        if reader:
            question = question.with_title(f"Question: {question.form.title}")
        shown = self._router.ask(
            question,
            now_s=self._clock.monotonic(),
            columns=0 if reader else self._terminal.columns,
            rows=0 if reader else self._terminal.rows,
            position=position,
        )
        self._screen.blank()
        self._screen.rows(shown.rows)
        self._terminal.notify(f"Bridle needs you: {question.form.title}")

    def suspend(self) -> None:
        def forget() -> None:
            self.suspended = False

        self._page.prompt(None)
        self.suspended = True
        self._terminal.suspend()
        self._page.begin_anew()
        self._clock.call_later(HINT_S, forget)

    @contextmanager
    def lend(self) -> Generator[None]:
        """Give the terminal to another program. It may have another size afterwards."""
        self._page.prompt(None)
        self.lent = True
        try:
            with self._terminal.lent():
                yield
        finally:
            self.lent = False
            self.resize()

    def resize(self) -> None:
        """Draw for the size that the terminal has now."""
        self._screen.resize(self._terminal.columns)
        self._page.resized()

    def resume(self) -> None:
        """Take the terminal again after a stop. After a stop of this client everything is drawn already."""
        self._terminal.resume()
        if not self.suspended:
            self._page.begin_anew()
        self.suspended = False


async def pick(
    picker: Picker, terminal: Terminal, clock: Clock | None = None, *, do: ChangeSession | None = None
) -> str | None:
    """The id of the session a person chose, or None if they left. A fork of one is chosen by making it.

    Where nobody can choose, the list is printed and the answer is None, at once. Where nothing can be redrawn, it is
    printed again after each change.
    """
    clock = clock or SystemClock()
    page = Page.of(terminal)
    if not terminal.interactive:
        page.lines([[Ink(line)] for line in picker_lines(picker, columns=terminal.columns)])
        return None
    pressed: asyncio.Queue[list[Key] | None] = asyncio.Queue()
    warning: Timer | None = None

    def draw() -> None:
        page.prompt(picker_prompt(picker, columns=terminal.columns, rows=terminal.rows))

    def forget_warning() -> None:
        nonlocal picker
        picker = unwarned(picker)
        draw()

    async def chosen_with(keys: list[Key]) -> Picked | Gone | None:
        """What keys come to, one after the other: what one of them does is done before the next counts."""
        nonlocal picker
        for key in keys:
            picker, choice = press(picker, key)
            match choice:
                case Picked() | Gone():
                    return choice
                case Deed() as deed if do is not None:
                    try:
                        sessions = await do(deed)
                    except BridleError as failure:
                        picker = relisted(picker, picker.sessions, failure.message)
                        continue
                    picker = relisted(picker, sessions)
                    if deed.what == "fork":
                        return Picked(sessions[0].id)
                case _:
                    pass
        return None

    with terminal.raw(), terminal.listening(pressed.put_nowait, lambda: pressed.put_nowait(None)):
        draw()
        try:
            while (keys := await pressed.get()) is not None:
                choice = await chosen_with(keys)
                if warning is not None:
                    warning.cancel()
                if choice is not None:
                    return choice.id if isinstance(choice, Picked) else None
                if picker.warned:
                    warning = clock.call_later(HINT_S, forget_warning)
                draw()
            return None
        finally:
            if warning is not None:
                warning.cancel()
            page.leave()


def picker_prompt(picker: Picker, *, columns: int, rows: int) -> Prompt:
    """The list above the line that filters it."""
    lines = tuple(picker_lines(picker, columns=max(columns - 1, 0), rows=rows))
    return Prompt(lead=MARK, cells=tuple(picker.filter), at=len(picker.filter), hints=lines)
