"""The request that a session would send next, made and not sent: for people who want to read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from bridle.engine.conversation import Conversation
from bridle.engine.journal import redacted
from bridle.engine.request import encode_aside
from bridle.engine.sizes import messages_tokens, prefix_tokens
from bridle.protocol.events import InputAccepted, ModelChanged, PrefixSet
from bridle.protocol.messages import InputBlock, Message
from bridle.providers.model_directory import Models
from bridle.providers.remote import RemoteModel

NextPrefix = Callable[[ModelChanged], Awaitable[PrefixSet]]
"""What would stand before the messages with this model. Nobody is asked about anything."""


class NextRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was not sent: where it would go, what it would carry, and the very bytes. Keys are masked.

    `url` is empty for a model that is asked over no wire. `tokens` is an estimate.
    """

    provider: str
    model: str
    url: str = ""
    headers: Mapping[str, str] = {}
    body: bytes
    tokens: int


async def preview_request(
    conversation: Conversation,
    chosen: ModelChanged,
    content: tuple[InputBlock, ...],
    *,
    next_prefix: NextPrefix,
    models: Models,
) -> NextRequest:
    """The first request of a turn that these words would start; without words, of the conversation as it stands."""
    prefix = redacted(await next_prefix(chosen))
    messages = list(conversation.messages)
    if content:
        said = redacted(InputAccepted(content=content))
        messages.append(Message(role="user", content=said.content))
    provider = models.provider(prefix.provider, prefix.model)
    url, headers = provider.masked_head() if isinstance(provider, RemoteModel) else ("", {})
    return NextRequest(
        provider=prefix.provider,
        model=prefix.model,
        url=url,
        headers=headers,
        body=encode_aside(prefix, messages, provider.wire),
        tokens=prefix_tokens(prefix) + messages_tokens(messages),
    )
