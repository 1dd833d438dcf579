"""`/queue`: show, edit, hold, promote and drop queued input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from bridle.clients.interaction.composer.parse import Words, parse
from bridle.clients.interaction.render.event_rows import input_words
from bridle.clients.interaction.state.view import SessionView
from bridle.protocol.commands import ChangeInput
from bridle.protocol.events import InputChange
from bridle.protocol.inbox import PendingInput
from bridle.protocol.messages import ImageBlock, InputBlock

_CHANGES: Final[dict[str, InputChange]] = {
    "hold": "hold",
    "release": "release",
    "first": "first",
    "drop": "drop",
}
_HOW: Final = "/queue edit N, hold N, release N, first N, drop N"


class WriteDraft(msgspec.Struct, frozen=True):
    """A text for the person to go on with. What they were writing comes back with Up."""

    text: str


def queue_command(
    arguments: str, view: SessionView, session: str, is_file: Callable[[str], bool]
) -> tuple[str, ...] | ChangeInput | WriteDraft:
    """What `/queue arguments` comes to: lines to read, a change, or the message as a draft."""
    verb, _, rest = arguments.partition(" ")
    if not verb:
        return queue_lines(view)
    number, _, words = rest.strip().partition(" ")
    if verb != "edit" and verb not in _CHANGES:
        return (f"What about them? {_HOW}",)
    waiting = list(view.inputs.values())
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= len(waiting)):
        return (f"Which one? /queue lists them with their numbers, then /queue {verb} NUMBER",)
    chosen = waiting[int(number) - 1]
    if verb != "edit":
        return ChangeInput(session=session, input=chosen.id, change=_CHANGES[verb])
    if not words.strip():
        return WriteDraft(f"/queue edit {number} {input_words(chosen.event.content)}")
    content = _edited(chosen, words.strip(), is_file)
    return ChangeInput(session=session, input=chosen.id, change="edit", content=content)


def queue_lines(view: SessionView) -> tuple[str, ...]:
    """What waits, in the order it will be said, each with the number that commands take."""
    rows = [f"{number:<2} {_row(one)}" for number, one in enumerate(view.inputs.values(), 1)]
    return (*rows, _HOW) if rows else ("Nothing is queued.",)


def _row(one: PendingInput) -> str:
    state = "held     " if one.held else "now      " if one.event.mode == "steer" else ""
    return state + " ".join(input_words(one.event.content).split())


def _edited(old: PendingInput, words: str, is_file: Callable[[str], bool]) -> tuple[InputBlock, ...]:
    """The new words, as typing them would send them, with the images the message had."""
    read = parse(f" {words}", is_file)
    images = tuple(block for block in old.event.content if isinstance(block, ImageBlock))
    return (*(read.content if isinstance(read, Words) else ()), *images)
