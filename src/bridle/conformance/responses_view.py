"""A conversation as the items of OpenAI's Responses, and back without loss. For those who want that shape.

    {"type": "message", "role": "system", "content": text}
    {"type": "message", "role": "user", "content": parts {"type": "input_text"} and {"type": "input_image"}}
    {"type": "message", "role": "assistant", "content": text}
    {"type": "function_call", "call_id", "name", "arguments"}
    {"type": "function_call_output", "call_id", "output"}

Neighbouring items of the model are one message, and so are neighbouring outputs. What the shape has no word for travels
in the side field `bridle` of an item: `hidden` and `shown_as` as in the other view, `joined` where an item belongs to
the message before it against that rule, or does not, `tool` where an output names another tool than its call, and
`failed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from bridle.conformance.openai_view import SIDE_FIELD, Placed, Role, SideBlocks, segments, text_of, with_side
from bridle.protocol.messages import (
    AnyBlock,
    FileMention,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

ResponsesItem: TypeAlias = dict[str, Any]
_Voice: TypeAlias = Literal["person", "model", "output"]

_SHOWN_OF_MODEL: Final = (TextBlock, ToolUseBlock)
_ENCODER: Final = msgspec.json.Encoder()


class _Side(SideBlocks, frozen=True, omit_defaults=True):
    joined: bool | None = None
    tool: str | None = None
    failed: bool = False


def to_responses(messages: Iterable[Message], *, system: str = "") -> list[ResponsesItem]:
    """The conversation as items. `from_responses` gives back the very same."""
    view: list[ResponsesItem] = [{"type": "message", "role": "system", "content": system}] if system else []
    tools: dict[str, str] = {}
    before: _Voice | None = None
    for message in messages:
        for number, blocks in enumerate(segments(message, _begins_another)):
            item, side = _shown(message.role, blocks, tools)
            voice = _voice_of(item)
            if (number > 0) != _is_one_message(before, voice):
                side = msgspec.structs.replace(side, joined=number > 0)
            view.append({**item, SIDE_FIELD: msgspec.to_builtins(side)} if side != _Side() else item)
            before = voice
    return view


def from_responses(view: Iterable[Mapping[str, Any]]) -> tuple[str, tuple[Message, ...]]:
    """The system text and the messages of a conversation as items, whoever wrote it.

    Reasoning that others wrote is kept as a thought of no family. Raises `ValueError` for what has another shape.
    """
    system: list[str] = []
    messages: list[Message] = []
    tools: dict[str, str] = {}
    before: _Voice | None = None
    try:
        for item in view:
            if item.get("role") in {"system", "developer"}:
                system.append(text_of(item["content"]))
                continue
            side = msgspec.convert(item.get(SIDE_FIELD) or {}, _Side)
            blocks = tuple(with_side(list(_expressed(item, side, tools)), side))
            voice = _voice_of(item)
            joined = _is_one_message(before, voice) if side.joined is None else side.joined
            role: Role = "assistant" if voice == "model" else "user"
            if joined and messages and messages[-1].role == role:
                blocks = (*messages.pop().content, *blocks)
            messages.append(Message(role=role, content=blocks))
            before = voice
    except (LookupError, TypeError, AttributeError, msgspec.MsgspecError) as problem:
        raise ValueError(f"this is not a conversation in the shape of Responses ({problem})") from None
    return "\n\n".join(system), tuple(messages)


def _voice_of(item: Mapping[str, Any]) -> _Voice:
    match item.get("type", "message"):
        case "message":
            return "model" if item["role"] == "assistant" else "person"
        case "function_call" | "reasoning":
            return "model"
        case "function_call_output":
            return "output"
        case kind:
            raise TypeError(f"unknown item {kind!r}")


def _is_one_message(before: _Voice | None, voice: _Voice) -> bool:
    """Whether two neighbours are taken for one message where neither says anything else."""
    return before == voice != "person"


# Blocks to items


def _begins_another(role: Role, run: list[AnyBlock], block: AnyBlock) -> bool:
    """A result stands alone; of the model an item shows one block."""
    if role == "user":
        return isinstance(block, ToolResultBlock) or isinstance(run[0], ToolResultBlock)
    return isinstance(block, _SHOWN_OF_MODEL) and any(isinstance(one, _SHOWN_OF_MODEL) for one in run)


def _shown(role: Role, blocks: list[AnyBlock], tools: dict[str, str]) -> tuple[ResponsesItem, _Side]:
    match blocks:
        case [ToolResultBlock() as result] if role == "user":
            tool = None if tools.get(result.wire_id, "") == result.tool else result.tool
            item = {"type": "function_call_output", "call_id": result.wire_id, "output": result.text}
            return item, _Side(tool=tool, failed=result.failed)
        case _ if role == "user":
            return _user(blocks)
        case _:
            return _assistant(blocks, tools)


def _assistant(blocks: list[AnyBlock], tools: dict[str, str]) -> tuple[ResponsesItem, _Side]:
    item: ResponsesItem = {"type": "message", "role": "assistant", "content": []}
    hidden: Placed = []
    for place, block in enumerate(blocks):
        match block:
            case TextBlock():
                item["content"] = block.text
            case ToolUseBlock():
                tools[block.wire_id] = block.tool
                arguments = _ENCODER.encode(block.input).decode()
                item = {"type": "function_call", "call_id": block.wire_id}
                item |= {"name": block.tool, "arguments": arguments}
            case _:
                hidden.append((place, block))
    return item, _Side(hidden=hidden)


def _user(blocks: list[AnyBlock]) -> tuple[ResponsesItem, _Side]:
    parts: list[dict[str, Any]] = []
    hidden: Placed = []
    shown_as: Placed = []
    for place, block in enumerate(blocks):
        match block:
            case TextBlock():
                parts.append({"type": "input_text", "text": block.text})
            case ImageBlock():
                parts.append({"type": "input_image", "image_url": block.url, "detail": block.detail})
            case FileMention():
                parts.append({"type": "input_text", "text": f"@{block.path}"})
                shown_as.append((place, block))
            case _:
                hidden.append((place, block))
    return {"type": "message", "role": "user", "content": parts}, _Side(hidden=hidden, shown_as=shown_as)


# Items to blocks


def _expressed(item: Mapping[str, Any], side: _Side, tools: dict[str, str]) -> Iterator[AnyBlock]:
    """The blocks an item shows, in their order."""
    match item.get("type", "message"):
        case "function_call":
            tools[item["call_id"]] = item["name"]
            arguments = msgspec.json.decode(item["arguments"] or "{}", type=dict[str, Any])
            yield ToolUseBlock(wire_id=item["call_id"], tool=item["name"], input=arguments)
        case "function_call_output":
            call_id = item["call_id"]
            tool = tools.get(call_id, "") if side.tool is None else side.tool
            text = text_of(item["output"])
            yield ToolResultBlock(wire_id=call_id, tool=tool, text=text, failed=side.failed)
        case "reasoning":
            yield ThinkingBlock(family="", opaque=_ENCODER.encode(dict(item)).decode())
        case _ if isinstance(item["content"], str):
            yield TextBlock(text=item["content"])
        case _:
            yield from map(_part, cast("Iterable[Mapping[str, Any]]", item["content"]))


def _part(part: Mapping[str, Any]) -> AnyBlock:
    match part["type"]:
        case "input_text" | "output_text" | "text":
            return TextBlock(text=part["text"])
        case "refusal":
            return TextBlock(text=part["refusal"])
        case _:
            return ImageBlock(url=part["image_url"], detail=part.get("detail", "auto"))
