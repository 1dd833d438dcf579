"""What is stored of a session that goes on: its conversation, if it is sound, and what a crash left open in it."""

from __future__ import annotations

import msgspec

from bridle.app.session_parts import SessionPlan
from bridle.app.sources.gates import understanding
from bridle.context.compaction_layer import CompactionSettings
from bridle.context.summaries import carried_summary
from bridle.engine.conversation import Conversation
from bridle.engine.resume import not_after_the_end, orphans, unexpired
from bridle.engine.store_ports import Store
from bridle.recovery.court import InterruptedRun, refusal
from bridle.sandbox.read_only_git import repository_of
from bridle.tools.patches.patches import files_of_patch

VERIFIED_ON_RESUME = 1_000
"""How many of the last events are checked against the chain before a session goes on."""


class StoredPast(msgspec.Struct, frozen=True):
    """What was stored of a session. Up to `kept_until` its fold was kept: only later events had to be read.

    `unjudged` is where to look before a person judges what a crash left open; None where nothing has to be judged.
    """

    conversation: Conversation
    kept_until: int
    unjudged: InterruptedRun | None = None


class Carried(msgspec.Struct, frozen=True):
    """What a new session takes along from another one; no text where nothing was said there."""

    session: str
    text: str


async def carried_turns(store: Store, session: str, turns: int) -> Carried:
    """The last turns of a stored session in words, as far as they are kept."""
    row = unexpired(await store.find(session))
    conversation = Conversation()
    async for envelope in store.events(row.id, after=0):
        conversation.apply(envelope)
    most = CompactionSettings().summary_tokens
    text = carried_summary(conversation.entries, conversation.todos, turns=turns, max_tokens=most)
    return Carried(row.id, text or "")


async def stored_past(store: Store, session: str, plan: SessionPlan) -> StoredPast:
    """The stored conversation, if it is sound. Refused where something must be judged and nobody shall be asked."""
    services, env, options = plan.services, plan.env, plan.settings.options
    row = unexpired(await store.find(session))  # its content may have expired until we had the lock
    await store.verify(session, last=VERIFIED_ON_RESUME)
    kept = await store.fold(session)
    conversation = Conversation.restored(kept) if kept is not None else Conversation()
    kept_until, stopped_ms = conversation.last_id, 0
    async for envelope in store.events(session, after=kept_until):
        conversation.apply(envelope)
        if not_after_the_end(envelope):
            stopped_ms = envelope.ts_ms
    found = orphans(conversation)
    if not found or options.on_orphan == "mark-unknown":
        return StoredPast(conversation, kept_until)
    run = InterruptedRun(
        cwd=conversation.cwd,
        folders={name: child.cwd for name, child in conversation.children.items()},
        created_ms=row.created_ms,
        stopped_ms=stopped_ms,
        understand=understanding(env, conversation.cwd),
        repository_at=lambda folder: repository_of(services.spawn, cwd=folder, env=env),
        files_of_patch=files_of_patch,
    )
    if options.on_orphan == "fail":
        raise await refusal(found, run, session=session)
    return StoredPast(conversation, kept_until, run)
