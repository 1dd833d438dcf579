"""The scenarios of the wire: our engine passes them, and a server that does something else is caught."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from bridle.app.engine import Engine
from bridle.base.clock import SystemClock
from bridle.config.folders import folders
from bridle.conformance.wire_doors import EngineDoor
from bridle.conformance.wire_scenarios import SCENARIOS, NotOffered, Scenario
from bridle.conformance.wire_score import Played, score
from bridle.protocol import commands as c
from bridle.protocol.connection import Connection
from bridle.protocol.events import Envelope, IdentityClass


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    for name in ("work", "person"):
        (tmp_path / name).mkdir()
    env = {"BRIDLE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path / "person"), "PATH": "/usr/bin:/bin"}
    made = Engine(where=folders(env), env=env, clock=SystemClock())
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.requirement("G27.2")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_an_engine_in_this_process_does_what_every_server_does(
    engine: Engine, tmp_path: Path, scenario: Scenario
) -> None:
    card = await score(
        EngineDoor(engine, str(tmp_path / "work")), against="this process", scenarios=(scenario,)
    )
    (played,) = card.scenarios
    expected = "left out" if scenario.name == "bad-tokens" else "passed"
    assert (played.outcome, played.why if expected == "passed" else "") == (expected, "")


def named(name: str) -> Scenario:
    return next(scenario for scenario in SCENARIOS if scenario.name == name)


class Spoiled:
    """A connection that breaks one promise."""

    def __init__(self, inner: Connection, fault: str) -> None:
        self._inner = inner
        self._fault = fault

    @property
    def client(self) -> str:
        return self._inner.client

    @property
    def hello(self) -> object:
        return self._inner.hello

    async def send(self, command: c.AnyCommand) -> c.Accepted:
        if self._fault == "deaf" and isinstance(command, c.CancelTurn):
            return c.Accepted(session=command.session)
        return await self._inner.send(command)

    async def ask(self, query: object) -> object:
        return await self._inner.ask(query)  # type: ignore[arg-type]

    async def events(self, session: str, *, since: int = 0) -> AsyncIterator[Envelope]:
        shown = 0 if self._fault == "repeats" else since
        async for envelope in self._inner.events(session, since=shown):
            if self._fault == "loses" and envelope.kind == "StepStarted":
                continue
            yield envelope

    async def close(self) -> None:
        await self._inner.close()


class SpoiledDoor(EngineDoor):
    def __init__(self, engine: Engine, cwd: str, fault: str) -> None:
        super().__init__(engine, cwd)
        self._fault = fault

    async def connect(
        self,
        *,
        name: str,
        identity: IdentityClass = "human",
        sessions: Sequence[str] | None = None,
        commands: Sequence[str] | None = None,
    ) -> Connection:
        if self._fault == "trusts":
            return await super().connect(name=name)
        if self._fault == "plain" and sessions is not None:
            raise NotOffered("this server binds nobody")
        made = await super().connect(name=name, identity=identity, sessions=sessions, commands=commands)
        return Spoiled(made, self._fault)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("fault", "scenario", "why"),
    [
        ("loses", "send", "numbers have gaps"),
        ("repeats", "resume", "nothing is repeated"),
        ("trusts", "agent-never-approves", "it was not refused"),
        ("trusts", "watch-only", "it was not refused"),
    ],
)
@pytest.mark.requirement("G27.1")
async def test_a_server_that_breaks_a_promise_is_caught(
    engine: Engine, tmp_path: Path, fault: str, scenario: str, why: str
) -> None:
    door = SpoiledDoor(engine, str(tmp_path / "work"), fault)
    told: list[Played] = []
    card = await score(door, against="spoiled", scenarios=(named(scenario),), told=told.append)
    assert (card.passed, card.failed, card.conforms) == (0, 1, False)
    assert card.badge.color == "red"
    assert why in card.scenarios[0].why
    assert tuple(told) == card.scenarios


async def test_what_a_door_does_not_offer_is_left_out_and_said(engine: Engine, tmp_path: Path) -> None:
    door = SpoiledDoor(engine, str(tmp_path / "work"), "plain")
    card = await score(door, against="plain", scenarios=(named("handshake"), named("watch-only")))
    assert (card.passed, card.failed, card.left_out, card.conforms) == (1, 0, 1, True)
    assert card.scenarios[1].why == "this server binds nobody"
    assert (card.badge.color, card.badge.message) == ("yellow", "1 of 1")
