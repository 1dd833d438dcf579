"""Many clients, one truth: identity at the door, one order of commands, the same events for all.

Commands arrive on one event loop and are handled one after the other; the id of the event that records a command is
its place in the order. The engine sees a client's id and class, never how it is connected. What a client may do is
`authority`, how a session begins and ends is `live`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

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
    Refusal,
    may,
    options_for_agents,
    outside,
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
    ConnectProvider,
    CreateSession,
    DeleteSession,
    DetachSession,
    EndSession,
    EnterPlanMode,
    ExitPlanMode,
    PinSession,
    PromoteGrant,
    RenameSession,
    RevokeGrant,
    RunSlash,
    SaveModel,
    SendInput,
    SetEffort,
    SetMode,
    SetModel,
    ShellRequest,
    Undo,
)
from bridle.protocol.errors import CommandRefused, StoreError
from bridle.protocol.events import (
    CommandStamp,
    CommandTaken,
    EffortChanged,
    EndCause,
    Envelope,
    IdentityClass,
    ModelChanged,
    QuestionAnswered,
    QuestionAsked,
    StreamGap,
)
from bridle.protocol.handshake import Handshake
from bridle.protocol.messages import TextBlock

if TYPE_CHECKING:
    from bridle.control.command_ids import CommandIds
    from bridle.control.token_watch import TokenWatch
    from bridle.protocol.queries import A, AnyQuery, AnyQueryAnswer, Query
    from bridle.protocol.questions import TokenQuestion
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
    order; `branch` gives the new id. `set_up` changes the person's own settings or keys.
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
    set_up: Callable[[SaveModel | ConnectProvider], Awaitable[None]]


ChooseModel = Callable[[str, str, Client], ModelChanged]
"""Reads `provider:model` for a session, by its own settings; refuses one that is not there for the client."""

HearRefusal: TypeAlias = Callable[[Client, Asked, str], None]
"""Hears who was refused what, and the reason."""
_OF_ONE_CLIENT = (AttachSession, DetachSession)
"""Commands about the client's own attachment: another client's are others."""

PromptOf = Callable[[str, str], str | None]
"""The words behind a slash command with its arguments, if there is such a command."""


class Multiplexer:
    """Holds the live sessions of this process and the clients attached to them.

    `check_claims` is asked for everything a client with a token wants; `hear_refusal` hears of whatever was refused for
    who asked.
    """

    def __init__(
        self,
        *,
        sessions: SessionSource,
        choose_model: ChooseModel,
        prompt_of: PromptOf,
        ids: Ids,
        clock: Clock,
        hello: Callable[[], Handshake],
        check_claims: Callable[[Claims], None] = lambda _claims: None,
        hear_refusal: HearRefusal = lambda _client, _asked, _reason: None,
    ) -> None:
        self._check_claims = check_claims
        self._hear_refusal = hear_refusal
        self._ids_of_commands: CommandIds | None = None
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
        self._shown_to: dict[str, tuple[LiveSession, str]] = {}
        self.refuse_mint: Callable[[str], bool] = lambda _mint_id: False
        """Voids a request for a token, where one of this id waits."""

    def connect(
        self,
        *,
        name: str,
        identity: IdentityClass,
        answers: bool,
        claims: Claims | None = None,
        here: Literal["attached", "following"] = "attached",
        client_id: str | None = None,
    ) -> InProcessConnection:
        """A new client, or with `client_id` one that comes back. Its id, its class and its claims are fixed for as long
        as it stays; claims name its class and its person. Who is here while `following` counts as present only with an
        open stream of events."""
        person, guest = "", False
        if claims is not None:
            identity, person = claims.identity_class, claims.name
            guest = claims.sessions is not msgspec.UNSET
            answers = answers and claims.covers_command("AnswerPermission")
        client = Client(
            id=client_id or self._ids.new("cli"),
            name=name,
            identity=identity,
            answers=answers,
            person=person,
            here=here,
            guest=guest,
        )
        return InProcessConnection(self, client, claims, self._hello)

    async def handle(self, client: Client, claims: Claims | None, command: AnyCommand) -> Accepted:
        """Carries a command out. A reply that names an event comes when that event is kept, as the event does.

        One with an id that was carried out before has the answer it had; who opened a session is attached to it.
        """
        try:
            if claims is not None:
                self._check_claims(claims)
            if not command.id:
                return await self._handle(client, claims, command)
            from bridle.control.command_ids import stamp_of  # clients in this process choose none

            stamp = stamp_of(command)
            self._refuse_for(outside(claims, command))
            return await self._once(client, claims, command, stamp)
        except CommandRefused as refusal:
            self._hear_refusal(client, command, refusal.reason)
            raise

    async def _once(
        self, client: Client, claims: Claims | None, command: AnyCommand, stamp: CommandStamp
    ) -> Accepted:
        from bridle.control.command_ids import CommandIds

        joins = False
        if self._ids_of_commands is None:
            self._ids_of_commands = CommandIds(self._clock)

        async def carry_out() -> Accepted:
            nonlocal joins
            taken = await self._taken(command, stamp)
            joins = taken is not None
            return taken or await self._handle(client, claims, command, stamp)

        scope = client.id if isinstance(command, _OF_ONE_CLIENT) else session_of(command) or ""
        accepted, is_new = await self._ids_of_commands.once(scope, stamp, carry_out)
        if isinstance(command, CreateSession) and (joins or not is_new):
            live = self._live.get(accepted.session)
            if live is None or client.id not in live.attachments:
                await self._attach(client, claims, AttachSession(session=accepted.session))
        return accepted

    async def _taken(self, command: AnyCommand, stamp: CommandStamp) -> Accepted | None:
        """What a command was answered with that a session took, in this process or in one before it."""
        if isinstance(command, CreateSession):
            return None if command.resume else await self._made(stamp)
        live = self._live.get(session_of(command) or "")
        if live is None or live.state != "open":
            return None
        taken = live.session.journal.conversation.commands.get(stamp.id)
        if taken is None:
            return None
        from bridle.control.command_ids import refuse_other

        refuse_other(stamp, taken.digest)
        return Accepted(session=live.id, event=taken.event)

    async def _made(self, stamp: CommandStamp) -> Accepted | None:
        """The session that this very command opened before. It goes by a name made of the command's id."""
        same, same_id = _names_of(stamp)
        if (session := await self._session_named(same)) is not None:
            return Accepted(session=session)
        if await self._session_named(same_id) is not None:
            raise CommandRefused("CommandIdUsed", id=stamp.id)
        return None

    async def _session_named(self, name: str) -> str | None:
        try:
            return (await self._source.find(name))[0]
        except CommandRefused:
            return None

    async def _handle(
        self,
        client: Client,
        claims: Claims | None,
        command: AnyCommand,
        stamp: CommandStamp | None = None,
    ) -> Accepted:
        if isinstance(command, SendInput | RunSlash | ShellRequest | Undo):
            live = self._live.get(command.session)
            if live is not None and live.state == "open":
                await live.session.rested()
        self._admit(client, claims, command, await self._bounds_for(client, command))
        match command:
            case CreateSession():
                live, accepted = await self._create(client, claims, command, stamp)
            case AttachSession():
                live, accepted = await self._attach(client, claims, command)
            case RenameSession() | PinSession() | BranchSession() | DeleteSession():
                return Accepted(session=await self._put_in_order(command))
            case SaveModel() | ConnectProvider():
                await self._source.set_up(command)
                return Accepted(session="")
            case _:
                live = self._named(session_of(command), command)
                accepted = await self._carry_out(client, live, command, stamp)
        if accepted.event is not None and live.state == "open":
            await live.session.journal.committed()
        return accepted

    def _named(self, session: str | None, command: AnyCommand) -> LiveSession:
        if session is None:
            raise CommandRefused("NotSupported", what=kind_of_command(command))
        return self._live[session]

    async def _carry_out(
        self, client: Client, live: LiveSession, command: AnyCommand, stamp: CommandStamp | None
    ) -> Accepted:
        session, number = live.session, None
        match command:
            case DetachSession():
                live.detach(client.id)
            case EndSession(leaving=leaving):
                await self._end(live, "binary-shutdown" if leaving else "user")
            case SendInput():
                number = session.accept(client, command.content, command.mode, stamp)
            case AnswerPermission():
                number = session.questions.answer(client, command, stamp)
            case AnswerTrust():
                number = session.questions.answer_trust(client, command, stamp)
            case AnswerQuestion(question_id=asked) if self._refuse_code(client, asked):
                pass
            case AnswerQuestion():
                number = session.questions.answer_question(client, command, stamp)
            case ChangeInput():
                number = session.change_input(client, command, stamp)
            case SetEffort():
                changed = EffortChanged(effort=command.effort, stamp=stamp)
                number = session.journal.emit(changed, originator=client.id)
            case SetMode():
                number = session.set_mode(client, command.mode, stamp)
            case EnterPlanMode():
                number = session.set_mode(client, "plan", stamp)
            case ExitPlanMode():
                number = session.leave_plan_mode(client, approved=command.approve, stamp=stamp)
            case RevokeGrant():
                number = session.revoke(client, command.grant_id, stamp)
            case PromoteGrant():
                number = session.journal.emit(live.run.promote(command.grant_id), originator=client.id)
            case SetModel():
                chosen = self._choose_model(session.id, command.model, client)
                number = session.journal.emit(structs.replace(chosen, stamp=stamp), originator=client.id)
            case _:
                number = self._begin(client, session, command, stamp)
        return Accepted(session=live.id, event=number)

    def _begin(
        self, client: Client, session: Session, command: AnyCommand, stamp: CommandStamp | None
    ) -> int | None:
        """Begins what takes its time. That it was begun is recorded where it must not begin twice."""
        match command:
            case AskAside():
                return session.ask_aside(client, command.question, stamp)
            case CancelTurn():
                session.cancel(client)
            case ShellRequest():
                session.run_for_person(client, command)
            case RunSlash():
                if not session.run_slash(client, command.name, command.arguments):
                    return self._say_prompt(client, session, command, stamp)
            case Undo(redo=redo, turn=turn):
                name, arguments = ("redo", "") if redo else ("undo", "" if turn is None else str(turn))
                if not session.run_slash(client, name, arguments):
                    raise CommandRefused("NotSupported", what="Undo")
            case _:
                raise CommandRefused("NotSupported", what=kind_of_command(command))
        if stamp is None:
            return None
        taken = CommandTaken(kind=kind_of_command(command), stamp=stamp)
        return session.journal.emit(taken, originator=client.id)

    async def _end(self, live: LiveSession, cause: EndCause) -> None:
        """Whoever ends it is told where not all of it could be kept; then nobody else has to be."""
        try:
            await live.end(cause)
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

    def _say_prompt(
        self, client: Client, session: Session, command: RunSlash, stamp: CommandStamp | None
    ) -> int:
        """A named prompt becomes input like any other."""
        text = self._prompt_of(command.name, command.arguments)
        if text is None:
            raise CommandRefused("UnknownSlash", name=command.name)
        return session.accept(client, (TextBlock(text=text),), "queue", stamp)

    # Opening, attaching, leaving

    async def _create(
        self, client: Client, claims: Claims | None, command: CreateSession, stamp: CommandStamp | None
    ) -> tuple[LiveSession, Accepted]:
        if command.resume is None:
            if stamp is not None:
                command = structs.replace(command, aliases=(*command.aliases, *_names_of(stamp)))
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
        self._refuse_for(may(client, claims, asked, self._meant_session(client, asked, bounds)))

    def _refuse_for(self, refusal: Refusal | None) -> None:
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
            self._admit(client, claims, query)
        except CommandRefused as refusal:
            self._hear_refusal(client, query, refusal.reason)
            raise
        is_open = {session: live for session, live in self._live.items() if live.state == "open"}
        shows = claims.covers_session if claims is not None else _everything
        return await self._source.answer(query, ClientSight(shows=shows, live=is_open))

    async def follow(
        self, client: Client, claims: Claims | None, session: str, since: int
    ) -> AsyncIterator[Envelope]:
        """The events of a session the client is attached to, for as long as it is and its token holds.

        First come the questions that wait, where they were put before `since`, and who else is here.
        """
        asked = FollowEvents(session)
        try:
            if claims is not None:
                self._check_claims(claims)
            self._admit(client, claims, asked)
        except CommandRefused as refusal:
            self._hear_refusal(client, asked, refusal.reason)
            raise
        if self._reads_end(client, session):
            async for envelope in self._source.past(session, since):
                yield envelope
            return
        live = self._live[session]
        live.begin_stream(client)
        try:
            async for envelope in self._stream(client, claims, live, since):
                yield envelope
        finally:
            live.end_stream(client)

    async def overhear(
        self, client: Client, claims: Claims | None, session: str, since: int
    ) -> AsyncGenerator[Envelope]:
        """The events above an id, for a request that waits for one of them: nobody is here by it. It ends as a stream
        does when its token holds no more."""
        self._admit(client, claims, FollowEvents(session))
        live = self._live[session]
        attachment = live.attachments[client.id]
        with self._watched(claims, live) as watch:

            def is_over() -> bool:
                has_left = live.attachments.get(client.id) is not attachment
                return has_left or (watch is not None and watch.over is not None)

            async for envelope in live.session.follow(since, until=is_over):
                yield envelope
            if watch is not None and watch.over is not None:
                raise watch.over

    @contextlib.contextmanager
    def _watched(self, claims: Claims | None, live: LiveSession) -> Generator[TokenWatch | None]:
        """Looks after the token of whoever reads a session; most clients have none."""
        if claims is None:
            yield None
            return
        from bridle.control.token_watch import TokenWatch

        wake = live.session.wake_readers
        watch = TokenWatch(claims, clock=self._clock, check=self._check_claims, wake=wake)
        try:
            yield watch
        finally:
            watch.close()

    async def _stream(
        self, client: Client, claims: Claims | None, live: LiveSession, since: int
    ) -> AsyncIterator[Envelope]:
        session, attachment = live.session, live.attachments[client.id]
        for envelope in await session.questions.pending(since):
            yield envelope
        if len(live.here) > 1:
            yield session.journal.for_one(live.presence)
        last_id = since
        with self._watched(claims, live) as watch:

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

    # What one client alone is shown

    def show_code(self, question_id: str, question: TokenQuestion) -> bool:
        """Puts a question to one person who follows a session here: at this engine's own terminal, or else with a token
        that mints. False where there is none."""
        people = [
            (live, attachment)
            for live in self._live.values()
            if live.state == "open"
            for attachment in live.attachments.values()
            if attachment.client.can_say_yes and live.follows(attachment.client.id)
        ]
        own = [one for one in people if one[1].claims is None]
        minting = [one for one in people if one[1].claims is not None and one[1].claims.can_mint]
        for live, attachment in (*own, *minting)[:1]:
            live.tell_one(attachment.client.id, QuestionAsked(question_id=question_id, question=question))
            self._shown_to[question_id] = (live, attachment.client.id)
            return True
        return False

    def hide_code(self, question_id: str) -> None:
        """What was shown counts no more."""
        shown = self._shown_to.pop(question_id, None)
        if shown is not None:
            from bridle.protocol.questions import TokenAnswer

            live, client = shown
            answer = QuestionAnswered(question_id=question_id, answer=TokenAnswer(), answered_by="")
            live.tell_one(client, answer)

    def _refuse_code(self, client: Client, question_id: str) -> bool:
        """Whether this was the answer to a code that was shown to this client, which is void then."""
        shown = self._shown_to.get(question_id)
        return shown is not None and shown[1] == client.id and self.refuse_mint(question_id)

    def _reads_end(self, client: Client, session: str) -> bool:
        return session not in self._live and session in self._saw_end.get(client.id, ())

    @property
    def running(self) -> tuple[Session, ...]:
        """The sessions that are open in this engine."""
        return tuple(live.session for live in self._live.values() if live.state == "open")

    def counts(self) -> tuple[int, int]:
        """How many sessions are open, and how many clients are attached to one."""
        live = [one for one in self._live.values() if one.state == "open"]
        return len(live), len({client for one in live for client in one.attachments})

    def is_open(self, session: str) -> bool:
        live = self._live.get(session)
        return live is not None and live.state == "open"

    def is_attached(self, session: str, client: str) -> bool:
        return self.is_open(session) and client in self._live[session].attachments

    def session(self, session: str) -> Session:
        """The live session of this id."""
        live = self._live.get(session)
        if live is None or live.state != "open":
            raise CommandRefused("SessionNotOpen", session=session)
        return live.session


def _read_up_to(envelope: Envelope, last_id: int) -> int:
    if isinstance(envelope.event, StreamGap):
        return envelope.event.last
    return envelope.id or last_id


def _names_of(stamp: CommandStamp) -> tuple[str, str]:
    """The names of a session that a command with an id opened: of the command, and of whatever has its id."""
    return f"command:{stamp.id}:{stamp.digest}", f"command:{stamp.id}"


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

    def overhear(self, session: str, *, since: int) -> AsyncGenerator[Envelope]:
        """The same for a request that waits for an event: nobody is here by it."""
        return self._multiplexer.overhear(self._client, self._claims, session, since)

    async def close(self) -> None:
        self._multiplexer.leave(self._client)
