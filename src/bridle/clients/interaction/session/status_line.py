"""Render the status line, and the closing lines of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridle.base.clock import Clock
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible_line
from bridle.clients.engine_address import LOST
from bridle.clients.interaction.cells import cut, width_of
from bridle.clients.interaction.engine_info import EngineInfo
from bridle.clients.interaction.render.progress_text import current_item
from bridle.clients.interaction.render.usage import cost_words, short_number
from bridle.clients.interaction.view import Activity, SessionView
from bridle.protocol import events as e

REFRESH_S: Final = 0.25
"""A line that is drawn in place changes no more often than this."""

_STOPS: Final = "Ctrl-C stops"
_LEAST_COLUMNS: Final = 12
"""Less of a command says nothing."""
_ITEM_COLUMNS: Final = 30
"""More of an item of the plan is too much beside the rest."""


class StatusLine:
    """One line about what is under way, with the seconds since the clock first saw it. `stops`: a key here stops it."""

    def __init__(self, clock: Clock, *, stops: bool = True) -> None:
        self._clock = clock
        self._tail = (_STOPS,) if stops else ()
        self._about: object = None
        self._since_s = 0.0
        self._gives_up_at_s: float | None = None

    def engine_lost(self, gives_up_s: float | None) -> None:
        """The engine is out of reach and is tried again for so long; None: it is back."""
        self._gives_up_at_s = None if gives_up_s is None else self._clock.monotonic() + gives_up_s

    @property
    def is_out_of_reach(self) -> bool:
        return self._gives_up_at_s is not None

    def words(self, view: SessionView, columns: int) -> str:
        """The line, at most `columns` wide; zero means endless. Empty while nothing is under way and nobody works in
        the background.

        Nothing is known of what is under way while the engine is out of reach.
        """
        if self._gives_up_at_s is not None:
            left = span_words(max(1.0, self._gives_up_at_s - self._clock.monotonic()))
            line = f"! {LOST}, gives up in {left}"
            return cut(line, columns)
        if not view.under_way:
            self._about = None
            return cut(_beside_words(view), columns)
        who, activity, facts = _at_work(view)
        phase, what = activity.phase if view.running else "asking beside the work", ""
        about: tuple[object, ...] = (who, phase, activity.asked)
        if phase == "running":
            name, call = next(iter(activity.calls.items()))
            about, what = (phase, name), call.what
            if call.lines:
                facts.append(counted(call.lines, "line"))
            if others := len(activity.calls) - 1:
                facts.append(counted(others, "more call"))
        elif tokens := activity.tokens:
            facts.append(f"about {short_number(tokens)} tokens")
        if view.has_goal and view.goal is not None:
            facts.append(f"round {view.goal.rounds + 1} of {view.goal.begun.limits.rounds}")
        if item := current_item(view.todos):
            facts.append(cut(item, _ITEM_COLUMNS))
        if about != self._about:
            self._about, self._since_s = about, self._clock.monotonic()
        time = span_words(self._clock.monotonic() - self._since_s)
        queued = [f"{len(view.queued)} queued"] if view.in_turn and view.queued else []
        queued += [f"{view.held} held"] if view.held else []
        phase = f"{who}: {phase}" if who else phase
        return _fitted(phase, what, time, facts, (*queued, *self._tail), columns)


def _at_work(view: SessionView) -> tuple[str, Activity, list[str]]:
    """Who works: the name of one that was sent, what they are at, and who works besides."""
    children, beside = view.children.waited_for, list(filter(None, (_beside_words(view),)))
    for child in sorted(children, key=lambda one: one.state == "waiting"):
        if (activity := view.child_activity.get(child.invocation)) is not None:
            others = len(children) - 1
            return (
                visible_line(child.label),
                activity,
                [*([counted(others, "more agent")] if others else []), *beside],
            )
    return "", view.activity, beside


def _beside_words(view: SessionView) -> str:
    """Who works in the background: `2 agents work: explore, review`."""
    names = [visible_line(one.label) for one in view.children.working if one.invocation in view.beside]
    return (
        f"{counted(len(names), 'agent')} {'works' if len(names) == 1 else 'work'}: {', '.join(names)}"
        if names
        else ""
    )


def span_words(seconds: float) -> str:
    """`12 s`, `2 min 5 s`; nothing for less than a second."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes:
        return f"{minutes} min {rest} s"
    return f"{rest} s" if rest else ""


def _fitted(phase: str, what: str, time: str, facts: Sequence[str], tail: Sequence[str], columns: int) -> str:
    """One row: a long command is cut, then what stands at the right is left out."""
    parts = [*facts, *tail]
    while True:
        line = " · ".join((" ".join(filter(None, (phase, what, time))), *parts))
        over = width_of(line) - columns
        if columns <= 0 or over <= 0:
            return line
        room = width_of(what) - over
        if room >= _LEAST_COLUMNS:
            what = cut(what, room)
        elif parts:
            parts.pop()
        else:
            return cut(line, columns)


def changed_words(count: int) -> str:
    """The number of changed files, and commands to see and undo the changes; empty for none."""
    return f"changed {counted(count, 'file')} · /diff · /undo" if count else ""


def turn_words(ended: e.TurnEnded, view: SessionView, info: EngineInfo) -> str:
    """The time, steps and cost of a turn, and how full the context is now."""
    seconds = view.turn_ms / 1000
    took = f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"
    costs = cost_words(
        view.used_in_turn,
        view.used,
        local=view.used_in_turn.is_local(info.is_local),
        context=view.contents.share(info.window_of(view.asked or view.model)),
        estimated=not view.contents.is_counted,
    )
    return " · ".join((took, counted(ended.steps, "step"), *costs))
