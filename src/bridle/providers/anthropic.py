"""Anthropic's Messages protocol as a pure pair: messages to request bytes, stream to model parts.

A request only grows: the cache mark of the prefix stands on the system text, and the mark that moves with the last
message is the vendor's own automatic one, asked for behind the messages. `remote.py` sends and reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Final, cast

import msgspec

from bridle.engine.ports import ModelPart, ModelThought
from bridle.engine.sizes import AnswerRoom
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import (
    FileMention,
    ImageBlock,
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolSchema,
    ToolUseBlock,
    Usage,
    YieldBlock,
)
from bridle.providers.answers import (
    CUT,
    EMPTY,
    NO_ANSWER,
    REPORTED,
    AnswerFault,
    AnswerPosition,
    GatheredText,
    PartialCall,
    StreamedText,
    count,
    ending,
    pieces,
    read_frame,
    strict_id,
    thought,
    whole,
    without_last_thoughts,
)
from bridle.providers.endpoints import STANDARD, Quirks, is_closed, sent_schema
from bridle.providers.failures import as_text, vendor_error

DEFAULT_MAX_TOKENS: Final = 8192
LEAST_BUDGET: Final = 1024

_BUDGETS: Final = {"low": 2048, "medium": 8192, "high": 16_384, "max": 32_000}
"""How many tokens an effort may think for; an answer has its own on top of them."""
_EFFORTS: Final = {"off": "low", "low": "low", "medium": "medium", "high": "high", "max": "max"}
_CACHED: Final = {"type": "ephemeral"}
_ENCODER: Final = msgspec.json.Encoder()

# Requests


class AnthropicWire:
    """The request: model and limits, system text, tools, messages. Thoughts go back to `family` only."""

    canonical_form_version: ClassVar[int] = 1

    def __init__(self, quirks: Quirks = STANDARD, *, family: str = "", streaming: bool = True) -> None:
        self._quirks = quirks
        self._family = family
        self._streaming = streaming

    @property
    def name(self) -> str:
        return "anthropic"

    def head(self, prefix: PrefixSet) -> bytes:
        fields = {"model": prefix.model, **_limits(prefix, self._quirks), **_prompt(prefix, self._quirks)}
        return _ENCODER.encode(fields).removesuffix(b"}") + b',"messages":['

    def message(self, message: Message) -> bytes:
        """The message as one JSON object. Empty if nothing is left of it."""
        content = self._assistant(message) if message.role == "assistant" else _user(message)
        return _ENCODER.encode({"role": message.role, "content": content}) if content else b""

    def tail(self, prefix: PrefixSet) -> bytes:
        fields: dict[str, Any] = {"stream": True} if self._streaming else {}
        if not self._quirks.omit_cache_hints:
            fields["cache_control"] = _CACHED
        return b"]" + (b"," + _ENCODER.encode(fields)[1:] if fields else b"}")

    def _assistant(self, message: Message) -> list[Any]:
        """Thoughts, text and calls in the order they had. Text without a letter would be refused."""
        made: list[Any] = []
        for piece in pieces(message.content, self._family):
            match piece:
                case str():
                    made += [{"type": "text", "text": piece}] if piece.strip() else []
                case ToolUseBlock():
                    call_id = strict_id(piece.wire_id)
                    made.append({"type": "tool_use", "id": call_id, "name": piece.tool, "input": piece.input})
                case _:
                    made.append(piece)
        return without_last_thoughts(made)


def default_max_tokens(effort: str | None) -> int:
    """How long an answer may be where nobody says: the protocol wants a number."""
    return DEFAULT_MAX_TOKENS + _BUDGETS.get(effort or "", 0)


def _limits(prefix: PrefixSet, quirks: Quirks) -> dict[str, Any]:
    """How long an answer may be, and how much is thought before it."""
    parameters = prefix.parameters
    effort = parameters.effort
    thinks = effort in _BUDGETS
    reserve = _BUDGETS.get(effort or "", 0)
    most = parameters.max_tokens or default_max_tokens(effort)
    fields: dict[str, Any] = {"max_tokens": most}
    if any(fnmatchcase(prefix.model, pattern) for pattern in quirks.budget_models):
        budget = reserve if parameters.max_tokens is None else min(reserve, most // 2)
        thinks = budget >= LEAST_BUDGET
        if thinks:
            fields["thinking"] = {"type": "enabled", "budget_tokens": budget}
    elif effort is not None:
        if thinks:
            fields["thinking"] = {"type": "adaptive", "display": "summarized"}
        fields["output_config"] = {"effort": quirks.effort_words.get(effort) or _EFFORTS[effort]}
    schema = sent_schema(prefix, quirks)
    if schema is not None and is_closed(schema, optional=True):  # any other would be refused
        format_ = {"type": "json_schema", "schema": schema}
        fields["output_config"] = {**fields.get("output_config", {}), "format": format_}
    # A model that thinks takes no temperature.
    if parameters.temperature is not None and not quirks.omit_temperature and not thinks:
        fields["temperature"] = parameters.temperature
    return fields


def _prompt(prefix: PrefixSet, quirks: Quirks) -> dict[str, Any]:
    """System text and tools. The cache holds everything up to its mark; the system text comes after the tools."""
    fields: dict[str, Any] = {}
    mark = {} if quirks.omit_cache_hints else {"cache_control": _CACHED}
    if prefix.system:
        fields["system"] = [{"type": "text", "text": prefix.system, **mark}]
    if prefix.tools:
        tools = [_tool(tool) for tool in prefix.tools]
        if not prefix.system:
            tools[-1] |= mark
        fields["tools"] = tools
        if not quirks.omit_tool_choice:
            fields["tool_choice"] = {"type": "auto"}
    return fields


def _tool(tool: ToolSchema) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}


def _user(message: Message) -> list[dict[str, Any]]:
    """Results first, right behind the calls they answer; then what the person said."""
    results: list[dict[str, Any]] = []
    said: list[dict[str, Any]] = []
    for block in message.content:
        match block:
            case ToolResultBlock():
                results.append(_result(block))
            case TextBlock():
                said += [{"type": "text", "text": block.text}] if block.text.strip() else []
            case FileMention():
                said.append({"type": "text", "text": f"@{block.path}"})
            case ImageBlock():
                said.append({"type": "image", "source": _image(block.url)})
            case ThinkingBlock() | ToolUseBlock() | YieldBlock():
                pass
    return [*results, *said]


def _result(block: ToolResultBlock) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": strict_id(block.wire_id),
        "content": block.text,
    }
    return {**made, "is_error": True} if block.failed else made


def _image(url: str) -> dict[str, Any]:
    head, comma, data = url.partition(",")
    kind, _, encoding = head.removeprefix("data:").rpartition(";")
    if head.startswith("data:") and comma and encoding == "base64":
        return {"type": "base64", "media_type": kind, "data": data}
    return {"type": "url", "url": url}


# Answers


class _Delta(msgspec.Struct, gc=False):
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class _Event(msgspec.Struct, gc=False):
    """An event of a stream, or the whole message of an answer that was not streamed."""

    type: str = ""
    index: int | None = None
    delta: _Delta | None = None
    content_block: dict[str, Any] | None = None
    message: dict[str, Any] | str | None = None
    usage: dict[str, Any] | None = None
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    error: Any = None


_EVENT: Final = msgspec.json.Decoder(_Event)

_STOPS: Final[dict[str, StopReason]] = {
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "content_filter",
}
"""Stop reasons that mean more than "done"; whether calls were made is seen, not believed."""

_STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""What an error inside a stream would have been as a status."""


class _Thinking:
    """A thought that is still being told: its block as it began, and what was added since."""

    def __init__(self, block: dict[str, Any], place: AnswerPosition, room: AnswerRoom) -> None:
        self.block = block
        self.place = place
        self._room = room
        self._added: dict[str, GatheredText] = {}

    def add(self, field: str, text: str) -> None:
        if field not in self._added:
            self._added[field] = GatheredText(self._room)
        self._added[field].add(text)

    def whole(self) -> dict[str, Any]:
        more = {name: as_text(self.block.get(name)) + str(text) for name, text in self._added.items()}
        return {**self.block, **{name: whole(text) for name, text in more.items()}}


class AnthropicDecoder:
    """A Messages answer as a `Decoder`. It ends with `message_stop`, or with the stream once a stop reason came."""

    def __init__(self, *, family: str = "") -> None:
        self.is_done = False
        self.room = AnswerRoom()
        self._family = family
        self._calls: list[PartialCall] = []
        self._open: dict[int, PartialCall | _Thinking] = {}
        self._thoughts: list[_Thinking] = []
        self._stop: str | None = None
        self._usage: dict[str, Any] = {}
        self._answered = False
        self._texts = StreamedText()

    @property
    def is_told(self) -> bool:
        return self._stop is not None

    def feed(self, frames: Iterable[str]) -> list[ModelPart]:
        for data in frames:
            if self.is_done:
                break
            event = read_frame(_EVENT, data)
            match event.type:
                case "content_block_delta":
                    self._take_delta(event.index or 0, event.delta or _Delta())
                case "content_block_start":
                    self.room.take(len(data))
                    self._begin(event.index or 0, event.content_block or {})
                case "message_start":
                    self._answered = True
                    if isinstance(event.message, dict):
                        self._spend(event.message.get("usage"))
                case "message_delta":
                    self._stop = (event.delta and event.delta.stop_reason) or self._stop
                    self._spend(event.usage)
                case "message_stop":
                    return self._complete()
                case "message":
                    self._take_whole(event)
                case "error":
                    self._fail(data)
                case _ if event.error:  # a gateway's own form
                    self._fail(data)
                case _:
                    pass  # a ping, or what is new since this was written
        return self._texts.taken()

    def finish(self) -> list[ModelPart]:
        if self.is_done:
            return []
        if self._stop is None:
            raise AnswerFault(CUT if self._answered else EMPTY)
        return self._complete()

    def _complete(self) -> list[ModelPart]:
        if not self._answered:
            raise AnswerFault(NO_ANSWER)
        self.is_done = True
        stop = _STOPS.get(self._stop or "", "end_turn")
        thoughts = () if stop == "content_filter" else tuple(self._finished_thoughts())
        return ending(self._texts, self._calls, stop=stop, usage=_usage(self._usage), thoughts=thoughts)

    def _finished_thoughts(self) -> Iterator[ModelThought]:
        """What the vendor signed. A thought without a signature was not finished, and would be refused."""
        for each in self._thoughts:
            block = each.whole()
            if block.get("signature") or block.get("type") == "redacted_thinking":
                yield thought(self._family, block, each.place)

    def _begin(self, index: int, block: dict[str, Any]) -> None:
        self._answered = True
        match block.get("type"):
            case "text":
                self._say("text", block.get("text"))
            case "thinking" | "redacted_thinking":
                opened = _Thinking(block, AnswerPosition(self._texts.said, len(self._calls)), self.room)
                self._open[index] = opened
                self._thoughts.append(opened)
                self._say("thinking", block.get("thinking"))
            case "tool_use":
                call = PartialCall(self.room)
                call.name(as_text(block.get("id")), as_text(block.get("name")))
                given = block.get("input")
                if isinstance(given, dict) and given:
                    call.add(cast("dict[str, Any]", given))
                self._open[index] = call
                self._calls.append(call)
            case _:
                pass

    def _take_delta(self, index: int, delta: _Delta) -> None:
        if delta.text:
            self._texts.add("text", delta.text)
        if delta.thinking:
            self._texts.add("thinking", delta.thinking)
        match self._open.get(index):
            case PartialCall() as call if delta.partial_json:
                call.add(delta.partial_json)
            case _Thinking() as opened:
                if delta.thinking:
                    opened.add("thinking", delta.thinking)
                if delta.signature:
                    opened.add("signature", delta.signature)
            case _:
                pass
        self._answered = True

    def _take_whole(self, event: _Event) -> None:
        self._answered = True
        for index, block in enumerate(event.content or ()):
            self._begin(index, block)
        self._stop = event.stop_reason or "end_turn"
        self._spend(event.usage)

    def _fail(self, data: str) -> None:
        error = vendor_error(data)
        status = error.status or _STATUSES.get(error.kind)
        raise AnswerFault(REPORTED, error=msgspec.structs.replace(error, status=status))

    def _say(self, kind: Any, text: Any) -> None:
        if isinstance(text, str) and text:
            self._texts.add(kind, text)

    def _spend(self, usage: Any) -> None:
        """Counts are totals so far: a later one replaces an earlier one, and what is not said again stays."""
        if isinstance(usage, dict):
            given = cast("dict[str, Any]", usage)
            self._usage |= {name: given[name] for name in _COUNTS if given.get(name) is not None}


_COUNTS: Final = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _usage(given: Mapping[str, Any]) -> Usage:
    return Usage(
        input_tokens=count(given, "input_tokens"),
        output_tokens=count(given, "output_tokens"),
        cache_read_tokens=count(given, "cache_read_input_tokens"),
        cache_write_tokens=count(given, "cache_creation_input_tokens"),
    )
