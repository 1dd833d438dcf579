"""The OpenAI chat protocol as a pure pair: messages to request bytes, stream to model parts.

No I/O and no vendor names: what a vendor does differently arrives as `Quirks`, and what its streams do
differently is told apart by shape. `remote.py` sends and reads.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Final, cast

import msgspec

from bridle.engine.ports import ModelPart
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
    PartialCall,
    StreamedText,
    count,
    ending,
    is_object,
    read_frame,
)
from bridle.providers.endpoints import NAME, STANDARD, Quirks, is_closed, sent_schema
from bridle.providers.failures import vendor_error
from bridle.providers.text_calls import TextCalls

# Keys keep their order, as they do in the log: a model reads its arguments again as it wrote them, and a schema as its
# author did.
_ENCODER: Final = msgspec.json.Encoder()

# Requests


class ChatWire:
    """The request: model, messages with the system text first, tools and settings.

    The engine joins a head, messages and a tail. Chat wants its system text as the first message, which no head
    can hold, for a comma would follow it; so the text stands before the messages until it is sent.
    """

    canonical_form_version: ClassVar[int] = 1

    def __init__(self, quirks: Quirks = STANDARD, *, streaming: bool = True) -> None:
        self._quirks = quirks
        self._streaming = streaming

    @property
    def name(self) -> str:
        return "openai_chat"

    def head(self, prefix: PrefixSet) -> bytes:
        system = _ENCODER.encode(_system(prefix.system, self._quirks)) if prefix.system else b""
        return b'{"model":%b,"messages":[%b' % (_ENCODER.encode(prefix.model), system)

    def message(self, message: Message) -> bytes:
        """The message as one JSON object, or several with commas between them. Empty if nothing is left of it."""
        made = _assistant(message, self._quirks) if message.role == "assistant" else _user(message)
        return b",".join(map(_ENCODER.encode, made))

    def tail(self, prefix: PrefixSet) -> bytes:
        fields = _settings(prefix, self._quirks, streaming=self._streaming)
        return b"]%b}" % b"".join(b',"%b":%b' % (name, _ENCODER.encode(value)) for name, value in fields)


def _system(text: str, quirks: Quirks) -> dict[str, Any]:
    if not quirks.cache_system:
        return {"role": "system", "content": text}
    part = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
    return {"role": "system", "content": [part]}


def _settings(prefix: PrefixSet, quirks: Quirks, *, streaming: bool) -> list[tuple[bytes, Any]]:
    parameters = prefix.parameters
    fields: list[tuple[bytes, Any]] = []
    if streaming:
        fields.append((b"stream", True))
        if not quirks.omit_stream_options:
            fields.append((b"stream_options", {"include_usage": True}))
    if prefix.tools:
        fields.append((b"tools", [_tool(tool) for tool in prefix.tools]))
        if not quirks.omit_tool_choice:
            fields.append((b"tool_choice", "auto"))
    if parameters.temperature is not None and not quirks.omit_temperature:
        fields.append((b"temperature", parameters.temperature))
    if parameters.max_tokens is not None and not quirks.omit_max_tokens:
        fields.append((quirks.max_tokens_field.encode(), parameters.max_tokens))
    if word := quirks.effort_words.get(parameters.effort or ""):
        fields.append((b"reasoning_effort", word))
    if (schema := sent_schema(prefix, quirks)) is not None:
        form = {"name": NAME, "schema": schema, "strict": is_closed(schema, optional=False)}
        fields.append((b"response_format", {"type": "json_schema", "json_schema": form}))
    return fields


def _tool(tool: ToolSchema) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def _assistant(message: Message, quirks: Quirks) -> list[dict[str, Any]]:
    """Text and calls. Thinking stays behind: no chat vendor takes it back."""
    text = "".join(block.text for block in message.content if isinstance(block, TextBlock))
    calls = [_call(block) for block in message.content if isinstance(block, ToolUseBlock)]
    if calls:
        nothing = None if quirks.content_beside_calls == "null" else ""
        return [{"role": "assistant", "content": text or nothing, "tool_calls": calls}]
    return [{"role": "assistant", "content": text}] if text else []


def _call(block: ToolUseBlock) -> dict[str, Any]:
    function = {"name": block.tool, "arguments": _ENCODER.encode(block.input).decode()}
    return {"id": block.wire_id, "type": "function", "function": function}


def _user(message: Message) -> list[dict[str, Any]]:
    """Results first, each a message of its own right behind the calls they answer; then what the person said."""
    made: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for block in message.content:
        match block:
            case ToolResultBlock():
                made.append({"role": "tool", "tool_call_id": block.wire_id, "content": block.text})
            case TextBlock():
                parts.append({"type": "text", "text": block.text})
            case FileMention():
                parts.append({"type": "text", "text": f"@{block.path}"})
            case ImageBlock():
                image = {"url": block.url, "detail": block.detail}
                parts.append({"type": "image_url", "image_url": image})
            case ThinkingBlock() | ToolUseBlock() | YieldBlock():
                pass
    if parts:
        # One text goes as plain text: not every server reads parts.
        alone = len(parts) == 1 and parts[0]["type"] == "text"
        made.append({"role": "user", "content": parts[0]["text"] if alone else parts})
    return made


# Answers


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _ToolCall(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    """What a chunk adds, or the whole message of an answer that was not streamed."""

    content: str | list[Any] | None = None
    tool_calls: list[_ToolCall] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_CHUNK: Final = msgspec.json.Decoder(_Chunk)
_DONE: Final = "[DONE]"

_STOPS: Final[dict[str, StopReason]] = {
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "content_filter",
    "content-filter": "content_filter",
    "safety": "content_filter",
    "error": "error",
}
"""Finish reasons that mean more than "done"; whether calls were made is seen, not believed."""


class ChatDecoder:
    """A chat answer as a `Decoder`. It ends with `[DONE]`, or with the stream once the vendor has said why."""

    def __init__(self, quirks: Quirks = STANDARD) -> None:
        self.room = AnswerRoom()
        self._text_calls = TextCalls(self.room) if quirks.calls_in_text else None
        self.is_done = False
        self._calls: list[PartialCall] = []
        self._last_at: dict[int, PartialCall] = {}
        self._finish: str | None = None
        self._usage: dict[str, Any] | None = None
        self._answered = False
        self._texts = StreamedText()

    @property
    def is_told(self) -> bool:
        """Whether the vendor has said why the answer ends."""
        return self._finish is not None

    def feed(self, frames: Iterable[str]) -> list[ModelPart]:
        texts = self._texts
        for data in frames:
            if self.is_done:
                break
            if data == _DONE or data.strip() == _DONE:
                return self._complete()
            chunk = read_frame(_CHUNK, data)
            if chunk.error or not chunk.choices:
                self._take_rest(chunk, data)
                continue
            choice = chunk.choices[0]
            delta = choice.delta or choice.message
            if delta is not None:
                if delta.reasoning_content or delta.reasoning:
                    texts.add("thinking", delta.reasoning_content or delta.reasoning or "")
                if delta.content:
                    text = delta.content if isinstance(delta.content, str) else _text_of(delta.content)
                    texts.add("text", text if self._text_calls is None else self._text_calls.feed(text))
                if delta.refusal:
                    texts.add("text", delta.refusal)
                if delta.tool_calls:
                    for call in delta.tool_calls:
                        self._take_call(call, is_whole=choice.delta is None)
            self._answered = True
            if choice.finish_reason:
                self._finish = choice.finish_reason
            if chunk.usage or choice.usage:
                self._usage = chunk.usage or choice.usage
        return texts.taken()

    def finish(self) -> list[ModelPart]:
        """The stream ended. Complete if the vendor had said why the answer ends, cut off otherwise."""
        if self.is_done:
            return []
        if self._finish is None:
            raise AnswerFault(CUT if self._answered else EMPTY)
        return self._complete()

    def _complete(self) -> list[ModelPart]:
        if not self._answered:
            raise AnswerFault(NO_ANSWER)
        self.is_done = True
        if self._text_calls is not None:
            self._texts.add("text", self._text_calls.finish())
            self._calls += self._text_calls.calls
        stop = _STOPS.get((self._finish or "").lower(), "end_turn")
        return ending(self._texts, self._calls, stop=stop, usage=_usage(self._usage))

    def _take_rest(self, chunk: _Chunk, data: str) -> None:
        """A frame without a choice: usage, an error, or a vendor's own."""
        if chunk.error or (chunk.choices is None and _is_error_object(data)):
            error = vendor_error(data)
            if error.kind == "content_filter":
                self._answered, self._finish = True, "content_filter"
                return
            raise AnswerFault(REPORTED, error=error)
        if chunk.usage:
            self._usage = chunk.usage

    def _take_call(self, given: _ToolCall, *, is_whole: bool) -> None:
        function = given.function or _Function()
        call = self._new_call(given) if is_whole else self._open_call(given, function)
        call.name(call.id or given.id or "", call.tool or function.name or "")
        call.add(function.arguments)

    def _open_call(self, given: _ToolCall, function: _Function) -> PartialCall:
        """The call a delta belongs to: the last one at its index, unless the delta clearly begins another."""
        if given.index is None:
            known = next((call for call in self._calls if given.id and call.id == given.id), None)
            before = known or (self._calls[-1] if self._calls else None)
        else:
            before = self._last_at.get(given.index)
        if before is not None and not _begins_another(before, given, function):
            return before
        return self._new_call(given)

    def _new_call(self, given: _ToolCall) -> PartialCall:
        call = PartialCall(self.room)
        self._calls.append(call)
        if given.index is not None:
            self._last_at[given.index] = call
        return call


def _begins_another(before: PartialCall, given: _ToolCall, function: _Function) -> bool:
    """Some vendors number all their calls 0, or not at all; others repeat id and name in every delta.

    A new id alone is not enough, for some servers invent one for each delta: a name must come with it.
    """
    if not function.name:
        return False
    if given.id and before.id:
        return given.id != before.id
    return bool(before.tool) and is_object(before.arguments)


def _is_error_object(data: str) -> bool:
    """vLLM sends its errors bare, marked by their `object`."""
    try:
        found: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return isinstance(found, dict) and cast("dict[str, Any]", found).get("object") == "error"


def _text_of(parts: list[Any]) -> str:
    """The text of content that came as parts; what is not text has no place in an answer of ours."""
    found: list[str] = []
    for part in parts:
        if isinstance(part, dict):
            text = cast("dict[str, Any]", part).get("text")
            found += [text] if isinstance(text, str) else []
    return "".join(found)


def _usage(given: dict[str, Any] | None) -> Usage:
    """Tokens by what they cost: what came from the cache is not counted as input again."""
    if given is None:
        return Usage()
    details = given.get("prompt_tokens_details")
    detail = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
    read = count(detail, "cached_tokens") or count(given, "prompt_cache_hit_tokens", "cached_tokens")
    written = count(detail, "cache_write_tokens")
    return Usage(
        input_tokens=max(0, count(given, "prompt_tokens") - read - written),
        output_tokens=count(given, "completion_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
