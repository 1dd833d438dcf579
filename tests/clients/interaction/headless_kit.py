"""A client without a screen: a person's intents go in, and what it was told to perform is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from bridle.clients.interaction.composer.composer import typed
from bridle.clients.interaction.effects import (
    ClientEffect,
    ClientServices,
    Intent,
    PutQuestion,
    SayWords,
    SessionReady,
    ShowEvent,
)
from bridle.clients.interaction.questions.question_card import Decided, Question, answer_card, draw_card
from bridle.clients.interaction.session.session_driver import SessionDriver
from bridle.conformance.fake_clock import FakeClock
from bridle.protocol import events as e
from bridle.protocol.commands import CreateSession
from bridle.protocol.connection import Connection

DEADLINE_S = 20
F = TypeVar("F")


class Headless:
    """`performed` is everything in order; what was waited for once is not found a second time."""

    def __init__(self, connection: Connection, create: CreateSession, **services: Any) -> None:
        self.performed: list[ClientEffect] = []
        self._seen = 0
        self._changed = asyncio.Event()
        self.driver = SessionDriver(
            connection,
            create,
            ClientServices(clock=FakeClock(), **services),
            perform=self._perform,
            settle=self._changed.set,
        )

    def _perform(self, effect: ClientEffect) -> None:
        self.performed.append(effect)
        self._changed.set()

    def wants(self, intent: Intent) -> None:
        self.driver.handle(intent)

    def writes(self, text: str, *, steer: bool = False) -> None:
        self.wants(typed(text, steer=steer))

    def answers(self, question: Question, key: str) -> None:
        """Types a line at the question's card, which is drawn whole, and confirms it where that is asked for."""
        card, _ = draw_card(question, columns=0, rows=0)
        card, outcome = answer_card(card, key, columns=0)
        if card.confirming is not None:
            _, outcome = answer_card(card, "all", columns=0)
        assert isinstance(outcome, Decided), outcome
        self.wants(outcome)

    async def gets(self, kind: type[F], wanted: Callable[[F], bool] = lambda _: True) -> F:
        """Waits for the next effect of a kind, and passes over all before it."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                for at, effect in enumerate(self.performed[self._seen :], self._seen + 1):
                    if isinstance(effect, kind) and wanted(effect):
                        self._seen = at
                        return effect
                self._changed.clear()
                await self._changed.wait()

    async def shows(self, kind: type[e.AnyEvent]) -> Any:
        shown = await self.gets(ShowEvent, lambda effect: isinstance(effect.envelope.event, kind))
        return shown.envelope.event

    async def reads(self, words: str) -> str:
        return (await self.gets(SayWords, lambda said: words in said.text)).text

    async def question(self) -> Question:
        return (await self.gets(PutQuestion)).question

    @property
    def events(self) -> list[e.AnyEvent]:
        return [effect.envelope.event for effect in self.performed if isinstance(effect, ShowEvent)]


@asynccontextmanager
async def headless(connection: Connection, create: CreateSession, **services: Any) -> AsyncIterator[Headless]:
    """A client whose session is ready. Leaves without a word where the test did not."""
    client = Headless(connection, create, **services)
    task = asyncio.create_task(client.driver.run(await connection.send(create)))
    try:
        await client.gets(SessionReady)
        yield client
        client.driver.leave(0)
        await asyncio.wait_for(task, DEADLINE_S)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
