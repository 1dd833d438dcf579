"""The request as bytes, built by appending: a step costs what is new, not what there is.

`RequestBuffer` and `encode` give the same bytes; the first one remembers what it has encoded already.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridle.engine.conversation import Conversation
from bridle.engine.ports import Wire
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import CANONICAL_FORM_VERSION, Message


class RequestBuffer:
    """Holds the encoded head, messages and tail of one conversation, and encodes only what came since."""

    def __init__(self) -> None:
        self._key: tuple[str, PrefixSet | None, int] = ("", None, -1)
        self._buffer = bytearray()
        self._tail = b""
        self._encoded = 0

    def body(self, conversation: Conversation, wire: Wire) -> bytes:
        prefix = conversation.prefix
        assert prefix is not None, "a request layer sets the prefix before the first request"
        assert wire.canonical_form_version == CANONICAL_FORM_VERSION, f"{wire.name} translates another form"
        key = (wire.name, prefix, conversation.epoch)
        if key[0] != self._key[0] or key[1] is not self._key[1] or key[2] != self._key[2]:
            self._key = key
            self._buffer, self._tail = bytearray(wire.head(prefix)), wire.tail(prefix)
            self._encoded = 0
        for message in conversation.messages[self._encoded :]:
            _append(self._buffer, message, wire)  # may refuse; what is in the buffer by then is counted
            self._encoded += 1
        return b"".join((self._buffer, self._tail))


def encode(conversation: Conversation, wire: Wire) -> bytes:
    """The request of a conversation from nothing; what a resumed session sends."""
    return RequestBuffer().body(conversation, wire)


def encode_aside(prefix: PrefixSet, messages: Iterable[Message], wire: Wire) -> bytes:
    """A request of its own, beside any conversation."""
    buffer = bytearray(wire.head(prefix))
    for message in messages:
        _append(buffer, message, wire)
    return b"".join((buffer, wire.tail(prefix)))


def _append(buffer: bytearray, message: Message, wire: Wire) -> None:
    encoded = wire.message(message)
    if encoded:
        if not buffer.endswith(b"["):
            buffer += b","
        buffer += encoded
