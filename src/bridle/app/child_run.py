"""The run of a child: begun on record, worked in its own conversation, ended on record, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from bridle.agents.definition import AgentDefinition
from bridle.app.child_parts import child_layers, child_parts
from bridle.app.session_parts import SessionParts
from bridle.engine.conversation import Conversation, Invocation
from bridle.engine.features import Joined
from bridle.engine.turn import Ending
from bridle.engine.turn_runner import InvocationParts, Limits, TurnRunner
from bridle.protocol.errors import sentence
from bridle.protocol.events import (
    Cancelled,
    ChildEnded,
    ChildStarted,
    IdentityClass,
    InputAccepted,
    ModelChanged,
    TurnEnded,
    TurnStarted,
    TurnTiming,
)
from bridle.protocol.inbox import PendingInput
from bridle.protocol.messages import TextBlock, ToolUseBlock

MakeInvocation: TypeAlias = Callable[[SessionParts, Joined], InvocationParts]
"""Puts the model and the tools of an invocation behind the layers around them."""
MAX_NAMED = 20
"""So many tools and files are named in what a child came to."""


class ChildTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is to do. `text` is all it is told; `task` is what people read of it."""

    agent: AgentDefinition
    model: ModelChanged
    task: str
    text: str
    max_steps: int
    identity: IdentityClass
    call_id: str = ""
    key: str = ""


class ChildOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a child came to. `text` is its answer, or why there is none."""

    ended: ChildEnded
    text: str


class ChildRuns:
    """The children of one session, those that work now and whoever sent them."""

    def __init__(self, parts: SessionParts, make_invocation: MakeInvocation) -> None:
        self._working: dict[str | None, SessionParts] = {None: parts}
        self._make_invocation = make_invocation

    def parts_of(self, invocation: Invocation) -> SessionParts:
        """The parts of an invocation that works now."""
        return self._working[invocation.id]

    async def run(self, caller: Invocation, task: ChildTask) -> ChildOutcome:
        """Has a child work and waits for it. Cancelled, the child has ended on record before this returns."""
        parent = self._working[caller.id]
        assert parent.agent is not None, "whoever sends an agent is one"
        journal = parent.journal.begin_child(
            ChildStarted(
                invocation=parent.services.ids.new("inv"),
                agent=task.agent.name,
                task=task.task,
                provider=task.model.provider,
                model=task.model.model,
                call_id=task.call_id,
                key=task.key,
            )
        )
        below = msgspec.structs.replace(parent.agent, definition=task.agent, depth=parent.agent.depth + 1)
        parts = child_parts(parent, journal, below)
        self._working[journal.invocation.id] = parts
        cost_before = journal.conversation.spent_usd
        ending = Ending(stop="cancelled", steps=0)
        try:
            ending = await _turn(parts, task, self._make_invocation(parts, child_layers(parts)))
        finally:
            del self._working[journal.invocation.id]
            outcome = _outcome(parts, task, ending, journal.conversation.spent_usd - cost_before)
            parent.journal.emit(outcome.ended)
        return outcome


async def _turn(parts: SessionParts, task: ChildTask, invocation: InvocationParts) -> Ending:
    """One turn of the child, with its beginning and its end in the log. Cancelling it cancels the turn."""
    journal = parts.journal
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
    turn = asyncio.create_task(runner.run(pending))
    try:
        await asyncio.wait((turn,))
    except asyncio.CancelledError:
        turn.cancel()
        await asyncio.wait((turn,))
        raise
    finally:
        ending = Ending(stop="cancelled", steps=0) if turn.cancelled() else turn.result()
        if ending.stop == "cancelled":
            journal.emit(Cancelled(by=""))
        whole.end()
        journal.emit(TurnTiming(durations_ms=parts.stopwatch.take()))
        message = runner.message_of(ending)
        journal.emit(TurnEnded(stop=ending.stop, reason=ending.reason, message=message, steps=ending.steps))
    return ending


def _outcome(parts: SessionParts, task: ChildTask, ending: Ending, usd: float) -> ChildOutcome:
    conversation = parts.journal.conversation
    said, ok = last_words(conversation), ending.stop == "end_turn"
    problem = "" if ok else _problem(task.agent, ending)
    text = "\n\n".join(filter(None, (problem, said)))
    ended = ChildEnded(
        invocation=parts.journal.invocation.id or "",
        agent=task.agent.name,
        ok=ok,
        result=text,
        stop=ending.stop,
        steps=ending.steps,
        usd=usd,
        tools_used=tools_used(conversation),
        files=tuple(conversation.known_files)[:MAX_NAMED],
    )
    return ChildOutcome(ended=ended, text=text)


def _problem(agent: AgentDefinition, ending: Ending) -> str:
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
