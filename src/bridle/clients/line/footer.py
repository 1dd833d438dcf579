"""The rows below the output: hints, and the line that has the keyboard."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from bridle.base.clock import Clock, Timer
from bridle.clients.interaction.composer.composer import search_words
from bridle.clients.interaction.session.controller import MARK
from bridle.clients.interaction.session.key_router import KeyRouter
from bridle.clients.interaction.session.keyboard import LEAVE_S
from bridle.clients.interaction.session.status_line import REFRESH_S
from bridle.clients.line.page import FAINT, Ink, Page, Prompt
from bridle.clients.line.terminal import Look

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
        self._hint_timer: Timer | None = None
        self._quiet_timer: Timer | None = None
        self._working_timer: Timer | None = None
        self._countdown = ""
        self._countdown_timer: Timer | None = None
        self._status: Sequence[str] = ()
        self._status_s = float("-inf")
        self._status_timer: Timer | None = None
        self._closed = not interactive

    @property
    def answer_lead(self) -> str:
        return "Answer: " if self._look.reader else MARK

    @property
    def draft_lead(self) -> str:
        return MARK if self._mode() == "default" else f"{self._mode()} {MARK}"

    def hint(self, text: str, *, lasting: bool = False) -> None:
        """A hint above the prompt; it goes with its two seconds, or is a line where nothing can be redrawn."""
        if self._hint_timer is not None:
            self._hint_timer.cancel()
            self._hint_timer = None
        if not self._look.moves:
            if text:
                self._say(text)
            return
        self._hint = text
        if text and not lasting:
            self._hint_timer = self._clock.call_later(HINT_S, self._hint_is_over)

    @property
    def counts(self) -> bool:
        """Whether a line can change in place here."""
        return self._look.moves and not self._closed

    def count_down(self, seconds: float, words: Callable[[float], str]) -> None:
        """A line above the prompt that says every second how long it still is, until `counted`."""
        self._countdown = words(math.ceil(seconds))
        if seconds > 1:
            self._countdown_timer = self._clock.call_later(1, lambda: self.count_down(seconds - 1, words))
        self.draw()

    def counted(self) -> None:
        """The wait is over."""
        self._countdown = ""
        if self._countdown_timer is not None:
            self._countdown_timer.cancel()
            self._countdown_timer = None

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

        self._working_timer = self._clock.call_later(STILL_WORKING_S, say)

    def rested(self) -> None:
        """The turn has ended."""
        if self._working_timer is not None:
            self._working_timer.cancel()
            self._working_timer = None

    def close(self) -> None:
        """Takes everything away; nothing is drawn any more."""
        self._closed = True
        for timer in (
            self._hint_timer,
            self._quiet_timer,
            self._working_timer,
            self._countdown_timer,
            self._status_timer,
        ):
            if timer is not None:
                timer.cancel()
        self._page.leave()

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
        if self._status_timer is None:
            self._status_timer = self._clock.call_later(
                self._status_s + REFRESH_S - now_s, self._status_is_due
            )
        if self._countdown or self._hint:
            return ()
        return tuple(Ink(row, FAINT) for row in self._status)

    def _status_is_due(self) -> None:
        self._status_timer = None
        self.draw()

    def _hint_is_over(self) -> None:
        self._hint = ""
        self.draw()

    def _let_the_question_wait(self) -> None:
        """A question gets the keyboard when it has been quiet long enough."""
        if self._quiet_timer is not None:
            self._quiet_timer.cancel()
            self._quiet_timer = None
        left_s = self._router.settle(self._clock.monotonic())
        if left_s is not None:
            self._quiet_timer = self._clock.call_later(left_s, self.draw)

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
