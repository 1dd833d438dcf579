"""Which agents there are. A name belongs to the first that had it: nobody takes one of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from bridle.agents.definition import AgentDefinition


class TakenName(msgspec.Struct, frozen=True, kw_only=True):
    """A definition that does not count, because another has its name."""

    agent: AgentDefinition
    has_it: AgentDefinition


class AgentRegistry:
    """The agents of a session by name."""

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
        """Those a person may talk to."""
        return self.list(lambda agent: agent.is_selectable and not agent.hidden)

    @property
    def callable(self) -> tuple[AgentDefinition, ...]:
        """Those that may be sent."""
        return self.list(lambda agent: agent.is_callable)
