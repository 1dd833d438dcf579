"""Run an agent for a slash command, in a fresh conversation."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bridle.agents.agent_settings import AgentSettings
from bridle.agents.builtin_agents import BUILD, BUILTIN_AGENTS, PLAN, SOLVE
from bridle.agents.definition import AgentDefinition, AgentRegistry
from bridle.agents.handoff import cut_to
from bridle.app.session_parts import SessionParts
from bridle.app.sources.session_agents import WorkingAgent
from bridle.app.subagents.agents_feature import SAID_BY_AGENT
from bridle.app.subagents.child_run import ChildOutcome, ChildRuns, ChildTask, MakeInvocation
from bridle.base.text.untrusted import neutralise, wrap
from bridle.engine.conversation import MAIN
from bridle.engine.slash_command import SlashEvent
from bridle.protocol.errors import sentence
from bridle.protocol.events import ContextAdded, Notice
from bridle.protocol.messages import TextBlock

STAGE_TOKENS = 4_000
"""So much of what one stage came to is told the next."""


def _role(agent: AgentDefinition, **changed: object) -> AgentDefinition:
    return msgspec.structs.replace(agent, **changed)


_CODE = _role(
    BUILD,
    name="code",
    description="Does what it is told, with every tool.",
    system=(
        "You are a coding agent. Do the task: read what it touches, make the smallest change that does it, run what "
        "checks it, and say what you changed and what you saw."
    ),
)
_REVIEWED = _role(
    SOLVE,
    system=(
        "You are an autonomous agent that looks at its own work. Compare what was planned and what was done with what "
        "was asked for, read the files, and say what is right, what is wrong and what is missing. Change nothing."
    ),
)
STAGES: Mapping[str, tuple[AgentDefinition, ...]] = {
    "plan": (_role(PLAN, tools=()),),
    "solve": (SOLVE,),
    "code": (_CODE,),
    "auto": (_role(PLAN, tools=()), _CODE, _REVIEWED),
}
"""Which agents a command has work, one after the other; each is told what the one before it came to."""


def role_runs(parts: SessionParts, make_invocation: MakeInvocation) -> ChildRuns:
    """Where these agents work in a session that has no others."""
    return ChildRuns(_as_parent(parts), make_invocation)


async def run_role(parts: SessionParts, runs: ChildRuns, name: str, words: str) -> SlashEvent:
    """What came of it joins the conversation, so that whoever is talked to next knows."""
    if not words:
        data = {"name": name, "mode": parts.journal.conversation.mode}
        return Notice(reason="NoRoleWords", message=sentence("NoRoleWords", data), data=data)
    told: list[ChildOutcome] = []
    for agent in STAGES[name]:
        outcome = await runs.run(MAIN, _task(parts, agent, words, told))
        told.append(outcome)
        if not outcome.ended.ok:
            break
    return _joined(name, words, told)


def _as_parent(parts: SessionParts) -> SessionParts:
    """The session as whoever sends these agents: a person, who has no agent where nobody chose one."""
    if parts.agent is not None:
        return parts
    registry = AgentRegistry(BUILTIN_AGENTS)
    working = WorkingAgent(definition=BUILD, registry=registry, settings=AgentSettings())
    return msgspec.structs.replace(parts, agent=working)


def _task(parts: SessionParts, agent: AgentDefinition, words: str, told: list[ChildOutcome]) -> ChildTask:
    before = _before(told)
    chosen = parts.journal.conversation.model
    assert chosen is not None, "a session is created with a model"
    return ChildTask(
        agent=agent,
        model=chosen,
        task=words,
        text=f"{words}\n\nWhat came before, by others:\n{before}" if before else words,
        max_steps=parts.settings.max_steps,
        identity="agent",
        of_person=True,
    )


def _before(told: list[ChildOutcome]) -> str:
    """What earlier stages came to, for the next. Who used a tool may say again what it read: that is data for others,
    while the plan of one that had none is to be followed."""

    def answer(one: ChildOutcome) -> str:
        text = cut_to(one.text, STAGE_TOKENS)
        return wrap(SAID_BY_AGENT, text) if one.ended.tools_used else neutralise(text)

    return "\n\n".join(f"{one.ended.agent}:\n{answer(one)}" for one in told)


def _joined(name: str, words: str, told: list[ChildOutcome]) -> ContextAdded:
    said = TextBlock(text=f"I had /{name} work on this: {words}")
    came_to = wrap(SAID_BY_AGENT, "\n\n".join(f"{one.ended.agent}:\n{one.text}" for one in told))
    return ContextAdded(source="agent", content=(said, TextBlock(text=came_to)))
