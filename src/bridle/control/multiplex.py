"""Many clients, one truth: identity at the door, one order of commands, the same events for all.

Commands arrive on one event loop and are handled one after the other; the id of the event that records a command is
its place in the order. The engine sees a client's id and class, never how it is connected. What a client may do is
`authority`, how a session begins and ends is `live`, what a command does to it is `session_commands`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, structs

from bridle.base.clock import Clock, Timer
from bridle.control.authority import (
    NOT_OPEN,
    Asked,
    Bounds,
    FollowEvents,
    MeantSession,
    Refusal,
    may,
    outside,
    session_of,
)
from bridle.control.command_ids import TakenCommands, named_by, stamp_of
from bridle.control.live import LiveSession
from bridle.control.live_sessions import ClientSight, LiveSessions, SessionSource
from bridle.control.session_commands import carry_out
from bridle.engine.open_questions import Client
from bridle.protocol.codec import kind_of_command
from bridle.protocol.commands import (
    Accepted,
    AnswerQuestion,
    AnyCommand,
    AttachSession,
    BranchSession,
    ConnectProvider,
    CreateSession,
    DeleteSession,
    DetachSession,
    EndSession,
    PinSession,
    RenameSession,
    RunSlash,
    SaveModel,
    SendInput,
    ShellRequest,
    Undo,
)
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import CommandStamp, Envelope, StreamGap, TokenExpiring
from bridle.protocol.slash_arguments import bare_name
from bridle.protocol.tokens import Claims

if TYPE_CHECKING:
    from bridle.protocol.queries import AnyQuery, AnyQueryAnswer

# A stream may drain for a minute past the end of its token. One that was revoked ends when that is found out,
# within seconds, also where another process revoked it.


NOTICE_S = 300
DRAIN_S = 60
LOOK_S = 5.0

CheckClaims = Callable[[Claims], None]
"""Raises `CommandRefused` for claims that do not hold any more."""


class TokenWatch:
    """Looks at one token every few seconds. `wake` is called when there is something to say."""

    def __init__(self, claims: Claims, *, clock: Clock, check: CheckClaims, wake: Callable[[], None]) -> None:
        self.over: CommandRefused | None = None
        """Why the stream ends now."""
        self._claims = claims
        self._clock = clock
        self._check = check
        self._wake = wake
        self._told = self._due = False
        self._timer: Timer | None = None
        self._look()

    @property
    def has_news(self) -> bool:
        return self._due or self.over is not None

    def notice(self) -> TokenExpiring | None:
        """That it expires soon, once."""
        if not self._due:
            return None
        self._due, self._told = False, True
        return TokenExpiring(jti=self._claims.jti, expires_ms=self._claims.exp * 1000)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        left_s = self._claims.exp - self._clock.now_ms() / 1000
        try:
            self._check(self._claims)
        except CommandRefused as refusal:
            if refusal.reason != "TokenExpired" or left_s <= -DRAIN_S:
                self.over = refusal
        self._due = self._due or (not self._told and left_s <= NOTICE_S)
        if self.over is None:
            self._timer = self._clock.call_later(LOOK_S, self._look)
        if self.has_news:
            self._wake()


class EventReader(msgspec.Struct, frozen=True, kw_only=True):
    """One client reading the events of a session it is attached to. `check` raises `CommandRefused` for claims that
    hold no more."""

    live: LiveSession
    client: Client
    claims: Claims | None
    clock: Clock
    check: Callable[[Claims], None]

    async def follow(self, since: int) -> AsyncIterator[Envelope]:
        """Yield the events above an id; the client is here while it reads. Open questions from before `since`, and
        who else is here, come first."""
        self.live.begin_stream(self.client)
        try:
            async for envelope in self._stream(since):
                yield envelope
        finally:
            self.live.end_stream(self.client)

    async def overhear(self, since: int) -> AsyncGenerator[Envelope]:
        """The events above an id, for a request that waits for one of them: nobody is here by it. It ends as a stream
        does when its token holds no more."""
        attachment = self.live.attachments[self.client.id]
        with self._watched() as watch:

            def is_over() -> bool:
                has_left = self.live.attachments.get(self.client.id) is not attachment
                return has_left or (watch is not None and watch.over is not None)

            async for envelope in self.live.session.follow(since, until=is_over):
                yield envelope
            if watch is not None and watch.over is not None:
                raise watch.over

    async def _stream(self, since: int) -> AsyncIterator[Envelope]:
        live, client = self.live, self.client
        session, attachment = live.session, live.attachments[client.id]
        for envelope in await session.questions.pending(since):
            yield envelope
        if len(live.here) > 1:
            yield session.journal.for_one(live.presence)
        last_id = since
        with self._watched() as watch:

            def is_over() -> bool:
                has_news = watch is not None and watch.has_news
                has_left = live.attachments.get(client.id) is not attachment
                return has_news or has_left or live.has_private(client.id)

            while True:
                async for envelope in session.follow(last_id, until=is_over):
                    yield envelope
                    last_id = _read_up_to(envelope, last_id)
                told = live.take_private(client.id)
                if watch is not None:
                    if watch.over is not None:
                        raise watch.over
                    if (notice := watch.notice()) is not None:
                        told.append(session.journal.for_one(notice))
                if not told:
                    return
                for envelope in told:
                    yield envelope

    @contextmanager
    def _watched(self) -> Generator[TokenWatch | None]:
        """Looks after the token of whoever reads; most clients have none."""
        if self.claims is None:
            yield None
            return
        wake = self.live.session.wake_readers
        watch = TokenWatch(self.claims, clock=self.clock, check=self.check, wake=wake)
        try:
            yield watch
        finally:
            watch.close()


def _read_up_to(envelope: Envelope, last_id: int) -> int:
    if envelope.kind == "StreamGap" and isinstance(envelope.event, StreamGap):
        return envelope.event.last
    return envelope.id or last_id


HearRefusal: TypeAlias = Callable[[Client, Asked, str], None]
"""Hears who was refused what, and the reason."""
A = TypeVar("A", bound=Asked)


class Multiplexer:
    """The door of the live sessions for every client of this process. `check_claims` checks every request with a
    token; `hear_refusal` hears of refusals."""

    def __init__(
        self,
        *,
        sessions: SessionSource,
        clock: Clock,
        check_claims: Callable[[Claims], None] = lambda _claims: None,
        hear_refusal: HearRefusal = lambda _client, _asked, _reason: None,
    ) -> None:
        self.live = LiveSessions(sessions, clock)
        self._source = sessions
        self._clock = clock
        self._check_claims = check_claims
        self._hear_refusal = hear_refusal
        self._taken: TakenCommands | None = None
        self.refuse_code: Callable[[Client, str], bool] = lambda _client, _question_id: False
        """Whether this was the answer to a code that was shown to this client, which is void then."""

    async def handle(self, client: Client, claims: Claims | None, command: AnyCommand) -> Accepted:
        """Carry a command out. The reply comes when the event that it names is kept. A repeated id gets the same
        answer; the client that opened a session is attached to it."""
        try:
            if claims is not None:
                self._check_claims(claims)
            command = await self._by_id(claims, command)
            if not command.id:
                return await self._handle(client, claims, command)
            return await self._handle_once(client, claims, command)
        except CommandRefused as refusal:
            self._hear_refusal(client, command, refusal.reason)
            raise

    async def _handle_once(self, client: Client, claims: Claims | None, command: AnyCommand) -> Accepted:
        stamp = stamp_of(command)
        _refuse_for(outside(claims, command))
        if self._taken is None:
            self._taken = TakenCommands(self.live, self._source.find, self._clock)
        accepted, is_new = await self._taken.once(
            client, command, stamp, lambda: self._handle(client, claims, command, stamp)
        )
        if isinstance(command, CreateSession) and not is_new:
            live = self.live.get(accepted.session)
            if live is None or client.id not in live.attachments:
                await self.live.attach(client, claims, AttachSession(session=accepted.session))
        return accepted

    async def _handle(
        self,
        client: Client,
        claims: Claims | None,
        command: AnyCommand,
        stamp: CommandStamp | None = None,
    ) -> Accepted:
        _refuse_for(
            outside(claims, command)
        )  # before anything is looked up for it: that would tell what there is
        if isinstance(command, RunSlash):  # before anybody judges it: a long name is the same command
            command = msgspec.structs.replace(command, name=bare_name(command.name))
        if isinstance(command, SendInput | RunSlash | ShellRequest | Undo):
            live = self.live.open_one(command.session)
            if live is not None:
                await live.session.rested()
        self._admit(client, claims, command, await self.live.bounds_for(client, command))
        match command:
            case CreateSession():
                if stamp is not None:
                    command = named_by(command, stamp)
                live, accepted = await self.live.create(client, claims, command)
            case AttachSession():
                live, accepted = await self.live.attach(client, claims, command)
            case RenameSession() | PinSession() | BranchSession() | DeleteSession():
                return Accepted(session=await self._put_in_order(command))
            case SaveModel() | ConnectProvider():
                await self._source.answers().set_up(command)
                return Accepted(session="")
            case _:
                if (session := session_of(command)) is None:
                    raise CommandRefused("NotSupported", what=kind_of_command(command))
                live = self.live.at(session)
                accepted = Accepted(
                    session=live.id, event=await self._carry_out(client, live, command, stamp)
                )
        if accepted.event is not None and live.state == "open":
            await live.session.journal.committed()
        return accepted

    async def _carry_out(
        self, client: Client, live: LiveSession, command: AnyCommand, stamp: CommandStamp | None
    ) -> int | None:
        match command:
            case DetachSession():
                live.detach(client.id)
            case EndSession(leaving=leaving):
                await self.live.end(live, "binary-shutdown" if leaving else "user")
            case AnswerQuestion(question_id=asked) if self.refuse_code(client, asked):
                pass
            case _:
                return carry_out(self._source, live, client, command, stamp)
        return None

    async def _put_in_order(self, command: RenameSession | PinSession | BranchSession | DeleteSession) -> str:
        """What is done to a stored session, open or not. Returns the session it is about afterwards."""
        session, _ = await self._source.find(command.session)
        answers = self._source.answers()
        match command:
            case RenameSession(title=title):
                await answers.rename(session, title)
            case PinSession(pinned=pinned):
                await answers.pin(session, pinned)
            case BranchSession(turn=turn):
                return await answers.branch(session, turn)
            case DeleteSession():
                await answers.delete(session)
        return session

    # The gate

    async def _by_id(self, claims: Claims | None, asked: A) -> A:
        """Return the same about the id of the session, where another name was given. A client bound to sessions may
        use whole aliases of those alone, and cannot tell whether others exist."""
        name = session_of(asked)
        if not name or self.live.get(name) is not None:
            return asked
        bound = claims is not None and claims.sessions is not UNSET
        try:
            session, _ = await self._source.find(name, exact=bound)
        except CommandRefused:  # whoever carries it out says which it was
            return asked
        if session == name or (claims is not None and not claims.covers_session(session)):
            return asked
        if isinstance(asked, CreateSession):
            return structs.replace(asked, resume=session)
        return structs.replace(asked, session=session) if hasattr(asked, "session") else asked

    def _admit(
        self, client: Client, claims: Claims | None, asked: Asked, bounds: Bounds | None = None
    ) -> None:
        """Raises `CommandRefused` for what this client may not do."""
        _refuse_for(may(client, claims, asked, self._meant_session(client, asked, bounds)))

    def _meant_session(self, client: Client, asked: Asked, bounds: Bounds | None) -> MeantSession:
        live = self.live.get(session_of(asked))
        if live is not None and live.state == "opening":
            live = None
        if isinstance(asked, CreateSession):
            if bounds is None:
                return NOT_OPEN
            if live is not None:
                bounds = structs.replace(bounds, mode=live.session.journal.conversation.mode)
            return MeantSession(bounds=bounds)
        if isinstance(asked, FollowEvents) and self.live.saw_end(client, asked.session):
            return MeantSession(is_open=True, attached=True)
        if live is None:
            return NOT_OPEN
        conversation = live.session.journal.conversation
        return MeantSession(
            is_open=live.state == "open" or isinstance(asked, FollowEvents),
            attached=client.id in live.attachments,
            mode=conversation.mode,
            effort=conversation.effort or live.run.effort,
            slash=live.session.slash_names,
        )

    # Looking and reading

    async def ask(self, client: Client, claims: Claims | None, query: AnyQuery) -> AnyQueryAnswer:
        """Answers a query, with what this client may see."""
        try:
            if claims is not None:
                self._check_claims(claims)
            query = await self._by_id(claims, query)
            self._admit(client, claims, query)
        except CommandRefused as refusal:
            self._hear_refusal(client, query, refusal.reason)
            raise
        shows = claims.covers_session if claims is not None else _everything
        return await self._source.answers().answer(query, ClientSight(shows=shows, live=self.live.all_open()))

    async def follow(
        self, client: Client, claims: Claims | None, session: str, since: int
    ) -> AsyncIterator[Envelope]:
        """The events of a session the client is attached to; of one that ended while it was, those that are stored."""
        asked = FollowEvents(session)
        try:
            if claims is not None:
                self._check_claims(claims)
            asked = await self._by_id(claims, asked)
            self._admit(client, claims, asked)
        except CommandRefused as refusal:
            self._hear_refusal(client, asked, refusal.reason)
            raise
        session = asked.session
        if self.live.saw_end(client, session):
            async for envelope in self._source.past(session, since):
                yield envelope
            return
        async for envelope in self._reader(client, claims, session).follow(since):
            yield envelope

    def overhear(
        self, client: Client, claims: Claims | None, session: str, since: int
    ) -> AsyncGenerator[Envelope]:
        self._admit(client, claims, FollowEvents(session))
        return self._reader(client, claims, session).overhear(since)

    def _reader(self, client: Client, claims: Claims | None, session: str) -> EventReader:
        return EventReader(
            live=self.live.at(session),
            client=client,
            claims=claims,
            clock=self._clock,
            check=self._check_claims,
        )


def _refuse_for(refusal: Refusal | None) -> None:
    if refusal is not None:
        raise CommandRefused(refusal.reason, **refusal.data)


def _everything(_session: str) -> bool:
    return True
