"""Input that was accepted and not yet heard, in the order it will be: one fold for the engine and for every client.

What was said during a turn goes before what waits for its end. A person may edit, hold, promote and drop what waits.
"""

from __future__ import annotations

import msgspec

from bridle.protocol.events import InputAccepted, InputChanged


class PendingInput(msgspec.Struct, frozen=True, kw_only=True):
    """Input that was accepted and not yet given to the model. What is `held` waits until somebody lets it go."""

    id: int
    event: InputAccepted
    originator: str
    held: bool = False


def put(inputs: dict[int, PendingInput], pending: PendingInput) -> None:
    """One more, behind all others; what is said now goes before what was queued."""
    if pending.event.mode != "steer":
        inputs[pending.id] = pending
        return
    behind = {number: other for number, other in inputs.items() if other.event.mode != "steer"}
    for number in behind:
        del inputs[number]
    inputs[pending.id] = pending
    inputs.update(behind)


def change(inputs: dict[int, PendingInput], event: InputChanged) -> None:
    """What a person made of one that waits. Of one that does not wait any more nothing changes."""
    pending = inputs.get(event.input)
    if pending is None:
        return
    match event.change:
        case "edit":
            said = msgspec.structs.replace(pending.event, content=event.content)
            inputs[event.input] = msgspec.structs.replace(pending, event=said)
        case "hold":
            inputs[event.input] = msgspec.structs.replace(pending, held=True)
        case "release":
            inputs[event.input] = msgspec.structs.replace(pending, held=False)
        case "first":
            behind = {number: other for number, other in inputs.items() if number != event.input}
            inputs.clear()
            inputs[event.input] = msgspec.structs.replace(pending, held=False)
            inputs.update(behind)
        case "drop":
            del inputs[event.input]


def next_input(inputs: dict[int, PendingInput]) -> PendingInput | None:
    """The one whose turn comes first."""
    return next((pending for pending in inputs.values() if not pending.held), None)
