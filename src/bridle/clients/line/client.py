"""Talking with a session at a terminal: the terminal in front of the controller that every client drives."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final, assert_never

import msgspec

from bridle.base.text.terminal_text import visible_line
from bridle.clients.engine_address import LOST
from bridle.clients.interaction.composer.composer import composer_with, typed
from bridle.clients.interaction.composer.picker import (
    ChoiceList,
    Listed,
    list_lines,
    plain_rows,
    session_lines,
)
from bridle.clients.interaction.effects import (
    ClientEffect,
    ClientServices,
    CloseQuestion,
    CopyText,
    Echo,
    EditMessage,
    EngineLost,
    EnterSession,
    LendTerminal,
    OpenDiff,
    OpenText,
    PickRow,
    PickSession,
    PutQuestion,
    RememberPrompt,
    SayWords,
    SessionReady,
    ShowEvent,
    ShowSessions,
    ThoughtOver,
    TurnOver,
    Waiting,
    WaitOver,
    WriteDraft,
)
from bridle.clients.interaction.questions.question_card import Decided, Edit, Question
from bridle.clients.interaction.render.call_text import last_lines
from bridle.clients.interaction.render.start_info import StartInfo, start_hint
from bridle.clients.interaction.session.controller import MARK
from bridle.clients.interaction.session.key_router import KeyRouter
from bridle.clients.interaction.session.keyboard import Keyboard
from bridle.clients.interaction.session.session_driver import SessionDriver
from bridle.clients.interaction.session.status_line import StatusLine, span_words
from bridle.clients.line.live_terminal import Footer, LiveTerminal, picker_prompt
from bridle.clients.line.page import Page, Prompt
from bridle.clients.line.screen import Screen
from bridle.clients.line.terminal import DEFAULT_ROWS, Terminal
from bridle.protocol import events as e
from bridle.protocol.commands import Accepted, CreateSession
from bridle.protocol.connection import Connection

LONG_TURN_S: Final = 20.0
"""Whoever waits longer than this for an answer has likely gone to look at something else."""


async def talk(
    connection: Connection,
    create: CreateSession,
    terminal: Terminal,
    *,
    services: ClientServices,
    start: StartInfo | None = None,
    first_prompt: str | None = None,
    opened: Accepted | None = None,
) -> int:
    """Opens the session and stays with the person until they leave; returns the exit code.

    Where it was `opened` before, `create` is for the sessions that the person begins from there.

    The terminal is as it was found when this returns or raises. Raises `BridleError` when the session cannot be
    opened. Neither the connection nor the session is closed here: whoever opened them does that.
    """
    opened = opened or await connection.send(create)
    client = LineClient(connection, create, terminal, services, start or StartInfo())
    with terminal.raw():
        return await client.run(opened, first_prompt)


class LineClient:
    """One person's terminal on one connection: performs what the controller wants to be seen."""

    def __init__(
        self,
        connection: Connection,
        create: CreateSession,
        terminal: Terminal,
        services: ClientServices,
        start: StartInfo,
    ) -> None:
        self._terminal = terminal
        if not terminal.interactive:
            services = msgspec.structs.replace(services, edit=None, page=None, run_verb=None)
        elif terminal.look.reader:
            services = msgspec.structs.replace(services, page=None)
        self._services = services
        self._start = start
        self._page = Page.of(terminal)
        self._router = KeyRouter(
            composer_with(services.history),
            lines_only=not terminal.interactive,
            picture=services.picture,
        )
        self._driver = SessionDriver(connection, create, services, perform=self._perform, settle=self._settle)
        self._screen = Screen(
            self._page,
            self._driver.view,
            self._driver.info,
            look=terminal.look,
            columns=terminal.columns,
            reader=services.claims.name if services.claims else "",
        )
        self._status = StatusLine(services.clock, stops=services.covers("CancelTurn"))
        self._footer = Footer(
            self._page,
            self._router,
            look=terminal.look,
            clock=services.clock,
            interactive=terminal.interactive,
            say=self._screen.say,
            active=lambda: self._driver.view.under_way or self._status.is_out_of_reach,
            status=self._status_rows,
            beside=lambda: bool(self._driver.view.beside),
            mode=lambda: self._driver.view.mode,
            instead=self._list_prompt,
        )
        self._live = LiveTerminal(
            terminal, self._page, self._screen, self._footer, self._router, services.clock
        )
        self._keyboard = Keyboard(self._live, self._router, services, self._driver)
        self._first_prompt: str | None = None
        self._begun = False
        self._input_over = False

    async def run(self, opened: Accepted, first_prompt: str | None) -> int:
        self._first_prompt = first_prompt
        with self._terminal.listening(self._keyboard.take, self._on_input_over), self._signals():
            code = await self._driver.run(opened)
        self._footer.close()
        if words := await self._driver.way_back():
            self._screen.say(words)
        return code

    # Performing

    def _perform(self, effect: ClientEffect) -> None:
        match effect:
            case ShowEvent(envelope=envelope):
                self._show(envelope)
            case SayWords(text=text, indent=indent, own=own):
                self._screen.say(text, indent=indent, style="own" if own else "plain")
            case Echo(shown=shown):
                self._page.keep_prompt(self._footer.draft_lead, shown, self._screen.own_code)
            case RememberPrompt(send=send):
                self._router.remember(send.cells)
                self._services.save_prompt(send.text)
            case PutQuestion(question=question, position=position):
                self._ask(question, position)
            case EditMessage(question=question, edit=edit):
                self._edit_message(question, edit)
            case CloseQuestion(why=why):
                self._router.close()
                if why:
                    self._screen.say(why)
            case Waiting(envelope=envelope, seconds=seconds):
                self._wait(envelope, seconds)
            case WaitOver(envelope=envelope):
                self._stop_waiting(envelope)
            case ThoughtOver(seconds=seconds):
                self._screen.say(f"thought {span_words(seconds)}", style="faint")
            case SessionReady(back=back, past=past):
                self._begin(back, past)
            case EnterSession():
                self._screen.enter(self._driver.view)
            case ShowSessions(sessions=sessions):
                for line in session_lines(sessions, columns=self._terminal.columns):
                    self._screen.say(line)
            case PickSession(sessions=sessions):
                self._pick(sessions)
            case PickRow(choices=choices, ready=ready):
                self._pick_row(choices, ready=ready)
            case WriteDraft(text=text):
                self._keyboard.write_draft(text)
            case LendTerminal(words=words, after=after):
                if not self._keyboard.run_verb(words, after):
                    self._screen.say(f"In a shell: bridle {visible_line(' '.join(words))}")
            case TurnOver(seconds=seconds, title=title):
                if seconds >= LONG_TURN_S:
                    self._terminal.notify(f"Bridle is done: {title}")
            case OpenText(text=text):
                self._open(text)
            case OpenDiff():
                if not self._keyboard.open_in_pager(self._screen.diff_text(effect)):
                    self._screen.diff(effect)
            case CopyText(text=text):
                self._copy(text)
            case EngineLost(gives_up_s=gives_up_s):
                self._lose_engine(gives_up_s)
            case _:
                assert_never(effect)

    def _settle(self) -> None:
        self._footer.draw()
        self._leave_if_over()

    def _show(self, envelope: e.Envelope) -> None:
        self._screen.show(envelope)
        match envelope.event if e.concerns(envelope) else None:
            case e.TurnStarted():
                self._footer.working()
            case e.TurnEnded():
                self._footer.rested()
                if self._keyboard.leaving:
                    self._driver.leave(0)
            case _:
                pass

    def _begin(self, back: str, past: Sequence[e.Envelope]) -> None:
        """The past is read: say where we are, then let the person write."""
        first = not self._begun
        if first:
            self._screen.start(self._start, self._driver.controller.folder)
        if back:
            self._screen.say(back)
            self._screen.past(past, self._terminal.rows or DEFAULT_ROWS)
            self._screen.blank()
        if not first:  # another session on the same page
            return
        self._screen.say(start_hint(self._services.covers), indent="  ")
        if self._first_prompt is not None:
            self._driver.handle(typed(self._first_prompt))
        self._begun = True
        self._keyboard.begin()

    def _ask(self, question: Question, position: str) -> None:
        """Draws a question. What was typed until now is taken first: it was not meant for it."""
        self._keyboard.take_waiting()
        self._live.ask(question, position)

    def _edit_message(self, question: Question, edit: Edit) -> None:
        """What the person makes of it answers the question; where they make nothing of it, it is asked again."""

        def edited(changed: str | None) -> None:
            if changed is None or not changed.strip():
                self._ask(question, "")
            else:
                self._driver.handle(Decided(question=question, answer=edit.answer(changed)))

        if not self._keyboard.edit_text(edit.text, edited):
            self._screen.say(
                "No editor can be opened here. Write the message behind the command: /commit MESSAGE"
            )
            self._ask(question, "")

    def _wait(self, envelope: e.Envelope, seconds: float) -> None:
        """Counts down in place to the next attempt, or says once that it waits."""
        failed = envelope.event
        if self._footer.counts and isinstance(failed, e.StepFailed):
            self._footer.count_down(seconds, lambda left_s: self._screen.waiting(failed, left_s))
        else:
            self._screen.show(envelope)

    def _stop_waiting(self, envelope: e.Envelope) -> None:
        """What is said of the failed attempt stays when the wait is over."""
        if self._footer.counts:
            self._footer.counted()
            self._screen.show(envelope)

    def _lose_engine(self, gives_up_s: float | None) -> None:
        """Shown for as long as it lasts; where a line stays for good, both ends of it are said."""
        was_lost = self._status.is_out_of_reach
        self._status.engine_lost(gives_up_s)
        if not self._footer.counts and was_lost != self._status.is_out_of_reach:
            self._screen.say(f"{LOST}." if self._status.is_out_of_reach else "engine found again.")

    def _pick(self, sessions: tuple[Listed, ...] | None) -> None:
        if sessions and not self._terminal.interactive:
            self._screen.say("Which one? /resume ID")
            sessions = ()
        self._keyboard.pick(sessions)

    def _pick_row(self, choices: ChoiceList | None, *, ready: bool) -> None:
        if choices is not None and (not self._terminal.interactive or self._terminal.look.reader):
            for line in plain_rows(choices, columns=self._terminal.columns):
                self._screen.say(line)
            if choices.below:
                self._screen.say(choices.below)
            choices = None
        self._keyboard.pick_row(choices, ready=ready)

    def _status_rows(self) -> list[str]:
        """The last lines of a command that runs, and what is under way."""
        view = self._driver.view
        words = self._status.words(view, self._terminal.columns - 1)
        printed = [] if self._status.is_out_of_reach else last_lines(view.activity.printed)
        return [*printed, *([words] if words else [])]

    def _list_prompt(self) -> Prompt | None:
        """The list that is open to choose from, above the line that filters it."""
        columns, rows = self._terminal.columns, self._terminal.rows
        if (choices := self._keyboard.choices) is not None:
            lines = tuple(list_lines(choices, columns=max(columns - 1, 0), rows=rows))
            return Prompt(lead=MARK, cells=tuple(choices.filter), at=len(choices.filter), hints=lines)
        picker = self._keyboard.picker
        return None if picker is None else picker_prompt(picker, columns=columns, rows=rows)

    def _open(self, text: str) -> None:
        """A text in the person's pager, or on the page where there is none."""
        if not self._keyboard.open_in_pager(self._screen.terminal_text(text)):
            self._screen.output(text, whole=True)

    def _copy(self, text: str) -> None:
        if self._terminal.copy(text):
            self._screen.say(
                f"The last answer ({len(text)} characters) was given to the terminal for the clipboard "
                "(OSC 52). If it is not there, this terminal does not allow it: /export writes a file."
            )
        else:
            self._screen.say("The last answer cannot go through this terminal. /export writes a file.")

    # The terminal

    @contextmanager
    def _signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        wanted: dict[int, Callable[[], None]] = {
            signal.SIGTERM: lambda: self._driver.leave(143),
            signal.SIGHUP: lambda: self._driver.leave(129),
            signal.SIGINT: self._interrupted_from_outside,
            signal.SIGWINCH: self._live.resize,
            signal.SIGCONT: self._live.resume,
        }
        for number, action in wanted.items():
            loop.add_signal_handler(number, action)
        try:
            yield
        finally:
            for number in wanted:
                loop.remove_signal_handler(number)

    def _interrupted_from_outside(self) -> None:
        """A SIGINT: Ctrl-C is a key here, unless another program has the terminal. Then it was meant for that."""
        if not self._live.lent:
            self._keyboard.interrupt()
            self._footer.draw()

    def _on_input_over(self) -> None:
        """No more keys can come: nobody is left to answer, and the last turn is the end."""
        self._input_over = True
        if self._terminal.interactive:
            self._driver.leave(129)
        else:
            self._driver.nobody_is_left()
            self._leave_if_over()

    def _leave_if_over(self) -> None:
        if self._input_over and self._begun and self._driver.idle:
            self._driver.leave(0)
