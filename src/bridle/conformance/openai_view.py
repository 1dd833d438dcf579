"""A conversation in OpenAI's shape, and back without loss. For those who want that shape; blocks stay the truth.

    {"role": "system", "content": text}
    {"role": "user", "content": text, or parts {"type": "text"} and {"type": "image_url"}}
    {"role": "assistant", "content": text or None, "tool_calls": [{"id", "type": "function", "function": {…}}]}
    {"role": "tool", "tool_call_id", "name", "content", "is_error" when it failed}

What the shape has no word for travels in a side field `bridle` of the message it belongs to, and a reader that does
not know it loses nothing else: `hidden` are blocks that are not shown at all, `shown_as` blocks that are shown as
something else, each with its place; `joined` says that a message continues the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from bridle.protocol.messages import (
    AnyBlock,
    FileMention,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)

SIDE_FIELD: Final = "bridle"
OpenAIMessage: TypeAlias = dict[str, Any]
Role: TypeAlias = Literal["user", "assistant"]


Placed: TypeAlias = list[tuple[int, AnyBlock]]
"""Blocks, each with its place among those of one message or item."""


class SideBlocks(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a view has no word for, beside what it shows."""

    hidden: Placed = []
    shown_as: Placed = []


class _Side(SideBlocks, frozen=True, omit_defaults=True):
    joined: Role | None = None


def to_openai(messages: Iterable[Message], *, system: str = "") -> list[OpenAIMessage]:
    """The conversation in OpenAI's shape. `from_openai` gives back the very same."""
    view: list[OpenAIMessage] = [{"role": "system", "content": system}] if system else []
    for message in messages:
        for number, blocks in enumerate(segments(message, _begins_another)):
            view.append(_shown(message.role, blocks, joined=number > 0))
    return view


def from_openai(view: Iterable[Mapping[str, Any]]) -> tuple[str, tuple[Message, ...]]:
    """The system text and the messages of a conversation in OpenAI's shape, whoever wrote it.

    Raises `ValueError` for what has another shape.
    """
    system: list[str] = []
    messages: list[Message] = []
    try:
        for shown in view:
            if shown["role"] in {"system", "developer"}:
                system.append(text_of(shown["content"]))
                continue
            side = msgspec.convert(shown.get(SIDE_FIELD) or {}, _Side)
            role: Role = side.joined or ("assistant" if shown["role"] == "assistant" else "user")
            blocks = tuple(with_side(list(_expressed(shown)), side))
            if side.joined and messages and messages[-1].role == role:
                blocks = (*messages.pop().content, *blocks)
            messages.append(Message(role=role, content=blocks))
    except (LookupError, TypeError, AttributeError, msgspec.MsgspecError) as problem:
        raise ValueError(f"this is not a conversation in OpenAI's shape ({problem})") from None
    return "\n\n".join(system), tuple(messages)


# Blocks to OpenAI's shape


def segments(
    message: Message, begins_another: Callable[[Role, list[AnyBlock], AnyBlock], bool]
) -> Iterator[list[AnyBlock]]:
    """The blocks in runs that one message or item of a shape can hold; at least one run."""
    run: list[AnyBlock] = []
    for block in message.content:
        if run and begins_another(message.role, run, block):
            yield run
            run = []
        run.append(block)
    yield run


def _begins_another(role: Role, run: list[AnyBlock], block: AnyBlock) -> bool:
    """A result stands alone; the text of an answer stands before its calls."""
    if role == "user":
        return isinstance(block, ToolResultBlock) or any(isinstance(one, ToolResultBlock) for one in run)
    return isinstance(block, TextBlock) and any(isinstance(one, TextBlock | ToolUseBlock) for one in run)


def _shown(role: Role, blocks: list[AnyBlock], *, joined: bool) -> OpenAIMessage:
    match blocks:
        case [ToolResultBlock() as result] if role == "user":
            made, hidden, shown_as = _result(result), [], []
        case _ if role == "user":
            made, hidden, shown_as = _user(blocks)
        case _:
            made, hidden, shown_as = _assistant(blocks)
    side = _Side(hidden=hidden, shown_as=shown_as, joined=role if joined else None)
    return {**made, SIDE_FIELD: msgspec.to_builtins(side)} if side != _Side() else made


def _assistant(blocks: list[AnyBlock]) -> tuple[OpenAIMessage, Placed, Placed]:
    text: str | None = None
    calls: list[dict[str, Any]] = []
    hidden: Placed = []
    for place, block in enumerate(blocks):
        match block:
            case TextBlock():
                text = block.text
            case ToolUseBlock():
                function = {"name": block.tool, "arguments": msgspec.json.encode(block.input).decode()}
                calls.append({"id": block.wire_id, "type": "function", "function": function})
            case _:
                hidden.append((place, block))
    made: OpenAIMessage = {"role": "assistant", "content": text}
    return ({**made, "tool_calls": calls} if calls else made), hidden, []


def _result(result: ToolResultBlock) -> OpenAIMessage:
    made: OpenAIMessage = {"role": "tool", "tool_call_id": result.wire_id, "name": result.tool}
    made["content"] = result.text
    return {**made, "is_error": True} if result.failed else made


def _user(blocks: list[AnyBlock]) -> tuple[OpenAIMessage, Placed, Placed]:
    parts: list[dict[str, Any]] = []
    hidden: Placed = []
    shown_as: Placed = []
    for place, block in enumerate(blocks):
        match block:
            case TextBlock():
                parts.append({"type": "text", "text": block.text})
            case ImageBlock():
                image = {"url": block.url, "detail": block.detail}
                parts.append({"type": "image_url", "image_url": image})
            case FileMention():
                parts.append({"type": "text", "text": f"@{block.path}"})
                shown_as.append((place, block))
            case _:
                hidden.append((place, block))
    alone = len(parts) == 1 and parts[0]["type"] == "text"
    return {"role": "user", "content": parts[0]["text"] if alone else parts}, hidden, shown_as


# OpenAI's shape to blocks


def _expressed(shown: Mapping[str, Any]) -> Iterator[AnyBlock]:
    """The blocks a message shows, in their order."""
    content: Any = shown.get("content")
    if shown["role"] == "tool":
        yield ToolResultBlock(
            wire_id=shown["tool_call_id"],
            tool=shown.get("name", ""),
            text=text_of(content),
            failed=bool(shown.get("is_error", False)),
        )
        return
    if isinstance(content, str):
        yield TextBlock(text=content)
    else:
        for part in cast("Iterable[Mapping[str, Any]]", content or ()):
            yield _part(part)
    for call in shown.get("tool_calls") or ():
        arguments = msgspec.json.decode(call["function"]["arguments"] or "{}", type=dict[str, Any])
        yield ToolUseBlock(wire_id=call["id"], tool=call["function"]["name"], input=arguments)


def _part(part: Mapping[str, Any]) -> AnyBlock:
    if part["type"] == "text":
        return TextBlock(text=part["text"])
    image = part["image_url"]
    return ImageBlock(url=image["url"], detail=image.get("detail", "auto"))


def with_side(blocks: list[AnyBlock], side: SideBlocks) -> list[AnyBlock]:
    """The blocks that are shown, with those beside them at their places."""
    for place, block in side.hidden:
        blocks.insert(place, block)
    for place, block in side.shown_as:
        blocks[place] = block
    return blocks


def text_of(content: Any) -> str:
    """A text that is given as such or in parts."""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in cast("Iterable[Mapping[str, Any]]", content or ()))
