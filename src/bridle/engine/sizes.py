"""How large the next request is, counted by the provider and estimated after that; how large an answer may be. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, assert_never

import msgspec

from bridle.base.text.token_estimate import IMAGE_TOKENS, estimated_tokens
from bridle.protocol.errors import ProviderError
from bridle.protocol.messages import (
    AnyBlock,
    FileMention,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    YieldBlock,
)

if TYPE_CHECKING:
    from bridle.engine.conversation import Conversation
    from bridle.protocol.events import PrefixSet


MOST_DENSE: Final = 16
"""No text is so dense that this many estimated tokens are one: a provider that says so has not counted."""


def request_tokens(conversation: Conversation) -> int:
    """About how many tokens the next request has. Costs what is new since the last time."""
    estimated, counted = _weigh(conversation), conversation.counted
    if counted is not None:
        later = messages_tokens(conversation.messages[counted.messages :])
        if counted.tokens * MOST_DENSE >= estimated - later:
            return counted.tokens + later
    prefix = conversation.prefix
    return (0 if prefix is None else prefix_tokens(prefix)) + estimated


def _weigh(conversation: Conversation) -> int:
    weighed, messages = conversation.weighed, conversation.messages
    if weighed.messages < len(messages):
        more = messages_tokens(messages[weighed.messages :])
        weighed = msgspec.structs.replace(weighed, tokens=weighed.tokens + more, messages=len(messages))
        conversation.weighed = weighed
    return weighed.tokens


def prefix_tokens(prefix: PrefixSet) -> int:
    tools = sum(estimated_tokens(len(msgspec.json.encode(tool))) for tool in prefix.tools)
    return estimated_tokens(len(prefix.system)) + tools


def messages_tokens(messages: Iterable[Message]) -> int:
    return sum(block_tokens(block) for message in messages for block in message.content)


def block_tokens(block: AnyBlock) -> int:
    match block:
        case TextBlock(text=text) | ToolResultBlock(text=text):
            return estimated_tokens(len(text))
        case ToolUseBlock(tool=tool, input=given):
            return estimated_tokens(len(tool) + len(msgspec.json.encode(given)))
        case ThinkingBlock(opaque=opaque):
            return estimated_tokens(len(opaque))
        case FileMention(path=path):
            return estimated_tokens(len(path))
        case ImageBlock():
            return IMAGE_TOKENS
        case YieldBlock():
            return estimated_tokens(0)
        case _:
            assert_never(block)


# Answers

MAX_ANSWER: Final = 4 << 20
"""How many characters one answer may hold: text, thinking and calls together. The longest that any vendor gives has
less than a quarter of it; a server that never ends would fill the memory and the log."""
CALL: Final = 4 << 10
"""What a call counts beside its arguments: an answer has room for a thousand."""
TURN: Final = 1 << 10
"""What it counts to go from text to thinking or back: each time is an event."""


class AnswerRoom:
    """What is left for one answer."""

    def __init__(self) -> None:
        self.left = MAX_ANSWER

    def take(self, size: int) -> None:
        """Raises `AnswerTooLong` where there is not so much left."""
        self.left -= size
        if self.left < 0:
            raise too_long()

    def give_back(self, size: int) -> None:
        """Something that was taken is not kept any more."""
        self.left += size


def too_long() -> ProviderError:
    return ProviderError("AnswerTooLong", limit=f"{MAX_ANSWER >> 20} MB")
