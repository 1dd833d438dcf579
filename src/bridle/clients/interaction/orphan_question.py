"""A call that Bridle did not see end, in words: what it was, when it began, what is there now. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import msgspec

from bridle.base.visible import visible
from bridle.protocol.questions import OrphanQuestion

HAPPENED: Final = "it happened"
DID_NOT: Final = "it did not"
DO_NOT_KNOW: Final = "I don't know: the model must check before repeating"
LATER: Final = "decide later"
_MOST_DETAILS: Final = 400
_WORDS: Final = 60


def orphan_headline(question: OrphanQuestion) -> str:
    actions = "One action" if question.count == 1 else f"{question.count} actions"
    which = "" if question.count == 1 else f" ({question.number} of {question.count})"
    stopped = _hours(question.stopped_ms)[:5]
    return f"Bridle stopped without warning at {stopped}. {actions} may or may not have happened.{which}"


def orphan_lines(question: OrphanQuestion) -> Iterator[str]:
    """The call and what is there now."""
    tool, began = visible(question.tool, newlines=False), _hours(question.started_ms)
    yield f"  {tool:<6} {_in_words(question):<27} started {began}, no end recorded"
    for index, line in enumerate(question.now):
        yield f"  {'' if index else 'now':<6} {visible(line, newlines=False)}"


def orphan_details(question: OrphanQuestion) -> Iterator[str]:
    """Everything that is known of the call."""
    for name, value in question.input.items():
        shown = visible(value if isinstance(value, str) else msgspec.json.encode(value).decode())
        first, *rest = shown.split("\n")[:_MOST_DETAILS]
        yield f"  {visible(name, newlines=False)}: {first}"
        yield from (f"    {line}" for line in rest)


def undo_choice(question: OrphanQuestion) -> str:
    """The choice of undoing it, and why there is no point in choosing it."""
    why_not = visible(question.not_undoable, newlines=False)
    return f"undo it (not possible {why_not})" if why_not else "undo it"


def _in_words(question: OrphanQuestion) -> str:
    given = question.input
    about = next(
        (given[name] for name in ("command", "path", "url") if isinstance(given.get(name), str)), None
    )
    text = visible(
        about if about is not None else msgspec.json.encode(given).decode(), newlines=False
    ).strip()
    return text if len(text) <= _WORDS else text[: _WORDS - 1] + "…"


def _hours(ms: int) -> str:
    """The time of day where the person is."""
    return time.strftime("%H:%M:%S", time.localtime(ms / 1000))
