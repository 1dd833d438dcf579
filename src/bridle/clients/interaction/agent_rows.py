"""The agents of a session as a list: who is talked with, who can be sent, and where each comes from. Pure."""

from __future__ import annotations

from bridle.base.visible import visible
from bridle.clients.interaction.effects import SayWords
from bridle.protocol.queries import AgentEntry, AgentList


def agent_rows(found: AgentList) -> list[SayWords]:
    """One line for each, the one that is talked with first; those that nobody trusts yet, and mistakes, last."""
    shown = sorted((one for one in found.agents if not one.hidden), key=_rank)
    widest = max((len(_name(one)) for one in shown), default=0)
    beside = " " * (widest + 4)
    lines = (f"{'>' if one.chosen else ' '} {_name(one):<{widest}}  {_about(one)}" for one in shown)
    mistakes = (f"! {visible(problem, newlines=False)}" for problem in found.problems)
    return [*(SayWords(line, beside) for line in lines), *(SayWords(line, "  ") for line in mistakes)]


def _rank(agent: AgentEntry) -> int:
    return 0 if agent.chosen else 1 if agent.trusted else 2


def _name(agent: AgentEntry) -> str:
    return visible(agent.name, newlines=False)


def _about(agent: AgentEntry) -> str:
    place = visible(agent.place, newlines=False)
    source = agent.source if agent.source == "builtin" or not place else f"{agent.source}, {place}"
    if not agent.trusted:
        return f"not trusted yet: bridle trust ack {place}"
    does = [
        *(("you talk with it",) if agent.chosen else ("to talk with",) if agent.selectable else ()),
        *(("can be sent",) if agent.callable else ()),
    ]
    described = visible(agent.description, newlines=False)
    return f"{described} ({', '.join((*does, source))})"
