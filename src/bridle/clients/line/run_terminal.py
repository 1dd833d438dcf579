"""A run that a person looks at: its answer as rendered Markdown, and its questions put to them in the meantime.

Between questions the terminal is as it was found, so Ctrl-C, Ctrl-Z and what is typed ahead are the shell's affair.
What is typed before a question has the keyboard is no answer and no draft: a run has none.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from bridle.base.clock import Clock
from bridle.clients.interaction.composer.composer import Wish, composer_with
from bridle.clients.interaction.composer.keys import Key
from bridle.clients.interaction.effects import (
    CloseQuestion,
    EditMessage,
    Effect,
    PutQuestion,
    SayWords,
)
from bridle.clients.interaction.engine_info import EngineInfo
from bridle.clients.interaction.questions.question_card import Decided, Hint, Question, Show
from bridle.clients.interaction.render.start_info import folder_words
from bridle.clients.interaction.session.controller import Controller
from bridle.clients.interaction.session.key_router import KeyRouter
from bridle.clients.interaction.session.session_driver import Outbox
from bridle.clients.interaction.view import SessionView
from bridle.clients.line.live_terminal import Footer, LiveTerminal
from bridle.clients.line.page import Page
from bridle.clients.line.screen import Screen
from bridle.clients.line.terminal import Terminal
from bridle.protocol import events as e
from bridle.protocol.commands import CancelTurn, Command
from bridle.protocol.connection import Connection
from bridle.protocol.queries import DescribeSession

_NO_EDITOR: Final = (
    "A run opens no editor. Say what to change, or write the message behind the command: '/commit MESSAGE'"
)


class RunTerminal:
    """The page a run is on. `asks`: questions are put to the person, whose own folder is `home`; `stop` hears of a
    Ctrl-C at one.
    """

    def __init__(self, terminal: Terminal, clock: Clock, *, asks: bool, home: str = "") -> None:
        self._asks = asks
        self.stop: Callable[[], None] = lambda: None
        self._terminal = terminal
        self._clock = clock
        self._home = home
        self._page = Page.of(terminal)
        self._view = SessionView("")
        self._controller = Controller(self._view, "")
        self._screen = Screen(
            self._page, self._view, EngineInfo(), look=terminal.look, columns=terminal.columns
        )
        self._router = KeyRouter(composer_with())
        self._footer = Footer(
            self._page,
            self._router,
            look=terminal.look,
            clock=clock,
            interactive=terminal.interactive,
            say=self._screen.say,
            active=lambda: False,
            status=lambda: (),
        )
        self._live = LiveTerminal(terminal, self._page, self._screen, self._footer, self._router, clock)
        self._outbox: Outbox | None = None
        self._sending: asyncio.Task[None] | None = None
        self._keyboard = ExitStack()
        self._has_keyboard = False
        self._text_is_open = False

    # What a run says

    @property
    def is_open(self) -> bool:
        """Whether a question or an unfinished line of the answer is on the page."""
        return self._has_keyboard or self._text_is_open

    def say(self, line: str) -> None:
        self._screen.say(line)

    def stream(self, text: str) -> None:
        self._text_is_open = True
        self._screen.stream(text)

    def end_text(self) -> None:
        self._text_is_open = False
        self._screen.end_text()

    # Questions

    async def begin(self, connection: Connection, session: str) -> None:
        """Takes the questions of a session from now on."""
        if not self._asks:
            return
        described = (await connection.ask(DescribeSession(session=session))).session
        self._view = SessionView(connection.client)
        self._controller = Controller(
            self._view, session, folder=folder_words(described.cwd, self._home), info=EngineInfo()
        )
        self._outbox = Outbox(
            connection,
            readdressed=lambda command: command,
            refused=lambda refusal, command: self._perform(self._controller.refused(refusal, command)),
            done=lambda: None,
        )
        self._sending = asyncio.create_task(self._outbox.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, self._live.resize)

    def take(self, envelope: e.Envelope) -> None:
        """One more event; only its questions are of interest."""
        if self._asks:
            self._perform(self._controller.take(envelope))

    async def end(self) -> None:
        """No more questions; the terminal is as it was found."""
        self.restore()
        if not self._asks:
            return
        self._footer.close()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGWINCH)
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    def restore(self) -> None:
        """Gives the keyboard back. Safe to call twice."""
        if self._has_keyboard:
            self._has_keyboard = False
            self._page.prompt(None)
            self._keyboard.close()

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case PutQuestion(question=question, position=position):
                    self._put(question, position)
                case EditMessage(question=question):
                    self._screen.say(_NO_EDITOR)
                    self._put(question)
                case CloseQuestion(why=why):
                    self._router.close()
                    if why:
                        self._screen.say(why)
                    self.restore()
                case SayWords(text=text, indent=indent):
                    self._screen.say(text, indent=indent)
                case Command() if self._outbox is not None:
                    self._outbox.put(effect)
                case _:  # the story of a run is told by whoever follows it
                    pass

    def _put(self, question: Question, position: str = "") -> None:
        self._take_keyboard()
        self._live.ask(question, position)
        self._footer.draw()

    def _take_keyboard(self) -> None:
        if not self._has_keyboard:
            self._has_keyboard = True
            self._keyboard.enter_context(self._terminal.raw())
            self._keyboard.enter_context(self._terminal.listening(self._take_keys, self._nobody_is_left))
        self._terminal.read_now()  # typed before the question could be seen

    def _take_keys(self, keys: list[Key]) -> None:
        for key in keys:
            card = self._router.card
            if card is None:
                break
            now_s, columns = self._clock.monotonic(), self._terminal.columns
            meanings = self._router.press((key,), now_s=now_s, columns=columns)
            self._router.composer = composer_with()
            for meaning in meanings:
                match meaning:
                    case Decided():
                        self._decide(meaning, card.line)
                    case Show() | Hint():
                        self._live.show(meaning)
                    case Wish(what="suspend"):
                        self._live.suspend()
                    case Wish(what="redraw"):
                        self._live.redraw()
                    case _:
                        pass
        if self._router.card is None:
            self.restore()
        else:
            self._footer.draw()

    def _decide(self, decided: Decided, answer_line: str) -> None:
        if not decided.stop:
            self._live.keep_answer(answer_line)
        effects = self._controller.handle(decided)
        self._perform([effect for effect in effects if not isinstance(effect, CancelTurn)])
        if decided.stop:
            self.stop()

    def _nobody_is_left(self) -> None:
        self._perform(self._controller.nobody_is_left())
