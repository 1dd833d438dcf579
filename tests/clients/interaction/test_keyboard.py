"""The keys of every client, on a screen that only remembers: what each one means in which state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

from bridle.clients.interaction.composer.composer import composer_with, shown
from bridle.clients.interaction.composer.keys import Key, Press, Text
from bridle.clients.interaction.composer.picker import ChoiceList, ChoiceRow
from bridle.clients.interaction.effects import ClientServices
from bridle.clients.interaction.questions.question_card import Hint, Show
from bridle.clients.interaction.session.key_router import KeyRouter
from bridle.clients.interaction.session.keyboard import LEAVE_S, Keyboard
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.protocol import events as e
from bridle.protocol.commands import CreateSession
from bridle.providers.script import say
from clients.interaction.headless_kit import Headless, headless


class Paper:
    """A screen without a terminal."""

    columns = 80

    def __init__(self) -> None:
        self.hints: list[str] = []
        self.printed: list[Show | Hint] = []

    def hint(self, text: str, *, lasting: bool = False) -> None:
        self.hints.append(text)

    def show(self, more: Show | Hint) -> None:
        self.printed.append(more)

    def draw(self) -> None: ...
    def redraw(self) -> None: ...
    def suspend(self) -> None: ...
    def keep_answer(self, line: str) -> None: ...

    def lend(self) -> nullcontext[None]:
        return nullcontext()

    def read_keys(self) -> list[Key]:
        return []


class Desk:
    """A keyboard, its screen and its client."""

    def __init__(self, client: Headless) -> None:
        self.client, self.screen, self.clock = client, Paper(), FakeClock()
        self.router = KeyRouter(composer_with())
        self.keyboard = Keyboard(self.screen, self.router, ClientServices(clock=self.clock), client.driver)
        self.keyboard.begin()

    def presses(self, *keys: str) -> None:
        """Named keys, or text where no key has that name."""
        named = ("enter", "esc", "tab", "ctrl-c", "ctrl-d")
        self.keyboard.take([Press(key) if key in named else Text(key) for key in keys])

    @property
    def draft(self) -> str:
        return shown(self.router.composer.cells)


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    model = scripted(say("Hi."))
    async with harness(model, sandbox="off", answers=True) as session:
        create = CreateSession(cwd=session.folder, env={}, model=f"{model.name}:scripted")
        async with headless(session.connection, create) as client:
            yield Desk(client)


async def test_enter_sends_the_draft_and_tab_completes_a_command() -> None:
    async with desk() as one:
        one.presses("/stat", "tab")
        assert one.draft == "/status "
        one.presses("ctrl-c", "hello", "enter")
        assert (await one.client.shows(e.TurnEnded)).stop == "end_turn"
        assert one.draft == ""


async def test_one_ctrl_c_clears_the_draft_and_two_within_two_seconds_leave() -> None:
    async with desk() as one:
        one.presses("half a sentence", "ctrl-c")
        assert one.draft == ""
        assert one.screen.hints[-1].startswith("Draft cleared")
        await one.clock.advance(LEAVE_S + 0.1)
        one.presses("ctrl-c")
        assert not one.client.driver.leaving
        one.presses("ctrl-c")
        assert one.client.driver.leaving


async def test_keys_typed_before_a_list_is_there_are_for_the_list() -> None:
    rows = tuple(ChoiceRow(name, name) for name in ("demo:story", "work:large"))
    choices = ChoiceList(purpose="model", title="Models", rows=rows, enter="Enter takes it")
    async with desk() as one:
        one.keyboard.pick_row(None, ready=False)
        one.presses("lar")
        one.keyboard.pick_row(choices, ready=True)
        assert one.keyboard.choices is not None
        assert (one.keyboard.choices.filter, one.draft) == ("lar", "")
        one.presses("ctrl-c")
        assert one.keyboard.choices is None
        assert one.screen.hints[-1] == "Ctrl-C again to leave"
