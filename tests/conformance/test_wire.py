"""The scenarios of the wire: our engine passes them, and a server that does something else is caught."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from bridle.app.engine import Engine
from bridle.app.service.serving import make_service
from bridle.base.clock import SystemClock
from bridle.conformance.asgi_client import AsgiExchange, open_asgi_websocket
from bridle.conformance.scratch_server import OVER_SOCKETS, scratch_doors, scratch_engine
from bridle.conformance.token_desks import EngineDesk, FileDesk
from bridle.conformance.wire_doors import EngineDoor, RestWay, ServedDoor, SocketWay
from bridle.conformance.wire_scenarios import SCENARIOS, Door, NotOffered, Scenario
from bridle.conformance.wire_score import Played, score
from bridle.control.http_app import service_app
from bridle.control.service import ServiceCounters
from bridle.protocol import commands as c
from bridle.protocol import events as e
from bridle.protocol.connection import Connection
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import Envelope, IdentityClass
from bridle.protocol.queries import ListSessions

LEFT_OUT = {
    "inproc": {"handshake-required", "broken-connection", "bad-tokens"},
    "rest": set[str](),
    "ws": {"gap"},
}
"""What each kind of door has no way to do. Nothing else may be left out."""


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with scratch_engine(str(tmp_path), listening=True) as (made, _work, _env):
        yield made


def door_of(kind: str, engine: Engine, tmp_path: Path) -> Door:
    work = str(tmp_path / "work")
    if kind == "inproc":
        return EngineDoor(engine, work)
    return ServedDoor(way_of(kind, engine), EngineDesk(engine.access.tokens), cwd=work)


def way_of(kind: str, engine: Engine) -> RestWay | SocketWay:
    service = make_service(
        engine,
        ServiceCounters(),
        clock=SystemClock(),
        hear=lambda _reason, _peer: None,
        is_stopping=lambda: False,
    )
    app = service_app(service)
    if kind == "rest":
        return RestWay(AsgiExchange(app), "asgi")
    return SocketWay(lambda token: open_asgi_websocket(app, token), "asgi")


@pytest.mark.requirement("G27.2")
@pytest.mark.parametrize("kind", LEFT_OUT)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_our_engine_does_what_every_server_does(
    engine: Engine, tmp_path: Path, scenario: Scenario, kind: str
) -> None:
    card = await score(door_of(kind, engine, tmp_path), against=kind, scenarios=(scenario,))
    (played,) = card.scenarios
    expected = "left out" if scenario.name in LEFT_OUT[kind] else "passed"
    assert (played.outcome, played.why if expected == "passed" else "") == (expected, "")


OVER_REAL_SOCKETS = (
    "handshake", "handshake-required", "send", "order", "two-people", "two-keys", "broken-connection", "resume",
    "disconnect", "presence", "bound-to-a-session", "bad-tokens",
)  # fmt: skip
"""What a real socket could do otherwise than an application that is called: connecting, leaving, breaking, tokens."""


@pytest.mark.requirement("G27.2")
async def test_real_sockets_carry_the_same(tmp_path: Path) -> None:
    scenarios = [named(name) for name in OVER_REAL_SOCKETS]
    async with scratch_doors(str(tmp_path), OVER_SOCKETS) as doors:
        assert tuple(doors) == OVER_SOCKETS
        for transport, door in doors.items():
            card = await score(door, against=transport, scenarios=scenarios)
            assert [one for one in card.scenarios if one.outcome != "passed"] == []
            assert (card.badge.color, card.conforms) == ("brightgreen", True)


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
        if self._fault == "forgets ids":
            command = msgspec.structs.replace(command, id="")
        try:
            return await self._inner.send(command)
        except CommandRefused as refusal:
            if (self._fault, refusal.reason) in (
                ("takes late answers", "AlreadyAnswered"),
                ("any body", "CommandIdUsed"),
            ):
                return c.Accepted(session="")
            raise

    async def ask(self, query: object) -> object:
        return await self._inner.ask(query)  # type: ignore[arg-type]

    async def events(self, session: str, *, since: int = 0) -> AsyncIterator[Envelope]:
        shown = 0 if self._fault == "repeats" else since
        async for envelope in self._inner.events(session, since=shown):
            match envelope.event:
                case e.StepStarted() if self._fault == "loses":
                    continue
                case e.Presence() if self._fault == "tells nobody":
                    continue
                case e.StreamGap() if self._fault == "hides the gap":
                    continue
                case e.ApprovalGiven(given=given) if self._fault == "counts wrong":
                    changed = msgspec.structs.replace(envelope.event, given=given + 1)
                    yield msgspec.structs.replace(envelope, event=changed)
                case e.StreamGap(first=first) if self._fault == "wrong gap":
                    changed = msgspec.structs.replace(envelope.event, first=first + 1)
                    yield msgspec.structs.replace(envelope, event=changed)
                case _:
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

    async def barge_in(self) -> None:
        """Is answered."""
        await (await super().connect(name="stranger")).ask(ListSessions())

    async def knock(self, token: str) -> None:
        """Is let in."""

    def tokens(self) -> dict[str, str]:
        return {"forged": "x"}

    def cut(self, connection: Connection) -> None:
        """Its client does not come back: nothing more reaches it."""
        self._engine.live.leave(connection._inner._client)  # pyright: ignore


@pytest.mark.parametrize(
    ("fault", "scenario", "why"),
    [
        ("loses", "send", "numbers have gaps"),
        ("repeats", "resume", "nothing is repeated"),
        ("trusts", "agent-never-approves", "it was not refused"),
        ("trusts", "watch-only", "it was not refused"),
        ("trusts", "answer-only", "it was not refused"),
        ("forgets ids", "idempotency", "two sessions were made"),
        ("any body", "idempotency", "it was not refused"),
        ("takes late answers", "two-people", "it was not refused"),
        ("counts wrong", "two-keys", "2 of 2 after the first yes"),
        ("hides the gap", "gap", "events are missing, and nobody said so"),
        ("tells nobody", "presence", "nobody said who is here"),
        ("wrong gap", "gap", "something before the gap is missing"),
        ("none", "handshake-required", "it was not refused"),
        ("none", "bad-tokens", "it was not refused"),
        ("none", "broken-connection", "the stream ended before"),
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


async def test_with_tokens_from_files_what_needs_more_of_them_is_left_out(
    engine: Engine, tmp_path: Path
) -> None:
    given = EngineDesk(engine.access.tokens)
    people = [given.token(name, "human", alone=True) for name in ("Ana", "Ben")]
    door = ServedDoor(way_of("rest", engine), FileDesk(people, ()), cwd=str(tmp_path / "work"))
    names = (
        "send",
        "two-people",
        "order",
        "watch-only",
        "agent-never-approves",
        "handshake-required",
        "bad-tokens",
    )
    card = await score(door, against="files", scenarios=[named(name) for name in names])
    assert [(one.outcome, one.why) for one in card.scenarios] == [
        ("passed", ""),
        ("passed", ""),
        ("left out", "over requests a token is one client: it takes 3 of --token-file"),
        ("left out", "it takes a token for one session, which a person mints while the session runs"),
        ("left out", "an agent comes with --agent-token-file, and none is given"),
        ("left out", "it takes a token that nobody came with before"),
        ("passed", ""),
    ]
