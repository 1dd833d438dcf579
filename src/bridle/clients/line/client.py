"""Talking with a session at a terminal: keys in, commands out; events in, lines out.

Everything runs on one event loop. Keys and events are handled as they come; commands go out one after the other, so
what was typed first is sent first.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Final, Literal

import msgspec

from bridle.base.phrases import counted
from bridle.base.visible import visible
from bridle.clients.interaction import picker as picking
from bridle.clients.interaction import slash_table
from bridle.clients.interaction.card import Decided, Hint, Show
from bridle.clients.interaction.composer import (
    Send,
    Wish,
    WishName,
    cleared,
    composer_with,
    rewritten,
    text_of,
)
from bridle.clients.interaction.engine_info import EngineInfo
from bridle.clients.interaction.keys import Key, Press, Text
from bridle.clients.interaction.parse import Shell, Slash, Words, parse
from bridle.clients.interaction.picker import Deed, Gone, Picked, Picker
from bridle.clients.interaction.question_card import Setting, permission_question
from bridle.clients.interaction.question_forms import asked_question
from bridle.clients.interaction.tally import Tally
from bridle.clients.interaction.view import SessionView
from bridle.clients.interaction.word_completion import completed, options_words
from bridle.clients.line.client_services import Reach
from bridle.clients.line.footer import HINT_S, MARK, Footer
from bridle.clients.line.key_router import Desk, Effect
from bridle.clients.line.outbox import Outbox
from bridle.clients.line.page import Page, Prompt
from bridle.clients.line.question_queue import Asking
from bridle.clients.line.screen import START_HINT, Screen, Standing
from bridle.clients.line.session_picker import picker_prompt
from bridle.clients.line.slash_actions import Errands
from bridle.clients.line.start_info import Facts, sandbox_fact
from bridle.clients.line.terminal import Terminal
from bridle.protocol import events as e
from bridle.protocol.commands import (
    AnyCommand,
    CancelTurn,
    CreateSession,
    EndSession,
    RunSlash,
    SendInput,
    SetMode,
    SetModel,
    ShellRequest,
)
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, sentence

COUNTED_MS: Final = 1000
"""A shorter wait is over before anybody has read how long it is."""
LEAVE_S: Final = HINT_S
"""A second Ctrl-C within this time leaves."""

_NETWORK_WORDS: Final = {"inherit": "network on", "filtered": "network filtered", "deny": "network off"}
_AGAIN: Final = "Ctrl-C again to leave"
_STOPPING: Final = "Stopping… Ctrl-C again within 2 s to leave"
_CLEARED: Final = "Draft cleared, Up brings it back. Ctrl-C again within 2 s to leave"
_LEAVING: Final = "A turn is running.  s stop it and leave · Esc stay"


async def talk(
    connection: Connection,
    create: CreateSession,
    terminal: Terminal,
    *,
    facts: Facts,
    reach: Reach | None = None,
    first_prompt: str | None = None,
) -> int:
    """Opens the session and stays with the person until they leave; returns the exit code.

    The terminal is as it was found when this returns or raises. Raises `BridleError` when the session cannot be
    opened. Neither the connection nor the session is closed here: whoever opened them does that.
    """
    created = await connection.send(create)
    client = _Client(connection, create, terminal, facts, reach or Reach())
    with terminal.raw():
        return await client.run(created.session, created.event or 0, first_prompt)


class _Client:
    """One person's terminal on one connection. The session may change with `/clear` and `/resume`."""

    def __init__(
        self, connection: Connection, create: CreateSession, terminal: Terminal, facts: Facts, reach: Reach
    ) -> None:
        self._connection = connection
        self._create = create
        self._terminal = terminal
        self._facts = facts
        self._reach = reach
        self._clock = facts.clock
        self._page = Page(
            terminal.write,
            columns=lambda: self._terminal.columns,
            rows=lambda: self._terminal.rows,
            moves=terminal.look.moves,
        )
        self._desk = Desk(composer_with(facts.history), lines_only=not terminal.interactive)
        self._screen = Screen(
            self._page, look=terminal.look, columns=terminal.columns, standing=self._standing
        )
        self._view = SessionView(connection.client)
        self._outbox = Outbox(
            connection, readdressed=self._readdressed, refused=self._refused, done=self._sent
        )
        self._footer = Footer(
            self._page,
            self._desk,
            look=terminal.look,
            clock=self._clock,
            interactive=terminal.interactive,
            say=self._say,
            active=lambda: self._screen.running if self._view.running else None,
            mode=lambda: self._view.mode,
            instead=self._picker_prompt,
        )
        self._errands = Errands(connection, terminal, facts, reach, say=self._say)
        self._asking = Asking(
            self._desk,
            terminal,
            self._clock,
            take_keys=self._take_keys,
            show=self._show_question,
            send=self._outbox.put,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._left: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._session = ""
        self._opened_at = 0
        self._begun = False
        self._keys: deque[Key] = deque()
        self._first_prompt: str | None = None
        self._interrupted_s = float("-inf")
        self._leaving = False
        self._input_over = False
        self._picker: Picker | None = None
        self._suspended = False
        self._lent = False
        self._info = EngineInfo()
        self._asked_models: set[str] = set()
        self._held = False  # keys wait for a list that is on its way
        self._waiting: e.Envelope | None = None  # an attempt that failed, until the next one begins
        self._offered = False  # choices of Tab stand above the prompt

    async def run(self, session: str, opened_at: int, first_prompt: str | None) -> int:
        self._first_prompt = first_prompt
        with self._terminal.listening(self._on_keys, self._on_input_over), self._signals():
            self._start(self._outbox.run())
            await self._info.learn_commands(self._connection, session)
            await self._open(session, opened_at)
            try:
                code = await self._left
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._say_goodbye()
        return code

    async def _open(self, session: str, opened_at: int) -> None:
        """Follows a session; `opened_at` is the last event of its past."""
        title = await self._errands.title_of(session)
        self._session = session
        self._opened_at = opened_at
        self._view = SessionView(self._connection.client)
        self._view.title = visible(title, newlines=False)
        self._start(self._follow(session))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Work in the background. A fault in it ends the client, with the terminal restored."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (fault := task.exception()) is not None and not self._left.done():
                self._left.set_exception(fault)

        task = asyncio.create_task(work)
        task.add_done_callback(ended)
        self._tasks.append(task)

    @contextmanager
    def _signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        wanted: dict[int, Callable[[], None]] = {
            signal.SIGTERM: lambda: self._leave(143),
            signal.SIGHUP: lambda: self._leave(129),
            signal.SIGINT: self._interrupted_from_outside,
            signal.SIGWINCH: self._resized,
            signal.SIGCONT: self._continued,
        }
        for number, action in wanted.items():
            loop.add_signal_handler(number, action)
        try:
            yield
        finally:
            for number in wanted:
                loop.remove_signal_handler(number)

    def _interrupted_from_outside(self) -> None:
        """A SIGINT: Ctrl-C is a key here, unless another program has the terminal. Then it was meant for that."""
        if not self._lent:
            self._interrupt()
            self._footer.draw()

    # Events

    async def _follow(self, session: str) -> None:
        """Shows the session's events until it ends, or until another session takes its place."""
        try:
            async for envelope in self._connection.events(session):
                if self._session != session:
                    return
                await self._learn_models(envelope)
                self._on_event(envelope)
        except BridleError as failure:
            self._screen.say(visible(failure.message))
            self._leave(failure.exit_code)
        if self._session == session:
            self._leave(0)

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
        if not past and (
            envelope.id == self._opened_at or isinstance(envelope.event, e.TurnEnded | e.ModelChanged)
        ):
            await self._info.learn_models(self._connection, self._session, self._asked_models)

    def _on_event(self, envelope: e.Envelope) -> None:
        if self._view.was_shown_early(envelope):
            return
        self._view.take(envelope)
        if envelope.id is not None and envelope.id <= self._opened_at:
            self._screen.fold(envelope)
            if envelope.id == self._opened_at:
                self._begin()
            return
        if not e.concerns(envelope):  # what a child says or waits for is not the conversation on this page
            self._screen.show(envelope)
            self._footer.draw()
            return
        if envelope.id is not None:
            self._waited()
        match envelope.event:
            case e.StepFailed(retry_in_ms=int(wait_ms)) if wait_ms >= COUNTED_MS and self._footer.counts:
                self._wait(envelope, envelope.event, wait_ms / 1000)
                return
            case e.PermissionRequested() as request:
                self._asking.arrived(self._session, permission_question(request, self._setting()))
            case e.QuestionAsked() as asked:
                self._asking.arrived(self._session, asked_question(asked))
            case e.PermissionDecided() as decided:
                self._settled(decided.call_id, decided.answered_by)
            case e.QuestionAnswered() as answered:
                self._settled(answered.question_id, answered.answered_by)
            case e.TurnStarted(input=number):
                self._footer.working()
                if words := self._view.begun_from_queue(number):
                    self._screen.say(f"{MARK}{words}", indent="  ")
            case e.InputAccepted(content=content) if envelope.originator != self._connection.client:
                self._screen.say(f"{envelope.originator}: {visible(e.text_of(content))}", indent="  ")
            case _:
                pass
        self._screen.show(envelope)
        if isinstance(envelope.event, e.TurnEnded):
            self._turn_ended()
        self._footer.draw()

    def _wait(self, envelope: e.Envelope, failed: e.StepFailed, seconds: float) -> None:
        """Counts down in place to the next attempt. What is said of this one stays when the wait is over."""
        self._waiting = envelope
        self._footer.count_down(seconds, lambda left_s: self._screen.waiting(failed, left_s))

    def _waited(self) -> None:
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            self._footer.counted()
            self._screen.show(waiting)

    def _begin(self) -> None:
        """The past is read: say where we are, then let the person write."""
        view = self._view
        if self._begun:  # another session on the same page
            self._say_where_we_are()
            self._footer.draw()
            return
        self._screen.start(
            self._facts,
            model=view.model,
            mode=view.mode,
            confined=sandbox_fact(view.created),
            degraded=tuple(view.degraded.values()),
        )
        self._say_where_we_are()
        self._screen.say(START_HINT, indent="  ")
        first, self._first_prompt = self._first_prompt, None
        if first is not None:
            self._submit(Send(first, visible(first), tuple(first)))
        self._begun = True
        self._on_keys([])
        self._leave_if_over()

    def _say_where_we_are(self) -> None:
        view = self._view
        if view.turns:
            self._screen.say(
                f'Back in "{view.title}", {counted(view.turns, "turn")} so far. The last answer:'
            )
            self._screen.past_answer()
            self._screen.blank()

    def _standing(self, turn: Tally) -> Standing:
        """What a turn's last line says beside its numbers."""
        contents, model = self._view.contents, self._view.asked or self._view.model
        return Standing(
            local=turn.is_local(self._info.is_local),
            context=contents.share(self._info.window_of(model)),
            estimated=not contents.is_counted,
        )

    def _turn_ended(self) -> None:
        self._footer.rested()
        self._asking.forget_all()
        if self._leaving:
            self._leave(0)
        self._leave_if_over()

    # Questions

    def _setting(self) -> Setting:
        created = self._view.created
        border = created if created is not None and created.confined != "off" else None
        return Setting(
            folder=visible(self._facts.folder, newlines=False),
            sandbox="sandbox: none" if border is None else "sandbox on",
            network=_NETWORK_WORDS["inherit" if border is None else border.network],
        )

    def _show_question(self, show: Show) -> None:
        self._screen.blank()
        self._screen.rows(show.rows)

    def _settled(self, question_id: str, by: str | None) -> None:
        """The question is no longer open, whoever answered."""
        if not self._asking.settled(question_id):
            return
        if by is None:
            self._screen.say("Nobody answered in time.")
        elif by != self._connection.client:
            self._screen.say("Answered elsewhere.")

    # Keys

    def _on_keys(self, keys: list[Key]) -> None:
        self._keys += keys
        if self._begun:
            self._handle_keys()
            self._footer.draw()
        elif Press("ctrl-c") in keys:
            self._interrupt()

    def _take_keys(self) -> None:
        """Everything typed until now, read or not: it was typed before what comes next was on the screen."""
        self._keys += self._terminal.read_now()
        self._handle_keys()

    def _handle_keys(self) -> None:
        while self._keys and not self._held and not self._left.done():
            key = self._keys.popleft()
            if self._leaving_asked(key) or self._picked(key):
                continue
            self._forget_options()
            card = self._desk.card
            answer_line = card.line if card is not None and self._desk.focus == "question" else ""
            columns = self._terminal.columns
            for effect in self._desk.press((key,), now_s=self._clock.monotonic(), columns=columns):
                self._act(effect, answer_line)

    def _act(self, effect: Effect, answer_line: str) -> None:
        match effect:
            case Send():
                self._submit(effect)
            case Wish(what=what):
                self._wish(what)
            case Show(rows=rows):
                self._screen.rows(rows)
            case Hint(text=text):
                self._screen.say(text)
            case Decided():
                self._decided(effect, answer_line)

    def _wish(self, what: WishName) -> None:
        match what:
            case "interrupt":
                self._interrupt()
            case "leave":
                self._leave_politely()
            case "suspend":
                self._suspend()
            case "redraw":
                self._page.redraw()
            case "edit":
                self._edit()
            case "complete":
                self._complete()
            case "mode":
                mode = slash_table.next_mode(self._view.mode)
                self._outbox.put(SetMode(session=self._session, mode=mode))

    def _decided(self, decided: Decided, answer_line: str) -> None:
        if not decided.stop:
            self._page.keep_prompt(self._footer.answer_lead, visible(answer_line))
        self._asking.decided(decided)
        if decided.stop:
            self._interrupt()

    def _interrupt(self) -> None:
        """Ctrl-C: once stops or clears, twice within two seconds leaves."""
        now_s = self._clock.monotonic()
        if now_s - self._interrupted_s <= LEAVE_S:
            self._leave(0)
            return
        self._interrupted_s = now_s
        if self._view.running:
            self._outbox.put(CancelTurn(session=self._session))
            self._footer.hint(_STOPPING)
        elif not self._desk.composer.empty:
            self._desk.composer = cleared(self._desk.composer)
            self._footer.hint(_CLEARED)
        else:
            self._footer.hint(_AGAIN)

    def _leave_politely(self) -> None:
        """Ctrl-D: leaves at once where nothing runs."""
        if not self._view.running:
            self._leave(0)
        else:
            self._leaving = True
            self._footer.hint(_LEAVING, lasting=True)

    def _leaving_asked(self, key: Key) -> bool:
        """The key after Ctrl-D during a turn; True if it was the answer."""
        if not self._leaving:
            return False
        if key == Text("s"):
            self._outbox.put(CancelTurn(session=self._session))
            self._footer.hint("Stopping…", lasting=True)
            return True
        self._leaving = False
        self._footer.hint("")
        return key == Press("esc")

    def _suspend(self) -> None:
        self._page.prompt(None)
        self._suspended = True
        self._terminal.suspend()
        self._page.begin_anew()
        self._clock.call_later(HINT_S, self._forget_suspension)

    def _forget_suspension(self) -> None:
        self._suspended = False

    def _complete(self) -> None:
        """Tab: puts in what is certain and shows the choices that are left."""
        found = completed(self._desk.composer, names=slash_table.names(self._info), paths=self._reach.paths)
        self._desk.composer = found.composer
        if found.options:
            self._offered = True
            self._footer.hint(
                options_words([visible(option, newlines=False) for option in found.options]), lasting=True
            )

    def _forget_options(self) -> None:
        if self._offered:
            self._offered = False
            self._footer.hint("")

    def _edit(self) -> None:
        """Ctrl-G: the draft goes through the person's own editor."""
        edit = self._reach.edit
        if edit is None or not self._terminal.interactive:
            self._footer.hint("No editor can be opened here.")
            return

        async def work() -> None:
            text = text_of(self._desk.composer.cells)
            self._page.prompt(None)
            self._lent = True
            try:
                with self._terminal.lent():
                    changed = await edit(text)
            finally:
                self._lent = False
                self._desk.come_back(self._clock.monotonic())
            if changed is not None:
                self._desk.composer = rewritten(self._desk.composer, changed)
            self._resized()

        self._outbox.put(work)

    def _on_input_over(self) -> None:
        """No more keys can come: nobody is left to answer, and the last turn is the end."""
        self._input_over = True
        if self._terminal.interactive:
            self._leave(129)
        else:
            self._asking.nobody_is_left()
            self._leave_if_over()

    def _leave_if_over(self) -> None:
        idle = self._begun and not self._view.running and self._outbox.empty
        if self._input_over and idle:
            self._leave(0)

    # What was written

    def _submit(self, send: Send) -> None:
        typed = parse(send.text, self._facts.is_file)
        if self._view.running and isinstance(typed, Words):
            lead = "now      " if send.steer else "queued   "
            self._screen.say(f"{lead}{send.shown}", indent="  ")
        else:
            self._page.keep_prompt(self._footer.draft_lead, send.shown)
        match typed:
            case Words(content=content):
                self._desk.remember(send.cells)
                self._facts.save_prompt(send.text)
                mode = "steer" if send.steer else "queue"
                self._view.sending(send.shown)
                self._outbox.put(SendInput(session=self._session, content=content, mode=mode))
            case Shell(command=command, share=share):
                self._outbox.put(ShellRequest(session=self._session, command=command, share=share))
            case Slash(name=name, arguments=arguments):
                self._slash(name, arguments)
            case None:
                pass

    def _slash(self, name: str, arguments: str) -> None:
        now = slash_table.Standing(
            session=self._session, view=self._view, used=self._screen.session, info=self._info
        )
        match slash_table.carry_out(name, arguments, now):
            case slash_table.Do(what=what, arguments=words):
                self._do(what, words)
            case slash_table.Lines(lines=lines, indent=indent):
                for line in lines:
                    self._screen.say(line, indent=indent)
            case command:
                self._outbox.put(command)

    def _do(self, what: slash_table.Deed, words: str) -> None:
        match what:
            case "quit":
                self._leave(0)
            case "clear":
                self._outbox.put(self._new_session)
            case "resume" if words:
                self._outbox.put(lambda: self._go_to(words))
            case "resume":
                self._held = True
                self._start(self._pick())
            case "copy":
                self._errands.copy(self._screen.answer)
            case "sessions" | "rename" | "export" | "promote" | "pin" | "branch":
                self._outbox.put(lambda: self._run_errand(what, words))

    async def _run_errand(
        self, what: Literal["sessions", "rename", "export", "promote", "pin", "branch"], words: str
    ) -> None:
        """What must not overtake the commands before it."""
        match what:
            case "sessions":
                await self._errands.list_sessions(self._session)
            case "rename":
                await self._errands.rename(self._session, self._view, words)
            case "export":
                await self._errands.export(self._session, self._view, words)
            case "promote":
                self._errands.promote(self._view, words)
            case "pin":
                await self._errands.pin(self._session, pinned=words != "off")
            case "branch":
                await self._errands.branch(self._session, words)

    # Other sessions

    async def _new_session(self) -> None:
        """`/clear`: the old session ends and stays listed; a new one begins."""
        create = msgspec.structs.replace(
            self._create, resume=None, model=self._view.model, mode=self._view.mode
        )
        await self._change_to(create, "A new session.")

    async def _go_to(self, session: str) -> None:
        """`/resume`: the old session ends and stays listed; the other goes on with its own model and mode."""
        if self._session.removeprefix("sess_").startswith(session.removeprefix("sess_")):
            self._screen.say("This is the session you are in.")
            return
        if elsewhere := await self._errands.elsewhere(session):
            self._screen.say(elsewhere)
            return
        create = msgspec.structs.replace(self._create, resume=session, model=None, mode=None)
        await self._change_to(create, "Another session.")

    async def _change_to(self, create: CreateSession, words: str) -> None:
        old, title = self._session, self._view.title
        created = await self._connection.send(create)
        if title:
            way_back = await self._errands.short_id(old)
            self._screen.say(f'{words} The last one is saved as "{title}": bridle -r {way_back}')
        self._screen = self._screen.for_new_session()
        await self._open(created.session, created.event or 0)
        await self._connection.send(EndSession(session=old))

    async def _pick(self) -> None:
        """Opens the list. What is typed until it is there is for the list."""
        try:
            sessions = await self._errands.others_here(self._session)
            if not sessions:
                self._screen.say("There is no other session in this folder.")
            elif not self._terminal.interactive:
                self._screen.say("Which one? /resume ID")
            else:
                self._picker = Picker(sessions=sessions, folder=self._facts.folder)
        except BridleError as refusal:
            self._screen.say(visible(refusal.message), indent="  ")
        finally:
            self._held = False
            self._on_keys([])

    def _picker_prompt(self) -> Prompt | None:
        if self._picker is None:
            return None
        return picker_prompt(self._picker, columns=self._terminal.columns, rows=self._terminal.rows)

    def _picked(self, key: Key) -> bool:
        """A key while the list of sessions is open; True if it was for the list."""
        if self._picker is None:
            return False
        if key == Press("ctrl-c"):  # as everywhere: once goes back, twice leaves
            self._picker = None
            self._interrupt()
            return True
        self._picker, choice = picking.press(self._picker, key)
        match choice:
            case Picked(id=session):
                self._picker = None
                self._outbox.put(lambda: self._go_to(session))
            case Gone():
                self._picker = None
            case Deed() | None:  # inside a session nothing is changed from the list
                pass
        return True

    # Commands on their way out

    def _readdressed(self, command: AnyCommand) -> AnyCommand:
        """What was typed behind a `/clear` is meant for the new session."""
        if isinstance(command, SendInput | ShellRequest | RunSlash | SetModel | SetMode):
            return msgspec.structs.replace(command, session=self._session)
        return command

    def _refused(self, refusal: BridleError, command: AnyCommand | None) -> None:
        if command is not None:
            self._view.refused(command)
        late = isinstance(command, CancelTurn) and refusal.reason == "NoTurn"
        if late:  # the turn ended by itself: nothing to say
            return
        message = refusal.message
        if refusal.reason == "TurnInProgress" and refusal.data.get("originator") == self._connection.client:
            what = f"/{command.name}" if isinstance(command, RunSlash) else "that"
            message = slash_table.busy_words(what, self._view)
        elif isinstance(command, RunSlash):
            message = sentence(refusal.reason, {**refusal.data, "what": f"/{command.name}"})
            if refusal.reason in ("UnknownSlash", "NotSupported"):
                message += slash_table.nearest_words(command.name, self._info)
        self._screen.say(visible(message), indent="  ")

    def _sent(self) -> None:
        self._footer.draw()
        self._leave_if_over()

    # The rows below

    def _resized(self) -> None:
        self._screen.resize(self._terminal.columns)
        self._page.resized()

    def _continued(self) -> None:
        """SIGCONT. After a Ctrl-Z of ours everything is drawn already; after anybody else's stop it is not."""
        self._terminal.resume()
        if not self._suspended:
            self._page.begin_anew()
        self._suspended = False

    def _say(self, text: str) -> None:
        self._screen.say(text)

    # Leaving

    def _leave(self, code: int) -> None:
        if not self._left.done():
            self._left.set_result(code)

    async def _say_goodbye(self) -> None:
        self._footer.close()
        if title := self._view.title:
            way_back = await self._errands.short_id(self._session)
            self._screen.say(f'Saved as "{title}".  Come back: bridle -c   or   bridle -r {way_back}')
