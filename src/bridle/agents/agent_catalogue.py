"""What whoever may send agents is told of them, within a budget. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bridle.agents.definition import AgentDefinition
from bridle.base.text.terminal_text import visible
from bridle.base.text.token_estimate import estimated_tokens
from bridle.base.text.untrusted import neutralise

_HEAD = "Agents you can have work for you, with the tool delegate_agent:"


def catalogue_text(agents: Sequence[AgentDefinition], most_tokens: int) -> str:
    """Names and descriptions, and when to use each as far as there is room; beyond that only names, and how many."""
    if not agents:
        return ""
    for lines in (
        [line for agent in agents for line in _whole(agent)],
        [_line(agent) for agent in agents],
    ):
        text = "\n".join((_HEAD, *lines))
        if estimated_tokens(len(text)) <= most_tokens:
            return text
    room = most_tokens * 3 - len(_HEAD)
    names: list[str] = []
    for agent in agents:
        room -= len(agent.name) + 2
        if room < 0:
            break
        names.append(agent.name)
    more = f" and {len(agents) - len(names)} more" if len(names) < len(agents) else ""
    return f"{_HEAD}\n{', '.join(names)}{more}"


def _line(agent: AgentDefinition) -> str:
    about = agent.catalog
    return f"- {agent.name} ({_plain(about.category)}, {about.cost}): {_plain(agent.description)}"


def _plain(text: str) -> str:
    """What somebody wrote of an agent, in one line of its own that begins and ends nothing else."""
    return " ".join(neutralise(visible(text, newlines=False)).split())


def _whole(agent: AgentDefinition) -> list[str]:
    about = agent.catalog
    lines = [_line(agent)]
    lines += (f"  Use when: {_plain('; '.join(about.use_when))}.",) * bool(about.use_when)
    lines += (f"  Avoid when: {_plain('; '.join(about.avoid_when))}.",) * bool(about.avoid_when)
    return lines
