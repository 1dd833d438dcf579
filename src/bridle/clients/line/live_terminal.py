"""The terminal while it has the keyboard: questions, hints, suspending, and lending it to another program."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from bridle.base.clock import Clock
from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.composer.keys import Key
from bridle.clients.interaction.questions.question_card import Hint, Question, Show
from bridle.clients.interaction.session.key_router import KeyRouter
from bridle.clients.line.footer import HINT_S, Footer
from bridle.clients.line.page import Page
from bridle.clients.line.screen import Screen
from bridle.clients.line.terminal import Terminal


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
