"""The request that a session would send next, made and not sent: for people who want to read it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing

import msgspec
from msgspec import structs

from bridle.app.composition import compose
from bridle.app.features.session_features import next_prefix
from bridle.app.session_opening import SessionOpening, model_of
from bridle.app.session_parts import OpenedLog
from bridle.engine.conversation import Conversation
from bridle.engine.journal import redacted
from bridle.engine.open_questions import Client
from bridle.engine.sizes import messages_tokens, prefix_tokens
from bridle.engine.steps import encode_aside
from bridle.protocol.commands import CreateSession
from bridle.protocol.events import InputAccepted, PrefixSet
from bridle.protocol.messages import InputBlock, Message
from bridle.providers.model_directory import Models
from bridle.providers.remote import RemoteModel
from bridle.sandbox.plain_spawn import OFF
from bridle.sessions.memory_store import MemoryStore


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


async def next_request(
    opening: SessionOpening, command: CreateSession, content: tuple[InputBlock, ...]
) -> NextRequest:
    """What such a session would send next, with these words. Nothing is sent or stored, nobody is asked, no hook
    hears of it; a session that is open elsewhere is only read."""
    conversation = Conversation()
    if command.resume is not None:
        row = await opening.store.find(command.resume)
        async for envelope in opening.store.events(row.id):
            conversation.apply(envelope)
    person = Client(id="", name="preview", identity="human", answers=False)
    plan = await opening.plan(command, person, begins=False)
    services, settings = plan.services, plan.settings
    chosen = model_of(conversation, plan.model)
    async with (
        aclosing(MemoryStore(clock=services.clock)) as store,
        aclosing(await store.create(plan.cwd, profile=settings.profile)) as log,
    ):
        held_by = OFF if settings.sandbox.mode == "off" else await services.spawn.held_by()
        opened = OpenedLog(**structs.asdict(plan), log=log, conversation=conversation, held_by=held_by)
        parts = compose(opened).parts
        prefix = redacted(await next_prefix(parts, chosen))
        return _preview(conversation, prefix, content, models=services.models)


def _preview(
    conversation: Conversation, prefix: PrefixSet, content: tuple[InputBlock, ...], *, models: Models
) -> NextRequest:
    """The first request of a turn that these words would start; without words, of the conversation as it stands."""
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
