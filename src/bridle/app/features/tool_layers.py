"""Build the tool layers of a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.agents.agent_settings import ChildContext
from bridle.base.text.token_estimate import CHARACTERS_PER_TOKEN, IMAGE_TOKENS
from bridle.engine import layers
from bridle.engine.foreign_output import run_foreign
from bridle.engine.tools import BUILTIN, RunTool, Tool, ToolCall, ToolContext, ToolLayer, ToolOutput
from bridle.protocol.events import DELEGATE, ContextAdded, DurableEvent, ToolResult
from bridle.protocol.messages import ImageBlock, InputBlock, TextBlock
from bridle.safety import git_arrivals, permitted, redacted, sandboxed
from bridle.safety.guards import rechecked
from bridle.safety.trust.approvals import ApprovedEdits
from bridle.sandbox.read_only_git import repository_of
from bridle.tools.output import WHOLE_BYTES, capped
from bridle.undo.undoable import undoable

if TYPE_CHECKING:
    from bridle.app.session_parts import SessionParts
    from bridle.base.git.git_repository import Repository
    from bridle.engine.ports import Room, RunCall


def look_at_git(parts: SessionParts) -> ToolLayer:
    def repository(folder: str) -> Repository:
        return repository_of(parts.spawn, cwd=folder, env=parts.opened.env)

    named_remotes = parts.journal.conversation.named_remotes
    return git_arrivals.foreseen(parts.gates().understand, repository, named_remotes=named_remotes)


def approved_edits(parts: SessionParts) -> ApprovedEdits:
    opened = parts.opened
    return ApprovedEdits(opened.approvals, cwd=opened.cwd, sources=opened.settings.context.sources)


def ask_permission(parts: SessionParts, edits: ApprovedEdits) -> ToolLayer:
    hooks = parts.watching
    return permitted.permitted(
        parts.gates().permissions,
        parts.questions.ask_permission,
        edits.hearing(parts.journal.emit),
        hear=hooks.permission_requested if hooks is not None else None,
        changes=permitted.foreseen_changes(parts.opened.cwd, parts.known_files()),
    )


def stop_dry_run() -> ToolLayer:
    return layers.dry_run()


def check_still_offered(parts: SessionParts) -> ToolLayer:
    return layers.still_offered(parts.registry)


def wait_for_disk(parts: SessionParts, room: Room) -> ToolLayer:
    return layers.wait_for_disk(room, parts.journal, parts.services.clock)


def keep_files(parts: SessionParts) -> ToolLayer:
    return undoable(parts.undo().keeper, parts.stopwatch, parts.journal.emit)


def record(parts: SessionParts) -> ToolLayer:
    gates = parts.gates()
    return layers.recorded(parts.journal, rechecked(gates.paths, gates.understand), parts.stopwatch)


def hold_deadline(parts: SessionParts) -> ToolLayer:
    return layers.deadline(parts.services.clock)


def cap_output(parts: SessionParts) -> ToolLayer:
    if parts.agent is None or not parts.agent.is_bounded:
        return capped(parts.spill())

    return capped(parts.spill(), room_of_child(parts.agent.settings.child))


def redact_output(parts: SessionParts) -> ToolLayer:
    return redacted.redacted(parts.services.models.keys_in_use)


def choose_policy(parts: SessionParts) -> ToolLayer:
    return sandboxed.sandboxed(parts.policy, parts.gates().understand)


def _sending(run_beside: RunCall) -> Callable[[str, str], Awaitable[ToolResult]]:
    async def send_agent(agent: str, task: str) -> ToolResult:
        # as nobody's word but the agent's: what a person typed asks nothing
        return await run_beside(DELEGATE, {"agent": agent, "task": task}, "agent")

    return send_agent


def execute(parts: SessionParts, run_beside: RunCall) -> RunTool:
    """Runs a call that has passed every layer. `run_beside` runs another, which its tool wants, through them all."""
    services, opened, journal = parts.services, parts.opened, parts.journal
    emit = journal.emit
    if parts.agent is not None and parts.agent.is_bounded:
        emit = showing_images(journal.emit, parts.agent.settings.child.image_tokens)

    may_send = parts.agent is not None and parts.agent.delegates

    def runner(tool: Tool) -> Callable[[Any, ToolContext], Awaitable[ToolOutput]]:
        if parts.registry.origin(tool.name) is BUILTIN:
            return tool.run
        return run_foreign(tool)

    async def run(call: ToolCall) -> ToolOutput:
        context = ToolContext(
            call=call,
            session=journal.session,
            cwd=opened.cwd,
            env=opened.env,
            clock=services.clock,
            spawn=parts.spawn,
            spilled=parts.spill().read,
            emit=emit,
            ask=parts.questions.ask,
            sight=parts.gates().sight,
            known=parts.known_files(),
            dry_run=opened.settings.options.dry_run,
            send_agent=_sending(run_beside) if may_send else None,
        )
        changes = call.definition.side_effect == "workspace"
        paths = [subject.resolved for subject in call.subjects if subject.kind == "path"] if changes else []
        with services.spawn.changing(paths):
            return await runner(call.definition)(call.args, context)

    return run


NOTE_BYTES = 240
"""What it takes to say where the rest of an output is."""
LEAST_BYTES = 400


def room_of_child(budget: ChildContext) -> Callable[[ToolCall], int]:
    """How many bytes of a call's output stay: of one that looks something up more than of one that does something."""

    def room(call: ToolCall) -> int:
        if call.name == DELEGATE:  # has a budget of its own
            return WHOLE_BYTES
        tokens = budget.retrieval_tokens if call.definition.risk == "read" else budget.inline_tokens
        return min(WHOLE_BYTES, max(LEAST_BYTES, (tokens - 1) * CHARACTERS_PER_TOKEN - NOTE_BYTES))

    return room


def showing_images(emit: Callable[[DurableEvent], int], most_tokens: int) -> Callable[[DurableEvent], int]:
    """`emit` for the tools of a child: of the images they bring, it is shown as many as it has room for."""
    left = most_tokens // IMAGE_TOKENS

    def shown(block: InputBlock) -> InputBlock:
        nonlocal left
        if not isinstance(block, ImageBlock):
            return block
        left -= 1
        if left >= 0:
            return block
        return TextBlock(
            text=f"(An image is left out: those before it fill the {most_tokens} tokens for images.)"
        )

    def emit_within(event: DurableEvent) -> int:
        if isinstance(event, ContextAdded):
            event = msgspec.structs.replace(event, content=tuple(map(shown, event.content)))
        return emit(event)

    return emit_within
