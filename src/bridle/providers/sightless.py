"""The wire to models that read no images: a message with one is refused, or goes without it where settings say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

from bridle.protocol.errors import ProviderError
from bridle.protocol.messages import CANONICAL_FORM_VERSION, ImageBlock, Message, TextBlock

if TYPE_CHECKING:
    from bridle.engine.ports import Wire
    from bridle.protocol.events import PrefixSet
    from bridle.providers.endpoints import Endpoint

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
