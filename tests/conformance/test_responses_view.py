"""A conversation as the items of Responses: readable by anybody, and back again without loss."""

import json
from typing import Any

import pytest
from hypothesis import example, given

from bridle.conformance.openai_view import SIDE_FIELD, from_openai, to_openai
from bridle.conformance.responses_view import from_responses, to_responses
from bridle.protocol.messages import (
    FileMention,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    YieldBlock,
)
from conformance.view_kit import MESSAGES, TEXTS
from tables import table

TEXT = TextBlock(text="Hi.")
USE = ToolUseBlock(wire_id="a", tool="ls", input={})
DONE = ToolResultBlock(wire_id="a", tool="ls", text="a.txt")
THOUGHT = ThinkingBlock(family="f", opaque="o")


def said(role: Any, *blocks: Any) -> Message:
    return Message(role=role, content=blocks)


@pytest.mark.requirement("C3")
@given(messages=MESSAGES, system=TEXTS)
@example(messages=[said("assistant", TEXT), said("assistant", TEXT), said("assistant")], system="")
@example(messages=[said("user", DONE), said("user", DONE, DONE), said("user", TEXT, DONE, TEXT)], system="s")
@example(messages=[said("assistant", THOUGHT, USE, USE, THOUGHT), said("user", DONE, THOUGHT)], system="")
@example(
    messages=[said("assistant", DONE, FileMention(path="a")), said("user", USE, YieldBlock())], system=""
)
def test_every_view_and_back_is_the_same_conversation(messages: list[Message], system: str) -> None:
    whole = (system, tuple(messages))
    assert from_openai(json.loads(json.dumps(to_openai(messages, system=system)))) == whole
    assert from_responses(json.loads(json.dumps(to_responses(messages, system=system)))) == whole


@given(messages=MESSAGES)
def test_a_reader_who_knows_nothing_of_us_sees_the_shape(messages: list[Message]) -> None:
    for item in to_responses(messages):
        assert (
            item.keys() - {SIDE_FIELD}
            == {
                "message": {"type", "role", "content"},
                "function_call": {"type", "call_id", "name", "arguments"},
                "function_call_output": {"type", "call_id", "output"},
            }[item["type"]]
        )


def test_an_ordinary_turn_needs_nothing_beside_it() -> None:
    again = ToolUseBlock(wire_id="b", tool="read_file", input={"path": "a"})
    messages = (
        said("user", TextBlock(text="Look."), ImageBlock(url="data:,a", detail="low")),
        said("assistant", TextBlock(text="I look."), USE, again),
        said("user", DONE, ToolResultBlock(wire_id="b", tool="read_file", text="one")),
        said("assistant", TextBlock(text="Done.")),
        said("user", TextBlock(text="Thanks.")),
    )
    assert to_responses(messages, system="Be brief.") == [
        {"type": "message", "role": "system", "content": "Be brief."},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look."},
                {"type": "input_image", "image_url": "data:,a", "detail": "low"},
            ],
        },
        {"type": "message", "role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "a", "name": "ls", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "read_file", "arguments": '{"path":"a"}'},
        {"type": "function_call_output", "call_id": "a", "output": "a.txt"},
        {"type": "function_call_output", "call_id": "b", "output": "one"},
        {"type": "message", "role": "assistant", "content": "Done."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Thanks."}]},
    ]


def test_what_the_shape_has_no_word_for_stands_beside_it() -> None:
    failed = ToolResultBlock(wire_id="a", tool="ls", text="no", failed=True)
    view = to_responses([said("assistant", THOUGHT, USE), said("user", failed)])
    call, output = json.loads(json.dumps(view))
    assert call[SIDE_FIELD] == {"hidden": [[0, {"type": "thinking", "family": "f", "opaque": "o"}]]}
    assert output[SIDE_FIELD] == {"failed": True}


def test_what_others_wrote_is_read() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    answered = [
        {"type": "output_text", "text": "Hm.", "annotations": []},
        {"type": "refusal", "refusal": "No."},
    ]
    view: list[dict[str, Any]] = [
        {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"role": "user", "content": "Hi."},
        {"role": "user", "content": "Hi."},
        reasoning,
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "ls", "arguments": ""},
        {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "a.txt"}]},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": answered},
    ]
    thought = ThinkingBlock(family="", opaque=json.dumps(reasoning, separators=(",", ":")))
    messages = (
        said("user", TEXT),
        said("user", TEXT),
        said("assistant", thought, USE),
        said("user", DONE),
        said("assistant", TextBlock(text="Hm."), TextBlock(text="No.")),
    )
    assert from_responses(view) == ("Be brief.", messages)


@table(
    "item",
    [
        {},
        {"type": "function_call_output", "output": "x"},
        {"type": "item_reference", "id": "msg_1"},
        {"role": "user", "content": [{"type": "input_audio"}]},
        {"role": "user", "content": 5},
        {"type": "function_call", "call_id": "a", "name": "x", "arguments": "["},
        {"role": "user", "content": "a", "bridle": {"hidden": [[0, {"type": "nonsense"}]]}},
        {"role": "user", "content": "a", "bridle": {"shown_as": [[7, {"type": "text", "text": "x"}]]}},
    ],
)
def test_another_shape_is_refused_with_one_clause(item: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="this is not a conversation in the shape of Responses"):
        from_responses([item])
