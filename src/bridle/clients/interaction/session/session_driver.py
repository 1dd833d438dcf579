"""Run a controller over a connection.

Everything runs on one event loop. Events and intents are handled as they come; commands go out one after the other, so
what was said first is sent first. What is to be seen of it is for `perform`, which belongs to the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.commands.profile_change import ProfileChange, begun_words, parse_change
from bridle.clients.interaction.commands.slash_table import Deed, Do
from bridle.clients.interaction.composer.choice_list import ChoiceList
from bridle.clients.interaction.render.start_info import folder_words
from bridle.clients.interaction.session.client_services import ClientServices
from bridle.clients.interaction.session.controller import Controller
from bridle.clients.interaction.session.effects import (
    ClientEffect,
    Effect,
    EngineLost,
    EnterSession,
    Leave,
    LendTerminal,
    PickRow,
    PickSession,
    SayWords,
)
from bridle.clients.interaction.session.intents import Intent
from bridle.clients.interaction.session.outbox import Outbox
from bridle.clients.interaction.session.slash_actions import SlashActions
from bridle.clients.interaction.state.engine_info import EngineInfo
from bridle.clients.interaction.state.view import SessionView
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
from bridle.protocol.queries import PreviewSession

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
        self._connection = connection
        self._create = create
        self._services = services
        self._client_performs = perform
        self._settle = settle
        self.info = EngineInfo()
        self.controller = Controller(SessionView(connection.client), "", info=self.info)
        self._outbox = Outbox(
            connection,
            readdressed=self._readdressed,
            refused=lambda refusal, command: self._perform(self.controller.refused(refusal, command)),
            done=settle,
        )
        self._actions = SlashActions(connection, services, perform=perform)
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
        """Something a person wants."""
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
            self._client_performs(EngineLost(gives_up_s))
            self._settle()

    def leave(self, code: int) -> None:
        if not self._left.done():
            self._left.set_result(code)

    async def _stop_before_leaving(self) -> None:
        """Two Ctrl-C stop the turn and leave: where the session stays behind, the first one still counts."""
        if not self._stopping or not self._services.come_back:
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
        short = await self._actions.short_id(self.controller.session)
        if self.view.running and not self._out_of_reach and (come_back := self._services.come_back):
            return f'Left running: "{self.view.title}".  Come back: {come_back} {short}'
        if "://" in self._services.come_back:  # it is not in the store of this machine
            return f'Saved as "{self.view.title}".  Come back: {self._services.come_back} {short}'
        return f'Saved as "{self.view.title}".  Come back: bridle -c   or   bridle -r {short}'

    # Following

    async def _open(self, opened: Accepted) -> None:
        """Follows a session; the event it was opened with is the last of its past."""
        session, opened_at = opened.session, opened.event or 0
        if self._services.covers("ListSlash"):
            await self.info.learn_commands(self._connection, session)
        if self._services.covers("ListProfiles"):
            await self.info.learn_profiles(self._connection, session)
        described = await self._actions.describe(session)
        view = SessionView(self._connection.client)
        view.title = visible(described.title, newlines=False)
        self._opened_at = opened_at
        self._perform(
            self.controller.forget_questions()
        )  # of the old session nothing more is taken from here on
        self.controller = Controller(
            view,
            session,
            opened_at=opened_at,
            folder=folder_words(described.cwd, self._services.home),
            info=self.info,
            is_file=self._services.is_file,
            picture=self._services.picture,
            covers=self._services.covers,
        )
        if self._nobody:
            self.controller.nobody_is_left()
        self._client_performs(EnterSession())
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
            async for envelope in self._connection.events(session):
                if self._stream != stream:
                    return
                self.view.clients.add(self._connection.client)
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
            self._client_performs(SayWords(visible(failure.message)))
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
            await self.info.learn_commands(self._connection, self.controller.session)
        if not past and (
            envelope.id == self._opened_at or isinstance(envelope.event, e.TurnEnded | e.ModelChanged)
        ):
            session = self.controller.session
            if self._services.covers("ListModels"):
                await self.info.learn_models(self._connection, session, self._asked_models)
            if self._is_new and envelope.id == self._opened_at and self._services.covers("ListProviders"):
                self._is_new = False
                names = {model.partition(":")[0] for model in self._asked_models}
                await self.info.learn_providers(self._connection, session, names)

    # Performing

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Command():
                    stops = isinstance(effect, CancelTurn) and effect.invocation is None
                    self._stopping = self._stopping or stops
                    self._outbox.put(effect)
                case Do(what=what, arguments=words):
                    self._do(what, words)
                case Leave(code=code):
                    self.leave(code)
                case _:
                    self._client_performs(effect)

    def _do(self, what: Deed, words: str) -> None:
        match what:
            case "clear":
                self._outbox.put(self._new_session)
            case "resume" if words:
                self._outbox.put(lambda: self._go_to(words))
            case "resume":
                self._client_performs(PickSession())
                self._start(self._list_to_pick())
            case "model":
                self._start_list(lambda: self._actions.models_to_pick(self.controller.session, self.view))
            case "change_profile" if (change := parse_change(words)) is not None:
                self._change_profile(change)
            case "permissions":
                self._start_list(lambda: self._actions.grants_to_pick(self.controller.session, self.view))
            case "context":
                window = self.info.window_of(self.view.model)
                self._outbox.put(
                    lambda: self._actions.show_context(self.controller.session, self.view, window)
                )
            case "verb":
                self._lend(tuple(words.split(None, 2)))
            case _:
                self._outbox.put(lambda: self._actions.run(what, words, self.controller.session, self.view))

    def _readdressed(self, command: AnyCommand) -> AnyCommand:
        """What was said behind a `/clear` is meant for the new session."""
        if isinstance(
            command, SendInput | ShellRequest | RunSlash | SetModel | SetMode | SetEffort | AskAside
        ):
            return msgspec.structs.replace(command, session=self.controller.session)
        return command

    # Other sessions

    async def _new_session(self) -> None:
        """`/clear`: the old session ends and stays listed; a new one begins."""
        create = msgspec.structs.replace(
            self._create, resume=None, model=self.view.model, mode=self.view.mode
        )
        await self._change_to(create, "A new session.")

    async def _go_to(self, session: str) -> None:
        """`/resume`: the old session ends and stays listed; the other goes on with its own model and mode."""
        current = self.controller.session
        if current.removeprefix("sess_").startswith(session.removeprefix("sess_")):
            self._client_performs(SayWords("This is the session you are in."))
        elif elsewhere := await self._actions.elsewhere(session, current):
            self._client_performs(SayWords(elsewhere))
        else:
            create = msgspec.structs.replace(
                self._create, resume=session, profile=None, model=None, mode=None
            )
            await self._change_to(create, "Another session.")

    def _change_profile(self, change: ProfileChange) -> None:
        """`/profiles:NAME`: what is not said yet is chosen from a list."""
        if not change.in_place and not self.view.turns:
            change = msgspec.structs.replace(change, turns=0)  # there is nothing to take along
        if not change.is_complete:
            self._start_list(lambda: self._actions.ways_to_change(change, self.controller.session))
        elif change.in_place:
            self._outbox.put(lambda: self._morph(change.name))
        else:
            self._outbox.put(lambda: self._begin_with(change.name, change.turns or 0))

    async def _begin_with(self, profile: str, turns: int) -> None:
        """A new session with a profile; the old one ends and can be resumed."""
        old = self.controller.session
        create = msgspec.structs.replace(self._create, resume=None, profile=profile, model=None, mode=None)
        model = (await self._connection.ask(PreviewSession(create=create))).model or self.view.model
        carried = {"carry_from": old, "carry_turns": turns} if turns else {}
        created = await self._connection.send(msgspec.structs.replace(create, model=model, **carried))
        self._create = create
        self._client_performs(SayWords(begun_words(profile, await self._actions.short_id(old), turns=turns)))
        await self._open(created)
        await self._connection.send(EndSession(session=old))

    async def _morph(self, profile: str) -> None:
        """This session goes on with another profile: its run ends, and the next one has it."""
        session = self.controller.session
        create = msgspec.structs.replace(self._create, resume=session, profile=profile, model=None, mode=None)
        await self._connection.ask(PreviewSession(create=create))  # refused here, nothing has ended yet
        self._stream += 1  # that the old run ends is not the end
        await self._connection.send(EndSession(session=session))
        try:
            created = await self._connection.send(create)
        except BridleError as refusal:
            self._client_performs(SayWords(visible(refusal.message)))
            created = await self._connection.send(msgspec.structs.replace(create, profile=None))
        else:
            self._create = msgspec.structs.replace(self._create, profile=profile)
            name = visible(profile, newlines=False)
            self._client_performs(SayWords(f'This session goes on with the profile "{name}".'))
        await self._open(created)

    async def _change_to(self, create: CreateSession, words: str) -> None:
        old, title = self.controller.session, self.view.title
        created = await self._connection.send(create)
        if title:
            way_back = await self._actions.short_id(old)
            self._client_performs(
                SayWords(f'{words} The last one is saved as "{title}": bridle -r {way_back}')
            )
        await self._open(created)
        await self._connection.send(EndSession(session=old))

    def _lend(self, words: tuple[str, ...]) -> None:
        """A verb of the program at this terminal, where it has one."""
        after = (
            "What is trusted now counts for sessions that begin from here on."
            if words[1:2] == ("ack",)
            else ""
        )
        self._client_performs(LendTerminal(words, after))

    def _start_list(self, made: Callable[[], Awaitable[ChoiceList | None]]) -> None:
        """A list that has to be asked for; keys typed until it is there are for the list."""

        async def work() -> None:
            choices = None
            try:
                choices = await made()
            except BridleError as refusal:
                self._perform(self.controller.refused(refusal))
            finally:
                self._client_performs(PickRow(choices))
                self._settle()

        self._client_performs(PickRow(ready=False))
        self._start(work())

    async def _list_to_pick(self) -> None:
        sessions = ()
        try:
            sessions = await self._actions.others_here(self.controller.session)
            if not sessions:
                self._client_performs(SayWords("There is no other session in this folder."))
        except BridleError as refusal:
            self._perform(self.controller.refused(refusal))
        finally:
            self._client_performs(PickSession(sessions))
            self._settle()
