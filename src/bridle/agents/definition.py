"""An agent is a policy capsule: a name, a prompt, the tools it sees, and how far it may go. Plain data.

A definition never gives more than its session has: its rules and its mode can only be stricter, and its provider is
one that settings name. What a definition says about somebody's endpoint or key is refused where it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from bridle.base.text.terminal_text import visible
from bridle.base.text.token_estimate import estimated_tokens
from bridle.base.text.untrusted import neutralise
from bridle.protocol.events import Mode, Verdict

AgentMode: TypeAlias = Literal["primary", "subagent", "all"]
"""Whether an agent talks to the person (`primary`), is sent by another (`subagent`), or both."""
AgentCost: TypeAlias = Literal["free", "cheap", "standard", "expensive"]
AgentScope: TypeAlias = Literal["builtin", "settings", "user", "project", "bundle", "plugin", "code"]

CHILD_STEPS = 10
"""Model calls of a child, unless its definition or its caller names fewer."""


class AgentOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a definition comes from; `place` is the file, the setting or the plugin, for people."""

    scope: AgentScope = "code"
    place: str = ""


class AgentRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of an agent about its own calls. `allow` says no more than that the session decides."""

    tool: str
    verdict: Verdict
    path: str | None = None
    command: str | None = None
    reason: str | None = None


class AgentProvider(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the configured providers an agent works with: the one named, or that of its session."""

    profile: str | None = None
    inherit_root: bool = True


class AgentDelegation(msgspec.Struct, frozen=True, kw_only=True):
    """Who may be sent by whom.

    `callable` is None where the mode says it. `allowed_agents` is None where any may be sent. `invocation` is the
    verdict on sending this agent, before the mode of the session has its say; None is as settings have it.
    `background`: whoever sends it does not wait. `worktree`: it works in a git worktree of its own.
    """

    callable: bool | None = None
    can_delegate: bool = False
    allowed_agents: tuple[str, ...] | None = None
    denied_agents: tuple[str, ...] = ()
    max_depth: int | None = None
    invocation: Verdict | None = None
    background: bool = False
    worktree: bool = False


class AgentCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """What whoever could send this agent is told of it. `triggers` are for people and programs, never for a model."""

    category: str = "utility"
    cost: AgentCost = "standard"
    use_when: tuple[str, ...] = ()
    avoid_when: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()


class AgentDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One agent.

    `tools` are the names, or patterns like `mcp__git__*`, of what it sees; None is everything its session has.
    `hidden_tools` are taken out of that. `system` is its role, in front of what every request begins with; `append`
    stands behind. `permission_mode` holds where it is stricter than the session's. `default_verdict` is about calls
    that none of its rules is about.
    """

    name: str
    description: str
    display_name: str = ""
    mode: AgentMode = "all"
    hidden: bool = False
    provider: AgentProvider = AgentProvider()
    system: str = ""
    append: str = ""
    tools: tuple[str, ...] | None = None
    hidden_tools: tuple[str, ...] = ()
    rules: tuple[AgentRule, ...] = ()
    default_verdict: Verdict | None = None
    permission_mode: Mode | None = None
    max_steps: int = CHILD_STEPS
    delegation: AgentDelegation = AgentDelegation()
    catalog: AgentCatalog = AgentCatalog()
    origin: AgentOrigin = AgentOrigin()

    @property
    def is_selectable(self) -> bool:
        return self.mode != "subagent"

    @property
    def is_callable(self) -> bool:
        """Whether another agent may send it."""
        said = self.delegation.callable
        return not self.hidden and self.mode != "primary" and said is not False

    @property
    def title(self) -> str:
        return self.display_name or self.name


class TakenName(msgspec.Struct, frozen=True, kw_only=True):
    """A definition that does not count, because another has its name."""

    agent: AgentDefinition
    has_it: AgentDefinition


class AgentRegistry:
    def __init__(self, agents: Iterable[AgentDefinition] = ()) -> None:
        self._agents: dict[str, AgentDefinition] = {}
        for agent in agents:
            self.register(agent)

    def register(self, agent: AgentDefinition) -> TakenName | None:
        """Takes an agent in; tells whose name it wanted where another has it, and then it does not count."""
        has_it = self._agents.setdefault(agent.name, agent)
        return None if has_it is agent else TakenName(agent=agent, has_it=has_it)

    def get(self, name: str) -> AgentDefinition | None:
        return self._agents.get(name)

    def list(
        self, wanted: Callable[[AgentDefinition], bool] = lambda _agent: True
    ) -> tuple[AgentDefinition, ...]:
        """In the order in which they came."""
        return tuple(filter(wanted, self._agents.values()))

    @property
    def primary(self) -> tuple[AgentDefinition, ...]:
        return self.list(lambda agent: agent.is_selectable and not agent.hidden)

    @property
    def callable(self) -> tuple[AgentDefinition, ...]:
        """Those that may be sent."""
        return self.list(lambda agent: agent.is_callable)


_HEAD = "Agents you can have work for you, with the tool delegate_agent:"


def catalogue_text(agents: Sequence[AgentDefinition], most_tokens: int) -> str:
    """Names and descriptions, and when to use each as far as there is room; beyond that only names, and how many."""
    if not agents:
        return ""
    for lines in ([line for agent in agents for line in _whole(agent)], [_line(agent) for agent in agents]):
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
