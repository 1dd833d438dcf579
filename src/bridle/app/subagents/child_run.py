"""Run a subagent: its parts, its conversation and its recorded start and end."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from bridle.agents.agent_settings import ChildContext
from bridle.agents.definition import AgentDefinition
from bridle.agents.delegate_ledger import delegate_ledger, names_of
from bridle.agents.handoff import ChildNotes, ChildWork, updated_memory
from bridle.app.features.child_worktrees import (
    ChildWorktree,
    WorktreeEnd,
    begin_worktree,
    end_worktree,
    in_worktree,
)
from bridle.app.features.model_features import budget, compaction, models
from bridle.app.features.session_features import calls, hooks, instructions, permissions, sandbox, trust, undo
from bridle.app.features.tool_layers import approved_edits
from bridle.app.session_parts import SessionParts
from bridle.app.sources.gates import tools_seen
from bridle.app.sources.hook_feature import SessionHooks
from bridle.app.sources.session_agents import WorkingAgent
from bridle.context.context_settings import ContextSettings
from bridle.engine.conversation import Conversation, Invocation
from bridle.engine.features import Feature, Joined, join
from bridle.engine.journal import Journal
from bridle.engine.known_files import KnownFiles
from bridle.engine.open_questions import Client
from bridle.engine.stopwatch import Stopwatch
from bridle.engine.turn import Ending
from bridle.engine.turn_runner import InvocationParts, Limits, StepsLeft, TurnRunner
from bridle.protocol.display_values import ShownCommand, ShownEdit
from bridle.protocol.errors import BridleError, StoreError, sentence
from bridle.protocol.events import (
    Cancelled,
    ChildEnded,
    ChildStarted,
    Envelope,
    Error,
    IdentityClass,
    InputAccepted,
    ModelChanged,
    StepEnded,
    ToolResult,
    TurnEnded,
    TurnStarted,
    TurnTiming,
)
from bridle.protocol.inbox import PendingInput
from bridle.protocol.messages import TextBlock, ToolUseBlock
from bridle.safety.hooks.definitions import Actor

# Log, people, grants, sandbox, undo and cost stay the session's; for one in a worktree of its own `parent` is
# the session as it is there (`child_worktrees`). The child has a conversation, tools, rules and limits of its
# own, and none of them reaches further than its parent's session does.


def child_parts(parent: SessionParts, journal: Journal, agent: WorkingAgent) -> SessionParts:
    """What a child works with, whose events go to `journal`."""
    conversation, registry = journal.conversation, agent.tools_of(parent.tools)
    settings, contents = parent.settings, parent.services.file_contents(parent.opened.log.session)
    if agent.is_bounded:
        bounded = _compaction(agent.settings.child, settings.context)
        settings = msgspec.structs.replace(settings, context=bounded)

    def gates():
        made = parent.gates()
        above = made.permissions if agent.is_bounded else made.permissions.of_session()
        whole = parent.tools if agent.is_apart else None
        seen = msgspec.structs.replace(made, known_and_visible=tools_seen(registry, whole=whole))
        return seen.of_agents(agent.permissions_of(above))

    return msgspec.structs.replace(
        parent,
        opened=msgspec.structs.replace(parent.opened, conversation=conversation, settings=settings),
        journal=journal,
        questions=parent.questions.within(journal),
        stopwatch=Stopwatch(parent.services.clock),
        registry=registry,
        known_files=functools.cache(lambda: KnownFiles(conversation.known_files, contents)),
        gates=functools.cache(gates),
        hooks=_hooks(parent, journal, agent),
        skills=None,
        agent=agent,
    )


def child_layers(parts: SessionParts) -> Joined:
    """What stands around the model and the tools of a child: what stands around those of its session, but for what
    belongs to the conversation with a person."""
    edits = functools.cache(lambda: approved_edits(parts))
    features = (
        *hooks(parts),
        permissions(parts, edits),
        trust(edits),
        calls(parts),
        undo(parts),
        sandbox(parts),
        instructions(parts),
        budget(parts),
        models(parts),
        compaction(parts),
        *_ledger(parts),
    )
    plugged = (*parts.services.features, *parts.opened.plugged)
    return join(features, tuple(map(_looking_on, plugged)))


def _ledger(parts: SessionParts) -> Iterator[Feature]:
    """For a child that sends others itself."""
    if parts.agent is not None and parts.agent.delegates:
        ledger = delegate_ledger(parts.journal, parts.agent.settings.results)
        yield Feature(name="delegate_ledger", request_layers=(ledger,))


def _looking_on(feature: Feature) -> Feature:
    """Of a feature from outside, what looks at every call."""
    return Feature(name=feature.name, tool_layers=feature.tool_layers)


def _hooks(parent: SessionParts, journal: Journal, agent: WorkingAgent) -> SessionHooks | None:
    """The hooks of the session, told on whose behalf things happen."""
    if parent.hooks is None or parent.hooks.hooks is None:
        return None
    counting, invocation = parent.hooks.hooks, journal.invocation
    actor = Actor(
        session=journal.session,
        cwd=parent.opened.cwd if parent.is_apart else counting.actor.cwd,
        root_session=journal.session,
        agent=agent.definition.name,
        agent_path=invocation.agent_path,
        invocation=invocation.id,
    )
    return SessionHooks(counting.acting_as(actor))


def _compaction(child: ChildContext, session: ContextSettings) -> ContextSettings:
    return msgspec.structs.replace(
        session,
        max_tokens=child.max_tokens,
        compact_at=child.compact_at,
        recent_turns=child.recent_turns,
        summary_tokens=child.summary_tokens,
    )


MakeInvocation: TypeAlias = Callable[[SessionParts, Joined], InvocationParts]
"""Puts the model and the tools of an invocation behind the layers around them."""
MAX_NAMED = 20
"""So many tools and files are named in what a child came to."""


class ChildTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is to do. `text` is all it is told; `task` is what people read of it. What it leaves is remembered
    under `key`, where it has one. Where it is `of_person`, it has as much room as their session: nobody waits for a
    short answer. `background`: whoever sent it goes on meanwhile."""

    agent: AgentDefinition
    model: ModelChanged
    task: str
    text: str
    max_steps: int
    identity: IdentityClass
    call_id: str = ""
    key: str = ""
    of_person: bool = False
    background: bool = False


class ChildOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a child came to. `text` is its answer, or why there is none."""

    ended: ChildEnded
    text: str


class WorkingInvocation(msgspec.Struct):
    """One that works now: its parts, room for those it sends, and what stops it: its turn, and who had it stopped."""

    parts: SessionParts
    room: asyncio.Semaphore
    turn: asyncio.Task[Ending] | None = None
    stopper: Client | None = None


def _working(parts: SessionParts) -> WorkingInvocation:
    assert parts.agent is not None, "whoever sends an agent is one"
    return WorkingInvocation(parts, asyncio.Semaphore(parts.agent.settings.parallel))


class ChildRuns:
    """The children of one session, those that work now and whoever sent them."""

    def __init__(self, parts: SessionParts, make_invocation: MakeInvocation) -> None:
        self._working: dict[str | None, WorkingInvocation] = {None: _working(parts)}
        self._make_invocation = make_invocation

    def parts_of(self, invocation: Invocation) -> SessionParts:
        """The parts of an invocation that works now."""
        return self._working[invocation.id].parts

    def room_of(self, invocation: Invocation) -> asyncio.Semaphore:
        """Room for so many as one that works now may have work at once. Each has its own: who waits for others would
        otherwise keep them from beginning."""
        return self._working[invocation.id].room

    def stop(self, invocation: str, client: Client) -> bool:
        """Stops one child in the name of a client; False where no such child works."""
        child = self._working.get(invocation)
        if child is None or child.turn is None or child.turn.done():
            return False
        child.stopper = child.stopper or client
        return child.turn.cancel()

    async def run(
        self, caller: Invocation, task: ChildTask, room: asyncio.Semaphore | None = None
    ) -> ChildOutcome:
        """Has a child work, as soon as there is `room`, and waits for it. It is on record, and can be stopped, before
        that. Cancelled, the child has ended on record before this returns."""
        parent = self._working[caller.id].parts
        assert parent.agent is not None, "whoever sends an agent is one"
        invocation, place = parent.services.ids.new("inv"), None
        if task.agent.delegation.worktree:
            place = await begin_worktree(parent, task.agent.name, task.task, invocation)
        journal = parent.journal.begin_child(_started(task, invocation, place))
        below = msgspec.structs.replace(
            parent.agent,
            definition=task.agent,
            depth=parent.agent.depth + 1,
            is_bounded=not task.of_person,
            is_apart=parent.is_apart or place is not None,
        )
        child: WorkingInvocation | None = None
        notes, ending = noting(journal), Ending(stop="cancelled", steps=0)
        try:
            around = in_worktree(parent, place) if place is not None else parent
            parts = child_parts(around, journal, below)
            child = self._working[invocation] = _working(parts)
            made = self._make_invocation(parts, child_layers(parts))
            ending = await _turn(child, task, made, self._steps_left(), room)
        except StoreError:
            raise
        except Exception as fault:  # noqa: BLE001  the crash boundary: a broken child must not end whoever sent it
            ending = _faulty(journal, fault)
        finally:
            self._working.pop(invocation, None)
            stopper = None if child is None else child.stopper
            cwd = parent.opened.cwd if place is None else place.cwd
            outcome = _outcome(journal, task, ending, stopper, notes.changed, cwd=cwd)
            left = WorktreeEnd(problem="it was stopped first")
            try:
                left = await end_worktree(parent, place) if place is not None else left
            except Exception as fault:  # noqa: BLE001  the same boundary: its end is recorded whatever happens
                left = WorktreeEnd(problem=fault_words(fault))
            finally:
                if place is not None:
                    outcome = _left(outcome, place, left)
                if task.key:
                    self._remember(journal, below, task, outcome, notes)
                parent.journal.emit(outcome.ended)
        return outcome

    def _steps_left(self) -> StepsLeft | None:
        """Those of the goal that the turn is for, if it is; whoever looks at the work afterwards has their own."""
        main = self._working[None].parts
        goal = main.goals.driver if main.journal.conversation.turn_is_open else None
        return None if goal is None else goal.steps_left

    def not_begun(self, caller: Invocation, task: ChildTask, problem: str) -> ChildOutcome:
        """The record of a child that could not begin, for whoever did not wait for it."""
        parent = self._working[caller.id].parts
        started = _started(task, parent.services.ids.new("inv"), None)
        parent.journal.begin_child(started)
        text = sentence("ChildFailed", {"agent": task.agent.name, "problem": problem})
        ended = ChildEnded(
            invocation=started.invocation, agent=started.agent, ok=False, result=text, stop="error"
        )
        parent.journal.emit(ended)
        return ChildOutcome(ended=ended, text=text)

    def _remember(
        self,
        journal: Journal,
        agent: WorkingAgent,
        task: ChildTask,
        outcome: ChildOutcome,
        notes: ChildNotes,
    ) -> None:
        """Keeps what a child leaves for the next one with its key."""
        memories = self._working[None].parts.journal.conversation.memories
        work = ChildWork(
            task=task.task,
            answer=outcome.text if outcome.ended.ok else "",
            notes=notes,
            files=outcome.ended.files,
        )
        journal.emit(
            updated_memory(
                memories.get(task.key),
                work,
                key=task.key,
                agent=task.agent.name,
                max_tokens=agent.settings.child.summary_tokens,
            )
        )


def noting(journal: Journal) -> ChildNotes:
    """What a child says and changes from here on, as it does: a compaction of its conversation loses none of it."""
    notes, conversation = ChildNotes(), journal.conversation

    def hear(envelope: Envelope) -> None:
        if envelope.invocation != conversation.invocation.id:
            return
        match envelope.event:
            case StepEnded():
                notes.hear_words(last_words(conversation))
            case ToolResult(shown=ShownEdit(files=files)):
                notes.hear_changes(file.path for file in files)
            case ToolResult(shown=ShownCommand(changed=changed)):
                notes.hear_changes(changed)
            case _:
                pass

    journal.watch(frozenset({"StepEnded", "ToolResult"}), hear)
    return notes


async def _turn(
    child: WorkingInvocation,
    task: ChildTask,
    invocation: InvocationParts,
    steps_left: StepsLeft | None,
    room: asyncio.Semaphore | None,
) -> Ending:
    """One turn of the child, with its beginning and its end in the log. Cancelling it cancels the turn."""
    parts, journal = child.parts, child.parts.journal
    journal.emit(msgspec.structs.replace(task.model, stamp=None))
    content = (TextBlock(text=task.text),)
    number = journal.emit(InputAccepted(content=content, identity=task.identity))
    journal.emit(TurnStarted(input=number, identity=task.identity))
    runner = TurnRunner(
        invocation,
        ids=parts.services.ids,
        limits=Limits(max_steps=task.max_steps, is_final=True),
    )
    accepted = InputAccepted(content=content, identity=task.identity)
    pending = PendingInput(id=number, event=accepted, originator=journal.originator)
    whole = parts.stopwatch.measure("turn.total")

    async def run() -> Ending:
        async with room or contextlib.nullcontext():
            return await runner.run(pending, steps_left=steps_left)

    turn = child.turn = asyncio.create_task(run())
    try:
        await asyncio.wait((turn,))
    except asyncio.CancelledError:
        turn.cancel()
        await asyncio.wait((turn,))
        raise
    finally:
        ending = Ending(stop="cancelled", steps=0) if turn.cancelled() else turn.result()
        if ending.reason == "StepLimit" and ending.steps >= task.max_steps and not task.of_person:
            ending = msgspec.structs.replace(ending, reason="AgentStepLimit")
        if ending.stop == "cancelled":
            journal.emit(Cancelled(by="" if child.stopper is None else child.stopper.id))
        whole.end()
        journal.emit(TurnTiming(durations_ms=parts.stopwatch.take()))
        message = runner.message_of(ending)
        journal.emit(TurnEnded(stop=ending.stop, reason=ending.reason, message=message, steps=ending.steps))
    return ending


def _faulty(journal: Journal, fault: Exception) -> Ending:
    """The ending of a child around which something broke, said where its own events are."""
    data = {"problem": fault_words(fault)}
    journal.emit(Error(reason="EngineFault", message=sentence("EngineFault", data), data=data))
    return Ending(stop="error", steps=0, reason="EngineFault", data=data)


def fault_words(fault: Exception) -> str:
    return fault.message if isinstance(fault, BridleError) else f"{type(fault).__name__}: {fault}"


def _outcome(
    journal: Journal,
    task: ChildTask,
    ending: Ending,
    stopper: Client | None,
    changed: Iterable[str],
    *,
    cwd: str,
) -> ChildOutcome:
    conversation = journal.conversation
    said, ok = last_words(conversation), ending.stop == "end_turn"
    by = "" if stopper is None or ending.stop != "cancelled" else _name(stopper)
    problem = "" if ok else _problem(task.agent, ending, by)
    text = "\n\n".join(filter(None, (problem, said)))
    ended = ChildEnded(
        invocation=journal.invocation.id or "",
        agent=task.agent.name,
        ok=ok,
        result=text,
        stop=ending.stop,
        steps=ending.steps,
        usd=conversation.own_usd,
        tools_used=tools_used(conversation),
        files=names_of(conversation.known_files, cwd)[-MAX_NAMED:],
        changed=names_of(changed, cwd),
        stopped_by=by,
    )
    return ChildOutcome(ended=ended, text=text)


def _started(task: ChildTask, invocation: str, place: ChildWorktree | None) -> ChildStarted:
    return ChildStarted(
        invocation=invocation,
        agent=task.agent.name,
        task=task.task,
        provider=task.model.provider,
        model=task.model.model,
        call_id=task.call_id,
        background=task.background,
        worktree=place.cwd if place is not None else "",
        branch=place.tree.branch if place is not None else "",
    )


def _left(outcome: ChildOutcome, place: ChildWorktree, end: WorktreeEnd) -> ChildOutcome:
    """The outcome with what the child left in its worktree."""
    branch = place.tree.branch if end.problem else end.branch
    ended = msgspec.structs.replace(outcome.ended, branch=branch, changed=end.files)
    if not end.problem:
        return ChildOutcome(ended=ended, text=outcome.text)
    data = {"agent": ended.agent, "path": place.tree.path, "problem": end.problem}
    text = f"{sentence('WorktreeUnsaved', data)}\n\n{outcome.text}"
    return ChildOutcome(ended=msgspec.structs.replace(ended, result=text), text=text)


def _name(client: Client) -> str:
    """Who stopped it, as people and the model read it."""
    return client.person or ("a person" if client.identity == "human" else client.name)


def _problem(agent: AgentDefinition, ending: Ending, stopped_by: str) -> str:
    if stopped_by:
        return sentence("ChildStopped", {"agent": agent.name, "by": stopped_by})
    why = (
        "it was stopped."
        if ending.reason is None
        else sentence(ending.reason, {"provider": "", **ending.data})
    )
    return sentence("ChildFailed", {"agent": agent.name, "problem": why})


def last_words(conversation: Conversation) -> str:
    """What an invocation answered last."""
    for message in reversed(conversation.messages):
        if message.role == "assistant":
            return "".join(block.text for block in message.content if isinstance(block, TextBlock)).strip()
    return ""


def tools_used(conversation: Conversation) -> tuple[str, ...]:
    """The tools an invocation called, each once."""
    blocks = (block for message in conversation.messages for block in message.content)
    return tuple(dict.fromkeys(block.tool for block in blocks if isinstance(block, ToolUseBlock)))[:MAX_NAMED]
