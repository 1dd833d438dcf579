"""Render the progress and results of subagents as lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from bridle.base.text.phrases import counted, dollars
from bridle.base.text.terminal_text import visible
from bridle.protocol import events as e
from bridle.protocol.child_tree import ChildEntry, ChildTree

SAID_LINES: Final = 4
"""So many lines of what a child says at once stand beside the conversation."""
TASK_CHARACTERS: Final = 60
WHY_CHARACTERS: Final = 120
_STATES: Final = {"working": "working", "waiting": "waiting for an answer", "done": "done"}


class ToldRow(msgspec.Struct, frozen=True):
    """A line of the story, so many levels below the main agent. `path` is whose doing it is; `label` names them where
    several work at once."""

    text: str
    depth: int = 0
    label: str = ""
    path: str = ""

    @property
    def lead(self) -> str:
        """What stands before it in a block."""
        return "  " * self.depth + (f"{self.label}: " if self.label else "")


Tell: TypeAlias = Callable[[e.AnyEvent], list[str]]
"""The lines an event adds to the story of one agent."""


class ChildStories:
    """The stories of agents that were sent, each told by its own; `main` is that of whoever a person talks to."""

    def __init__(self, main: Tell, make: Callable[[], Tell]) -> None:
        self._main = main
        self._make = make
        self._tree = ChildTree()
        self._stories: dict[str, Tell] = {}
        self._above: str | None = None
        """Whose line came last: where it was another's, the next one says whose it is."""

    def rows(self, envelope: e.Envelope) -> list[ToldRow]:
        self._tree.take(envelope)
        own = self._tree.entries.get(envelope.invocation or "")
        path, depth = path_words(envelope.agent_path), len(envelope.agent_path)
        several = sum(len(one.path) == depth for one in self._tree.working) > 1
        frames = isinstance(envelope.event, e.ChildStarted | e.ChildEnded)
        apart = several or (self._above != envelope.invocation and not frames)
        label = own.label if own is not None and apart else ""
        texts = self._texts(envelope)
        if texts:
            begun = envelope.event.invocation if isinstance(envelope.event, e.ChildStarted) else None
            self._above = begun or envelope.invocation
        return [ToldRow(text, depth, visible(label, newlines=False), path) for text in texts]

    def _texts(self, envelope: e.Envelope) -> Sequence[str]:
        tell, event = self._story_of(envelope.invocation), envelope.event
        match event:
            case e.ChildStarted(invocation=invocation):
                tell(event)
                return (sent_line(self._tree.entries[invocation]),)
            case e.ChildEnded(invocation=invocation):
                self._stories.pop(invocation, None)
                child = self._tree.entries.get(invocation)
                return () if child is None else (ended_line(child),)
            case e.Cancelled():
                return ()  # its end says so
            case _:
                return tell(event)

    def _story_of(self, invocation: str | None) -> Tell:
        if invocation is None:
            return self._main
        if invocation not in self._stories:
            self._stories[invocation] = self._make()
        return self._stories[invocation]


def path_words(path: Sequence[str]) -> str:
    """Whose doing something is, for people."""
    return visible(" → ".join(path), newlines=False)


def sent_line(child: ChildEntry) -> str:
    """An agent begins to work."""
    return f"{child_title(child)}: {_short(child.task, TASK_CHARACTERS)}"


def ended_line(child: ChildEntry) -> str:
    """What it came to, in one line."""
    facts = ", ".join(child_facts(child))
    match child.state:
        case "done":
            return f"{child_title(child)}: {facts}"
        case "stopped":
            by = f" by {_short(child.stopped_by, TASK_CHARACTERS)}" if child.stopped_by else ""
            return f"{child_title(child)}: stopped{by}, {facts}"
        case _:
            why = _short(child.why.partition("\n")[0], WHY_CHARACTERS)
            return f"{child_title(child)}: did not finish, {facts}: {why}"


def child_title(child: ChildEntry) -> str:
    return f"agent {visible(child.label, newlines=False)}"


def child_facts(child: ChildEntry) -> list[str]:
    """Its steps, and what it cost: what is not known is no number, and what cost nothing is not said."""
    cost = ("cost unknown",) if child.usd is None else (dollars(child.usd),) if child.usd else ()
    return [counted(child.steps, "step"), *cost, *_left(child)]


def _left(child: ChildEntry) -> list[str]:
    """What it left in a worktree of its own."""
    if not (child.worktree and child.is_over):
        return []
    return [
        f"left on {visible(child.branch, newlines=False)} (/worktrees)" if child.branch else "changed nothing"
    ]


def tree_lines(tree: ChildTree, *, ids: bool = False) -> list[str]:
    """All of them, each below whoever sent it: state, what it came to, its task."""
    lines: list[str] = []
    for depth, child in tree.walk():
        state = _STATES.get(child.state) or (
            f"stopped by {_short(child.stopped_by, TASK_CHARACTERS)}"
            if child.state == "stopped" and child.stopped_by
            else child.state
        )
        facts = " · ".join((state, *child_facts(child)))
        named = f"{_short(child.invocation, TASK_CHARACTERS)}  " if ids else ""
        indent = "  " * depth
        lines.append(f"{indent}{named}{visible(child.label, newlines=False)}   {facts}")
        lines.append(f"{indent}  {_short(child.task, TASK_CHARACTERS)}")
    return lines


def said_lines(text: str, most: int | None) -> list[str]:
    """What a child says, told so that it is nobody else's words; all of it, or the beginning."""
    lines = visible(text.strip()).splitlines()
    if most is not None:
        lines = [line for line in lines if line.strip()]
    cut = [] if most is None or len(lines) <= most else [f"… {counted(len(lines) - most, 'more line')}"]
    shown = [*(lines if most is None else lines[:most]), *cut]
    return [f"{'said' if at == 0 else '':<8} {line}" for at, line in enumerate(shown)]


def _short(text: str, width: int) -> str:
    shown = visible(" ".join(text.split()), newlines=False)
    return shown if len(shown) <= width else shown[: width - 1] + "…"
