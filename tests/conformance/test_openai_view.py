"""A conversation in OpenAI's shape: readable by anybody, and back again without loss."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from bridle.conformance.openai_view import SIDE_FIELD, from_openai, to_openai
from bridle.protocol.messages import (
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from conformance.view_kit import MESSAGES, TEXTS
from tables import table


@pytest.mark.requirement("D6.10")
@given(messages=MESSAGES, system=TEXTS)
def test_there_and_back_is_the_same_conversation(messages: list[Message], system: str) -> None:
    view = json.loads(json.dumps(to_openai(messages, system=system)))
    assert from_openai(view) == (system, tuple(messages))


@given(messages=MESSAGES)
def test_a_reader_who_knows_nothing_of_us_sees_the_shape(messages: list[Message]) -> None:
    for shown in to_openai(messages):
        assert (
            shown.keys() - {SIDE_FIELD}
            <= {
                "user": {"role", "content"},
                "assistant": {"role", "content", "tool_calls"},
                "tool": {"role", "tool_call_id", "name", "content", "is_error"},
            }[shown["role"]]
        )


@pytest.mark.requirement("D6.10")
def test_an_ordinary_turn_needs_nothing_beside_it() -> None:
    messages = (
        Message(role="user", content=(TextBlock(text="Look."), ImageBlock(url="data:,a", detail="low"))),
        Message(
            role="assistant",
            content=(
                TextBlock(text="I look."),
                ToolUseBlock(wire_id="a", tool="read_file", input={"path": "a"}),
            ),
        ),
        Message(
            role="user", content=(ToolResultBlock(wire_id="a", tool="read_file", text="no", failed=True),)
        ),
    )
    assert to_openai(messages, system="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look."},
                {"type": "image_url", "image_url": {"url": "data:,a", "detail": "low"}},
            ],
        },
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "read_file", "arguments": '{"path":"a"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "a", "name": "read_file", "content": "no", "is_error": True},
    ]


def test_what_others_wrote_is_read() -> None:
    view: list[dict[str, Any]] = [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "Hi."},
        {
            "role": "assistant",
            "tool_calls": [{"id": "a", "function": {"name": "ls", "arguments": ""}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "a.txt"},
    ]
    assert from_openai(view) == (
        "Be brief.",
        (
            Message(role="user", content=(TextBlock(text="Hi."),)),
            Message(role="assistant", content=(ToolUseBlock(wire_id="a", tool="ls", input={}),)),
            Message(role="user", content=(ToolResultBlock(wire_id="a", tool="", text="a.txt"),)),
        ),
    )


@table(
    "shown",
    [
        {},
        {"role": "tool", "content": "x"},
        {"role": "user", "content": [{"type": "audio"}]},
        {"role": "user", "content": 5},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": {"name": "x"}}]},
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "x", "arguments": "["}}]},
        {"role": "user", "content": "a", "bridle": {"hidden": [[0, {"type": "nonsense"}]]}},
        {"role": "user", "content": "a", "bridle": {"shown_as": [[7, {"type": "text", "text": "x"}]]}},
    ],
)
def test_another_shape_is_refused_with_one_clause(shown: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="this is not a conversation in OpenAI's shape"):
        from_openai([shown])


def test_the_side_field_is_plain_json() -> None:
    message = Message(
        role="assistant", content=(ThinkingBlock(family="f", opaque="o"), TextBlock(text="Hi."))
    )
    (shown,) = to_openai([message])
    assert msgspec.json.decode(msgspec.json.encode(shown)) == {
        "role": "assistant",
        "content": "Hi.",
        "bridle": {"hidden": [[0, {"type": "thinking", "family": "f", "opaque": "o"}]]},
    }
