"""Run a controller over a connection.

Everything runs on one event loop. Events and intents are handled as they come; commands go out one after the other, so
what was said first is sent first. What is to be seen of it is for `perform`, which belongs to the client.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.commands.setting_commands import begun_words
from bridle.clients.interaction.commands.slash_table import other_folder_words
from bridle.clients.interaction.effects import (
    ClientEffect,
    ClientServices,
    Do,
    Effect,
    EngineLost,
    EnterSession,
    Fetch,
    Intent,
    Leave,
    SayWords,
)
from bridle.clients.interaction.engine_info import EngineInfo, short_id
from bridle.clients.interaction.render.start_info import folder_words
from bridle.clients.interaction.session.controller import Controller
from bridle.clients.interaction.view import SessionView
from bridle.protocol import events as e
from bridle.protocol.commands import (
    Accepted,
    AnyCommand,
    AskAside,
    CancelTurn,
    Command,
    CreateSession,
    EndSession,
    RunSlash,
    SendInput,
    SetEffort,
    SetMode,
    SetModel,
    ShellRequest,
)
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError
from bridle.protocol.queries import DescribeSession, PreviewSession


class Outbox:
    """Sends commands, and does other work that must not overtake them.

    `readdressed` may change a command just before it goes, `refused` hears of one that was not taken, `done` after
    each piece of work.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        readdressed: Callable[[AnyCommand], AnyCommand],
        refused: Callable[[BridleError, AnyCommand | None], None],
        done: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._readdressed = readdressed
        self._refused = refused
        self._done = done
        self._waiting: asyncio.Queue[AnyCommand | Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._busy = False

    @property
    def empty(self) -> bool:
        return not self._busy and self._waiting.empty()

    def put(self, work: AnyCommand | Callable[[], Awaitable[None]]) -> None:
        self._waiting.put_nowait(work)

    async def run(self) -> None:
        """Works for as long as it is not cancelled."""
        while True:
            work = await self._waiting.get()
            self._busy = True
            try:
                if callable(work):
                    await work()
                else:
                    await self._connection.send(self._readdressed(work))
            except BridleError as refusal:
                self._refused(refusal, None if callable(work) else work)
            finally:
                self._busy = False
            self._done()


STOP_S: Final = 3.0
"""So long somebody who stopped a turn and leaves waits for its end."""


class SessionDriver:
    """One person's client on one connection. The session may change with `/clear` and `/resume`.

    `perform` is called for every effect of the client, in order; `settle` after each event and each
    piece of work, when all there is to show of it has been performed.
    """

    def __init__(
        self,
        connection: Connection,
        create: CreateSession,
        services: ClientServices,
        *,
        perform: Callable[[ClientEffect], None],
        settle: Callable[[], None],
    ) -> None:
        self.connection = connection
        self._create = create
        self.services = services
        self.perform = perform
        self._settle = settle
        self.info = EngineInfo()
        self.controller = Controller(SessionView(connection.client), "", info=self.info)
        self._outbox = Outbox(
            connection,
            readdressed=self._readdressed,
            refused=lambda refusal, command: self._perform(self.controller.refused(refusal, command)),
            done=settle,
        )
        self._asked_models: set[str] = set()
        self._opened_at = 0
        self._stream = 0  # the number of the stream of events that counts
        self._nobody = False
        self._out_of_reach = False
        self._stopping = False  # a stop was asked for, and the turn has not ended yet
        self._moved = asyncio.Event()  # something came of the session since this was cleared
        if services.link is not None:
            services.link.hear = self._link_changed
        self._is_new = create.resume is None  # and nobody was told yet where its key comes from
        self._tasks: list[asyncio.Task[None]] = []
        self._left: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def view(self) -> SessionView:
        return self.controller.view

    @property
    def session(self) -> str:
        return self.controller.session

    @property
    def idle(self) -> bool:
        """Whether nothing runs, nobody works in the background and nothing is on its way."""
        return not (self.view.running or self.view.beside) and self._outbox.empty

    @property
    def leaving(self) -> bool:
        return self._left.done()

    async def run(self, opened: Accepted) -> int:
        """Stays with a session that was opened until the person leaves or it ends; returns the exit code.

        Neither the connection nor the session is closed here: whoever opened them does that.
        """
        self._start(self._outbox.run())
        await self._open(opened)
        try:
            code = await self._left
            await self._stop_before_leaving()
            return code
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def handle(self, intent: Intent) -> None:
        self._perform(self.controller.handle(intent))

    def do_in_order(self, work: Callable[[], Awaitable[None]]) -> None:
        """Work that must not overtake the commands before it."""
        self._outbox.put(work)

    def nobody_is_left(self) -> None:
        """No answer can come any more, in this session or another."""
        self._nobody = True
        self._perform(self.controller.nobody_is_left())

    def _link_changed(self, gives_up_s: float | None) -> None:
        self._out_of_reach = gives_up_s is not None
        self._moved.set()
        if not self._left.done():
            self.perform(EngineLost(gives_up_s))
            self._settle()

    def leave(self, code: int) -> None:
        if not self._left.done():
            self._left.set_result(code)

    async def _stop_before_leaving(self) -> None:
        """Two Ctrl-C stop the turn and leave: where the session stays behind, the first one still counts."""
        if not self._stopping or not self.services.come_back:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                while self.view.running and not self._out_of_reach:
                    self._moved.clear()
                    await self._moved.wait()

    async def way_back(self) -> str:
        """What to say at the end about coming back; empty where nothing was said in the session."""
        if not self.view.title:
            return ""
        short = await short_id(self.connection, self.session)
        if self.view.running and not self._out_of_reach and (come_back := self.services.come_back):
            return f'Left running: "{self.view.title}".  Come back: {come_back} {short}'
        if "://" in self.services.come_back:  # it is not in the store of this machine
            return f'Saved as "{self.view.title}".  Come back: {self.services.come_back} {short}'
        return f'Saved as "{self.view.title}".  Come back: bridle -c   or   bridle -r {short}'

    # Following

    async def _open(self, opened: Accepted) -> None:
        """Follows a session; the event it was opened with is the last of its past."""
        session, opened_at = opened.session, opened.event or 0
        if self.services.covers("ListSlash"):
            await self.info.learn_commands(self.connection, session)
        if self.services.covers("ListProfiles"):
            await self.info.learn_profiles(self.connection, session)
        described = (await self.connection.ask(DescribeSession(session=session))).session
        view = SessionView(self.connection.client)
        view.title = visible_line(described.title)
        self._opened_at = opened_at
        self._perform(
            self.controller.forget_questions()
        )  # of the old session nothing more is taken from here on
        self.controller = Controller(
            view,
            session,
            opened_at=opened_at,
            folder=folder_words(described.cwd, self.services.home),
            info=self.info,
            is_file=self.services.is_file,
            picture=self.services.picture,
            covers=self.services.covers,
        )
        if self._nobody:
            self.controller.nobody_is_left()
        self.perform(EnterSession())
        self._stream += 1
        self._start(self._follow(session, self._stream))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Work in the background. A fault in it ends the client."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (fault := task.exception()) is not None and not self._left.done():
                self._left.set_exception(fault)

        task = asyncio.create_task(work)
        task.add_done_callback(ended)
        self._tasks.append(task)

    async def _follow(self, session: str, stream: int) -> None:
        """Takes the session's events until it ends, or until another session, or a new run of it, takes its place."""
        try:
            async for envelope in self.connection.events(session):
                if self._stream != stream:
                    return
                self.view.clients.add(self.connection.client)
                await self._learn_models(envelope)
                if effects := self.controller.take(envelope):
                    self._perform(effects)
                    self._settle()
                self._stopping = self._stopping and self.view.running
                self._moved.set()
                if isinstance(envelope.event, e.SessionEnded) and (envelope.id or 0) > self._opened_at:
                    break  # an engine that ends may be gone before it ends its streams
        except BridleError as failure:
            if self._stream != stream:
                return
            self.perform(SayWords(visible(failure.message)))
            self.leave(failure.exit_code)
        if self._stream == stream:
            self.leave(0)

    async def _learn_models(self, envelope: e.Envelope) -> None:
        """What is shown of a model at the end of a turn, and where we are, is asked for just before."""
        match envelope.event:
            case (
                e.ModelChanged(provider=provider, model=model) | e.StepStarted(provider=provider, model=model)
            ):
                self._asked_models.add(f"{provider}:{model}")
            case _:
                pass
        past = envelope.id is not None and envelope.id < self._opened_at
        if not past and isinstance(envelope.event, e.SkillRegistryChanged):
            await self.info.learn_commands(self.connection, self.controller.session)
        if not past and (
            envelope.id == self._opened_at or isinstance(envelope.event, e.TurnEnded | e.ModelChanged)
        ):
            session = self.controller.session
            if self.services.covers("ListModels"):
                await self.info.learn_models(self.connection, session, self._asked_models)
            if self._is_new and envelope.id == self._opened_at and self.services.covers("ListProviders"):
                self._is_new = False
                names = {model.partition(":")[0] for model in self._asked_models}
                await self.info.learn_providers(self.connection, session, names)

    # Performing

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Command():
                    stops = isinstance(effect, CancelTurn) and effect.invocation is None
                    self._stopping = self._stopping or stops
                    self._outbox.put(effect)
                case Do(work=work, arguments=arguments):
                    self._outbox.put(functools.partial(work, self, arguments))
                case Fetch():
                    self._fetch(effect)
                case Leave(code=code):
                    self.leave(code)
                case _:
                    self.perform(effect)

    def _fetch(self, effect: Fetch) -> None:
        """Fetch something in the background; keys typed until it is there are for it."""

        async def work() -> None:
            fetched = effect.failed
            try:
                fetched = await effect.fetch(self)
            except BridleError as refusal:
                self._perform(self.controller.refused(refusal))
            finally:
                self.perform(fetched)
                self._settle()

        self.perform(effect.waiting)
        self._start(work())

    def _readdressed(self, command: AnyCommand) -> AnyCommand:
        """What was said behind a `/clear` is meant for the new session."""
        if isinstance(
            command, SendInput | ShellRequest | RunSlash | SetModel | SetMode | SetEffort | AskAside
        ):
            return msgspec.structs.replace(command, session=self.controller.session)
        return command

    # Other sessions

    async def start_session(self) -> None:
        """`/clear`: the old session ends and stays listed; a new one begins."""
        create = msgspec.structs.replace(
            self._create, resume=None, model=self.view.model, mode=self.view.mode
        )
        await self._change_to(create, "A new session.")

    async def resume_session(self, session: str) -> None:
        """`/resume`: the old session ends and stays listed; the other goes on with its own model and mode."""
        current = self.controller.session
        if current.removeprefix("sess_").startswith(session.removeprefix("sess_")):
            self.perform(SayWords("This is the session you are in."))
        elif elsewhere := await other_folder_words(self, session):
            self.perform(SayWords(elsewhere))
        else:
            create = msgspec.structs.replace(
                self._create, resume=session, profile=None, model=None, mode=None
            )
            await self._change_to(create, "Another session.")

    async def start_profile(self, profile: str, turns: int) -> None:
        """A new session with a profile; the old one ends and can be resumed."""
        old = self.controller.session
        create = msgspec.structs.replace(self._create, resume=None, profile=profile, model=None, mode=None)
        model = (await self.connection.ask(PreviewSession(create=create))).model or self.view.model
        carried = {"carry_from": old, "carry_turns": turns} if turns else {}
        created = await self.connection.send(msgspec.structs.replace(create, model=model, **carried))
        self._create = create
        self.perform(SayWords(begun_words(profile, await short_id(self.connection, old), turns=turns)))
        await self._open(created)
        await self.connection.send(EndSession(session=old))

    async def change_profile(self, profile: str) -> None:
        """This session goes on with another profile: its run ends, and the next one has it."""
        session = self.controller.session
        create = msgspec.structs.replace(self._create, resume=session, profile=profile, model=None, mode=None)
        await self.connection.ask(PreviewSession(create=create))  # refused here, nothing has ended yet
        self._stream += 1  # that the old run ends is not the end
        await self.connection.send(EndSession(session=session))
        try:
            created = await self.connection.send(create)
        except BridleError as refusal:
            self.perform(SayWords(visible(refusal.message)))
            created = await self.connection.send(msgspec.structs.replace(create, profile=None))
        else:
            self._create = msgspec.structs.replace(self._create, profile=profile)
            name = visible_line(profile)
            self.perform(SayWords(f'This session goes on with the profile "{name}".'))
        await self._open(created)

    async def _change_to(self, create: CreateSession, words: str) -> None:
        old, title = self.controller.session, self.view.title
        created = await self.connection.send(create)
        if title:
            way_back = await short_id(self.connection, old)
            self.perform(SayWords(f'{words} The last one is saved as "{title}": bridle -r {way_back}'))
        await self._open(created)
        await self.connection.send(EndSession(session=old))
