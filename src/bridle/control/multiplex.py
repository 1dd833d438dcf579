"""Many clients, one truth: identity at the door, one order of commands, the same events for all.

Commands arrive on one event loop and are handled one after the other; the id of the event that records a command is
its place in the order. The engine sees a client's id and class, never how it is connected. What a client may do is
`authority`, how a session begins and ends is `live`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec import structs

from bridle.base.clock import Clock
from bridle.base.ids import Ids
from bridle.control.authority import (
    NOT_OPEN,
    Asked,
    Bounds,
    FollowEvents,
    MeantSession,
    may,
    options_for_agents,
    session_of,
)
from bridle.control.live import LiveSession, Run
from bridle.engine.open_questions import Client
from bridle.engine.session import Session
from bridle.protocol.codec import kind_of_command
from bridle.protocol.commands import (
    Accepted,
    AnswerPermission,
    AnswerQuestion,
    AnswerTrust,
    AnyCommand,
    AskAside,
    AttachSession,
    BranchSession,
    CancelTurn,
    ChangeInput,
    CreateSession,
    DeleteSession,
    DetachSession,
    EndSession,
    EnterPlanMode,
    ExitPlanMode,
    PinSession,
    RenameSession,
    RevokeGrant,
    RunSlash,
    SendInput,
    SetEffort,
    SetMode,
    SetModel,
    ShellRequest,
    Undo,
)
from bridle.protocol.errors import CommandRefused, StoreError
from bridle.protocol.events import EffortChanged, Envelope, IdentityClass, ModelChanged
from bridle.protocol.handshake import Handshake
from bridle.protocol.messages import TextBlock

if TYPE_CHECKING:
    from bridle.protocol.queries import A, AnyQuery, AnyQueryAnswer, Query
    from bridle.protocol.tokens import Claims

OF_THE_CLIENT = frozenset({"title", "headless", "on_ask", "on_orphan", "wide_folder"})
"""Options of `CreateSession.config` that say nothing about how a run works that is open already."""


class ClientSight(msgspec.Struct, frozen=True, kw_only=True):
    """What a client sees: which sessions there are for it, and those that are open in this engine, by id."""

    shows: Callable[[str], bool]
    live: Mapping[str, LiveSession]


class SessionSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where sessions come from; the composition root knows how.

    `open` opens one for a client, or resumes a stored one. `find` gives the id and the folder of a stored one, known by
    its id or by a name people gave it, and raises `UnknownSession`. `past` are the stored events of a session above an
    id. `bounds_of` is what the person's own settings give such a session, without a word of the client. `answer`
    answers a query, within what the client may see. `rename`, `pin`, `branch` and `delete` put stored sessions in
    order; `branch` gives the new id.
    """

    open: Callable[[CreateSession, Client], Awaitable[Run]]
    find: Callable[[str], Awaitable[tuple[str, str]]]
    past: Callable[[str, int], AsyncIterator[Envelope]]
    bounds_of: Callable[[CreateSession], Awaitable[Bounds]]
    answer: Callable[[AnyQuery, ClientSight], Awaitable[AnyQueryAnswer]]
    rename: Callable[[str, str], Awaitable[None]]
    pin: Callable[[str, bool], Awaitable[None]]
    branch: Callable[[str, int | None], Awaitable[str]]
    delete: Callable[[str], Awaitable[None]]


ChooseModel = Callable[[str, str, Client], ModelChanged]
"""Reads `provider:model` for a session, by its own settings; refuses one that is not there for the client."""

PromptOf = Callable[[str, str], str | None]
"""The words behind a slash command with its arguments, if there is such a command."""


class Multiplexer:
    """Holds the live sessions of this process and the clients attached to them."""

    def __init__(
        self,
        *,
        sessions: SessionSource,
        choose_model: ChooseModel,
        prompt_of: PromptOf,
        ids: Ids,
        clock: Clock,
        hello: Callable[[], Handshake],
    ) -> None:
        self._source = sessions
        self._choose_model = choose_model
        self._prompt_of = prompt_of
        self._ids = ids
        self._clock = clock
        self._hello = hello
        self._live: dict[str, LiveSession] = {}
        self._idle_ended: dict[str, CreateSession] = {}
        self._saw_end: dict[str, set[str]] = {}
        """By client: the sessions it was attached to when they ended. It may read how."""
        self._failure: StoreError | None = None

    def connect(
        self, *, name: str, identity: IdentityClass, answers: bool, claims: Claims | None = None
    ) -> InProcessConnection:
        """A new client. Its id, its class and its claims are fixed for as long as it stays; claims name its class."""
        identity = identity if claims is None else claims.identity_class
        client = Client(id=self._ids.new("cli"), name=name, identity=identity, answers=answers)
        return InProcessConnection(self, client, claims, self._hello)

    async def handle(self, client: Client, claims: Claims | None, command: AnyCommand) -> Accepted:
        """Carries a command out. A reply that names an event comes when that event is kept, as the event does."""
        if isinstance(command, SendInput | RunSlash | ShellRequest | Undo):
            live = self._live.get(command.session)
            if live is not None and live.state == "open":
                await live.session.rested()
        self._admit(client, claims, command, await self._bounds_for(client, command))
        match command:
            case CreateSession():
                live, accepted = await self._create(client, claims, command)
            case AttachSession():
                live, accepted = await self._attach(client, claims, command)
            case RenameSession() | PinSession() | BranchSession() | DeleteSession():
                return Accepted(session=await self._put_in_order(command))
            case _:
                live = self._named(session_of(command), command)
                accepted = await self._carry_out(client, live, command)
        if accepted.event is not None and live.state == "open":
            await live.session.journal.committed()
        return accepted

    def _named(self, session: str | None, command: AnyCommand) -> LiveSession:
        if session is None:
            raise CommandRefused("NotSupported", what=kind_of_command(command))
        return self._live[session]

    async def _carry_out(self, client: Client, live: LiveSession, command: AnyCommand) -> Accepted:
        session, number = live.session, None
        match command:
            case DetachSession():
                live.detach(client.id)
            case EndSession():
                await self._end(live)
            case SendInput():
                number = session.accept(client, command.content, command.mode)
            case ChangeInput():
                number = session.change_input(client, command)
            case AskAside():
                if session.asides is None:
                    raise CommandRefused("NotSupported", what="AskAside")
                number = session.asides.ask(command.question, originator=client.id)
            case CancelTurn():
                session.cancel(client)
            case AnswerPermission():
                session.questions.answer(client, command)
            case AnswerTrust():
                session.questions.answer_trust(client, command)
            case AnswerQuestion():
                session.questions.answer_question(client, command)
            case ShellRequest():
                session.run_for_person(client, command)
            case RunSlash():
                number = self._run_slash(client, session, command)
            case Undo(redo=redo, turn=turn):
                name, arguments = ("redo", "") if redo else ("undo", "" if turn is None else str(turn))
                if not session.run_slash(client, name, arguments):
                    raise CommandRefused("NotSupported", what="Undo")
            case SetMode():
                number = session.set_mode(client, command.mode)
            case SetEffort():
                changed = EffortChanged(effort=command.effort)
                number = session.journal.emit(changed, originator=client.id)
            case EnterPlanMode():
                number = session.set_mode(client, "plan")
            case ExitPlanMode():
                number = session.leave_plan_mode(client, approved=command.approve)
            case RevokeGrant():
                number = session.revoke(client, command.grant_id)
            case SetModel():
                chosen = self._choose_model(session.id, command.model, client)
                number = session.journal.emit(chosen, originator=client.id)
            case _:
                raise CommandRefused("NotSupported", what=kind_of_command(command))
        return Accepted(session=live.id, event=number)

    async def _end(self, live: LiveSession) -> None:
        """Whoever ends it is told where not all of it could be kept; then nobody else has to be."""
        try:
            await live.end("user")
        except StoreError as failure:
            if failure is self._failure:
                self._failure = None
            raise

    async def _put_in_order(self, command: RenameSession | PinSession | BranchSession | DeleteSession) -> str:
        """What is done to a stored session, open or not. Returns the session it is about afterwards."""
        session, _ = await self._source.find(command.session)
        match command:
            case RenameSession(title=title):
                await self._source.rename(session, title)
            case PinSession(pinned=pinned):
                await self._source.pin(session, pinned)
            case BranchSession(turn=turn):
                return await self._source.branch(session, turn)
            case DeleteSession():
                await self._source.delete(session)
        return session

    def _run_slash(self, client: Client, session: Session, command: RunSlash) -> int | None:
        """A command of the engine's own is carried out; a named prompt becomes input like any other."""
        if session.run_slash(client, command.name, command.arguments):
            return None
        text = self._prompt_of(command.name, command.arguments)
        if text is None:
            raise CommandRefused("UnknownSlash", name=command.name)
        return session.accept(client, (TextBlock(text=text),), "queue")

    # Opening, attaching, leaving

    async def _create(
        self, client: Client, claims: Claims | None, command: CreateSession
    ) -> tuple[LiveSession, Accepted]:
        if command.resume is None:
            live, opened = await self._opened(
                LiveSession(command, clock=self._clock, ended=self._forget), client
            )
        else:
            live, opened = await self._resumed(
                command.resume, client, lambda plain, _: structs.replace(command, resume=plain.resume)
            )
        if not opened:
            _refuse_other_options(live, command)
            self._change_to(client, live.session, command)
        live.attach(client, claims, 0)
        if opened:
            live.session.begin()
        return live, _accepted(live)

    async def _attach(
        self, client: Client, claims: Claims | None, command: AttachSession
    ) -> tuple[LiveSession, Accepted]:
        """A stored session is opened for it, with the options of its last run if that ended because it was idle."""
        live = self._live.get(command.session)
        opened = False
        if live is None or live.state != "open":
            live, opened = await self._resumed(
                command.session, client, lambda plain, bounds: self._reopening(plain, client, bounds)
            )
        live.attach(client, claims, command.since)
        if opened:
            live.session.begin()
        return live, _accepted(live)

    def _reopening(self, plain: CreateSession, client: Client, bounds: Bounds | None) -> CreateSession:
        session = plain.resume or ""
        config = {"on_orphan": "ask" if client.answers else "fail"}
        if (before := self._idle_ended.get(session)) is None:
            return structs.replace(plain, config=config)
        if bounds is not None:
            return structs.replace(plain, config=options_for_agents(before.config, bounds))
        return structs.replace(before, resume=session, model=None, mode=None)

    async def _resumed(
        self, name: str, client: Client, command_of: Callable[[CreateSession, Bounds | None], CreateSession]
    ) -> tuple[LiveSession, bool]:
        """The live session of this name, which may be opened for it; True if it was. Two who come at once get one.

        What it is opened with is made of its id and its folder when nothing of an earlier run is under way any more.
        """
        session, cwd = await self._source.find(name)
        plain = CreateSession(cwd=cwd, resume=session)
        bounds = await self._bounds_for(client, plain)
        while (live := self._live.get(session)) is not None:
            await live.settled()
            if live.state == "open":
                return live, False
        live = LiveSession(command_of(plain, bounds), clock=self._clock, ended=self._forget)
        self._live[session] = live
        return await self._opened(live, client)

    async def _opened(self, live: LiveSession, client: Client) -> tuple[LiveSession, bool]:
        await live.open(self._source.open(live.command, client))
        self._live[live.id] = live
        self._idle_ended.pop(live.id, None)
        return live, True

    def _change_to(self, client: Client, session: Session, command: CreateSession) -> None:
        """What a client who resumes a session that is open wants changed in it."""
        conversation = session.journal.conversation
        if command.model:
            chosen = self._choose_model(session.id, command.model, client)
            if chosen != conversation.model:
                session.journal.emit(chosen, originator=client.id)
        if command.mode is not None and command.mode != conversation.mode:
            session.set_mode(client, command.mode)

    def _forget(self, live: LiveSession) -> None:
        """A run is over, or did not begin. The session stays: whoever comes next begins another run."""
        if self._live.get(live.id) is live:
            del self._live[live.id]
        for client in live.attachments:
            self._saw_end.setdefault(client, set()).add(live.id)
        self._failure = self._failure or live.failure
        if live.cause == "idle":
            self._idle_ended[live.id] = live.command

    def leave(self, client: Client) -> None:
        """A client is gone; its sessions go on."""
        for live in list(self._live.values()):
            live.detach(client.id)
        self._saw_end.pop(client.id, None)

    async def close(self) -> None:
        """Ends every session: turns are cancelled, readers reach their end.

        Raises the first failure to keep a session there was, afterwards: who ended it may not have been told.
        """
        for live in list(self._live.values()):
            if live.state == "opening":
                await live.settled()
            with contextlib.suppress(StoreError):
                await live.end("binary-shutdown")
        if self._failure is not None:
            raise self._failure

    # The gate

    async def _bounds_for(self, client: Client, asked: Asked) -> Bounds | None:
        """What the person's own settings give a session that an agent wants: looked up before the gate, which then
        judges in one go."""
        if client.identity == "agent" and isinstance(asked, CreateSession):
            return await self._source.bounds_of(asked)
        return None

    def _admit(
        self, client: Client, claims: Claims | None, asked: Asked, bounds: Bounds | None = None
    ) -> None:
        """Raises `CommandRefused` for what this client may not do."""
        refusal = may(client, claims, asked, self._meant_session(client, asked, bounds))
        if refusal is not None:
            raise CommandRefused(refusal.reason, **refusal.data)

    def _meant_session(self, client: Client, asked: Asked, bounds: Bounds | None) -> MeantSession:
        live = self._live.get(session_of(asked) or "")
        if live is not None and live.state == "opening":
            live = None
        if isinstance(asked, CreateSession):
            if bounds is None:
                return NOT_OPEN
            if live is not None:
                bounds = structs.replace(bounds, mode=live.session.journal.conversation.mode)
            return MeantSession(bounds=bounds)
        if isinstance(asked, FollowEvents) and self._reads_end(client, asked.session):
            return MeantSession(is_open=True, attached=True)
        if live is None:
            return NOT_OPEN
        return MeantSession(
            is_open=live.state == "open" or isinstance(asked, FollowEvents),
            attached=client.id in live.attachments,
            mode=live.session.journal.conversation.mode,
            slash=live.session.slash_names,
        )

    # Looking and reading

    async def ask(self, client: Client, claims: Claims | None, query: AnyQuery) -> AnyQueryAnswer:
        """Answers a query, with what this client may see."""
        self._admit(client, claims, query)
        is_open = {session: live for session, live in self._live.items() if live.state == "open"}
        shows = claims.covers_session if claims is not None else _everything
        return await self._source.answer(query, ClientSight(shows=shows, live=is_open))

    async def follow(
        self, client: Client, claims: Claims | None, session: str, since: int
    ) -> AsyncIterator[Envelope]:
        """The events of a session the client is attached to, for as long as it is."""
        self._admit(client, claims, FollowEvents(session))
        if self._reads_end(client, session):
            async for envelope in self._source.past(session, since):
                yield envelope
            return
        live = self._live[session]
        attachment = live.attachments[client.id]

        def has_left() -> bool:
            return live.attachments.get(client.id) is not attachment

        async for envelope in live.session.follow(since, until=has_left):
            yield envelope

    def _reads_end(self, client: Client, session: str) -> bool:
        return session not in self._live and session in self._saw_end.get(client.id, ())

    @property
    def running(self) -> tuple[Session, ...]:
        """The sessions that are open in this engine."""
        return tuple(live.session for live in self._live.values() if live.state == "open")

    def session(self, session: str) -> Session:
        """The live session of this id."""
        live = self._live.get(session)
        if live is None or live.state != "open":
            raise CommandRefused("SessionNotOpen", session=session)
        return live.session


def _everything(_session: str) -> bool:
    return True


def _refuse_other_options(live: LiveSession, command: CreateSession) -> None:
    """A run works by the options it was opened with: who wants others is told so, not handed something else."""
    before = live.command.config
    other = sorted(
        name
        for name, value in command.config.items()
        if name not in OF_THE_CLIENT and (value or None) != (before.get(name) or None)
    )
    if other:
        raise CommandRefused("SessionIsOpen", session=live.id, options=", ".join(other))


def _accepted(live: LiveSession) -> Accepted:
    journal = live.session.journal
    return Accepted(session=live.id, event=journal.conversation.last_id, opened=journal.opened)


class InProcessConnection:
    """`Connection` without a wire: the same contract, the same objects."""

    def __init__(
        self, multiplexer: Multiplexer, client: Client, claims: Claims | None, hello: Callable[[], Handshake]
    ) -> None:
        self._multiplexer = multiplexer
        self._client = client
        self._claims = claims
        self._hello = hello

    @property
    def client(self) -> str:
        return self._client.id

    @property
    def hello(self) -> Handshake:
        return self._hello()

    async def send(self, command: AnyCommand) -> Accepted:
        return await self._multiplexer.handle(self._client, self._claims, command)

    async def ask(self, query: Query[A]) -> A:
        return cast("A", await self._multiplexer.ask(self._client, self._claims, cast("AnyQuery", query)))

    def events(self, session: str, *, since: int = 0) -> AsyncIterator[Envelope]:
        return self._multiplexer.follow(self._client, self._claims, session, since)

    async def close(self) -> None:
        self._multiplexer.leave(self._client)
