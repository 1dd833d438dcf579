"""How much a child reads at once of what its tools bring back: its conversation is small, the rest can be asked for."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridle.agents.agent_settings import ChildContext
from bridle.agents.delegation import DELEGATE
from bridle.base.token_estimate import CHARACTERS_PER_TOKEN, IMAGE_TOKENS
from bridle.engine.tools import ToolCall
from bridle.protocol.events import ContextAdded, DurableEvent
from bridle.protocol.messages import ImageBlock, InputBlock, TextBlock
from bridle.tools.output import WHOLE_BYTES

NOTE_BYTES = 240
"""What it takes to say where the rest of an output is."""
LEAST_BYTES = 400


def room_of_child(budget: ChildContext) -> Callable[[ToolCall], int]:
    """How many bytes of a call's output stay: of one that looks something up more than of one that does something."""

    def room(call: ToolCall) -> int:
        if call.name == DELEGATE:  # has a budget of its own
            return WHOLE_BYTES
        tokens = budget.retrieval_tokens if call.definition.risk == "read" else budget.inline_tokens
        return min(WHOLE_BYTES, max(LEAST_BYTES, (tokens - 1) * CHARACTERS_PER_TOKEN - NOTE_BYTES))

    return room


def showing_images(emit: Callable[[DurableEvent], int], most_tokens: int) -> Callable[[DurableEvent], int]:
    """`emit` for the tools of a child: of the images they bring, it is shown as many as it has room for."""
    left = most_tokens // IMAGE_TOKENS

    def shown(block: InputBlock) -> InputBlock:
        nonlocal left
        if not isinstance(block, ImageBlock):
            return block
        left -= 1
        if left >= 0:
            return block
        return TextBlock(
            text=f"(An image is left out: those before it fill the {most_tokens} tokens for images.)"
        )

    def emit_within(event: DurableEvent) -> int:
        if isinstance(event, ContextAdded):
            event = msgspec.structs.replace(event, content=tuple(map(shown, event.content)))
        return emit(event)

    return emit_within
