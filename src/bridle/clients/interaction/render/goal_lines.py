"""Render a goal, its checks and its end as lines."""

from __future__ import annotations

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible
from bridle.protocol import events as e
from bridle.protocol.goal_state import check_words

_NAMED = 10
"""So many of the files of a check that were changed are named in a line."""


def goal_lines(event: e.GoalBegun | e.GoalChecked | e.GoalEnded) -> list[str]:
    """The lines that one of its events adds."""
    match event:
        case e.GoalBegun(check=check, limits=limits):
            passes = _shown(check_words(check))
            return [f"goal     until {passes:<24} {counted(limits.rounds, 'round')} at most"]
        case e.GoalChecked(passed=True):
            return [f"check    passed{'':<24} round {event.round}"]
        case e.GoalChecked(problem=problem):
            return [f"check    {f'not passed ({_shown(problem)})':<30} round {event.round}"]
        case e.GoalEnded(reached=True, rounds=rounds):
            return [f"goal     reached in {counted(rounds, 'round')}", *_changed(event)]
        case e.GoalEnded(message=message):
            return [f"goal     not reached. {_shown(message or '')}".rstrip(), *_changed(event)]


def changed_words(changed: tuple[str, ...]) -> str:
    """Which files of the check are not as they were; empty where all are."""
    if not changed:
        return ""
    names = ", ".join(_shown(path) for path in changed[:_NAMED])
    more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
    return f"The model changed these files of the check: {names}{more}"


def _changed(event: e.GoalEnded) -> list[str]:
    words = changed_words(event.changed)
    return [f"warning  {words}"] if words else []


def _shown(text: str) -> str:
    return visible(text, newlines=False)
