"""How large the next request is: what the provider counted, and an estimate of what came after that. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, assert_never

import msgspec

from bridle.base.token_estimate import IMAGE_TOKENS, estimated_tokens
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


def request_tokens(conversation: Conversation) -> int:
    """About how many tokens the next request has. Costs what is new since the last count."""
    counted = conversation.counted
    if counted is not None:
        return counted.tokens + messages_tokens(conversation.messages[counted.messages :])
    prefix = conversation.prefix
    return (0 if prefix is None else prefix_tokens(prefix)) + messages_tokens(conversation.messages)


def prefix_tokens(prefix: PrefixSet) -> int:
    """About how many tokens stand before the messages."""
    tools = sum(estimated_tokens(len(msgspec.json.encode(tool))) for tool in prefix.tools)
    return estimated_tokens(len(prefix.system)) + tools


def messages_tokens(messages: Iterable[Message]) -> int:
    """About how many tokens these messages have."""
    return sum(block_tokens(block) for message in messages for block in message.content)


def block_tokens(block: AnyBlock) -> int:
    """About how many tokens one block has."""
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
