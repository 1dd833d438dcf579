"""The request as bytes, built by appending: a step costs what is new, not what there is.

`RequestBuffer` and `encode` give the same bytes; the first one remembers what it has encoded already.
"""

from __future__ import annotations

from bridle.engine.conversation import Conversation
from bridle.engine.ports import Wire
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import CANONICAL_FORM_VERSION


class RequestBuffer:
    """Holds the encoded head and messages of one conversation, and encodes only what came since."""

    def __init__(self) -> None:
        self._key: tuple[str, PrefixSet | None, int] = ("", None, -1)
        self._buffer = bytearray()
        self._encoded = 0

    def body(self, conversation: Conversation, wire: Wire) -> bytes:
        prefix = conversation.prefix
        assert prefix is not None, "a request layer sets the prefix before the first request"
        assert wire.canonical_form_version == CANONICAL_FORM_VERSION, f"{wire.name} translates another form"
        key = (wire.name, prefix, conversation.epoch)
        if key[0] != self._key[0] or key[1] is not self._key[1] or key[2] != self._key[2]:
            self._key = key
            self._buffer = bytearray(wire.head(prefix))
            self._encoded = 0
        for message in conversation.messages[self._encoded :]:
            encoded = wire.message(message)  # may refuse; what is in the buffer by then is counted
            if encoded:
                if not self._buffer.endswith(b"["):
                    self._buffer += b","
                self._buffer += encoded
            self._encoded += 1
        return b"".join((self._buffer, wire.tail(prefix)))


def encode(conversation: Conversation, wire: Wire) -> bytes:
    """The request of a conversation from nothing; what a resumed session sends."""
    return RequestBuffer().body(conversation, wire)
