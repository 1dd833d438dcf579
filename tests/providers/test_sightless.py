"""A wire to models that read no images: what is refused leaves nothing half encoded."""

import pytest

from bridle.engine.conversation import Conversation
from bridle.engine.steps import RequestBuffer, encode
from bridle.protocol.errors import ProviderError
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import ImageBlock, Message, TextBlock
from bridle.providers.endpoints import Endpoint, Quirks
from bridle.providers.wires import dialect


def endpoint(images: str) -> Endpoint:
    return Endpoint(name="work", base_url="http://127.0.0.1/v1", quirks=Quirks(images=images))  # pyright: ignore[reportArgumentType]


def talked() -> Conversation:
    conversation = Conversation()
    conversation.prefix = PrefixSet(provider="work", model="m", system="s")
    conversation.messages = [Message(role="user", content=(TextBlock(text="only words"),))]
    return conversation


def test_a_refused_image_does_not_disturb_what_was_encoded_before_it() -> None:
    conversation, buffer = talked(), RequestBuffer()
    conversation.messages.append(Message(role="assistant", content=(TextBlock(text="Fine."),)))
    conversation.messages.append(
        Message(role="user", content=(TextBlock(text="look"), ImageBlock(url="data:image/png;base64,AA=="))),
    )
    refusing = dialect(endpoint("refuse")).wire
    for _ in range(2):
        with pytest.raises(ProviderError) as refused:
            buffer.body(conversation, refusing)
        assert refused.value.reason == "NoImages"
    conversation.messages.pop()
    assert buffer.body(conversation, refusing) == encode(conversation, refusing)


def test_words_are_the_same_bytes_with_and_without_eyes() -> None:
    conversation = talked()
    seeing = encode(conversation, dialect(endpoint("send")).wire)
    assert encode(conversation, dialect(endpoint("refuse")).wire) == seeing
    assert encode(conversation, dialect(endpoint("leave_out")).wire) == seeing
