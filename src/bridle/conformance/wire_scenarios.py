"""What every server of sessions does, whatever carries the messages: scenarios over `Connection`, and nothing else.

A scenario is an async function that plays through a `Door` and asserts. It needs a server whose sessions can be opened
with three scripted models, which Bridle ships: `conformance-say` answers in words, `conformance-ask` runs a command
that a person has to allow, `conformance-hold` begins to answer and does not end. A fourth, `conformance-two`, runs one
that two people have to allow, where the server has such a rule. `wire_score` plays them all.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

import msgspec

from bridle.protocol import commands as c
from bridle.protocol import events as e
from bridle.protocol.codec import encode_envelope
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError
from bridle.protocol.handshake import check_version
from bridle.protocol.messages import TextBlock
from bridle.protocol.queries import DescribeSession, ListSessions

E = TypeVar("E", bound=e.Event)
BEHIND = 50
"""Inputs of 200 KB each: more than a server should keep for somebody who does not read."""


class NotOffered(Exception):
    """The door cannot do what a scenario needs; it is left out, and said so."""


class Door(Protocol):
    """The way to a server under test. `cwd` is a folder of that server in which sessions may work."""

    @property
    def cwd(self) -> str: ...

    @property
    def models(self) -> str:
        """What stands before the names of the scripted models, `demo:` for Bridle."""
        ...

    @property
    def attaches_itself(self) -> bool:
        """Whether asking for something in a session attaches to it, as a request over HTTP does."""
        ...

    @property
    def falls_behind(self) -> bool:
        """Whether a client of this door that does not read keeps the server waiting."""
        ...

    async def connect(
        self,
        *,
        name: str,
        identity: e.IdentityClass = "human",
        sessions: Sequence[str] | None = None,
        commands: Sequence[str] | None = None,
    ) -> Connection:
        """A client of its own, which may be bound to sessions and to kinds of commands.

        Raises: `NotOffered` where this door has no such client.
        """
        ...

    async def knock(self, token: str) -> None:
        """Comes with this token.

        Raises: `BridleError` with the reason of a refusal; `NotOffered` where nobody needs one.
        """
        ...

    def tokens(self) -> dict[str, str]:
        """Tokens that must be refused, by what is wrong with them.

        Raises: `NotOffered`.
        """
        ...

    async def barge_in(self) -> None:
        """Asks for something before hands were shaken.

        Raises: `BridleError` with the reason of a refusal; `NotOffered`.
        """
        ...

    def cut(self, connection: Connection) -> None:
        """Breaks what carries this connection, without a word to either end.

        Raises: `NotOffered`.
        """
        ...

    def left(self) -> None:
        """A scenario is over, and all its clients have left."""
        ...


class Client:
    """One client of a scenario: its connection, and what it has read of a session."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.session = ""
        self.read: list[e.Envelope] = []
        self._events: AsyncIterator[e.Envelope] | None = None

    async def create(self, door: Door, model: str, *, mode: e.Mode = "default") -> str:
        made = await self.send(c.CreateSession(cwd=door.cwd, model=f"{door.models}{model}", mode=mode))
        self._begin(made.session, since=0)
        return made.session

    async def attach(self, session: str, *, since: int = 0) -> None:
        await self.send(c.AttachSession(session=session, since=since))
        self._begin(session, since=since)

    def _begin(self, session: str, *, since: int) -> None:
        self.session = session
        self._events = self.connection.events(session, since=since)

    async def send(self, command: c.AnyCommand) -> c.Accepted:
        return await self.connection.send(command)

    async def say(self, words: str, *, mode: e.InputMode = "queue") -> int:
        content = (TextBlock(text=words),)
        sent = await self.send(c.SendInput(session=self.session, content=content, mode=mode))
        assert sent.event is not None, "an accepted input names its event"
        return sent.event

    async def answer(self, call_id: str, answer: c.PermissionChoice) -> None:
        await self.send(c.AnswerPermission(session=self.session, call_id=call_id, answer=answer))

    async def until(self, kind: type[E], *, after: int = 0) -> E:
        """Reads on to the next stored event of this kind with a higher number than `after`."""
        assert self._events is not None
        async for envelope in self._events:
            if envelope.id is None:
                continue
            self.read.append(envelope)
            if isinstance(envelope.event, kind) and envelope.id > after:
                return envelope.event
        raise AssertionError(f"the stream ended before {kind.__name__} came")

    async def until_here(self, clients: set[str], *, by: int | None = None) -> None:
        """Reads on until exactly these are said to be here, before an event with this number where one is given."""
        assert self._events is not None
        async for envelope in self._events:
            if envelope.id is not None:
                assert by is None or envelope.id < by, "nobody said who is here"
                self.read.append(envelope)
            elif (
                isinstance(envelope.event, e.Presence)
                and {one.client for one in envelope.event.clients} == clients
            ):
                return
        raise AssertionError("the stream ended before it was said who is here")

    async def until_gap(self, number: int) -> e.StreamGap | None:
        """Reads on to what says that something was left out; None where everything up to `number` came."""
        assert self._events is not None
        async for envelope in self._events:
            if isinstance(envelope.event, e.StreamGap):
                return envelope.event
            if envelope.id is not None:
                self.read.append(envelope)
                if envelope.id >= number:
                    assert self.numbers == list(range(1, number + 1)), (
                        "events are missing, and nobody said so"
                    )
                    return None
        raise AssertionError("the stream ended with a gap that nobody told of")

    async def until_over(self) -> None:
        """Reads on until the stream ends."""
        assert self._events is not None
        async for envelope in self._events:
            if envelope.id is not None:
                self.read.append(envelope)

    async def turn(self, words: str) -> e.TurnEnded:
        return await self.until(e.TurnEnded, after=await self.say(words))

    @property
    def numbers(self) -> list[int]:
        return [envelope.id for envelope in self.read if envelope.id is not None]

    def bytes_up_to(self, number: int) -> list[bytes]:
        return [encode_envelope(one) for one in self.read if one.id is not None and one.id <= number]


Run: TypeAlias = Callable[["Scene"], Awaitable[None]]


class Scene:
    """A scenario being played: it opens clients through its door and takes them all away at the end."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self._clients: list[Client] = []

    async def client(
        self,
        name: str,
        *,
        identity: e.IdentityClass = "human",
        sessions: Sequence[str] | None = None,
        commands: Sequence[str] | None = None,
    ) -> Client:
        made = Client(
            await self.door.connect(name=name, identity=identity, sessions=sessions, commands=commands)
        )
        self._clients.append(made)
        return made

    async def close(self) -> None:
        for session in {client.session for client in self._clients if client.session}:
            await self._end(session)
        for client in self._clients:
            await client.connection.close()
        self.door.left()

    async def _end(self, session: str) -> None:
        """By whoever still may."""
        for client in self._clients:
            if client.session == session:
                try:
                    await client.send(c.EndSession(session=session))
                except BridleError:
                    continue
                return


class Scenario(msgspec.Struct, frozen=True):
    """One thing a server does, in a sentence."""

    name: str
    says: str
    run: Run


SCENARIOS: list[Scenario] = []
"""In the order they are played."""


def scenario(says: str) -> Callable[[Run], Run]:
    def placed(run: Run) -> Run:
        SCENARIOS.append(Scenario(run.__name__.replace("_", "-"), says, run))
        return run

    return placed


BAD_TOKEN = ("TokenInvalid", "TokenExpired", "TokenRevoked", "TokenNotYetValid")


async def refused(doing: Awaitable[object]) -> str:
    """The stable reason something was refused with."""
    try:
        await doing
    except BridleError as refusal:
        assert refusal.reason, "a refusal has a stable reason"
        return refusal.reason
    raise AssertionError("it was not refused")


# Speaking


@scenario("a server says its version, its kinds and its features before anything else")
async def handshake(play: Scene) -> None:
    hello = (await play.client("reader")).connection.hello
    check_version(hello.protocol_version)
    assert {"CreateSession", "AttachSession", "SendInput", "CancelTurn", "AnswerPermission"} <= {
        *hello.command_kinds
    }
    assert {"TextDelta", "TurnEnded", "PermissionRequested", "ToolResult"} <= {*hello.event_kinds}


@scenario("nothing is answered before hands were shaken")
async def handshake_required(play: Scene) -> None:
    assert await refused(play.door.barge_in()) == "HandshakeRequired"


@scenario("an input is accepted, answered and ended, with events that are numbered from 1 without a gap")
async def send(play: Scene) -> None:
    person = await play.client("person")
    await person.create(play.door, "conformance-say")
    ended = await person.turn("Go.")
    assert ended.stop == "end_turn", f"the turn ended with {ended.stop}"
    assert person.numbers == list(range(1, len(person.numbers) + 1)), "numbers have gaps"
    kinds = [envelope.kind for envelope in person.read]
    order = [kinds.index(kind) for kind in ("InputAccepted", "TurnStarted", "TextDelta", "TurnEnded")]
    assert order == sorted(order), "accepted, started, answered, ended: in this order"
    text = "".join(one.event.text for one in person.read if isinstance(one.event, e.TextDelta))
    assert "First answer." in text


@scenario("every event of a turn names the client whose input started it")
async def originator(play: Scene) -> None:
    one, other = await play.client("one"), await play.client("other")
    session = await one.create(play.door, "conformance-say")
    await other.attach(session)
    started = await other.say("Go.")
    await one.until(e.TurnEnded)
    of_turn = [
        envelope for envelope in one.read if envelope.turn is not None and (envelope.id or 0) > started
    ]
    assert of_turn, "the turn has events"
    assert {envelope.originator for envelope in of_turn} == {other.connection.client}


@scenario("a running turn is cancelled, and the session goes on")
async def cancel(play: Scene) -> None:
    person = await play.client("person")
    session = await person.create(play.door, "conformance-hold")
    number = await person.say("Go.")
    await person.until(e.TextDelta)
    await person.send(c.CancelTurn(session=session))
    ended = await person.until(e.TurnEnded, after=number)
    assert ended.stop == "cancelled", f"the turn ended with {ended.stop}"


@scenario("input while a turn runs is refused where the client wants that, and queued where it wants that")
async def one_turn_at_a_time(play: Scene) -> None:
    person = await play.client("person")
    session = await person.create(play.door, "conformance-hold")
    await person.say("Go.")
    await person.until(e.TextDelta)
    assert await refused(person.say("Me too.", mode="reject")) == "TurnInProgress"
    queued = await person.say("Then this.", mode="queue")
    await person.send(c.CancelTurn(session=session))
    started = await person.until(e.TurnStarted, after=queued)
    assert started.input == queued, "the queued input is the next turn"


@scenario("all clients see the same events in the same order, whoever sent what")
async def order(play: Scene) -> None:
    people = [await play.client(f"person {number}") for number in range(3)]
    session = await people[0].create(play.door, "conformance-say")
    for person in people[1:]:
        await person.attach(session)
    await asyncio.gather(*(person.say(f"From {number}.") for number, person in enumerate(people)))
    for person in people:
        for _ in people:
            await person.until(e.TurnEnded)
    until = min(person.numbers[-1] for person in people)
    first, *others = (person.bytes_up_to(until) for person in people)
    assert all(other == first for other in others), "two clients read different events"
    inputs = [one.event for one in people[0].read if isinstance(one.event, e.InputAccepted)]
    assert len(inputs) == len(people), "each input is there once"


@scenario("a command with an id is one command however often it is sent, and its id is good for no other")
async def idempotency(play: Scene) -> None:
    person, other = await play.client("person"), await play.client("other")
    number = uuid.uuid4().hex
    create = c.CreateSession(cwd=play.door.cwd, model=f"{play.door.models}conformance-say", id=f"a-{number}")
    made = await person.send(create)
    assert (await person.send(create)).session == made.session, "two sessions were made"
    await person.attach(made.session)
    await other.attach(made.session)
    said = c.SendInput(session=made.session, content=(TextBlock(text="Go."),), mode="queue", id=f"b-{number}")
    first = await person.send(said)
    for client in (person, other):
        assert (await client.send(said)).event == first.event, "the same command was carried out twice"
    for changed in (
        msgspec.structs.replace(said, content=(TextBlock(text="Stop."),)),
        msgspec.structs.replace(create, mode="plan"),
    ):
        assert await refused(person.send(changed)) == "CommandIdUsed"
    await person.until(e.TurnEnded)
    assert (await person.send(said)).event == first.event, "it was forgotten with its turn"
    last = await person.say("And this.")
    await person.until(e.TurnEnded, after=last)
    inputs = [one.id for one in person.read if isinstance(one.event, e.InputAccepted)]
    assert inputs == [first.event, last], f"the inputs are {inputs}"


# Permission


async def _asked(play: Scene, *names: str) -> tuple[list[Client], e.PermissionRequested]:
    """Clients of one session, and the question they all have read."""
    clients = [await play.client(name) for name in names]
    session = await clients[0].create(play.door, "conformance-ask")
    for client in clients[1:]:
        await client.attach(session)
    await clients[0].say("Go.")
    questions = [await client.until(e.PermissionRequested) for client in clients]
    assert all(question == questions[0] for question in questions), "all are asked the same"
    return clients, questions[0]


@scenario("a question reaches every client, a yes lets the call run, and the event says who answered")
async def permission_allowed(play: Scene) -> None:
    (one, other), question = await _asked(play, "one", "other")
    await other.answer(question.call_id, "once")
    for client in (one, other):
        decided = await client.until(e.PermissionDecided)
        assert (decided.verdict, decided.answered_by) == ("allow", other.connection.client)
        result = await client.until(e.ToolResult)
        assert (result.call_id, result.outcome) == (question.call_id, "ok")


@scenario("a no is the result of the call, and the turn goes on")
async def permission_denied(play: Scene) -> None:
    (person,), question = await _asked(play, "person")
    await person.answer(question.call_id, "deny")
    result = await person.until(e.ToolResult)
    assert result.outcome == "denied", f"the call ended {result.outcome}"
    assert (await person.until(e.TurnEnded)).stop == "end_turn"


@scenario("of two people who answer, the first wins, and the second is told so")
async def two_people(play: Scene) -> None:
    (one, other), question = await _asked(play, "one", "other")
    await one.answer(question.call_id, "deny")
    for answer in ("once", "deny"):
        assert await refused(other.answer(question.call_id, answer)) == "AlreadyAnswered"
    for client in (one, other):
        assert (await client.until(e.ToolResult)).outcome == "denied"
    decided = [envelope for envelope in one.read if isinstance(envelope.event, e.PermissionDecided)]
    assert len(decided) == 1, "a question is decided once"


@scenario("what two people have to allow runs when two have, and one of them twice is one")
async def two_keys(play: Scene) -> None:
    ana, ben = await play.client("Ana"), await play.client("Ben")
    try:
        session = await ana.create(play.door, "conformance-two")
    except BridleError as refusal:
        raise NotOffered(f"it has no model conformance-two ({refusal.reason})") from None
    await ben.attach(session)
    await ana.say("Go.")
    question = await ana.until(e.PermissionRequested)
    if question.keys < 2:
        raise NotOffered("its settings have no rule with keys = 2 for what conformance-two does")
    await ben.until(e.PermissionRequested)
    await ana.answer(question.call_id, "once")
    given = await ben.until(e.ApprovalGiven)
    assert (given.given, given.keys) == (1, 2), f"{given.given} of {given.keys} after the first yes"
    with contextlib.suppress(BridleError):
        await ana.answer(question.call_id, "once")
    await ben.answer(question.call_id, "once")
    decided = await ben.until(e.PermissionDecided)
    assert decided.verdict == "allow", f"two said yes, and it is {decided.verdict}"
    assert [one.client for one in decided.approvals] == [ana.connection.client, ben.connection.client]
    assert (await ben.until(e.ToolResult)).outcome == "ok"


@scenario("an agent never says yes, in its own turn or in anybody's; it may say no")
async def agent_never_approves(play: Scene) -> None:
    agent, person = await play.client("agent", identity="agent"), await play.client("person")
    session = await agent.create(play.door, "conformance-ask")
    await person.attach(session)
    await agent.say("Go.")
    question = await agent.until(e.PermissionRequested)
    for answer in ("once", "pattern", "tool", "always"):
        assert await refused(agent.answer(question.call_id, answer)) == "SelfApproval"
    await person.until(e.PermissionRequested)
    await person.answer(question.call_id, "deny")
    await person.until(e.TurnEnded)
    await person.say("Again.")
    question = await agent.until(e.PermissionRequested)
    assert await refused(agent.answer(question.call_id, "once")) == "SelfApproval"
    await agent.answer(question.call_id, "deny")
    assert (await agent.until(e.ToolResult)).outcome == "denied"


@scenario("somebody who joins while a question waits is asked it, and may answer")
async def late_join(play: Scene) -> None:
    (one,), question = await _asked(play, "one")
    other = await play.client("other")
    await other.attach(one.session)
    assert await other.until(e.PermissionRequested) == question
    await other.answer(question.call_id, "deny")
    assert (await one.until(e.ToolResult)).outcome == "denied"


@scenario("a question of a client that left waits for whoever comes back")
async def question_outlives_its_client(play: Scene) -> None:
    (one,), question = await _asked(play, "one")
    watcher = await play.client("watcher")
    await watcher.attach(one.session)
    await one.connection.close()
    back = await play.client("one again")
    await back.attach(watcher.session, since=one.numbers[-1] - 1)
    assert await back.until(e.PermissionRequested) == question
    await back.answer(question.call_id, "deny")
    assert (await back.until(e.ToolResult)).outcome == "denied"


# Leaving and coming back


@scenario("who comes back at the last number read gets exactly what was missed, byte for byte")
async def resume(play: Scene) -> None:
    one, other = await play.client("one"), await play.client("other")
    session = await one.create(play.door, "conformance-say")
    await other.attach(session)
    await one.turn("Go.")
    await other.until(e.TurnEnded)
    left_at = other.numbers[-1]
    await other.connection.close()
    await one.turn("And again.")
    back = await play.client("other again")
    await back.attach(session, since=left_at)
    await back.until(e.TurnEnded)
    assert back.numbers[0] == left_at + 1, "nothing is repeated and nothing left out"
    missed = [encode_envelope(envelope) for envelope in one.read if (envelope.id or 0) > left_at]
    assert [encode_envelope(envelope) for envelope in back.read] == missed


@scenario("a connection that breaks is made again: the same client goes on behind what it has, nothing twice")
async def broken_connection(play: Scene) -> None:
    one, other = await play.client("one"), await play.client("other")
    session = await one.create(play.door, "conformance-say")
    await other.attach(session)
    await one.turn("Go.")
    await other.until(e.TurnEnded)
    was = other.connection.client
    play.door.cut(other.connection)
    await one.turn("And again.")
    await other.until(e.TurnEnded)
    assert other.connection.client == was, "it came back as somebody else"
    assert other.numbers == one.numbers, "something is missing or there twice"
    await other.turn("From me.")


@scenario("who falls behind is told which events it missed, nobody waits for it, and it can read them all")
async def gap(play: Scene) -> None:
    if not play.door.falls_behind:
        raise NotOffered("its client reads ahead, so nothing is missed")
    one, slow = await play.client("one"), await play.client("slow")
    session = await one.create(play.door, "conformance-hold")
    await slow.attach(session)
    await one.say("Go.")
    await slow.until(e.TextDelta)
    words = "word " * 40_000
    last = [await one.say(words) for _ in range(BEHIND)][-1]
    missed = await slow.until_gap(last)
    if missed is None:
        raise NotOffered(f"it keeps more than {BEHIND * len(words) // 1_000_000} MB for who does not read")
    assert missed.first == slow.numbers[-1] + 1, "something before the gap is missing"
    assert missed.first <= missed.last < last, f"the gap is {missed.first} to {missed.last}"
    again = await play.client("again")
    await again.attach(session, since=missed.first - 1)
    await again.until(e.InputAccepted, after=missed.last)
    assert again.numbers == list(range(missed.first, again.numbers[-1] + 1)), "what was missed is not there"


@scenario("everybody is told who is here, when somebody comes and when somebody leaves")
async def presence(play: Scene) -> None:
    one, other = await play.client("one"), await play.client("other")
    session = await one.create(play.door, "conformance-say")
    await one.turn("Go.")
    await other.attach(session)
    await other.until(e.SessionCreated)
    mine, theirs = one.connection.client, other.connection.client
    await one.until_here({mine, theirs}, by=await one.say("And again."))
    await other.connection.close()
    await one.until_here({mine})


@scenario("a turn goes on when its client leaves")
async def disconnect(play: Scene) -> None:
    one, other = await play.client("one"), await play.client("other")
    session = await one.create(play.door, "conformance-say")
    await other.attach(session)
    number = await one.say("Go.")
    await one.connection.close()
    assert (await other.until(e.TurnEnded, after=number)).stop == "end_turn"


@scenario("who detaches hears nothing more, and the session stays")
async def detach(play: Scene) -> None:
    one, other = await play.client("one"), await play.client("other")
    session = await one.create(play.door, "conformance-say")
    await other.attach(session)
    await other.until(e.SessionCreated)
    await other.send(c.DetachSession(session=session))
    await other.until_over()
    assert (await one.turn("Go.")).stop == "end_turn"
    assert not [one for one in other.read if isinstance(one.event, e.TurnEnded)], "it heard of the turn"
    if not play.door.attaches_itself:
        assert await refused(other.say("Me?")) == "NotAttached"


@scenario("who ends a session ends it for all; it is stored and can be opened again")
async def end_and_reopen(play: Scene) -> None:
    one, other = await play.client("one"), await play.client("other")
    session = await one.create(play.door, "conformance-say")
    await other.attach(session)
    await one.turn("Go.")
    await one.send(c.EndSession(session=session))
    await other.until(e.SessionEnded)
    again = await play.client("again")
    await again.attach(session)
    assert (await again.turn("Go on.")).stop == "end_turn"


# Who may


@scenario("nobody reads or drives a session without being attached to it, and nobody one that is not there")
async def attachment(play: Scene) -> None:
    one, other = await play.client("one"), await play.client("other")
    session = await one.create(play.door, "conformance-say")
    if not play.door.attaches_itself:
        other.session = session
        assert await refused(other.say("Me?")) == "NotAttached"
        assert await refused(anext(aiter(other.connection.events(session)))) == "NotAttached"
        other.session = ""
    assert await refused(other.attach("sess_00000000000000000000000000")) == "UnknownSession"


@scenario("a client that is bound to a session sees no other one, in no list and by no id")
async def bound_to_a_session(play: Scene) -> None:
    person = await play.client("person")
    mine = await person.create(play.door, "conformance-say")
    await person.turn("Go.")
    stranger = await play.client("stranger")
    other = await stranger.create(play.door, "conformance-say")
    await stranger.turn("Go.")
    guest = await play.client("guest", sessions=[mine])
    await guest.attach(mine)
    listed = await guest.connection.ask(ListSessions())
    assert {row.id for row in listed.sessions} == {mine}
    assert await refused(guest.connection.ask(DescribeSession(session=other))) == "UnknownSession"
    assert await refused(guest.send(c.AttachSession(session=other))) == "UnknownSession"
    assert await refused(guest.send(c.CreateSession(cwd=play.door.cwd))) == "NotGranted"


@scenario("a client that may only watch sees everything and changes nothing")
async def watch_only(play: Scene) -> None:
    person = await play.client("person")
    session = await person.create(play.door, "conformance-ask")
    watcher = await play.client("watcher", sessions=[session], commands=["AttachSession", "FollowEvents"])
    await watcher.attach(session)
    await person.say("Go.")
    question = await watcher.until(e.PermissionRequested)
    assert await refused(watcher.say("Me?")) == "NotGranted"
    assert await refused(watcher.answer(question.call_id, "deny")) == "NotGranted"
    assert await refused(watcher.send(c.CancelTurn(session=session))) == "NotGranted"
    await person.answer(question.call_id, "deny")
    assert (await watcher.until(e.ToolResult)).outcome == "denied"


@scenario("a client that may only answer says yes or no to what is asked, and nothing else")
async def answer_only(play: Scene) -> None:
    person = await play.client("person")
    session = await person.create(play.door, "conformance-ask")
    may = ["AttachSession", "FollowEvents", "AnswerPermission"]
    desk = await play.client("desk", sessions=[session], commands=may)
    await desk.attach(session)
    await person.say("Go.")
    question = await desk.until(e.PermissionRequested)
    assert await refused(desk.say("Me?")) == "NotGranted"
    assert await refused(desk.send(c.SetMode(session=session, mode="yolo"))) == "NotGranted"
    assert await refused(desk.send(c.EndSession(session=session))) == "NotGranted"
    assert await refused(desk.connection.ask(ListSessions())) == "NotGranted"
    await desk.answer(question.call_id, "once")
    decided = await person.until(e.PermissionDecided)
    assert (decided.verdict, decided.answered_by) == ("allow", desk.connection.client)


@scenario("a token that is forged, widened, over, taken back or not good yet opens nothing")
async def bad_tokens(play: Scene) -> None:
    for what, token in play.door.tokens().items():
        reason = await refused(play.door.knock(token))
        assert reason in BAD_TOKEN, f"{what}: refused with {reason}"


@scenario("an agent gets no looser session than the person's own settings give")
async def agent_asks_for_less(play: Scene) -> None:
    agent = await play.client("agent", identity="agent")
    create = c.CreateSession(cwd=play.door.cwd, model=f"{play.door.models}conformance-say", mode="yolo")
    assert await refused(agent.send(create)) == "OnlyStricter"
    for config in (
        c.SessionOptions(yes=True),
        c.SessionOptions(config_file="/etc/passwd"),
        c.SessionOptions(sandbox="off"),
    ):
        plain = msgspec.structs.replace(create, mode=None, config=config)
        assert await refused(agent.send(plain)) in ("NotAPerson", "OnlyStricter")
    session = await agent.create(play.door, "conformance-say")
    assert await refused(agent.send(c.SetMode(session=session, mode="auto"))) == "SelfApproval"
