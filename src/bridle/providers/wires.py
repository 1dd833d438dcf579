"""The wires as data: where a request goes, who encodes it, who reads the answer. Only what is spoken is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from bridle.protocol.errors import ProviderError
from bridle.protocol.messages import CANONICAL_FORM_VERSION, ImageBlock, Message, TextBlock
from bridle.providers.anthropic import AnthropicDecoder, AnthropicWire
from bridle.providers.openai_chat import ChatDecoder, ChatWire
from bridle.providers.openai_responses import ResponsesDecoder, ResponsesWire

if TYPE_CHECKING:
    from bridle.engine.ports import Wire
    from bridle.protocol.events import PrefixSet
    from bridle.providers.endpoints import Endpoint

if TYPE_CHECKING:
    from bridle.engine.ports import Wire
    from bridle.providers.answers import Decoder
    from bridle.providers.endpoints import Endpoint

ANTHROPIC_VERSION: Final = "2023-06-01"


class Dialect(msgspec.Struct, frozen=True):
    """How to speak with an endpoint: `wire` encodes, a fresh `decoder` reads each answer."""

    wire: Wire
    decoder: Callable[[], Decoder]
    path: str
    models_path: str = "models"
    headers: Mapping[str, str] = {}


def dialect(endpoint: Endpoint, *, streaming: bool = True) -> Dialect:
    """The dialect of an endpoint: its wire with its quirks."""
    spoken = _spoken(endpoint, streaming=streaming)
    if endpoint.quirks.images == "send":
        return spoken

    return msgspec.structs.replace(spoken, wire=SightlessWire(spoken.wire, endpoint))


def _spoken(endpoint: Endpoint, *, streaming: bool) -> Dialect:
    quirks, family = endpoint.quirks, endpoint.family
    match endpoint.wire:
        case "openai_chat":
            chat = ChatWire(quirks, streaming=streaming)
            return Dialect(chat, lambda: ChatDecoder(quirks), "chat/completions")
        case "openai_responses":
            responses = ResponsesWire(quirks, family=family, streaming=streaming)
            return Dialect(responses, lambda: ResponsesDecoder(family=family), "responses")
        case "anthropic":
            messages = AnthropicWire(quirks, family=family, streaming=streaming)
            return Dialect(
                messages,
                lambda: AnthropicDecoder(family=family),
                "v1/messages",
                models_path="v1/models?limit=1000",
                headers={"anthropic-version": ANTHROPIC_VERSION},
            )


LEFT_OUT = TextBlock(text="[An image was here. You cannot see images, so it was left out.]")


class SightlessWire:
    """Another wire without images. Raises `ProviderError` where the endpoint does not say to leave them out."""

    canonical_form_version: ClassVar[int] = CANONICAL_FORM_VERSION

    def __init__(self, wire: Wire, endpoint: Endpoint) -> None:
        self._wire = wire
        self._endpoint = endpoint

    @property
    def name(self) -> str:
        return self._wire.name

    def head(self, prefix: PrefixSet) -> bytes:
        return self._wire.head(prefix)

    def message(self, message: Message) -> bytes:
        if not any(isinstance(block, ImageBlock) for block in message.content):
            return self._wire.message(message)
        if self._endpoint.quirks.images == "refuse":
            raise ProviderError("NoImages", provider=self._endpoint.name)
        kept = tuple(LEFT_OUT if isinstance(block, ImageBlock) else block for block in message.content)
        return self._wire.message(msgspec.structs.replace(message, content=kept))

    def tail(self, prefix: PrefixSet) -> bytes:
        return self._wire.tail(prefix)
