"""Text about subagents, plans, goals and skills."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bridle.base.text.phrases import counted, dollars, one_line, shortened
from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.questions.question_card import Row, RowStyle
from bridle.protocol import events as e
from bridle.protocol.child_tree import ChildEntry, ChildTree
from bridle.protocol.events import SkillRegistryChanged, Todo
from bridle.protocol.goal_state import check_words

_MARKS: Final = {"done": "✓", "doing": "▸", "open": "·"}
_WORDS: Final = {"done": "done:", "doing": "now:", "open": "open:"}
_STYLES: Final[dict[str, RowStyle]] = {"done": "faint", "doing": "title", "open": "plain"}
_LONG: Final = 12
"""Of a longer plan the page has what is near the current item."""
_BEFORE, _AFTER = 2, 7


def plan_title(todos: Sequence[Todo]) -> str:
    """The number of finished items."""
    done = sum(todo.state == "done" for todo in todos)
    return f"plan     {done} of {len(todos)} done" if todos else "plan     none"


def current_item(todos: Sequence[Todo]) -> str:
    """The item in progress; empty where there is none."""
    return next((visible_line(todo.text) for todo in todos if todo.state == "doing"), "")


def plan_line(todos: Sequence[Todo]) -> str:
    """The number of finished items and the item in progress."""
    item = one_line(current_item(todos), TASK_CHARACTERS)
    return f"{plan_title(todos):<39} {f'now: {item}' if item else ''}".rstrip()


def plan_rows(todos: Sequence[Todo], *, spoken: bool = False, whole: bool = False) -> Iterator[Row]:
    """One row for each item, with a mark, or with a word where it is `spoken`. A long one is folded unless `whole`."""
    first, last = (0, len(todos)) if whole or len(todos) <= _LONG else _near(todos)
    marks = _WORDS if spoken else _MARKS
    if first:
        yield Row(f"{marks['done']} {first} before", "faint")
    for todo in todos[first:last]:
        yield Row(f"{marks[todo.state]} {visible_line(todo.text)}", _STYLES[todo.state])
    if left := len(todos) - last:
        yield Row(f"{marks['open']} {left} more: /todos", "faint")


def _near(todos: Sequence[Todo]) -> tuple[int, int]:
    at = next((index for index, todo in enumerate(todos) if todo.state != "done"), len(todos))
    first = max(0, min(at - _BEFORE, len(todos) - _BEFORE - _AFTER))
    return first, min(len(todos), first + _BEFORE + _AFTER)


_OPENING = '<skill name="'


def skill_named(text: str) -> str:
    """The name of the skill that this text loads; empty for other text."""
    if not text.startswith(_OPENING):
        return ""
    return visible_line(text.removeprefix(_OPENING).partition('"')[0])[:64]


def skill_change_lines(event: SkillRegistryChanged) -> list[str]:
    parts = [counted(len(event.skills), "skill")]
    for word, names in (("new", event.added), ("gone", event.removed), ("changed", event.changed)):
        if names:
            parts.append(f"{word}: {_listed(names)}")
    if event.waiting:
        parts.append(f"not trusted: {_listed(event.waiting)}")
    return [f"skills   {' · '.join(parts)}", *(f"! {visible_line(one)}" for one in event.problems)]


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return visible_line(", ".join(names[:10])) + more


_NAMED = 10
"""So many of the files of a check that were changed are named in a line."""


def goal_line(event: e.GoalBegun | e.GoalChecked | e.GoalEnded) -> str:
    """The line about a goal that began, was checked or ended."""
    match event:
        case e.GoalBegun(check=check, limits=limits):
            passes = visible_line(check_words(check))
            return f"goal     until {passes:<24} {counted(limits.rounds, 'round')} at most"
        case e.GoalChecked(passed=True):
            return f"check    passed{'':<24} round {event.round}"
        case e.GoalChecked(problem=problem):
            return f"check    {f'not passed ({visible_line(problem)})':<30} round {event.round}"
        case e.GoalEnded(reached=True, rounds=rounds):
            return f"goal     reached in {counted(rounds, 'round')}"
        case e.GoalEnded(message=message):
            return f"goal     not reached. {visible_line(message or '')}".rstrip()


def check_warning(ended: e.GoalEnded) -> str:
    """A warning about files of the check that the model changed; empty where it changed none."""
    if not ended.changed:
        return ""
    names = ", ".join(visible_line(path) for path in ended.changed[:_NAMED])
    more = f" and {len(ended.changed) - _NAMED} more" if len(ended.changed) > _NAMED else ""
    return f"warning  The model changed these files of the check: {names}{more}"


SAID_LINES: Final = 4
"""So many lines of what a child says at once stand beside the conversation."""
TASK_CHARACTERS: Final = 60
WHY_CHARACTERS: Final = 120
_STATES: Final = {"working": "working", "waiting": "waiting for an answer", "done": "done"}


def path_words(path: Sequence[str]) -> str:
    """The names of subagents down to one."""
    return visible_line(" → ".join(path))


def sent_line(child: ChildEntry) -> str:
    """A subagent that starts."""
    return f"{child_title(child)}: {_short(child.task, TASK_CHARACTERS)}"


def ended_line(child: ChildEntry) -> str:
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
    return f"agent {visible_line(child.label)}"


def child_facts(child: ChildEntry) -> list[str]:
    """Its steps, and what it cost: what is not known is no number, and what cost nothing is not said."""
    cost = ("cost unknown",) if child.usd is None else (dollars(child.usd),) if child.usd else ()
    return [counted(child.steps, "step"), *cost, *_left(child)]


def _left(child: ChildEntry) -> list[str]:
    """The branch that it left in its own worktree."""
    if not (child.worktree and child.is_over):
        return []
    return [f"left on {visible_line(child.branch)} (/worktrees)" if child.branch else "changed nothing"]


def tree_lines(tree: ChildTree, *, ids: bool = False) -> list[str]:
    """All subagents, each below its parent: state, facts and task."""
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
        lines.append(f"{indent}{named}{visible_line(child.label)}   {facts}")
        lines.append(f"{indent}  {_short(child.task, TASK_CHARACTERS)}")
    return lines


def said_lines(text: str, most: int | None) -> list[str]:
    """The text of a subagent, marked as such; at most `most` lines of it."""
    lines = visible(text.strip()).splitlines()
    if most is not None:
        lines = [line for line in lines if line.strip()]
    cut = [] if most is None or len(lines) <= most else [f"… {counted(len(lines) - most, 'more line')}"]
    shown = [*(lines if most is None else lines[:most]), *cut]
    return [f"{'said' if at == 0 else '':<8} {line}" for at, line in enumerate(shown)]


def _short(text: str, width: int) -> str:
    return shortened(visible_line(" ".join(text.split())), width)
