"""The live sessions of this process: opened once, attached to by whoever comes, forgotten when their run is over.

How one of them begins and ends is `live`; what may be done to it is `authority`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
from msgspec import structs

from bridle.base.clock import Clock
from bridle.control.authority import Asked, Bounds, options_for_agents
from bridle.control.live import LiveSession, Run
from bridle.engine.open_questions import Client
from bridle.engine.session import Session
from bridle.protocol.commands import Accepted, AttachSession, CreateSession, SessionOptions
from bridle.protocol.errors import CommandRefused, StoreError
from bridle.protocol.events import EndCause, Envelope, ModelChanged, Notice

if TYPE_CHECKING:
    from bridle.protocol.commands import ConnectProvider, SaveModel
    from bridle.protocol.queries import AnyQuery, AnyQueryAnswer
    from bridle.protocol.tokens import Claims

OF_THE_CLIENT = frozenset({"title", "headless", "on_ask", "on_orphan", "wide_folder"})
"""Options of `CreateSession.config` that say nothing about how a run works that is open already."""
ENDED_KEPT = 1_000
"""Of so many sessions that ended it is known with which options an idle one goes on, and who may read how one ended."""


class ClientSight(msgspec.Struct, frozen=True, kw_only=True):
    """What a client sees: which sessions there are for it, and those that are open in this engine, by id."""

    shows: Callable[[str], bool]
    live: Mapping[str, LiveSession]


class Answers(Protocol):
    """What an engine knows beside its runs, and does for stored sessions and the person's settings."""

    async def bounds_of(self, command: CreateSession) -> Bounds:
        """What the person's own settings give such a session, without a word of the client."""
        ...

    async def answer(self, query: AnyQuery, sight: ClientSight) -> AnyQueryAnswer:
        """The answer to a query, within what the client may see."""
        ...

    async def rename(self, session: str, title: str) -> None: ...

    async def pin(self, session: str, pinned: bool) -> None: ...

    async def branch(self, session: str, turn: int | None) -> str:
        """The id of the new session."""
        ...

    async def delete(self, session: str) -> None: ...

    async def set_up(self, command: SaveModel | ConnectProvider) -> None:
        """Changes the person's own settings or keys."""
        ...


class FindStored(Protocol):
    """The id and the folder of a stored session, known by its id, an alias, or a name people gave it."""

    def __call__(self, name: str, *, exact: bool = False) -> Awaitable[tuple[str, str]]:
        """With `exact`, only a whole id or alias means one. Raises `UnknownSession` and `AmbiguousSession`."""
        ...


class SessionSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where sessions come from; the composition root knows how.

    `open` opens one for a client, or resumes a stored one. `past` are the stored events of a session above an
    id. `answers` are there from the first time somebody wants one. `choose_model` reads `provider:model` for an open
    session, by its own settings, and refuses one that is not there for the client. `prompt_of` are the words behind a
    slash command with its arguments, if there is such a command.
    """

    open: Callable[[CreateSession, Client], Awaitable[Run]]
    find: FindStored
    past: Callable[[str, int], AsyncIterator[Envelope]]
    answers: Callable[[], Answers]
    choose_model: Callable[[str, str, Client], ModelChanged]
    prompt_of: Callable[[str, str], str | None]


K = TypeVar("K")
V = TypeVar("V")


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    """Keeps it as the newest; what came first goes where it is too much."""
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > ENDED_KEPT:
        del kept[next(iter(kept))]


class LiveSessions:
    """Those of one engine, by id. A client that was there when one ended may read how."""

    def __init__(self, source: SessionSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._live: dict[str, LiveSession] = {}
        self._idle_ended: dict[str, CreateSession] = {}
        self._saw_end: dict[tuple[str, str], None] = {}
        """Clients, and a session each was attached to when it ended."""
        self._opening: set[LiveSession] = set()
        self._is_closing = False
        self._failure: StoreError | None = None

    # Looking

    def get(self, session: str | None) -> LiveSession | None:
        return self._live.get(session or "")

    def at(self, session: str) -> LiveSession:
        """The run of a session that the gate let somebody at."""
        return self._live[session]

    def all_open(self) -> dict[str, LiveSession]:
        return {session: live for session, live in self._live.items() if live.state == "open"}

    def counts(self) -> tuple[int, int]:
        """How many sessions are open, and how many clients are attached to one."""
        live = self.all_open().values()
        return len(live), len({client for one in live for client in one.attachments})

    def tell_people(self, notice: Notice) -> None:
        """Tells everybody at this engine who follows a session, whichever it is; nothing of it is stored."""
        for live in self.all_open().values():
            for attachment in live.attachments.values():
                if attachment.client.can_say_yes and not attachment.client.guest:
                    live.tell_one(attachment.client.id, notice)

    def open_one(self, session: str | None) -> LiveSession | None:
        live = self.get(session)
        return live if live is not None and live.state == "open" else None

    def is_open(self, session: str) -> bool:
        return self.open_one(session) is not None

    def is_attached(self, session: str, client: str) -> bool:
        live = self.open_one(session)
        return live is not None and client in live.attachments

    def session(self, session: str) -> Session:
        live = self.open_one(session)
        if live is None:
            raise CommandRefused("SessionNotOpen", session=session)
        return live.session

    def saw_end(self, client: Client, session: str) -> bool:
        return session not in self._live and (client.id, session) in self._saw_end

    async def bounds_for(self, client: Client, asked: Asked) -> Bounds | None:
        """What the person's own settings give a session that an agent wants: looked up before the gate, which then
        judges in one go."""
        if client.identity == "agent" and isinstance(asked, CreateSession):
            return await self._source.answers().bounds_of(asked)
        return None

    # Opening and attaching

    async def create(
        self, client: Client, claims: Claims | None, command: CreateSession
    ) -> tuple[LiveSession, Accepted]:
        if command.resume is None:
            self._refuse_if_closing()
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

    async def attach(
        self, client: Client, claims: Claims | None, command: AttachSession
    ) -> tuple[LiveSession, Accepted]:
        """A stored session is opened for it, with the options of its last run if that ended because it was idle."""
        live, opened = self.open_one(command.session), False
        if live is None:
            live, opened = await self._resumed(
                command.session, client, lambda plain, bounds: self._reopening(plain, client, bounds)
            )
        live.attach(client, claims, command.since)
        if opened:
            live.session.begin()
        return live, _accepted(live)

    def _reopening(self, plain: CreateSession, client: Client, bounds: Bounds | None) -> CreateSession:
        session = plain.resume or ""
        config = SessionOptions(on_orphan="ask" if client.answers else "fail")
        if (before := self._idle_ended.get(session)) is None:
            return structs.replace(plain, config=config)
        if bounds is not None:
            return structs.replace(plain, config=options_for_agents(before.config, bounds))
        return structs.replace(before, resume=session, model=None, mode=None)

    async def _resumed(
        self, name: str, client: Client, command_of: Callable[[CreateSession, Bounds | None], CreateSession]
    ) -> tuple[LiveSession, bool]:
        """Return the live session of this name, opened if needed, and whether it was. Two callers at once get one
        run."""
        session, cwd = await self._source.find(name)
        plain = CreateSession(cwd=cwd, resume=session)
        bounds = await self.bounds_for(client, plain)
        while (live := self._live.get(session)) is not None:
            await live.settled()
            if live.state == "open":
                return live, False
        self._refuse_if_closing()
        live = LiveSession(command_of(plain, bounds), clock=self._clock, ended=self._forget)
        self._live[session] = live
        return await self._opened(live, client)

    async def _opened(self, live: LiveSession, client: Client) -> tuple[LiveSession, bool]:
        self._opening.add(live)
        try:
            await live.open(self._source.open(live.command, client))
        finally:
            self._opening.discard(live)
        self._live[live.id] = live
        self._idle_ended.pop(live.id, None)
        return live, True

    def _refuse_if_closing(self) -> None:
        if self._is_closing:
            raise CommandRefused("EngineStopping")

    def _change_to(self, client: Client, session: Session, command: CreateSession) -> None:
        """What a client who resumes a session that is open wants changed in it."""
        conversation = session.journal.conversation
        if command.model:
            chosen = self._source.choose_model(session.id, command.model, client)
            if chosen != conversation.model:
                session.journal.emit(chosen, originator=client.id)
        if command.mode is not None and command.mode != conversation.mode:
            session.set_mode(client, command.mode)

    # Ending

    def _forget(self, live: LiveSession) -> None:
        if self._live.get(live.id) is live:
            del self._live[live.id]
        for client in live.attachments:
            _keep(self._saw_end, (client, live.id), None)
        self._failure = self._failure or live.failure
        if live.cause == "idle":
            _keep(self._idle_ended, live.id, live.command)

    async def end(self, live: LiveSession, cause: EndCause) -> None:
        """Whoever ends it is told where not all of it could be kept; then nobody else has to be."""
        try:
            await live.end(cause)
        except StoreError as failure:
            if failure is self._failure:
                self._failure = None
            raise

    def leave(self, client: Client) -> None:
        """A client is gone; its sessions go on."""
        for live in list(self._live.values()):
            live.detach(client.id)
        for left in [one for one in self._saw_end if one[0] == client.id]:
            del self._saw_end[left]

    async def close(self) -> None:
        """End all sessions at once and open no more. Raises the first failure to keep a session, once all have
        ended."""
        self._is_closing = True
        await asyncio.gather(*map(_shut_down, {*self._live.values(), *self._opening}))
        if self._failure is not None:
            raise self._failure


async def _shut_down(live: LiveSession) -> None:
    if live.state == "opening":
        await live.settled()
    with contextlib.suppress(StoreError):
        await live.end("binary-shutdown")


def _refuse_other_options(live: LiveSession, command: CreateSession) -> None:
    """Refuse a client that gives other options than the run was opened with. One that gives none joins the run."""
    if command.config == SessionOptions():
        return
    before = structs.asdict(live.command.config)
    other = sorted(
        name
        for name, value in structs.asdict(command.config).items()
        if name not in OF_THE_CLIENT and (value or None) != (before[name] or None)
    )
    if other:
        raise CommandRefused("SessionIsOpen", session=live.id, options=", ".join(other))


def _accepted(live: LiveSession) -> Accepted:
    journal = live.session.journal
    return Accepted(session=live.id, event=journal.conversation.last_id, opened=journal.opened)
