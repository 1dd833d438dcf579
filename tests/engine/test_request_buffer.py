"""A request costs what is new in it, and is the same bytes as one encoded from nothing."""

from typing import ClassVar

from bridle.engine.conversation import Conversation
from bridle.engine.steps import RequestBuffer, encode
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import Message, TextBlock, ToolSchema

TOOLS = (ToolSchema(name="bash", description="Runs a command.", input_schema={"type": "object"}),)


class CountingWire:
    canonical_form_version: ClassVar[int] = 1
    name = "counting"

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def head(self, prefix: PrefixSet) -> bytes:
        self.encoded.append("head")
        return f'{{"system":"{prefix.system}","messages":['.encode()

    def message(self, message: Message) -> bytes:
        self.encoded.append("message")
        return f'"{message.role}"'.encode()

    def tail(self, prefix: PrefixSet) -> bytes:
        self.encoded.append("tail")
        return f'],"tools":{len(prefix.tools)}}}'.encode()


def talked(tools: tuple[ToolSchema, ...]) -> Conversation:
    conversation = Conversation()
    conversation.prefix = PrefixSet(provider="work", model="m", system="s", tools=tools)
    conversation.messages = [Message(role="user", content=(TextBlock(text="hi"),))]
    return conversation


def test_a_later_step_encodes_only_the_messages_that_came_since():
    conversation, buffer, wire = talked(TOOLS), RequestBuffer(), CountingWire()
    buffer.body(conversation, wire)
    wire.encoded.clear()
    conversation.messages.append(Message(role="assistant", content=(TextBlock(text="Fine."),)))
    later = buffer.body(conversation, wire)
    assert wire.encoded == ["message"]
    assert later == encode(conversation, wire) == b'{"system":"s","messages":["user","assistant"],"tools":1}'


def test_other_tools_change_what_stands_behind_the_messages():
    conversation, buffer, wire = talked(TOOLS), RequestBuffer(), CountingWire()
    buffer.body(conversation, wire)
    conversation.prefix = PrefixSet(provider="work", model="m", system="s")
    assert (
        buffer.body(conversation, wire)
        == encode(conversation, wire)
        == b'{"system":"s","messages":["user"],"tools":0}'
    )
