"""Keyboard policy of an interactive client: what a key means in each state.

A client gives the keys and a screen. Lists, completion, stopping, leaving and the draft are decided here, so that every
client has the same keys.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol

from bridle.base.clock import Clock
from bridle.base.text.terminal_text import visible_line
from bridle.clients.interaction.commands.slash_table import SLASH
from bridle.clients.interaction.composer import picker as picking
from bridle.clients.interaction.composer.composer import (
    Send,
    Wish,
    WishName,
    cleared,
    rewritten,
    text_of,
    with_pictures,
)
from bridle.clients.interaction.composer.keys import Key, Press, Text
from bridle.clients.interaction.composer.picker import (
    ChoiceList,
    Chosen,
    Deed,
    Gone,
    Listed,
    Picked,
    Picker,
    press_in_list,
)
from bridle.clients.interaction.composer.word_completion import completed, options_words
from bridle.clients.interaction.effects import (
    ChooseRow,
    ChooseSession,
    ClientServices,
    NextMode,
    RunCommand,
    StopTurn,
)
from bridle.clients.interaction.questions.question_card import Decided, Hint, Show
from bridle.clients.interaction.session.key_router import KeyMeaning, KeyRouter
from bridle.clients.interaction.session.session_driver import SessionDriver
from bridle.protocol.commands import CancelTurn
from bridle.protocol.errors import BridleError

LEAVE_S: Final = 2.0
"""A second Ctrl-C within this time leaves."""

_ESCAPE: Final = "Esc again to stop"
_STOPS: Final = "Stopping…"
_AGAIN: Final = "Ctrl-C again to leave"
_STOPPING: Final = "Stopping… Ctrl-C again within 2 s to leave"
_CLEARED: Final = "Draft cleared, Up brings it back. Ctrl-C again within 2 s to leave"
_LEAVING: Final = "A turn is running.  s stop it and leave · Esc stay"
_LEAVING_OR_NOT: Final = "A turn is running.  l leave it running · s stop it and leave · Esc stay"


class KeyboardScreen(Protocol):
    """The screen that the keys belong to."""

    @property
    def columns(self) -> int: ...

    def draw(self) -> None:
        """Draw the line that has the keyboard, or the open list."""
        ...

    def hint(self, text: str, *, lasting: bool = False) -> None:
        """Show a hint above the draft; an empty one takes it away."""
        ...

    def show(self, more: Show | Hint) -> None:
        """Print more of a question, or a sentence."""
        ...

    def keep_answer(self, line: str) -> None:
        """Make the typed answer part of the page."""
        ...

    def redraw(self) -> None: ...

    def suspend(self) -> None:
        """Stop this job until the user continues it."""
        ...

    def lend(self) -> AbstractContextManager[None]:
        """Give the screen and the keys to another program."""
        ...

    def read_keys(self) -> list[Key]:
        """Return the keys that have arrived and were not given to the keyboard."""
        ...


class Keyboard:
    """Turns keys into intents. Keys wait until the user may write (`begin`), and for a list that is on its way.

    `picker` and `choices` are the open list, which the screen draws in the place of the draft.
    """

    def __init__(
        self, screen: KeyboardScreen, router: KeyRouter, services: ClientServices, driver: SessionDriver
    ) -> None:
        self._screen = screen
        self._router = router
        self._services = services
        self._driver = driver
        self._clock: Clock = services.clock
        self._keys: deque[Key] = deque()
        self._begun = False
        self._held = False
        self.picker: Picker | None = None
        self.choices: ChoiceList | None = None
        self._escaped_s = float("-inf")
        self._interrupted_s = float("-inf")
        self._offered = False  # choices of Tab stand above the prompt
        self.leaving = False  # when the turn ends

    def take(self, keys: list[Key]) -> None:
        self._keys += keys
        if self._begun:
            self._handle_keys()
            self._screen.draw()
        elif Press("ctrl-c") in keys:
            self.interrupt()

    def take_waiting(self) -> None:
        """Everything typed until now, read or not: it was typed before what comes next was on the screen."""
        self._keys += self._screen.read_keys()
        self._handle_keys()

    def begin(self) -> None:
        self._begun = True
        self.take([])

    def interrupt(self, *, stops: bool = True) -> None:
        """Ctrl-C: once stops or clears, twice within two seconds leaves. Without `stops` the turn is told already."""
        now_s = self._clock.monotonic()
        if now_s - self._interrupted_s <= LEAVE_S:
            self._driver.leave(0)
            return
        self._interrupted_s = now_s
        if self._driver.view.under_way and not self._driver.controller.uncovered(CancelTurn):
            if stops:
                self._driver.handle(StopTurn())
            self._screen.hint(_STOPPING)
        elif not self._router.composer.empty:
            self._router.composer = cleared(self._router.composer)
            self._screen.hint(_CLEARED)
        else:
            self._screen.hint(_AGAIN)

    def _escape(self) -> None:
        """Esc: once says what a second one does, the second within two seconds stops what runs. The draft stays."""
        if not self._driver.view.under_way:
            return
        if words := self._driver.controller.uncovered(CancelTurn):
            self._screen.hint(words)
            return
        now_s = self._clock.monotonic()
        if now_s - self._escaped_s <= LEAVE_S:
            self._escaped_s = float("-inf")
            self._driver.handle(StopTurn())
            self._screen.hint(_STOPS)
        else:
            self._escaped_s = now_s
            self._screen.hint(_ESCAPE)

    def pick_row(self, choices: ChoiceList | None, *, ready: bool) -> None:
        """Opens a list to choose from. What is typed until it is there is for the list."""
        self._held = not ready
        self.choices = choices
        if ready:
            self.take([])

    def write_draft(self, text: str) -> None:
        """A text to go on with; what was being written comes back with Up."""
        self._router.composer = rewritten(cleared(self._router.composer), text)

    def pick(self, sessions: tuple[Listed, ...] | None) -> None:
        """Opens the list of sessions. What is typed until it is there is for the list."""
        self._held = sessions is None
        if sessions:
            self.picker = Picker(sessions=sessions, folder=self._driver.controller.folder)
        if sessions is not None:
            self.take([])

    def _handle_keys(self) -> None:
        while self._keys and not self._held and not self._driver.leaving:
            key = self._keys.popleft()
            if self._leaving_asked(key) or self._picked(key) or self._chose_row(key):
                continue
            self._forget_options()
            card = self._router.card
            answer_line = card.line if card is not None and self._router.focus == "question" else ""
            columns = self._screen.columns
            had = self._router.composer.pictures
            for meaning in self._router.press((key,), now_s=self._clock.monotonic(), columns=columns):
                self._act(meaning, answer_line)
            if self._router.composer.pictures > had:
                self._tell_of_pictures()

    def _act(self, meaning: KeyMeaning, answer_line: str) -> None:
        match meaning:
            case Send():
                self._driver.handle(meaning)
            case Wish(what=what):
                self._grant(what)
            case Show() | Hint():
                self._screen.show(meaning)
            case Decided(stop=stop):
                if not stop:
                    self._screen.keep_answer(answer_line)
                self._driver.handle(meaning)
                if stop:
                    self.interrupt(stops=False)

    def _grant(self, what: WishName) -> None:
        match what:
            case "interrupt":
                self.interrupt()
            case "leave":
                self._leave_politely()
            case "suspend":
                self._screen.suspend()
            case "redraw":
                self._screen.redraw()
            case "edit":
                self._edit()
            case "complete":
                self._complete()
            case "mode":
                self._driver.handle(NextMode())
            case "thinking":
                self._driver.handle(RunCommand("thinking"))
            case "escape":
                self._escape()
            case "paste_image":
                self._paste_image()

    def _leave_politely(self) -> None:
        """Ctrl-D: leaves at once where nothing runs, or what runs is not this person's to stop."""
        if not self._driver.view.running or self._driver.controller.uncovered(CancelTurn):
            self._driver.leave(0)
        else:
            self.leaving = True
            self._screen.hint(_LEAVING_OR_NOT if self._services.come_back else _LEAVING, lasting=True)

    def _leaving_asked(self, key: Key) -> bool:
        """The key after Ctrl-D during a turn; True if it was the answer."""
        if not self.leaving:
            return False
        if key == Text("s"):
            self._driver.handle(StopTurn())
            self._screen.hint("Stopping…", lasting=True)
            return True
        self.leaving = False
        self._screen.hint("")
        if key == Text("l") and self._services.come_back:
            self._driver.leave(0)
            return True
        return key == Press("esc")

    def _complete(self) -> None:
        """Tab: puts in what is certain and shows the choices that are left."""
        info = self._driver.info
        found = completed(
            self._router.composer,
            names=SLASH.completed_names(info),
            choices=lambda name, at: SLASH.choices_for(name, at, info),
            paths=self._services.paths,
        )
        self._router.composer = found.composer
        if found.options:
            self._offered = True
            self._screen.hint(options_words([visible_line(option) for option in found.options]), lasting=True)

    def _forget_options(self) -> None:
        if self._offered:
            self._offered = False
            self._screen.hint("")

    def _edit(self) -> None:
        """Ctrl-G: the draft goes through the person's own editor."""

        def edited(changed: str | None) -> None:
            if changed is not None:
                self._router.composer = rewritten(self._router.composer, changed)

        if not self.edit_text(text_of(self._router.composer.cells), edited):
            self._screen.hint("No editor can be opened here.")

    def edit_text(self, text: str, edited: Callable[[str | None], None]) -> bool:
        """Lets the person change a text in their own editor; `edited` gets it, None where they did not. False where no
        editor can be opened."""
        edit = self._services.edit
        if edit is None:
            return False

        async def work() -> None:
            changed: str | None = None
            try:
                with self._lend():
                    changed = await edit(text)
            finally:
                edited(changed)

        self._driver.do_in_order(work)
        return True

    def _paste_image(self) -> None:
        """Ctrl-V: an image from the person's clipboard, where one can be read."""
        read = self._services.clipboard_picture
        if read is None:
            self._screen.hint("No clipboard can be read here.")
            return

        async def work() -> None:
            try:
                picture = await read()
            except BridleError as problem:
                self._screen.show(Hint(problem.message))
                return
            self._router.composer = with_pictures(self._router.composer, (picture,))
            self._tell_of_pictures()

        self._driver.do_in_order(work)

    def _tell_of_pictures(self) -> None:
        """Who shows a model an image that it does not take is told so before it is sent."""
        if words := self._driver.controller.picture_words():
            self._screen.hint(words, lasting=True)

    def open_in_pager(self, text: str) -> bool:
        """Shows a text in the person's own pager; False where none can be opened."""
        page = self._services.page
        if page is None:
            return False

        async def work() -> None:
            with self._lend():
                await page(text)

        self._driver.do_in_order(work)
        return True

    def run_verb(self, words: tuple[str, ...], after: str) -> bool:
        """Lets a verb of the program have the terminal; False where that cannot be."""
        run = self._services.run_verb
        if run is None:
            return False

        async def work() -> None:
            with self._lend():
                await run(words)
            if after:
                self._screen.show(Hint(after))

        self._driver.do_in_order(work)
        return True

    @contextmanager
    def _lend(self) -> Generator[None]:
        """Lend the screen. A question that comes meanwhile has not been seen."""
        try:
            with self._screen.lend():
                yield
        finally:
            self._router.come_back(self._clock.monotonic())

    def _chose_row(self, key: Key) -> bool:
        """A key while a list is open to choose from; True if it was for the list."""
        if self.choices is None:
            return False
        if key == Press("ctrl-c"):
            self.choices = None
            self.interrupt()
            return True
        purpose = self.choices.purpose
        self.choices, choice = press_in_list(self.choices, key)
        if choice is not None:
            self.choices = None
        if isinstance(choice, Chosen):
            self._driver.handle(ChooseRow(purpose, choice.id))
        return True

    def _picked(self, key: Key) -> bool:
        """A key while the list of sessions is open; True if it was for the list."""
        if self.picker is None:
            return False
        if key == Press("ctrl-c"):  # as everywhere: once goes back, twice leaves
            self.picker = None
            self.interrupt()
            return True
        self.picker, choice = picking.press(self.picker, key)
        match choice:
            case Picked(id=session):
                self.picker = None
                self._driver.handle(ChooseSession(session))
            case Gone():
                self.picker = None
            case Deed() | None:  # inside a session nothing is changed from the list
                pass
        return True
