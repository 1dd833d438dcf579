"""Delegation, wired: who may be sent, what they are told, how a person is asked, and what comes back."""

from __future__ import annotations

import asyncio

from bridle.agents.definition import AgentDefinition
from bridle.agents.delegate_tool import DelegateArgs, Delegating, delegate_tool
from bridle.agents.delegation import check_delegation, invocation_verdict, sees, sendable
from bridle.agents.handoff import HandoffPacket, cut_to, handoff_text
from bridle.app.child_run import ChildOutcome, ChildRuns, ChildTask, MakeInvocation
from bridle.app.session_agents import WorkingAgent
from bridle.app.session_parts import SessionParts
from bridle.engine.conversation import Conversation
from bridle.engine.features import Feature
from bridle.engine.tools import BUILTIN, ToolCall, ToolContext, ToolOutput
from bridle.protocol.display_values import ShownChild
from bridle.protocol.events import Handoff, ModelChanged
from bridle.protocol.messages import TextBlock


def agents(parts: SessionParts, make_invocation: MakeInvocation) -> Feature:
    """Other agents, for an agent that may send them."""
    assert parts.agent is not None
    delegation = SessionDelegation(parts, parts.agent, ChildRuns(parts, make_invocation))
    return Feature(name="agents", origin=BUILTIN, tools=(delegate_tool(delegation.for_tool()),))


class SessionDelegation:
    """What sending an agent means in one session."""

    def __init__(self, parts: SessionParts, main: WorkingAgent, children: ChildRuns) -> None:
        self._parts = parts
        self._main = main
        self._children = children
        self._room = asyncio.Semaphore(main.settings.parallel)

    def for_tool(self) -> Delegating:
        registry, main = self._main.registry, self._main.definition
        return Delegating(
            agents=sendable(registry, main),
            check=self._target,
            asks_about=self._asks_about,
            handoff=self._handoff,
            may_run_beside=self._may_run_beside,
            run=self._run,
        )

    def _target(self, args: DelegateArgs, call: ToolCall) -> AgentDefinition:
        caller = self._caller(call)
        chain = (self._main.definition.name, *call.invocation.agent_path)
        return check_delegation(
            args.agent,
            registry=caller.registry,
            caller=caller.definition,
            chain=chain,
            settings=caller.settings,
        )

    def _caller(self, call: ToolCall) -> WorkingAgent:
        agent = self._children.parts_of(call.invocation).agent
        assert agent is not None
        return agent

    def _model(self, agent: AgentDefinition) -> ModelChanged:
        """The model an agent works with: of the provider it names, else of its session."""
        chosen = self._parts.journal.conversation.model
        assert chosen is not None, "a session is created with a model"
        profile = agent.provider.profile
        if profile is None or profile == chosen.provider:
            return ModelChanged(provider=chosen.provider, model=chosen.model)
        return self._parts.services.models.named(profile)

    def _asks_about(self, args: DelegateArgs) -> str | None:
        agent = self._main.registry.get(args.agent)
        if agent is None:
            return None
        model, chosen = self._model(agent), self._parts.journal.conversation.model
        same = chosen is not None and model.provider == chosen.provider
        if invocation_verdict(agent, self._main.settings, same_provider=same) == "allow":
            return None
        return f"agent:{agent.name}:{model.provider}"

    def _handoff(self, args: DelegateArgs, call: ToolCall) -> Handoff:
        agent = self._target(args, call)
        model, depth = self._model(agent), self._caller(call).depth + 1
        sees_tool = sees(agent, delegates=False, is_child=depth > 0)
        return Handoff(
            agent=agent.name,
            provider=model.provider,
            model=model.model,
            text=self._text(args, call),
            tools=tuple(tool.name for tool in self._parts.tools.list() if sees_tool(tool)),
        )

    def _text(self, args: DelegateArgs, call: ToolCall) -> str:
        budget = self._main.settings.child
        packet = HandoffPacket(
            request=_request(self._parts.journal.conversation),
            parent=self._caller(call).definition.name,
            child=args.agent,
            cwd=self._parts.opened.cwd,
            task=args.task,
            context=args.context,
            references=args.context_refs,
            files=args.relevant_files,
            constraints=args.constraints,
            expected=args.expected_output,
            is_brief=args.return_mode == "brief",
        )
        return handoff_text(
            packet, most_tokens=budget.handoff_tokens, context_tokens=budget.delegate_context_tokens
        )

    def _may_run_beside(self, name: str) -> bool:
        """Whether an agent changes nothing, so that several may work at once."""
        agent = self._main.registry.get(name)
        return agent is not None and agent.permission_mode in ("plan", "safe")

    async def _run(self, args: DelegateArgs, context: ToolContext) -> ToolOutput:
        call = context.call
        agent, settings = self._target(args, call), self._main.settings
        limits = (args.max_turns, agent.max_steps, settings.max_steps)
        task = ChildTask(
            agent=agent,
            model=self._model(agent),
            task=args.task,
            text=self._text(args, call),
            max_steps=min(limit for limit in limits if limit is not None),
            identity=call.identity,
            call_id=call.id,
        )
        async with self._room:
            outcome = await self._children.run(call.invocation, task)
        return _result(outcome, settings.child.result_tokens)


def _request(conversation: Conversation) -> str:
    """What the person asked for last."""
    for entry in reversed(conversation.entries):
        if entry.mark.source == "input":
            return "\n".join(block.text for block in entry.message.content if isinstance(block, TextBlock))
    return ""


def _result(outcome: ChildOutcome, most_tokens: int) -> ToolOutput:
    ended = outcome.ended
    return ToolOutput(
        outcome="ok" if ended.ok else "error",
        reason=None if ended.ok else "ChildFailed",
        content=cut_to(outcome.text, most_tokens),
        shown=ShownChild(invocation=ended.invocation, agent=ended.agent, steps=ended.steps, usd=ended.usd),
        metadata={
            "subagent_id": ended.invocation,
            "success": ended.ok,
            "turns_completed": ended.steps,
            "tools_used": list(ended.tools_used),
        },
    )
