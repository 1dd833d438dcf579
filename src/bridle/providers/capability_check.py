"""The request layer that looks before a request is sent: can this model do what is asked of it?

A model that reads no images, or uses no tools, would answer with a vendor's riddle. A server on this machine that
serves a small context would forget the beginning in silence. Both are said before. One that leaves the tools out of
what it gives the model is found out by what it counted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from bridle.engine.conversation import Conversation
from bridle.engine.sizes import MOST_DENSE, messages_tokens, prefix_tokens, request_tokens
from bridle.engine.steps import AskModel, Reply, RequestLayer, Step
from bridle.protocol.errors import ProviderError, sentence
from bridle.protocol.events import Degraded, PrefixSet
from bridle.protocol.messages import ImageBlock
from bridle.providers.model_listing import ModelFacts, ModelInfo

SMALL_CONTEXT: Final = 16 * 1024
"""A window below this is soon full of tools and files."""


class ServedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model as a server on this machine serves it; `how` is what raises its context."""

    title: str
    info: ModelInfo
    how: str = ""


LookUpServed: TypeAlias = Callable[[str, str], Awaitable[ServedModel | None]]
FactsOf: TypeAlias = Callable[[str, str], ModelFacts]


def check_capabilities(
    *, look: LookUpServed, facts_of: FactsOf, leaves_images_out: Callable[[str], bool]
) -> RequestLayer:
    """Refuses what the model is known not to do. `look` is asked once for each model, before its first request.

    A server may know what it serves only once the model is loaded: then it is asked again behind the answer.
    """
    looked: set[tuple[str, str]] = set()

    async def layer(step: Step, proceed: AskModel) -> Reply:
        conversation = step.journal.conversation
        prefix = conversation.prefix
        assert prefix is not None, "an outer layer sets the prefix"
        model = (prefix.provider, prefix.model)
        again, unseen = False, None
        if model not in looked:
            looked.add(model)
            served = await look(*model)
            again = served is not None and served.info.context_tokens is None
            _warn(step, served)
            unseen = None if served is None or not prefix.tools else _SentRequest.of(conversation, prefix)
        _check(conversation, prefix, facts_of(*model), leaves_images_out)
        reply = await proceed(step)
        if unseen is not None:
            unseen.compare(step, prefix)
        if again:
            _warn(step, await look(*model))
        return reply

    return layer


class _SentRequest(msgspec.Struct, frozen=True):
    """About how many tokens a request had, of them in tools, and how many messages there were."""

    tokens: int
    tools: int
    messages: int

    @classmethod
    def of(cls, conversation: Conversation, prefix: PrefixSet) -> _SentRequest:
        bare = msgspec.structs.replace(prefix, tools=())
        whole = prefix_tokens(prefix)
        tokens = whole + messages_tokens(conversation.messages)
        return cls(tokens, whole - prefix_tokens(bare), len(conversation.messages))

    def compare(self, step: Step, prefix: PrefixSet) -> None:
        """Says so where the server counted so little that most of the tools cannot have been among it."""
        conversation = step.journal.conversation
        if (counted := conversation.counted) is None or counted.messages <= self.messages:
            return
        heard = counted.tokens - messages_tokens(conversation.messages[self.messages :])
        if heard * MOST_DENSE < self.tokens or heard > self.tokens - self.tools // 2:
            return  # it has not counted at all, or the tools are in it
        data = {"model": prefix.model, "heard": f"{heard:,}", "sent": f"{round(self.tokens, -2):,}"}
        step.emit(Degraded(what="tools", reason="ToolsUnseen", message=sentence("ToolsUnseen", data)))


def _check(
    conversation: Conversation, prefix: PrefixSet, facts: ModelFacts, leaves_images_out: Callable[[str], bool]
) -> None:
    if facts.tools is False and prefix.tools:
        raise ProviderError("NoTools", provider=prefix.provider, model=prefix.model)
    if facts.images is False and _has_image(conversation) and not leaves_images_out(prefix.provider):
        raise ProviderError("NoImages", provider=prefix.provider, model=prefix.model)


def _has_image(conversation: Conversation) -> bool:
    return any(
        isinstance(block, ImageBlock) for message in conversation.messages for block in message.content
    )


def _warn(step: Step, served: ServedModel | None) -> None:
    """Said where the server serves less than the model could have, and that is little."""
    if served is None:
        return
    given, longest = served.info.context_tokens, served.info.longest_context_tokens
    if given is None or longest is None or given >= longest or given >= SMALL_CONTEXT:
        return
    needs = round(request_tokens(step.journal.conversation), -2)
    data = {"title": served.title, "served": f"{given:,}", "needs": f"{needs:,}", "how": served.how}
    step.emit(Degraded(what="context", reason="SmallContext", message=sentence("SmallContext", data)))
