"""The goal of a session, folded from its events: one fold for the engine and for every client. Pure."""

from __future__ import annotations

import msgspec

from bridle.protocol.events import (
    AnyEvent,
    ChildEnded,
    Envelope,
    GoalBegun,
    GoalCheck,
    GoalChecked,
    GoalEnded,
    TurnEnded,
)


class GoalState(msgspec.Struct, frozen=True, kw_only=True):
    """The last goal of a session. `id` is the event it began with, `steps` are the model calls of its rounds so far,
    those of agents that were sent in them included. It is open until it `ended`.
    """

    id: int
    begun: GoalBegun
    steps: int = 0
    last: GoalChecked | None = None
    ended: GoalEnded | None = None

    @property
    def rounds(self) -> int:
        """How many have been checked."""
        return 0 if self.last is None else self.last.round

    @property
    def changed(self) -> tuple[str, ...]:
        """The files of the check that were changed, as far as that has been looked at."""
        return () if self.last is None else self.last.changed


def next_state(state: GoalState | None, envelope: Envelope) -> GoalState | None:
    """The state behind an event. A turn counts while a goal is open, and so does an agent that was sent in one."""
    event: AnyEvent = envelope.event
    if isinstance(event, GoalBegun):
        return GoalState(id=envelope.id or 0, begun=event)
    if state is None or state.ended is not None:
        return state
    match event:
        case TurnEnded(steps=steps) | ChildEnded(steps=steps):
            return msgspec.structs.replace(state, steps=state.steps + steps)
        case GoalChecked():
            return msgspec.structs.replace(state, last=event)
        case GoalEnded():
            return msgspec.structs.replace(state, ended=event)
        case _:
            return state


def check_words(check: GoalCheck) -> str:
    """A check, for people."""
    schema, agent = "the answer fits the schema" * check.schema, f"{check.agent} agrees" * bool(check.agent)
    return " and ".join(filter(None, (schema, check.command, agent)))
