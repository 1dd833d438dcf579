"""The wires as data: where a request goes, who encodes it, who reads the answer. Only what is spoken is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

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
    from bridle.providers.sightless import SightlessWire

    return msgspec.structs.replace(spoken, wire=SightlessWire(spoken.wire, endpoint))


def _spoken(endpoint: Endpoint, *, streaming: bool) -> Dialect:
    quirks, family = endpoint.quirks, endpoint.family
    match endpoint.wire:
        case "openai_chat":
            from bridle.providers.openai_chat import ChatDecoder, ChatWire

            chat = ChatWire(quirks, streaming=streaming)
            return Dialect(chat, lambda: ChatDecoder(quirks), "chat/completions")
        case "openai_responses":
            from bridle.providers.openai_responses import ResponsesDecoder, ResponsesWire

            responses = ResponsesWire(quirks, family=family, streaming=streaming)
            return Dialect(responses, lambda: ResponsesDecoder(family=family), "responses")
        case "anthropic":
            from bridle.providers.anthropic import AnthropicDecoder, AnthropicWire

            messages = AnthropicWire(quirks, family=family, streaming=streaming)
            return Dialect(
                messages,
                lambda: AnthropicDecoder(family=family),
                "v1/messages",
                models_path="v1/models?limit=1000",
                headers={"anthropic-version": ANTHROPIC_VERSION},
            )
