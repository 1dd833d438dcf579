"""What the model reads: typed content blocks, and the prefix that stands before them.

This is the canonical form, version 1. Wires translate it into a provider's JSON and back; nothing else does.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

CANONICAL_FORM_VERSION = 1


class Block(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """One piece of a message. Defined only in this file."""


class TextBlock(Block, frozen=True, tag="text"):
    text: str


class ImageBlock(Block, frozen=True, tag="image"):
    """An image as a `data:` or `https:` address."""

    url: str
    detail: Literal["auto", "low", "high"] = "auto"


class FileMention(Block, frozen=True, tag="file_mention"):
    """A file the person pointed at with `@path`; its text arrives as `ContextAdded`."""

    path: str


class ThinkingBlock(Block, frozen=True, tag="thinking"):
    """Reasoning as the provider gave it: opaque, stamped with the family that may read it again."""

    family: str
    opaque: str


class ToolUseBlock(Block, frozen=True, tag="tool_use"):
    """A tool call. `wire_id` is what the provider sees; our own call id never leaves the log."""

    wire_id: str
    tool: str
    input: dict[str, Any]


class ToolResultBlock(Block, frozen=True, tag="tool_result"):
    wire_id: str
    tool: str
    text: str
    failed: bool = False


class YieldBlock(Block, frozen=True, tag="yield"):
    """The model hands the turn back although it could go on."""


AnyBlock: TypeAlias = (
    TextBlock | ImageBlock | FileMention | ThinkingBlock | ToolUseBlock | ToolResultBlock | YieldBlock
)
InputBlock: TypeAlias = TextBlock | ImageBlock | FileMention


class Message(msgspec.Struct, frozen=True, kw_only=True):
    role: Literal["user", "assistant"]
    content: tuple[AnyBlock, ...]


class ToolSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the model is told about it. Guidance only: input is validated again when it arrives."""

    name: str
    description: str
    input_schema: dict[str, Any]


Effort: TypeAlias = Literal["off", "low", "medium", "high", "max"]
"""How much a model thinks."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a request asks of the model. `answer_schema` is the JSON Schema that an answer without calls is to fit."""

    max_tokens: int | None = None
    temperature: float | None = None
    effort: Effort | None = None
    answer_schema: dict[str, Any] | None = None


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


StopReason: TypeAlias = Literal["end_turn", "tool_use", "max_tokens", "content_filter", "error"]
"""Why a model stopped. `tool_use` if and only if the step has calls."""
