"""The one door for tests: a whole engine around a given model, driven through a `Connection`.

Everything is real but the model, and the clock if you bring one: the encrypted log, the files, the processes, every
layer. Plugin authors use it the same way.

    async with harness(scripted(call("bash", command="rm -rf /"), say("I was not allowed to."))) as session:
        events = await session.ask("clean up")
        assert outcomes(events) == ["denied"]
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from bridle.agents.definition import AgentDefinition
from bridle.app.engine import Engine
from bridle.base.clock import Clock, SystemClock
from bridle.base.net.web import JudgedFetch
from bridle.config.folders import folders
from bridle.engine.conversation import Conversation
from bridle.engine.features import Feature
from bridle.engine.ports import Provider
from bridle.engine.services import ToolSource
from bridle.engine.store_ports import Store
from bridle.engine.tools import Tool
from bridle.plugin.registrar import Plugin
from bridle.protocol.commands import CreateSession, SendInput, SessionOptions
from bridle.protocol.connection import Connection
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import AnyEvent, Envelope, InputMode, Mode, ToolResult, TurnEnded, TurnStarted
from bridle.protocol.messages import TextBlock

E = TypeVar("E", bound=AnyEvent)


class HarnessSession:
    """A session and one client of it. `folder` is its workspace, `home` where Bridle keeps its files."""

    def __init__(
        self, engine: Engine, connection: Connection, session: str, *, folder: str, home: str
    ) -> None:
        self.engine = engine
        self.connection = connection
        self.id = session
        self.folder = folder
        self.home = home

    async def send(self, prompt: str, *, mode: InputMode = "queue") -> int:
        """Puts words into the inbox and returns the id of the event that says so."""
        accepted = await self.connection.send(
            SendInput(session=self.id, content=(TextBlock(text=prompt),), mode=mode)
        )
        assert accepted.event is not None
        return accepted.event

    async def ask(self, prompt: str) -> list[AnyEvent]:
        """Sends a prompt and returns the events of its turn, `TurnStarted` to `TurnEnded`."""
        return await self.turn_of(await self.send(prompt))

    async def turn_of(self, number: int) -> list[AnyEvent]:
        """The events of the turn that input `number` started."""
        found: list[AnyEvent] = []
        async for envelope in self.connection.events(self.id, since=number):
            match envelope.event:
                case TurnStarted(input=started) if envelope.invocation is None:
                    found = [envelope.event] if started == number else []
                case TurnEnded() if found and envelope.invocation is None:
                    return [*found, envelope.event]
                case event if found:
                    found.append(event)
                case _:
                    pass
        raise AssertionError("the session ended before the turn did")

    async def until(self, kind: type[E], *, since: int = 0) -> E:
        """Waits for the first event of a kind."""
        async for envelope in self.connection.events(self.id, since=since):
            if isinstance(envelope.event, kind):
                return envelope.event
        raise AssertionError(f"the session ended without {kind.__name__}")

    @property
    def conversation(self) -> Conversation:
        """What the session's events add up to right now."""
        return self.engine.live.session(self.id).journal.conversation

    async def stored(self) -> list[Envelope]:
        """What the log holds, as the store has it."""
        with contextlib.suppress(CommandRefused):  # what has ended is stored
            await self.engine.live.session(self.id).journal.committed()
        return [envelope async for envelope in self.engine.sessions.events(self.id)]


@asynccontextmanager
async def harness(
    model: Provider,
    *,
    clock: Clock | None = None,
    folder: str | None = None,
    home: str | None = None,
    mode: Mode | None = None,
    profile: str | None = None,
    resume: str | None = None,
    answers: bool = False,
    fetch: JudgedFetch | None = None,
    tools: Sequence[Tool | ToolSource] = (),
    agent: str | None = None,
    agents: Sequence[AgentDefinition] = (),
    store: Store | None = None,
    features: Sequence[Feature] = (),
    plugins: Sequence[Plugin] = (),
    waits_for_room: bool = False,
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> AsyncGenerator[HarnessSession]:
    """An engine with one session in `folder`. `options` are the fields of `SessionOptions`.

    `answers` says whether this client can be asked; then questions stay open until it answers. Commands run for real:
    `~` is a scratch folder for them, and what would do harm elsewhere is to be explained, never run.
    `fetch` stands in for the web; `tools` and `agents` are brought along, behind the built-in ones, and `features` and
    `plugins`, of which the layers stand in open slots. `store` keeps the sessions in place of the encrypted database.
    `agent` is the one to talk with.
    `waits_for_room`: on a full disk somebody is there to make room. `env` is more of the person's environment.
    """
    with tempfile.TemporaryDirectory(prefix="bridle-") as scratch:
        folder = folder or _made(scratch, "work")
        home = home or os.path.join(scratch, "home")
        person = _made(scratch, "person")
        own = {"BRIDLE_HOME": home, "HOME": person, **(env or {})}
        async with Engine(
            where=folders(own),
            env=own,
            clock=clock or SystemClock(),
            model=model,
            fetch=fetch,
            tools=tools,
            agents=agents,
            store=store,
            plugins=plugins,
            features=features,
            waits_for_room=waits_for_room,
        ) as engine:
            connection = engine.connect(name="harness", answers=answers)
            created = await connection.send(
                CreateSession(
                    cwd=folder,
                    env={"PATH": own.get("PATH", os.defpath), "HOME": person},
                    model=None if resume else f"{model.name}:scripted",
                    mode=mode,
                    profile=profile,
                    agent=agent,
                    resume=resume,
                    config=SessionOptions(**options),
                )
            )
            yield HarnessSession(engine, connection, created.session, folder=folder, home=home)


def outcomes(events: Iterable[AnyEvent]) -> list[str]:
    """How each call ended, in the order they ended."""
    return [event.outcome for event in events if isinstance(event, ToolResult)]


def of_kind(events: Iterable[AnyEvent], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def kinds(events: Sequence[AnyEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def _made(parent: str, name: str) -> str:
    path = os.path.join(parent, name)
    os.mkdir(path)
    return path
