"""A live session: takes input, runs one turn at a time, answers commands, ends cleanly.

The inbox is the log itself: input that was accepted and not yet heard is what the fold still holds. A turn is a task of
its own; cancelling it cancels its calls and their processes. Whatever goes wrong inside a turn ends that turn and
nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from bridle.base.clock import Clock, iso_ms
from bridle.engine.aside import AnswerAside, Asides
from bridle.engine.bus import Bus
from bridle.engine.open_questions import Client
from bridle.engine.ports import GoalDriver, GoalSlot, Room, SessionLog
from bridle.engine.slash_command import SlashCommand, SlashEvent
from bridle.engine.turn import Ending
from bridle.engine.turn_runner import TurnRunner
from bridle.protocol.commands import ChangeInput, ShellRequest
from bridle.protocol.errors import BridleError, CommandRefused, StoreError, sentence
from bridle.protocol.events import (
    Cancelled,
    CommandStamp,
    ContextAdded,
    DurableEvent,
    EndCause,
    Envelope,
    GrantRevoked,
    InputAccepted,
    InputChanged,
    InputMode,
    Mode,
    ModeChanged,
    Notice,
    SessionEnded,
    ToolResult,
    TurnEnded,
    TurnStarted,
    TurnTiming,
)
from bridle.protocol.inbox import PendingInput, next_input
from bridle.protocol.messages import InputBlock, TextBlock
from bridle.protocol.slash_arguments import check_words

if TYPE_CHECKING:
    from bridle.engine.services import Services

T = TypeVar("T")
Court = Callable[[], Coroutine[Any, Any, bool]]
"""Has a person judge what a crash left open; False when that is not all decided."""
StopChild = Callable[[str, Client], bool]
"""Has the child of an invocation stop, in the name of a client; False where no such child works."""


class SessionPorts(msgspec.Struct, frozen=True, kw_only=True):
    """What a session stands on: where its events are kept, whether there is room for more, and the time."""

    log: SessionLog
    clock: Clock
    room: Room | None = None


class Lifecycle(msgspec.Struct, frozen=True, kw_only=True):
    """Hooks around the turns: `court` before the first, `at_rest` behind each, `at_end` behind the last. `goals` may
    start further turns; `stop_child` ends one subagent."""

    at_end: Callable[[], Awaitable[None]]
    goals: GoalSlot
    at_rest: Callable[[], Awaitable[None]] | None = None
    court: Court | None = None
    stop_child: StopChild | None = None


class GrantActions(msgspec.Struct, frozen=True):
    """Changes to remembered approvals: forget one (False if unknown), or write one into the settings as a rule."""

    revoke: Callable[[str], bool]
    promote: Callable[[str], Notice]


class Session:
    """One session and its run. Everything it needs is given; it opens nothing itself."""

    def __init__(
        self,
        turns: TurnRunner,
        *,
        ports: SessionPorts,
        bus: Bus,
        lifecycle: Lifecycle,
        grants: GrantActions,
        slash: Sequence[SlashCommand] = (),
        aside: AnswerAside | None = None,
        services: Services | None = None,
    ) -> None:
        self.journal = turns.journal
        self.id = turns.journal.session
        self.questions = turns.questions
        self.services = services
        self._turns = turns
        self._ports = ports
        self._bus = bus
        self._lifecycle = lifecycle
        self.grants = grants
        self._slash = {command.name: command for command in slash}
        self._answer_aside = aside
        self._goals = lifecycle.goals
        self._asides: Asides | None = None
        self._runner: asyncio.Task[None] | None = None
        self._turn: asyncio.Task[Any] | None = None
        self._turn_since_ms = 0
        self._cancelled_by: str | None = None
        self._ending = False
        self._resting: asyncio.Future[None] | None = None
        self.at_over: Callable[[EndCause], None] = lambda _cause: None
        """Hears that this run cannot go on, and is to be ended."""
        bus.at_close = lambda: self.at_over("error")
        self._goals.stop_work = lambda: self._turn is not None and self._turn.cancel()

    @property
    def busy(self) -> bool:
        return self._runner is not None

    @property
    def slash_names(self) -> frozenset[str]:
        """The commands it carries out itself; `name:` stands for every name that begins so."""
        begins = (f"{one.name}:" for one in self._slash.values() if one.others is not None)
        return frozenset((*self._slash, *begins))

    def follow(self, since: int, *, until: Callable[[], bool]) -> AsyncIterator[Envelope]:
        """Every event above `since`, then new ones as they happen, until the session ends or `until` holds."""
        return self._bus.follow(self._ports.log, since, until=until)

    def wake_readers(self) -> None:
        """Lets those who wait for events look whether they still should."""
        self._bus.wake()

    async def rested(self) -> None:
        """Returns at once, or when what follows a turn that has ended is done: whoever saw it end finds nobody busy."""
        if self._resting is not None:
            await asyncio.wait((self._resting,))

    def begin(self) -> None:
        """Starts what runs beside the session, and lets a person judge what a crash left open, before anything else
        runs. Call it when the client is attached."""
        if self.services is not None:
            self.services.begin()
        if self._lifecycle.court is not None:
            self._turn_since_ms = self._ports.clock.now_ms()
            self._runner = asyncio.create_task(self._hold_court(self._lifecycle.court))

    def accept(
        self,
        client: Client,
        content: tuple[InputBlock, ...],
        mode: InputMode,
        stamp: CommandStamp | None = None,
    ) -> int:
        """Takes input into the inbox and returns its event id; starts a turn when none is running."""
        if self._ports.room is not None and self._ports.room.stuck():
            raise CommandRefused("DiskFull")
        if mode == "reject":
            self._refuse_if_busy()
        number = self.journal.emit(
            InputAccepted(content=content, mode=mode, identity=client.identity, stamp=stamp),
            originator=client.id,
        )
        if not self.busy:
            self._runner = asyncio.create_task(self._run())
        return number

    def wake(self) -> None:
        """Runs what was put into the inbox by whoever works beside the turns, unless something runs already."""
        if not self.busy and not self._ending:
            self._runner = asyncio.create_task(self._run())

    def change_input(self, client: Client, command: ChangeInput, stamp: CommandStamp | None = None) -> int:
        """Changes input that waits, and returns the event that says so. What is let go while nothing runs, runs."""
        waiting = self.journal.conversation.inputs.get(command.input)
        if waiting is None:
            raise CommandRefused("NotWaiting")
        if command.change == "edit" and not command.content:
            raise CommandRefused("NothingAsked")
        content = {"edit": command.content, "drop": waiting.event.content}.get(command.change, ())
        number = self.journal.emit(
            InputChanged(input=command.input, change=command.change, content=content, stamp=stamp),
            originator=client.id,
        )
        if command.change in ("release", "first") and not self.busy:
            self._runner = asyncio.create_task(self._run())
        return number

    def ask_aside(self, client: Client, question: str, stamp: CommandStamp | None = None) -> int:
        """Asks the model beside the conversation, whatever runs; returns the event of the question."""
        if self._answer_aside is None:
            raise CommandRefused("NotSupported", what="AskAside")
        if self._asides is None:
            self._asides = Asides(self.journal, self._answer_aside)
        return self._asides.ask(question, originator=client.id, stamp=stamp)

    def run_for_person(self, client: Client, request: ShellRequest) -> None:
        """Runs a command a person typed. Every layer applies; only the question is skipped."""
        self._refuse_if_busy()
        self.journal.originator = client.id
        self._turn_since_ms = self._ports.clock.now_ms()
        call = self._turns.call("bash", {"command": request.command}, "human")
        self._runner = asyncio.create_task(self._run_beside(call, lambda work, _by: _shared(request, work)))

    def run_slash(self, client: Client, name: str, arguments: str) -> bool:
        """Carries out a command of the engine's own; False where it has none of this name."""
        command = self._slash.get(name) or self._slash.get(name.partition(":")[0])
        before = None if command is None else command.called(name)
        if command is None or before is None:
            return False
        arguments = f"{before} {arguments}".strip() if before else arguments
        self.run_command(client, command, arguments)
        return True

    def run_command(self, client: Client, command: SlashCommand, arguments: str) -> None:
        if command.at_once is not None and (done := command.at_once(arguments)) is not None:
            self.journal.emit(done, originator=client.id)
            return
        self._refuse_if_busy()
        self.journal.originator = client.id
        self._turn_since_ms = self._ports.clock.now_ms()
        self._runner = asyncio.create_task(self._run_beside(_outcome_of(command, arguments), _said))

    def _refuse_if_busy(self) -> None:
        if self.busy:
            raise CommandRefused(
                "TurnInProgress", originator=self.journal.originator, ts=iso_ms(self._turn_since_ms)
            )

    def revoke(self, client: Client, grant_id: str, stamp: CommandStamp | None = None) -> int:
        """Forgets a remembered yes and returns the event that says so."""
        if not self.grants.revoke(grant_id):
            raise CommandRefused("UnknownGrant", grant=grant_id)
        return self.journal.emit(GrantRevoked(grant_id=grant_id, stamp=stamp), originator=client.id)

    def set_mode(self, client: Client, mode: Mode, stamp: CommandStamp | None = None) -> int:
        """Another mode, from now on."""
        return self.journal.emit(ModeChanged(mode=mode, stamp=stamp), originator=client.id)

    def leave_plan_mode(self, client: Client, *, approved: bool, stamp: CommandStamp | None = None) -> int:
        """A person ends planning, or looked at the plan and wants more of it. Returns the last event."""
        conversation = self.journal.conversation
        if conversation.mode != "plan":
            raise CommandRefused("NotPlanning")
        if not approved:
            return conversation.last_id
        return self.set_mode(client, conversation.mode_before_plan, stamp)

    def cancel(self, client: Client, child: str | None = None) -> None:
        """Stop the running turn and everything below it; without one, the open side question. With a `child`, stop
        only its work."""
        if child is not None:
            stop = self._lifecycle.stop_child
            if stop is None or not stop(child, client):
                raise CommandRefused("NoSuchChild", child=child)
            return
        if not self.busy:
            if self._asides is not None and self._asides.cancel():
                return
            raise CommandRefused("NoTurn")
        self._cancelled_by = client.id
        if self._turn is not None:
            self._turn.cancel()

    async def end(self, cause: EndCause = "user") -> None:
        """Stops a running turn, says goodbye, and ends every reader. Safe to call twice."""
        if self._ending:
            return
        self._ending = True
        self.journal.leave()
        if self._runner is not None:
            if self._turn is not None:
                self._turn.cancel()
            await asyncio.wait((self._runner,))
        if self._asides is not None:
            await self._asides.end()
        if self.services is not None:
            await self.services.close()
        await self._lifecycle.at_end()
        try:
            self.journal.emit(SessionEnded(cause=cause))
            await self.journal.committed()
        except StoreError as failure:
            self._bus.close(failure)
        if self._turns.watcher is not None:
            await self._turns.watcher.session_ended(cause)
        self._bus.close()

    async def _hold_court(self, court: Court) -> None:
        """Then whatever was put into the inbox meanwhile. Where not all is judged, nothing runs: the session ends."""
        self._turn = work = asyncio.create_task(court())
        await asyncio.wait((work,))
        self._turn = self._cancelled_by = None
        failure = None if work.cancelled() else work.exception()
        if isinstance(failure, StoreError):
            self._bus.close(failure)
        if not work.cancelled() and failure is None and work.result():
            await self._run()
            return
        self._runner = None
        self.at_over("user")

    async def _run_beside(
        self, work: Coroutine[Any, Any, T], told: Callable[[asyncio.Task[T], str], DurableEvent | None]
    ) -> None:
        """Work of its own that can be stopped, what is `told` of it, then whatever was put into the inbox meanwhile."""
        self._turn = running = asyncio.create_task(work)
        await asyncio.wait((running,))
        stopped_by, self._turn, self._cancelled_by = self._cancelled_by or "", None, None
        try:
            if (event := told(running, stopped_by)) is not None:
                self.journal.emit(event)
        except StoreError as failure:
            self._bus.close(failure)
        await self._run()

    async def _run(self) -> None:
        try:
            while not self._ending and (pending := next_input(self.journal.conversation.inputs)) is not None:
                ended = await self._run_one(pending)
                if (goal := self._goals.driver) is not None:
                    await self._pursue(goal, ended)
        except StoreError as failure:
            self._bus.close(failure)
        finally:
            self._runner = None

    async def _pursue(self, goal: GoalDriver, ended: TurnEnded) -> None:
        """What a goal makes of a turn that has ended: it is over, or another round waits in the inbox."""
        if self._ending or ended.stop == "cancelled":
            self.journal.emit(goal.closed())
            return
        if next_input(self.journal.conversation.inputs) is not None and ended.stop == "end_turn":
            return  # what people said meanwhile goes first
        self.journal.originator = goal.originator
        self._turn_since_ms = self._ports.clock.now_ms()
        self._turn = work = asyncio.create_task(goal.check_round(ended, self._turns.call))
        if self._cancelled_by is not None:  # before it had begun
            work.cancel()
        await asyncio.wait((work,))
        stopped_by, self._turn, self._cancelled_by = self._cancelled_by, None, None
        failure = None if work.cancelled() else work.exception()
        if isinstance(failure, StoreError):
            raise failure
        if work.cancelled():
            self.journal.emit(Cancelled(by=stopped_by or ""))
        if self._goals.driver is not goal:
            return
        if work.cancelled():
            self.journal.emit(goal.closed())
        elif failure is not None:  # the crash boundary: a broken check must not end the session
            self.journal.emit(goal.closed("EngineFault", problem=f"{type(failure).__name__}: {failure}"))

    async def _run_one(self, pending: PendingInput) -> TurnEnded:
        """One turn inside its crash boundary; it always ends with `TurnEnded`."""
        journal, turns = self.journal, self._turns
        journal.originator = pending.originator
        self._turn_since_ms = self._ports.clock.now_ms()
        journal.emit(TurnStarted(input=pending.id, identity=pending.event.identity))
        turns.stopwatch.take()  # what was measured before it belongs to no turn
        whole = turns.stopwatch.measure("turn.total")
        goal = self._goals.driver
        turn = asyncio.create_task(turns.run(pending, steps_left=None if goal is None else goal.steps_left))
        self._turn = turn
        if self._cancelled_by is not None:  # before it had begun
            turn.cancel()
        await asyncio.wait((turn,))
        ending = Ending(stop="cancelled", steps=0) if turn.cancelled() else turn.result()
        if ending.stop == "cancelled":
            journal.emit(Cancelled(by=self._cancelled_by or ""))
        self._turn = self._cancelled_by = None
        whole.end()
        journal.emit(TurnTiming(durations_ms=turns.stopwatch.take()))
        message = turns.message_of(ending)
        ended = TurnEnded(stop=ending.stop, reason=ending.reason, message=message, steps=ending.steps)
        journal.emit(ended)
        self._resting = rest = asyncio.get_running_loop().create_future()
        try:
            if turns.watcher is not None:
                await journal.committed()
                await turns.watcher.turn_ended(ending.stop, ending.reason)
            if self._lifecycle.at_rest is not None:
                await self._lifecycle.at_rest()
        finally:
            self._resting = None
            rest.set_result(None)
        return ended


def _shared(request: ShellRequest, work: asyncio.Task[ToolResult]) -> ContextAdded | None:
    """What the model is told of a command that a person ran."""
    if work.cancelled() or work.exception() is not None or not request.share:
        return None
    text = f"I ran this command:\n{request.command}\n\n{work.result().content}"
    return ContextAdded(source="shell", content=(TextBlock(text=text),))


def _said(work: asyncio.Task[SlashEvent], stopped_by: str) -> DurableEvent:
    return Cancelled(by=stopped_by) if work.cancelled() else work.result()


async def _outcome_of(command: SlashCommand, arguments: str) -> SlashEvent:
    try:
        if not command.checks_words:
            check_words(command.name, command.arguments, arguments)
        return await command.run(arguments)
    except BridleError as failure:
        return Notice(reason=failure.reason, message=failure.message, data=failure.data)
    except Exception as fault:  # noqa: BLE001  the crash boundary: a broken command must not end the session
        data = {"problem": f"{type(fault).__name__}: {fault}"}
        return Notice(reason="EngineFault", message=sentence("EngineFault", data), data=data)
