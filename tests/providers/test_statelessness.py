"""A wire is a pure function: what was encoded before changes nothing, and nothing of a history is left out."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from bridle.providers.endpoints import Quirks
from bridle.providers.openai_chat import ChatWire

texts = st.text(min_size=1, max_size=20)
people = texts.map(lambda text: Message(role="user", content=(TextBlock(text=text),)))
models = texts.map(lambda text: Message(role="assistant", content=(TextBlock(text=text),)))
messages = st.one_of(people, models)
PREFIX = PrefixSet(provider="work", model="some-model", system="Be brief.")


@pytest.mark.requirement("D8.7")
@given(st.lists(messages, max_size=6), messages)
def test_a_message_is_the_same_bytes_whatever_came_before(before: list[Message], message: Message) -> None:
    used, fresh = ChatWire(Quirks()), ChatWire(Quirks())
    for earlier in before:
        used.message(earlier)
    assert used.message(message) == fresh.message(message)
    assert (used.head(PREFIX), used.tail(PREFIX)) == (fresh.head(PREFIX), fresh.tail(PREFIX))


@pytest.mark.requirement("D8.7")
def test_a_long_history_arrives_whole() -> None:
    wire = ChatWire(Quirks())
    history: list[Message] = []
    for number in range(2_000):
        call = ToolUseBlock(wire_id=f"c{number}", tool="bash", input={"command": f"echo {number}"})
        result = ToolResultBlock(wire_id=f"c{number}", tool="bash", text="x" * 500)
        history += [Message(role="assistant", content=(call,)), Message(role="user", content=(result,))]
    body = wire.head(PREFIX) + b"," + b",".join(map(wire.message, history)) + wire.tail(PREFIX)
    sent = msgspec.json.decode(body)["messages"]
    assert len(sent) == 1 + len(history)
    assert all(len(each["content"]) == 500 for each in sent if each["role"] == "tool")
