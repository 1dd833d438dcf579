"""Many clients, one truth: identity at the door, one order of commands, the same events for all.

Commands arrive on one event loop and are handled one after the other; the id of the event that records a command is
its place in the order. The engine sees a client's id and class, never how it is connected.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from msgspec import structs

from bridle.base.clock import Clock, Timer
from bridle.base.ids import Ids
from bridle.engine.questions import Client
from bridle.engine.session import Session
from bridle.protocol.codec import kind_of_command
from bridle.protocol.commands import (
    FOR_PEOPLE,
    Accepted,
    AnswerPermission,
    AnswerQuestion,
    AnyCommand,
    AttachSession,
    CancelTurn,
    CreateSession,
    DetachSession,
    EndSession,
    EnterPlanMode,
    ExitPlanMode,
    RevokeGrant,
    RunSlash,
    SendInput,
    SetMode,
    SetModel,
    ShellRequest,
    Undo,
)
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import EndCause, Envelope, IdentityClass, ModelChanged
from bridle.protocol.handshake import Handshake
from bridle.protocol.messages import TextBlock

OpenSession = Callable[[CreateSession, str], Awaitable[Session]]
"""Opens a session for a client id, or resumes a stored one; the composition root knows how."""

ChooseModel = Callable[[str, str], ModelChanged]
"""Reads `provider:model` for a session, by its own settings; refuses one that does not exist."""


PromptOf = Callable[[str, str], str | None]
"""The words behind a slash command with its arguments, if there is such a command."""


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """When a session nobody is attached to and that does nothing ends.

    `after_s` says how long it may stay, None for ever; `ended` hears that its run is over.
    """

    clock: Clock
    after_s: Callable[[str], float | None]
    ended: Callable[[str], None]


class Multiplexer:
    """Holds the live sessions of this process and the clients attached to them."""

    def __init__(
        self,
        *,
        open_session: OpenSession,
        choose_model: ChooseModel,
        prompt_of: PromptOf,
        ids: Ids,
        hello: Handshake,
        idle: Idle,
    ) -> None:
        self._open_session = open_session
        self._choose_model = choose_model
        self._prompt_of = prompt_of
        self._ids = ids
        self._hello = hello
        self._idle = idle
        self._sessions: dict[str, Session] = {}
        self._commands: dict[str, CreateSession] = {}
        self._timers: dict[str, Timer] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def connect(self, *, name: str, identity: IdentityClass, answers: bool) -> InProcessConnection:
        """A new client. Its id and class are fixed for as long as it stays."""
        client = Client(id=self._ids.new("cli"), name=name, identity=identity, answers=answers)
        return InProcessConnection(self, client, self._hello)

    async def handle(self, client: Client, command: AnyCommand) -> Accepted:
        """Carries a command out. A reply that names an event comes when that event is kept, as the event does."""
        if isinstance(command, SendInput | RunSlash | ShellRequest | Undo):
            await self.session(command.session).rested()
        accepted = await self._carry_out(client, command)
        if accepted.event is not None and (session := self._sessions.get(accepted.session or "")):
            await session.journal.committed()
        return accepted

    async def _carry_out(self, client: Client, command: AnyCommand) -> Accepted:
        match command:
            case CreateSession():
                _refuse_words_of_people(client, command)
                session = await self._open_session(command, client.id)
                self._sessions[session.id] = session
                self._commands[session.id] = structs.replace(command, resume=session.id)
                self._attach(session, client)
                session.begin()
                return _opened(session)
            case AttachSession():
                reopened = await self._reopened(command.session, client)
                session = self.session(command.session)
                self._attach(session, client)
                if reopened:
                    session.begin()
                return _opened(session)
            case DetachSession():
                self._detach(self.session(command.session), client)
                return Accepted(session=command.session)
            case EndSession():
                session = self.session(command.session)
                await self._end(session, "user")
                del self._commands[session.id]
                return Accepted(session=session.id)
            case SendInput():
                session = self.session(command.session)
                number = session.accept(client, command.content, command.mode)
                return Accepted(session=session.id, event=number)
            case CancelTurn():
                self.session(command.session).cancel(client)
                return Accepted(session=command.session)
            case AnswerPermission():
                self.session(command.session).questions.answer(client, command)
                return Accepted(session=command.session)
            case AnswerQuestion():
                self.session(command.session).questions.answer_question(client, command)
                return Accepted(session=command.session)
            case ShellRequest():
                self.session(command.session).run_for_person(client, command)
                return Accepted(session=command.session)
            case RunSlash():
                return await self._run_slash(client, command)
            case Undo(redo=redo, turn=turn):
                name, arguments = ("redo", "") if redo else ("undo", "" if turn is None else str(turn))
                if not self.session(command.session).run_slash(client, name, arguments):
                    raise CommandRefused("NotSupported", what="Undo")
                return Accepted(session=command.session)
            case SetMode():
                session = self.session(command.session)
                return Accepted(session=session.id, event=session.set_mode(client, command.mode))
            case EnterPlanMode():
                session = self.session(command.session)
                return Accepted(session=session.id, event=session.set_mode(client, "plan"))
            case ExitPlanMode():
                session = self.session(command.session)
                number = session.leave_plan_mode(client, approved=command.approve)
                return Accepted(session=session.id, event=number)
            case RevokeGrant():
                session = self.session(command.session)
                return Accepted(session=session.id, event=session.revoke(client, command.grant_id))
            case SetModel():
                session = self.session(command.session)
                chosen = self._choose_model(session.id, command.model)
                number = session.journal.emit(chosen, originator=client.id)
                return Accepted(session=session.id, event=number)
            case _:
                raise CommandRefused("NotSupported", what=kind_of_command(command))

    async def _run_slash(self, client: Client, command: RunSlash) -> Accepted:
        """A command of the engine's own is carried out; a named prompt becomes input like any other."""
        session = self.session(command.session)
        if session.run_slash(client, command.name, command.arguments):
            return Accepted(session=session.id)
        text = self._prompt_of(command.name, command.arguments)
        if text is None:
            raise CommandRefused("UnknownSlash", name=command.name)
        number = session.accept(client, (TextBlock(text=text),), "queue")
        return Accepted(session=session.id, event=number)

    async def follow(self, session: str, since: int) -> AsyncIterator[Envelope]:
        async for published in self.session(session).follow(since):
            yield published.envelope

    def leave(self, client: Client) -> None:
        """A client is gone; its sessions go on."""
        for session in self._sessions.values():
            self._detach(session, client)

    async def close(self) -> None:
        """Ends every session: turns are cancelled, readers reach their end."""
        for timer in self._timers.values():
            timer.cancel()
        if self._ending:
            await asyncio.wait(self._ending)
        for session in list(self._sessions.values()):
            await session.end("binary-shutdown")
        self._sessions.clear()

    def _attach(self, session: Session, client: Client) -> None:
        if timer := self._timers.pop(session.id, None):
            timer.cancel()
        session.questions.attach(client)

    def _detach(self, session: Session, client: Client) -> None:
        session.questions.detach(client.id)
        self._watch(session)

    def _watch(self, session: Session) -> None:
        """Looks again when a session nobody is attached to may have been idle for long enough."""
        if session.questions.attended or session.id in self._timers:
            return
        after_s = self._idle.after_s(session.id)
        if after_s is not None:
            self._timers[session.id] = self._idle.clock.call_later(after_s, lambda: self._look(session))

    def _look(self, session: Session) -> None:
        del self._timers[session.id]
        if session.busy:
            self._watch(session)
        elif self._idle.after_s(session.id) is not None:  # it may have been pinned since
            task = asyncio.get_running_loop().create_task(self._end(session, "idle"))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _end(self, session: Session, cause: EndCause) -> None:
        """The run is over, the session stays: whoever opens or attaches to it next begins another run."""
        self._sessions.pop(session.id, None)
        if timer := self._timers.pop(session.id, None):
            timer.cancel()
        await session.end(cause)
        self._idle.ended(session.id)

    async def _reopened(self, session: str, client: Client) -> bool:
        """A session that ended because it was idle begins a new run on its log. Whether it did."""
        command = self._commands.get(session)
        if self._ending:
            await asyncio.wait(self._ending)
        if session in self._sessions or command is None:
            return False
        self._sessions[session] = await self._open_session(command, client.id)
        return True

    def session(self, session: str) -> Session:
        """The live session of this id."""
        found = self._sessions.get(session)
        if found is None:
            raise CommandRefused("UnknownSession", session=session)
        return found


def _refuse_words_of_people(client: Client, command: CreateSession) -> None:
    """Who drives Bridle for somebody cannot say what only a person may."""
    for option in FOR_PEOPLE:
        if client.identity != "human" and command.config.get(option):
            raise CommandRefused("NotAPerson", what=f"The option {option}")


def _opened(session: Session) -> Accepted:
    journal = session.journal
    return Accepted(session=session.id, event=journal.conversation.last_id, opened=journal.opened)


class InProcessConnection:
    """`Connection` without a wire: the same contract, the same objects."""

    def __init__(self, multiplexer: Multiplexer, client: Client, hello: Handshake) -> None:
        self._multiplexer = multiplexer
        self._client = client
        self._hello = hello

    @property
    def client(self) -> str:
        return self._client.id

    @property
    def hello(self) -> Handshake:
        return self._hello

    async def send(self, command: AnyCommand) -> Accepted:
        return await self._multiplexer.handle(self._client, command)

    def events(self, session: str, *, since: int = 0) -> AsyncIterator[Envelope]:
        return self._multiplexer.follow(session, since)

    async def close(self) -> None:
        self._multiplexer.leave(self._client)
