"""Several people and an agent in one session: who may answer, who is here, and how long a token lasts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridle.agents.definition import AgentDefinition, AgentDelegation
from bridle.app.engine import Engine
from bridle.config.folders import folders
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.protocol import commands as c
from bridle.protocol import events as e
from bridle.protocol import queries as q
from bridle.protocol.codec import payload_of
from bridle.protocol.connection import Connection
from bridle.protocol.errors import CommandRefused
from bridle.protocol.messages import TextBlock
from bridle.protocol.questions import StepLimitAnswer
from bridle.protocol.tokens import APPROVE, WATCH, Claims
from bridle.providers.script import call, say

TWO_KEYS = '[[permissions.rules]]\ntool = "bash"\ncommand = "touch*"\nverdict = "ask"\nkeys = 2\n'


class Room:
    """An engine with a session, and people who come and go."""

    def __init__(self, engine: Engine, clock: FakeClock, folder: Path) -> None:
        self.engine = engine
        self.clock = clock
        self.folder = folder
        self.session = ""

    def person(self, name: str = "", *, life_s: int = 24 * 3600, here: Any = "following", **claims: Any):
        tokens = self.engine.access.tokens
        claims = {"identity_class": "human", "sessions": (self.session,), **claims}
        issued = tokens.new_claims(life_s=life_s, name=name, **claims)
        tokens.issue(issued)
        return self.with_claims(issued, here=here)

    def with_claims(self, claims: Claims, *, here: Any = "following"):
        return self.engine.connect(name="remote", answers=True, claims=claims, here=here)

    @property
    def mode(self) -> str:
        return self.engine.live.at(self.session).session.journal.conversation.mode

    async def open(self, owner: Connection, **config: Any) -> str:
        new = c.CreateSession(cwd=str(self.folder), model="demo:scripted", config=c.SessionOptions(**config))
        self.session = (await owner.send(new)).session
        return self.session

    async def asked(self, owner: Connection, since: int = 0) -> e.Envelope:
        """Has the model want something, and gives the question."""
        sent = await owner.send(
            c.SendInput(session=self.session, content=(TextBlock(text="go"),), mode="queue")
        )
        return await until(owner, self.session, e.PermissionRequested, since=sent.event or 0)


class Stream:
    """An open stream of events: what came so far, and waiting for more."""

    def __init__(self, connection: Connection, session: str, since: int = 0) -> None:
        self.events: list[e.Envelope] = []
        self.failure: CommandRefused | None = None
        self._new = asyncio.Event()
        self._task = asyncio.ensure_future(self._read(connection.events(session, since=since)))

    async def _read(self, events: AsyncIterator[e.Envelope]) -> None:
        try:
            async for envelope in events:
                self.events.append(envelope)
                self._new.set()
        except CommandRefused as refusal:
            self.failure = refusal
        finally:
            await events.aclose()  # pyright: ignore
            self._new.set()

    async def gets(self, kind: type) -> Any:
        while True:
            found = [one for one in self.events if isinstance(one.event, kind)]
            if found:
                return found[-1]
            self._new.clear()
            assert not self._task.done(), f"the stream ended without {kind.__name__}"
            await asyncio.wait_for(self._new.wait(), 20)

    async def ended(self) -> None:
        await asyncio.wait_for(asyncio.shield(self._task), 20)

    async def leave(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


async def until(client: Connection, session: str, kind: type, *, since: int = 0) -> Any:
    async with contextlib.aclosing(client.events(session, since=since)) as events:  # pyright: ignore
        async for envelope in events:
            if isinstance(envelope.event, kind):
                return envelope
    raise AssertionError(f"no {kind.__name__}")


async def refusal(work: Any) -> CommandRefused:
    with pytest.raises(CommandRefused) as refused:
        await work
    return refused.value


def yes(room: Room, asked: e.Envelope, **fields: Any) -> c.AnswerPermission:
    return c.AnswerPermission(
        session=room.session, call_id=asked.event.call_id, answer=fields.pop("answer", "once"), **fields
    )


@contextlib.asynccontextmanager
async def room_of(
    tmp_path: Path, settings: str = "", *, listening: bool = True, model: Any = None, **more: Any
):
    home, work = tmp_path / "home", tmp_path / "work"
    (home / "config").mkdir(parents=True)
    work.mkdir()
    (tmp_path / "person").mkdir()
    (home / "config" / "config.toml").write_text(settings)
    env = {"BRIDLE_HOME": str(home), "HOME": str(tmp_path / "person"), "PATH": "/usr/bin:/bin"}
    clock = FakeClock()
    touching = call("bash", command="touch asked")
    model = model or scripted(touching, say("Done."), say("More."), say("And more."))
    engine = Engine(where=folders(env), env=env, clock=clock, model=model, listening=listening, **more)
    try:
        yield Room(engine, clock, work)
    finally:
        await engine.close()


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    async with room_of(tmp_path) as room:
        yield room


@pytest.fixture
async def two_keys(tmp_path: Path) -> AsyncIterator[Room]:
    async with room_of(tmp_path, TWO_KEYS) as room:
        yield room


# One answer


@pytest.mark.requirement("G20.6", "G22.14")
async def test_the_first_person_decides_and_the_second_is_told_who_did(room: Room) -> None:
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    ana, ben = room.person("Ana"), room.person("Ben")
    for one in (ana, ben):
        await one.send(c.AttachSession(session=room.session))
    asked = await room.asked(owner)
    await ana.send(yes(room, asked))
    late = await refusal(ben.send(yes(room, asked, answer="deny")))
    assert (late.reason, late.message) == (
        "AlreadyAnswered",
        "Ana has answered this already. Nothing changed.",
    )
    decided = await until(owner, room.session, e.PermissionDecided, since=asked.id or 0)
    assert (decided.event.verdict, decided.event.answered_by, decided.event.answered_name) == (
        "allow",
        ana.client,
        "Ana",
    )
    result = await until(owner, room.session, e.ToolResult, since=asked.id or 0)
    assert result.event.outcome == "ok"


@pytest.mark.requirement("G20.6", "C18")
async def test_an_agent_says_no_and_never_yes_to_whoever_asked(room: Room) -> None:
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    outer, other = (room.person(identity_class="agent", commands=APPROVE) for _ in range(2))
    for one in (outer, other):
        await one.send(c.AttachSession(session=room.session))
    asked = await room.asked(owner)
    for one in (outer, other):
        assert (await refusal(one.send(yes(room, asked)))).reason == "SelfApproval"
    assert (
        await refusal(outer.send(c.ExitPlanMode(session=room.session, approve=True)))
    ).reason == "NotGranted"
    await other.send(yes(room, asked, answer="deny"))
    decided = await until(owner, room.session, e.PermissionDecided, since=asked.id or 0)
    assert (decided.event.verdict, decided.event.answered_by) == ("deny", other.client)


@pytest.mark.requirement("G20.7")
async def test_the_clock_of_a_question_runs_while_no_person_sees_it(room: Room) -> None:
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    ana, watcher = room.person("Ana"), room.person("Eve", commands=WATCH)
    for one in (ana, watcher):
        await one.send(c.AttachSession(session=room.session))
    asked = await room.asked(owner)
    ana_sees = Stream(ana, room.session)
    watcher_sees = Stream(watcher, room.session)
    await ana_sees.gets(e.PermissionRequested)
    await owner.send(c.DetachSession(session=room.session))
    await room.clock.advance(600)
    assert not [one for one in ana_sees.events if isinstance(one.event, e.PermissionDecided)]
    await ana_sees.leave()  # attached still, and not looking; the other one may only look
    await room.clock.advance(59)
    await room.clock.advance(2)
    decided = await watcher_sees.gets(e.PermissionDecided)
    assert (decided.event.verdict, decided.event.reason) == ("deny", "PermissionTimeout")
    assert asked.event.call_id == decided.event.call_id
    await watcher_sees.leave()


async def test_the_time_to_wait_is_a_setting(tmp_path: Path) -> None:
    async with room_of(tmp_path, "[permissions]\ntimeout_s = 5\n") as room:
        owner = room.engine.connect(name="terminal", answers=True)
        await room.open(owner)
        watcher = room.engine.connect(name="watcher", answers=False)
        await watcher.send(c.AttachSession(session=room.session))
        asked = await room.asked(owner)
        await owner.send(c.DetachSession(session=room.session))
        await room.clock.advance(5)
        decided = await until(watcher, room.session, e.PermissionDecided, since=asked.id or 0)
        assert decided.event.reason == "PermissionTimeout"


@pytest.mark.requirement("G26.1")
async def test_a_question_that_waits_is_put_again_to_whoever_comes_back_behind_it(room: Room) -> None:
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    asked = await room.asked(owner)
    ana = room.person("Ana")
    await ana.send(c.AttachSession(session=room.session))
    stream = Stream(ana, room.session, since=asked.id or 0)
    again = await stream.gets(e.PermissionRequested)
    assert again.id is None, "it is no new event"
    assert payload_of(again) == payload_of(asked)
    await ana.send(yes(room, again, digest=again.event.digest))
    await stream.gets(e.ToolResult)
    await stream.leave()
    since = (stream.events[-1].id or 0) if stream.events else 0
    later = Stream(ana, room.session, since=since)
    await owner.send(c.SendInput(session=room.session, content=(TextBlock(text="more"),), mode="queue"))
    await later.gets(e.TurnEnded)
    assert not [one for one in later.events if isinstance(one.event, e.PermissionRequested)]
    await later.leave()


async def test_an_answer_is_for_the_question_that_was_seen(room: Room) -> None:
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    asked = await room.asked(owner)
    other = yes(room, asked, digest="0" * 64)
    assert (await refusal(owner.send(other))).reason == "QuestionChanged"
    unknown = c.AnswerPermission(session=room.session, call_id="call_none", answer="once")
    assert (await refusal(owner.send(unknown))).reason == "NoSuchQuestion"
    about = c.AnswerQuestion(
        session=room.session, question_id=asked.event.call_id, answer=StepLimitAnswer(go_on=True)
    )
    assert (await refusal(owner.send(about))).reason == "NoSuchQuestion"
    await owner.send(yes(room, asked, digest=asked.event.digest))
    result = (await until(owner, room.session, e.ToolResult, since=asked.id or 0)).event
    assert result.outcome == "ok"


async def test_leaving_plan_mode_by_approval_is_a_yes_that_an_agent_does_not_give(room: Room) -> None:
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    agent = room.person(identity_class="agent")
    await agent.send(c.AttachSession(session=room.session))
    await owner.send(c.EnterPlanMode(session=room.session))
    approve = c.ExitPlanMode(session=room.session, approve=True)
    assert (await refusal(agent.send(approve))).reason == "SelfApproval"
    assert room.mode == "plan"
    await owner.send(approve)
    assert room.mode == "default"


# Two keys


async def test_two_different_people_say_yes_and_one_alone_is_shown_as_one_of_two(two_keys: Room) -> None:
    room = two_keys
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    ana, ana_too, ben = room.person("Ana"), room.person("ana"), room.person("Ben")
    streams = []
    for one in (ana, ana_too, ben):
        await one.send(c.AttachSession(session=room.session))
        streams.append(Stream(one, room.session))
    asked = await room.asked(owner)
    assert (asked.event.keys, asked.event.offers) == (2, ())
    first = await ana.send(yes(room, asked, answer="always"))
    given = await streams[2].gets(e.ApprovalGiven)
    assert (given.id, given.event.given, given.event.keys, given.event.by) == (
        first.event,
        1,
        2,
        e.Approval(client=ana.client, name="Ana"),
    )
    for one in (ana, ana_too):  # the same token, and another one of the same name
        assert (await refusal(one.send(yes(room, asked)))).reason == "AlreadyApproved"
    await room.clock.advance(3600)  # another person is here, so it waits
    await ben.send(yes(room, asked))
    decided = (await streams[0].gets(e.PermissionDecided)).event
    assert [one.name for one in decided.approvals] == ["Ana", "Ben"]
    assert (await streams[0].gets(e.ToolResult)).event.outcome == "ok"
    assert (room.folder / "asked").exists()
    assert not [one for one in streams[0].events if isinstance(one.event, e.GrantAdded)]
    assert (await owner.ask(q.ListGrants(session=room.session))).grants == ()
    for stream in streams:
        await stream.leave()


async def test_one_no_is_enough(two_keys: Room) -> None:
    room = two_keys
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    ana = room.person("Ana")
    await ana.send(c.AttachSession(session=room.session))
    asked = await room.asked(owner)
    await owner.send(yes(room, asked))
    await ana.send(yes(room, asked, answer="deny"))
    decided = (await until(owner, room.session, e.PermissionDecided, since=asked.id or 0)).event
    assert (decided.verdict, decided.answered_name) == ("deny", "Ana")
    assert not (room.folder / "asked").exists()


async def test_a_second_yes_is_waited_for_as_long_as_the_clock_runs_where_nobody_else_is_here(
    two_keys: Room,
) -> None:
    room = two_keys
    owner = room.engine.connect(name="terminal", answers=True)
    second_window = room.engine.connect(name="window", answers=True)
    await room.open(owner)
    await second_window.send(c.AttachSession(session=room.session))
    unnamed = room.person("", here="attached")
    await unnamed.send(c.AttachSession(session=room.session))
    asked = await room.asked(owner)
    await owner.send(yes(room, asked))
    for same in (second_window, unnamed):  # whoever has no name of their own is the terminal
        assert (await refusal(same.send(yes(room, asked)))).reason == "AlreadyApproved"
    await room.clock.advance(59)
    await room.clock.advance(2)
    result = (await until(owner, room.session, e.ToolResult, since=asked.id or 0)).event
    assert (result.outcome, result.reason) == ("denied", "MorePeopleNeeded")
    assert "needs the yes of 2 different people, and 1 of them gave it" in result.content
    decided = (await until(owner, room.session, e.PermissionDecided, since=asked.id or 0)).event
    assert [one.client for one in decided.approvals] == [owner.client]


@pytest.mark.parametrize(
    "options", [{}, {"yes": True}, {"yes": True, "allow": ["bash"]}], ids=["plain", "yes", "allowed"]
)
@pytest.mark.parametrize("mode", ["default", "auto", "yolo"])
async def test_where_no_second_person_can_come_nothing_else_counts_for_one(
    tmp_path: Path, options: dict[str, Any], mode: Any
) -> None:
    async with room_of(tmp_path, TWO_KEYS, listening=False) as room:
        owner = room.engine.connect(name="terminal", answers=True)
        await room.open(owner, **options)
        await owner.send(c.SetMode(session=room.session, mode=mode))
        sent = await owner.send(c.SendInput(session=room.session, content=(TextBlock(text="go"),)))
        result = (await until(owner, room.session, e.ToolResult, since=sent.event or 0)).event
        assert (result.outcome, result.reason) == ("denied", "MorePeopleNeeded")
        assert not (room.folder / "asked").exists()


async def test_a_command_a_person_typed_needs_the_second_one_too(two_keys: Room) -> None:
    room = two_keys
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    ana = room.person("Ana")
    await ana.send(c.AttachSession(session=room.session))
    await owner.send(c.ShellRequest(session=room.session, command="touch typed"))
    asked = await until(owner, room.session, e.PermissionRequested)
    await owner.send(yes(room, asked))
    await ana.send(yes(room, asked))
    result = (await until(owner, room.session, e.ToolResult, since=asked.id or 0)).event
    assert result.outcome == "ok"
    assert (room.folder / "typed").exists()


# Who is here


@pytest.mark.requirement("X23")
async def test_whoever_is_here_is_shown_and_only_an_open_stream_counts(room: Room) -> None:
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    sees = Stream(owner, room.session)
    ana = room.person("Ana")
    await ana.send(c.AttachSession(session=room.session))

    async def here() -> list[str]:
        return [one.name for one in (await owner.ask(q.DescribeSession(session=room.session))).clients]

    assert await here() == ["terminal"]
    stream = Stream(ana, room.session)
    first = await stream.gets(e.Presence)
    assert [one.name for one in first.event.clients] == ["terminal", "Ana"]
    assert (first.id, await here()) == (None, ["terminal", "Ana"])
    assert [one.name for one in (await sees.gets(e.Presence)).event.clients] == ["terminal", "Ana"]
    sees.events.clear()
    await stream.leave()
    assert [one.name for one in (await sees.gets(e.Presence)).event.clients] == ["terminal"]
    assert await here() == ["terminal"]
    assert not [one for one in await stored(room) if one.kind == "Presence"], "it is never stored"
    await sees.leave()


async def stored(room: Room) -> list[e.Envelope]:
    return [one async for one in room.engine.sessions.events(room.session)]


async def test_who_is_alone_is_told_nothing_about_it(room: Room) -> None:
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    await owner.send(c.SendInput(session=room.session, content=(TextBlock(text="hi"),)))
    asked = await until(owner, room.session, e.PermissionRequested)
    await owner.send(yes(room, asked))
    events = owner.events(room.session)
    kinds = []
    async for one in events:
        kinds.append(one.kind)
        if one.kind == "TurnEnded":
            break
    assert "Presence" not in kinds


# Tokens that watch, approve, expire and are revoked


@pytest.mark.requirement("G22.14")
async def test_a_token_to_watch_reads_and_one_to_approve_answers_and_neither_does_more(room: Room) -> None:
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    session = room.session
    watcher, approver = room.person("Eve", commands=WATCH), room.person("Ana", commands=APPROVE)
    for one in (watcher, approver):
        await one.send(c.AttachSession(session=session))
        for more in (
            c.SendInput(session=session, content=(TextBlock(text="me too"),)),
            c.ShellRequest(session=session, command="true"),
            c.SetMode(session=session, mode="yolo"),
            c.EndSession(session=session),
            c.CreateSession(cwd=str(room.folder)),
            c.DeleteSession(session=session),
        ):
            assert (await refusal(one.send(more))).reason == "NotGranted"
        assert (await refusal(one.ask(q.ListSessions()))).reason == "NotGranted"
    asked = await room.asked(owner)
    assert (await until(watcher, session, e.PermissionRequested)) == asked
    assert (await refusal(watcher.send(yes(room, asked)))).reason == "NotGranted"
    await approver.send(yes(room, asked))
    await until(watcher, session, e.ToolResult, since=asked.id or 0)
    await owner.send(c.EndSession(session=session))
    assert (await refusal(watcher.send(c.AttachSession(session=session)))).reason == "SessionNotOpen"


@pytest.mark.requirement("G22.11", "G47.5")
async def test_a_token_is_said_to_expire_then_commands_end_and_then_its_streams(room: Room) -> None:
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    ana = room.person("Ana", life_s=600)
    await ana.send(c.AttachSession(session=room.session))
    stream, sees = Stream(ana, room.session), Stream(owner, room.session)
    await stream.gets(e.SessionCreated)
    await room.clock.advance(295)
    assert not [one for one in stream.events if one.kind == "TokenExpiring"]
    await room.clock.advance(10)
    expiring = await stream.gets(e.TokenExpiring)
    assert expiring.id is None
    await room.clock.advance(100)
    assert len([one for one in stream.events if one.kind == "TokenExpiring"]) == 1, "it is said once"
    assert not [one for one in sees.events if one.kind == "TokenExpiring"], "to whoever has the token"
    await room.clock.advance(200)
    late = await refusal(ana.send(c.DetachSession(session=room.session)))
    assert late.reason == "TokenExpired"
    assert (await refusal(ana.ask(q.DescribeSession(session=room.session)))).reason == "TokenExpired"
    await owner.send(c.SendInput(session=room.session, content=(TextBlock(text="hello"),)))
    drained = await stream.gets(e.InputAccepted)
    assert drained.event.content == (TextBlock(text="hello"),), "what is open drains"
    await room.clock.advance(65)
    await stream.ended()
    assert stream.failure is not None
    assert stream.failure.reason == "TokenExpired"
    await sees.leave()


@pytest.mark.requirement("G22.9")
async def test_a_token_that_is_revoked_ends_commands_at_once_and_streams_within_seconds(room: Room) -> None:
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    tokens = room.engine.access.tokens
    claims = tokens.new_claims(identity_class="human", sessions=(room.session,), name="Ana")
    tokens.issue(claims)
    ana = room.with_claims(claims)
    await ana.send(c.AttachSession(session=room.session))
    stream = Stream(ana, room.session)
    await stream.gets(e.SessionCreated)
    tokens.revoke(claims.jti)
    assert (await refusal(ana.send(c.CancelTurn(session=room.session)))).reason == "TokenRevoked"
    await room.clock.advance(6)
    await stream.ended()
    assert stream.failure is not None
    assert stream.failure.reason == "TokenRevoked"


async def test_a_session_nobody_looks_at_is_idle_though_tokens_are_attached(room: Room) -> None:
    owner = room.engine.connect(name="terminal", answers=True)
    await room.open(owner)
    ana = room.person("Ana")
    await ana.send(c.AttachSession(session=room.session))
    await owner.send(c.DetachSession(session=room.session))
    await room.clock.advance(24 * 3600 - 60)
    assert (await refusal(ana.send(c.CancelTurn(session=room.session)))).reason in (
        "SessionNotOpen",
        "NotAttached",
    )


# What agents ask that were sent


async def test_a_child_asks_people_as_its_session_does_and_neither_an_agent_nor_one_alone_says_yes(
    tmp_path: Path,
) -> None:
    worker = AgentDefinition(
        name="worker",
        description="x",
        permission_mode="yolo",
        default_verdict="allow",
        delegation=AgentDelegation(invocation="allow"),
    )
    model = scripted(
        call("delegate_agent", agent="worker", task="Touch it."),
        say("Done."),
        agents={"worker": [call("bash", command="touch asked"), say("x")]},
    )
    async with room_of(tmp_path, TWO_KEYS, model=model, agents=[worker]) as room:
        owner = room.engine.connect(name="terminal", answers=True)
        await room.open(owner, agent_mode="multi", yes=True)
        outer, ana = room.person("Outer", identity_class="agent"), room.person("Ana")
        for one in (outer, ana):
            await one.send(c.AttachSession(session=room.session))
        asked = await room.asked(owner)
        assert (asked.agent_path, asked.event.keys, asked.event.offers) == (("worker",), 2, ())
        assert (await refusal(outer.send(yes(room, asked)))).reason == "SelfApproval"
        await owner.send(yes(room, asked))
        assert not (room.folder / "asked").exists(), "one key of two"
        await ana.send(yes(room, asked))
        result = await until(owner, room.session, e.ToolResult, since=asked.id or 0)
        assert (result.event.outcome, result.agent_path) == ("ok", ("worker",))
        await until(owner, room.session, e.ChildEnded, since=asked.id or 0)
