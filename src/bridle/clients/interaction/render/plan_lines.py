"""Render the model's todo list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.questions.question_card import Row, RowStyle
from bridle.protocol.events import Todo

_MARKS: Final = {"done": "✓", "doing": "▸", "open": "·"}
_WORDS: Final = {"done": "done:", "doing": "now:", "open": "open:"}
_STYLES: Final[dict[str, RowStyle]] = {"done": "faint", "doing": "title", "open": "plain"}
_LONG: Final = 12
"""Of a longer plan the page has what is near the current item."""
_BEFORE, _AFTER = 2, 7


def plan_title(todos: Sequence[Todo]) -> str:
    """How far it is."""
    done = sum(todo.state == "done" for todo in todos)
    return f"plan     {done} of {len(todos)} done" if todos else "plan     none"


def current_item(todos: Sequence[Todo]) -> str:
    """What is being done, "" where nothing is."""
    return next((visible(todo.text, newlines=False) for todo in todos if todo.state == "doing"), "")


def plan_rows(todos: Sequence[Todo], *, spoken: bool = False, whole: bool = False) -> Iterator[Row]:
    """One row for each item, with a mark, or with a word where it is `spoken`. A long one is folded unless `whole`."""
    first, last = (0, len(todos)) if whole or len(todos) <= _LONG else _near(todos)
    marks = _WORDS if spoken else _MARKS
    if first:
        yield Row(f"{marks['done']} {first} before", "faint")
    for todo in todos[first:last]:
        yield Row(f"{marks[todo.state]} {visible(todo.text, newlines=False)}", _STYLES[todo.state])
    if left := len(todos) - last:
        yield Row(f"{marks['open']} {left} more: /todos", "faint")


def _near(todos: Sequence[Todo]) -> tuple[int, int]:
    at = next((index for index, todo in enumerate(todos) if todo.state != "done"), len(todos))
    first = max(0, min(at - _BEFORE, len(todos) - _BEFORE - _AFTER))
    return first, min(len(todos), first + _BEFORE + _AFTER)
