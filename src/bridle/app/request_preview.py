"""The request that a session would send next, made and not sent: for people who want to read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing

import msgspec

from bridle.app.composition import compose
from bridle.app.session_opening import SessionOpening, choose_model, model_of
from bridle.app.session_parts import OpenedLog
from bridle.engine.conversation import Conversation
from bridle.engine.journal import redacted
from bridle.engine.open_questions import Client
from bridle.engine.sizes import messages_tokens, prefix_tokens
from bridle.engine.steps import encode_aside
from bridle.protocol.commands import CreateSession
from bridle.protocol.events import InputAccepted, ModelChanged, PrefixSet
from bridle.protocol.messages import InputBlock, Message
from bridle.providers.model_directory import Models
from bridle.providers.remote import RemoteModel
from bridle.sandbox.plain_spawn import OFF
from bridle.sessions.memory_store import MemoryStore

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


async def next_request(
    opening: SessionOpening, command: CreateSession, content: tuple[InputBlock, ...]
) -> NextRequest:
    """What such a session would send next, with these words. Nothing is sent or stored, nobody is asked, no hook
    hears of it; a session that is open elsewhere is only read."""
    place = await opening.place_of(command)
    conversation = Conversation()
    if command.resume is not None:
        row = await opening.store.find(command.resume)
        async for envelope in opening.store.events(row.id):
            conversation.apply(envelope)
    settings, plugged = opening.settings_of(place)
    agents = opening.agents_of(place, settings, plugged)
    services, _ = await opening.services_of(settings, place, command.env)
    person = Client(id="", name="preview", identity="human", answers=False)
    chosen = model_of(conversation, await choose_model(command, person, settings, services.known))
    async with (
        aclosing(MemoryStore(clock=services.clock)) as store,
        aclosing(await store.create(place.cwd, profile=settings.profile)) as log,
    ):
        opened = OpenedLog(
            log=log,
            conversation=conversation,
            cwd=place.cwd,
            env=command.env,
            settings=settings,
            approvals=place.approvals,
            held_by=OFF if settings.sandbox.mode == "off" else await services.spawn.held_by(),
            plugged=plugged,
            agents=agents.registry,
        )
        next_prefix = compose(services, opened).next_prefix
        return await _preview(conversation, chosen, content, next_prefix=next_prefix, models=services.models)


async def _preview(
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
