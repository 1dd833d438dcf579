"""Delegation to subagents as a feature."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any

import msgspec

from bridle.agents.definition import AgentDefinition
from bridle.agents.delegate_ledger import KeptAnswer, delegate_ledger, delegate_result, names_of
from bridle.agents.delegation import (
    DelegateArgs,
    Delegating,
    check_delegation,
    delegate_tool,
    invocation_verdict,
    may_delegate,
    sees,
    sendable,
)
from bridle.agents.handoff import HandoffPacket, cut_to, handoff_text, memory_key
from bridle.app.session_parts import SessionParts
from bridle.app.sources.session_agents import WorkingAgent
from bridle.app.subagents.child_run import ChildOutcome, ChildRuns, ChildTask, MakeInvocation, fault_words
from bridle.base.text.untrusted import wrap
from bridle.engine.conversation import MAIN, Conversation, Invocation
from bridle.engine.features import Feature, FeatureQuery
from bridle.engine.journal import masked
from bridle.engine.ports import SessionLog
from bridle.engine.resume import cut_short
from bridle.engine.slash_command import DescribedSlash, SlashCommand
from bridle.engine.tools import BUILTIN, ToolCall, ToolContext, ToolOutput
from bridle.protocol.child_tree import ChildTree
from bridle.protocol.display_values import ShownChild
from bridle.protocol.errors import BridleError, StoreError, sentence
from bridle.protocol.events import ChildMemory, ContextAdded, Handoff, InputAccepted, ModelChanged
from bridle.protocol.messages import TextBlock
from bridle.protocol.queries import CustomQuery
from bridle.protocol.slash_arguments import SlashArgument
from bridle.sandbox.git_places import find_repository
from bridle.tools.read_file import SPILL_PREFIX

SAID_BY_AGENT = "agent-result"
"""What an agent said, where it joins a conversation as something else than the result of a call."""
MOST_LAST_LINE = 200
"""So many characters of the last line of an answer are for programs: a verdict stands there."""
MOST_SHOWN = 200
"""Of so many calls it is known what people were shown of them."""
PAGE = 1_000
"""So many events of a log are read at once."""


def session_delegation(parts: SessionParts, make_invocation: MakeInvocation) -> SessionDelegation:
    assert parts.agent is not None
    return SessionDelegation(parts, parts.agent, ChildRuns(parts, make_invocation))


class SentAgents:
    """The agents that were sent in a session, for clients that ask: folded from its log, as far as it was read."""

    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._tree = ChildTree()
        self._read = 0
        self._reading = asyncio.Lock()

    async def answer(self, _query: CustomQuery) -> dict[str, Any]:
        async with self._reading:
            while page := await self._log.since(self._read, limit=PAGE):
                for envelope in page:
                    self._tree.take(envelope)
                    self._read = envelope.id or self._read
        return {"children": msgspec.to_builtins(list(self._tree.entries.values()))}


class SessionDelegation:
    """What sending an agent means in one session. `wake` has the session take what was put into its inbox."""

    def __init__(self, parts: SessionParts, main: WorkingAgent, children: ChildRuns) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._parts = parts
        self._main = main
        self.children = children
        self._shown: dict[str, str] = {}
        """What people were shown, by call: the child is told that, whatever became known since."""
        self._background: set[asyncio.Task[None]] = set()

    def feature(self) -> Feature:
        """Other agents, for an agent that may send them, and what stays of what they came to."""
        return Feature(
            name="agents",
            origin=BUILTIN,
            tools=(delegate_tool(self.for_tool()),),
            slash=(self.command(),),
            request_layers=(delegate_ledger(self._parts.journal, self._main.settings.results),),
            queries=(FeatureQuery(verb="children", answer=SentAgents(self._parts.opened.log).answer),),
            stop_child=self.children.stop,
            at_end=self._end,
        )

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

    def command(self) -> SlashCommand:
        """`/agents:NAME words`: a person has an agent work, and the conversation hears what came of it."""
        task = SlashArgument(name="words", about="what it is to do", required=True)
        agents = sendable(self._main.registry, self._main.definition)

        def others() -> list[DescribedSlash]:
            return [
                DescribedSlash(name=f"agents:{one.name}", does=one.description, arguments=(task,))
                for one in agents
            ]

        name = SlashArgument(
            name="NAME", about="the agent", required=True, choices=tuple(a.name for a in agents)
        )
        return SlashCommand(
            name="agents",
            does="have an agent work on something: /agents:NAME words",
            arguments=(name, task),
            run=self._run_for_person,
            others=others,
        )

    async def _run_for_person(self, words: str) -> ContextAdded:
        name, task = words.split(maxsplit=1)
        agent = self._main.registry.get(name)
        assert agent is not None, "the words were checked"
        settings = self._main.settings
        packet = HandoffPacket(
            parent="a person",
            child=name,
            cwd=self._parts.opened.cwd,
            request="",
            task=task.strip(),
            has_worktree=agent.delegation.worktree,
        )
        sent = ChildTask(
            agent=agent,
            model=self._model(agent),
            task=task.strip(),
            text=handoff_text(
                packet,
                most_tokens=settings.child.handoff_tokens,
                context_tokens=settings.child.delegate_context_tokens,
            ),
            max_steps=min(agent.max_steps, settings.max_steps),
            identity="human",
        )
        outcome = await self.children.run(MAIN, sent)
        left = outcome.ended.branch
        where = (
            f"\nWhat it changed is on the branch {left}, not here; I decide about it (/worktrees)."
            if left
            else ""
        )
        said = f"I had the agent {name} work on this: {task.strip()}{where}"
        came_to = wrap(SAID_BY_AGENT, cut_to(outcome.text, settings.child.result_tokens))
        return ContextAdded(source="agent", content=(TextBlock(text=said), TextBlock(text=came_to)))

    def _target(self, args: DelegateArgs, call: ToolCall) -> AgentDefinition:
        caller = self._caller(call)
        chain = (self._main.definition.name, *call.invocation.agent_path)
        agent = check_delegation(
            args.agent,
            registry=caller.registry,
            caller=caller.definition,
            chain=chain,
            settings=caller.settings,
        )
        if agent.delegation.worktree and find_repository(os.path.realpath(self._parts.opened.cwd)) is None:
            raise BridleError(
                "NoWorktree", agent=agent.name, problem="this folder is not in a git repository"
            )
        return agent

    def _caller(self, call: ToolCall) -> WorkingAgent:
        agent = self.children.parts_of(call.invocation).agent
        assert agent is not None
        return agent

    def _model(self, agent: AgentDefinition) -> ModelChanged:
        """The model an agent works with: of the provider it names, else of its session, else the one of settings."""
        chosen = self._parts.journal.conversation.model
        assert chosen is not None, "a session is created with a model"
        named = agent.provider.profile
        if named is None and not agent.provider.inherit_root:
            named = self._parts.settings.chosen.model
        if named is None or named == chosen.provider:
            return ModelChanged(provider=chosen.provider, model=chosen.model)
        return self._parts.services.models.named(named)

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
        caller, model = self._caller(call), self._model(agent)
        is_apart = caller.is_apart or agent.delegation.worktree
        delegates = may_delegate(agent, caller.depth + 1, caller.settings)
        sees_tool = sees(agent, delegates=delegates, is_child=True, is_apart=is_apart)
        while len(self._shown) >= MOST_SHOWN:  # of calls that a person refused
            del self._shown[next(iter(self._shown))]
        text = self._shown[call.id] = self._text(args, call)
        return Handoff(
            agent=agent.name,
            provider=model.provider,
            model=model.model,
            text=text,
            tools=tuple(tool.name for tool in self._parts.tools.list() if sees_tool(tool)),
        )

    def _key(self, agent: AgentDefinition) -> str:
        parts = self._parts
        return memory_key(parts.journal.session, agent.name, self._model(agent).provider, parts.opened.cwd)

    def _text(self, args: DelegateArgs, call: ToolCall) -> str:
        budget, memories = self._main.settings.child, self._parts.journal.conversation.memories
        agent, cwd = self._target(args, call), self.children.parts_of(call.invocation).opened.cwd
        apart = agent.delegation.worktree
        packet = HandoffPacket(
            request=_request(self._parts.journal.conversation),
            parent=self._caller(call).definition.name,
            child=args.agent,
            cwd=cwd,
            task=args.task,
            context=args.context,
            references=args.context_refs,
            files=names_of(args.relevant_files, cwd) if apart else args.relevant_files,
            constraints=args.constraints,
            expected=args.expected_output,
            memory=memories.get(self._key(agent), ChildMemory()),
            is_brief=args.return_mode == "brief",
            has_worktree=apart,
        )
        return handoff_text(
            packet, most_tokens=budget.handoff_tokens, context_tokens=budget.delegate_context_tokens
        )

    def _may_run_beside(self, name: str) -> bool:
        """Whether an agent changes nothing but what is its own, so that several may work at once."""
        agent = self._main.registry.get(name)
        return agent is not None and (agent.permission_mode in ("plan", "safe") or agent.delegation.worktree)

    async def _run(self, args: DelegateArgs, context: ToolContext) -> ToolOutput:
        call = context.call
        agent, settings = self._target(args, call), self._main.settings
        limits = (args.max_turns, agent.max_steps, settings.max_steps)
        # a child has nobody to hear of it once it has answered, a run that nobody watches ends with its turn, and the
        # check of a goal follows the turn: all of its work has to be done
        in_background = (
            agent.delegation.background
            and call.invocation.id is None
            and not self._parts.settings.options.headless
            and self._parts.goals.driver is None
        )
        task = ChildTask(
            agent=agent,
            model=self._model(agent),
            task=args.task,
            text=self._shown.pop(call.id, "") or self._text(args, call),
            max_steps=min(limit for limit in limits if limit is not None),
            identity=call.identity,
            key=self._key(agent),
            call_id=call.id,
            background=in_background,
        )
        if in_background:
            return self._begin_in_background(args, call, task)
        try:
            outcome = await self._work(call.invocation, task)
        except BridleError as problem:  # before it began
            return ToolOutput(outcome="error", reason=problem.reason, content=problem.message)
        return await self._result(args, call, outcome)

    async def _result(self, args: DelegateArgs, call: ToolCall, outcome: ChildOutcome) -> ToolOutput:
        """What a child came to as its sender reads it, the whole of it kept beside."""
        settings, ended = self._main.settings, outcome.ended
        how, reason = ("ok", None) if ended.ok else ("error", "ChildFailed")
        if ended.stopped_by:
            how, reason = "cancelled", "ChildStopped"
        most_tokens = min(settings.child.result_tokens, settings.results.result_tokens)
        answer, kept = await asyncio.to_thread(self._keep, call.id, outcome.text)
        result = delegate_result(
            answer, ended, kept, most_tokens=most_tokens, is_brief=args.return_mode == "brief"
        )
        cut = {"truncated": True, "output_bytes": len(answer.encode())} if result.is_cut and kept.path else {}
        return ToolOutput(
            outcome=how,
            reason=reason,
            content=result.text,
            shown=ShownChild(
                invocation=ended.invocation, agent=ended.agent, steps=ended.steps, usd=ended.usd
            ),
            metadata={
                "subagent_id": ended.invocation,
                "success": ended.ok,
                "response": cut_to(answer, most_tokens),
                "last_line": answer.rstrip().rpartition("\n")[2][:MOST_LAST_LINE],
                "turns_completed": ended.steps,
                "tools_used": list(ended.tools_used),
                **cut,
            },
        )

    def _keep(self, call_id: str, text: str) -> tuple[str, KeptAnswer]:
        """The answer without secrets, kept where `read_file` finds it, also once it has left the conversation."""
        answer = masked(text, self._parts.services.models.keys_in_use())
        try:
            self._parts.spill().keep(call_id, answer)
        except (OSError, BridleError) as problem:
            why = problem.message if isinstance(problem, BridleError) else problem.strerror or str(problem)
            return answer, KeptAnswer(problem=f"the whole could not be kept ({why})")
        return answer, KeptAnswer(path=f"{SPILL_PREFIX}{call_id}")

    async def _work(self, caller: Invocation, task: ChildTask) -> ChildOutcome:
        room = self.children.room_of(caller)
        if task.background:  # whoever sent it was told that it works: it is on record, with room or not
            return await self.children.run(caller, task, room)
        async with room:
            return await self.children.run(caller, task)

    def _begin_in_background(self, args: DelegateArgs, call: ToolCall, task: ChildTask) -> ToolOutput:
        """Whoever sent it goes on, and hears of its end as of something said meanwhile."""

        async def work() -> None:
            with contextlib.suppress(StoreError):  # whoever follows the session is told of that
                outcome = await self._outcome_of(call.invocation, task)
                try:
                    result = (await self._result(args, call, outcome)).content
                except Exception as fault:  # noqa: BLE001  the crash boundary: nobody waits for this task
                    result = f"{outcome.text}\n\n{sentence('EngineFault', {'problem': fault_words(fault)})}"
                data = {"agent": task.agent.name, "task": task.task, "result": wrap(SAID_BY_AGENT, result)}
                said = (TextBlock(text=sentence("ChildDone", data)),)
                child = outcome.ended.invocation
                accepted = InputAccepted(content=said, mode="steer", identity="agent", child=child)
                self._parts.journal.emit(accepted, originator=child)
                self.wake()

        running = asyncio.create_task(work())
        self._background.add(running)
        running.add_done_callback(self._background.discard)
        return ToolOutput(
            content=sentence("ChildInBackground", {"agent": task.agent.name}),
            shown=ShownChild(invocation="", agent=task.agent.name, ended=False),
        )

    async def _outcome_of(self, caller: Invocation, task: ChildTask) -> ChildOutcome:
        """What a child in the background came to, whatever went wrong."""
        try:
            return await self._work(caller, task)
        except asyncio.CancelledError:  # by the end of the session: nobody else knows of this task
            self._parts.journal.emit(cut_short(task.agent.name))
            raise
        except StoreError:
            raise
        except Exception as fault:  # noqa: BLE001  the crash boundary: nobody waits for this task
            return self.children.not_begun(caller, task, fault_words(fault))

    async def _end(self) -> None:
        """Who still works in the background is stopped, with its end on record."""
        working = tuple(self._background)
        for task in working:
            task.cancel()
        if working:
            await asyncio.wait(working)


def _request(conversation: Conversation) -> str:
    """What the person asked for last."""
    for entry in reversed(conversation.entries):
        if entry.mark.source == "input":
            return "\n".join(block.text for block in entry.message.content if isinstance(block, TextBlock))
    return ""
