"""The OpenAI Responses protocol as a pure pair: messages to request bytes, stream to model parts.

The vendor keeps nothing (`store` is false): every request holds the whole conversation, with the vendor's own encrypted
reasoning in it. `remote.py` sends and reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
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
    REPORTED,
    AnswerFault,
    AnswerPosition,
    PartialCall,
    StreamedText,
    TextKind,
    count,
    ending,
    pieces,
    read_frame,
    strict_id,
    thought,
    without_last_thoughts,
)
from bridle.providers.endpoints import NAME, STANDARD, Quirks, is_closed, sent_schema
from bridle.providers.failures import VendorError, as_text, vendor_error

_EFFORTS: Final = {"off": "none", "low": "low", "medium": "medium", "high": "high", "max": "high"}
_ENCODER: Final = msgspec.json.Encoder()

# Requests


class ResponsesWire:
    """The request: model, instructions, input items, tools and settings. Thoughts go back to `family` only."""

    canonical_form_version: ClassVar[int] = 1

    def __init__(self, quirks: Quirks = STANDARD, *, family: str = "", streaming: bool = True) -> None:
        self._quirks = quirks
        self._family = family
        self._streaming = streaming

    @property
    def name(self) -> str:
        return "openai_responses"

    def head(self, prefix: PrefixSet) -> bytes:
        fields = {"model": prefix.model, **({"instructions": prefix.system} if prefix.system else {})}
        return _ENCODER.encode(fields).removesuffix(b"}") + b',"input":['

    def message(self, message: Message) -> bytes:
        """The message as one JSON object, or several with commas between them. Empty if nothing is left of it."""
        made = self._assistant(message) if message.role == "assistant" else _user(message)
        return b",".join(map(_ENCODER.encode, made))

    def tail(self, prefix: PrefixSet) -> bytes:
        fields = {"store": False, **({"stream": True} if self._streaming else {})}
        fields |= _settings(prefix, self._quirks)
        return b"]," + _ENCODER.encode(fields)[1:]

    def _assistant(self, message: Message) -> list[Any]:
        """Thoughts, text and calls in the order they had, each an item."""
        made: list[Any] = []
        for piece in pieces(message.content, self._family):
            match piece:
                case str():
                    made.append({"type": "message", "role": "assistant", "content": piece})
                case ToolUseBlock():
                    made.append(_call(piece))
                case _:
                    made.append(piece)
        return without_last_thoughts(made)


def _settings(prefix: PrefixSet, quirks: Quirks) -> dict[str, Any]:
    parameters = prefix.parameters
    fields: dict[str, Any] = {}
    if prefix.tools:
        fields["tools"] = [_tool(tool) for tool in prefix.tools]
        if not quirks.omit_tool_choice:
            fields["tool_choice"] = "auto"
        fields["parallel_tool_calls"] = True
    # A model that thinks takes no temperature.
    thinks = parameters.effort not in {None, "off"}
    if parameters.temperature is not None and not quirks.omit_temperature and not thinks:
        fields["temperature"] = parameters.temperature
    if parameters.max_tokens is not None and not quirks.omit_max_tokens:
        fields["max_output_tokens"] = parameters.max_tokens
    if parameters.effort is not None:
        word = quirks.effort_words.get(parameters.effort) or _EFFORTS[parameters.effort]
        fields["reasoning"] = {"effort": word}
        if thinks:
            # A model that does not reason refuses these two.
            fields["reasoning"]["summary"] = "auto"
            fields["include"] = ["reasoning.encrypted_content"]
    if (schema := sent_schema(prefix, quirks)) is not None:
        strict = is_closed(schema, optional=False)
        fields["text"] = {"format": {"type": "json_schema", "name": NAME, "schema": schema, "strict": strict}}
    if not quirks.omit_cache_hints:
        fields["prompt_cache_key"] = _cache_key(prefix)
    return fields


def _cache_key(prefix: PrefixSet) -> str:
    """The same for every request that begins the same, so that the vendor sends them to one cache."""
    beginning = _ENCODER.encode((prefix.model, prefix.system, prefix.tools))
    return f"bridle-{hashlib.sha256(beginning).hexdigest()[:32]}"


def _tool(tool: ToolSchema) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        "strict": False,
    }


def _call(block: ToolUseBlock) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": strict_id(block.wire_id),
        "name": block.tool,
        "arguments": _ENCODER.encode(block.input).decode(),
    }


def _user(message: Message) -> list[dict[str, Any]]:
    """Results first, each an item of its own right behind the calls they answer; then what the person said."""
    made: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for block in message.content:
        match block:
            case ToolResultBlock():
                call_id = strict_id(block.wire_id)
                made.append({"type": "function_call_output", "call_id": call_id, "output": block.text})
            case TextBlock():
                parts.append({"type": "input_text", "text": block.text})
            case FileMention():
                parts.append({"type": "input_text", "text": f"@{block.path}"})
            case ImageBlock():
                parts.append({"type": "input_image", "image_url": block.url, "detail": block.detail})
            case ThinkingBlock() | ToolUseBlock() | YieldBlock():
                pass
    if parts:
        made.append({"type": "message", "role": "user", "content": parts})
    return made


# Answers


class _Event(msgspec.Struct, gc=False):
    """An event of a stream, or the whole response of an answer that was not streamed."""

    type: str = ""
    delta: Any = None
    output_index: int | None = None
    item_id: Any = None
    item: dict[str, Any] | None = None
    arguments: str | None = None
    summary_index: int | None = None
    response: dict[str, Any] | None = None
    object: str | None = None
    error: Any = None


_EVENT: Final = msgspec.json.Decoder(_Event)
_RESPONSE: Final = msgspec.json.Decoder(dict[str, Any])

_TEXTS: Final[dict[str, TextKind]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
}
_ENDS: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)
_STOPS: Final[dict[str, StopReason]] = {"max_output_tokens": "max_tokens", "content_filter": "content_filter"}
"""Why a response is incomplete."""
_ITEM: Final = 100
"""What it counts to remember that there is an item."""
_WITHHELD: Final = frozenset(
    {"bio_policy", "misalignment_policy_violation", "image_content_policy_violation"}
)
"""Error codes that say the vendor would not answer, not that it could not."""


class ResponsesDecoder:
    """A Responses answer as a `Decoder`. It ends with the event that holds the response as it became."""

    def __init__(self, *, family: str = "") -> None:
        self.is_done = False
        self._family = family
        self._answered = False
        self.room = AnswerRoom()
        self._calls: dict[int, PartialCall] = {}
        self._thoughts: list[ModelThought] = []
        self._places = _Places(self.room)
        self._spoken: set[int | None] = set()  # places of items whose text came piece by piece
        self._ended: set[int] = set()  # places of items that are complete
        self._texts = StreamedText()

    @property
    def is_told(self) -> bool:
        """Why an answer ends is said by its last event only."""
        return self.is_done

    def feed(self, frames: Iterable[str]) -> list[ModelPart]:
        for data in frames:
            if self.is_done:
                break
            if data == "[DONE]":
                continue  # some servers end every stream with it
            event = read_frame(_EVENT, data)
            kind = _TEXTS.get(event.type)
            if kind is not None:
                self._answered = True
                number = event.output_index
                place = self._speaker(event.item_id) if number is None else number
                if place not in self._spoken:
                    self.room.take(len(data))
                    self._spoken.add(place)
                if isinstance(event.delta, str) and event.delta:
                    self._texts.add(kind, event.delta)
            elif event.type in _ENDS:
                return self._complete(event.response or {})
            elif event.object == "response":
                return self._complete(read_frame(_RESPONSE, data))
            else:
                self._take(event, data)
        return self._texts.taken()

    def finish(self) -> list[ModelPart]:
        if self.is_done:
            return []
        raise AnswerFault(CUT if self._answered else EMPTY)

    def _speaker(self, name: Any) -> int | None:
        """The place of an item without a number that is speaking; None where a server does not name it either."""
        return self._places.of(None, name) if name else None

    def _take(self, event: _Event, data: str) -> None:
        place = self._places.of(event.output_index, event.item_id, *_names(event.item))
        match event.type:
            case "response.created" | "response.in_progress":
                self._answered = True
            case "response.output_item.added" if event.item and event.item.get("type") == "function_call":
                self._call(place, event.item)
            case "response.output_item.done" if event.item:
                self._take_item(place, event.item)
            case "response.function_call_arguments.delta" if isinstance(event.delta, str):
                self._call_at(place).add(event.delta)
            case "response.function_call_arguments.done" if event.arguments is not None:
                self._call_at(place).replace(event.arguments)
            case "response.reasoning_summary_part.added" if event.summary_index:
                self._texts.add("thinking", "\n\n")
            case "error":
                raise AnswerFault(REPORTED, error=_known(vendor_error(data)))
            case _ if event.error:
                raise AnswerFault(REPORTED, error=_known(vendor_error(data)))
            case _:
                pass  # what is new since this was written

    def _complete(self, response: Mapping[str, Any]) -> list[ModelPart]:
        if response.get("error") or response.get("status") in {"failed", "cancelled"}:
            error = vendor_error(_ENCODER.encode({"error": response.get("error")}))
            raise AnswerFault(REPORTED, error=_known(error))
        for number, item in enumerate(_objects(response.get("output"))):
            place = self._places.known(*_names(item), otherwise=number)
            if place not in self._ended:
                self._take_item(place, item)
        self.is_done = True
        stop = _stop(response)
        calls = [self._calls[place] for place in sorted(self._calls)]
        thoughts = () if stop == "content_filter" else self._thoughts
        usage = _usage(_object(response.get("usage")))
        return ending(self._texts, calls, stop=stop, usage=usage, thoughts=thoughts)

    def _take_item(self, place: int, item: dict[str, Any]) -> None:
        """An item as it became. What was told piece by piece is not told again."""
        self._answered = True
        if place not in self._ended:
            self.room.take(_ITEM)
            self._ended.add(place)
        told = place in self._spoken or None in self._spoken
        match item.get("type"):
            case "function_call":
                self._call(place, item)
            case "message" if not told:
                for part in _objects(item.get("content")):
                    self._say("text", part.get("text") or part.get("refusal"))
            case "reasoning":
                if not told:
                    for part in _objects(item.get("summary")):
                        self._say("thinking", part.get("text"))
                if item.get("encrypted_content"):
                    at = AnswerPosition(self._texts.said, len(self._calls))
                    made = thought(self._family, item, at)
                    self.room.take(len(made.block.opaque))
                    self._thoughts.append(made)
            case _:
                pass

    def _call(self, place: int, item: dict[str, Any]) -> None:
        call = self._call_at(place)
        call.name(as_text(item.get("call_id")), as_text(item.get("name")))
        arguments = item.get("arguments")
        if isinstance(arguments, str) and arguments:
            call.replace(arguments)

    def _call_at(self, place: int) -> PartialCall:
        if place not in self._calls:
            self._calls[place] = PartialCall(self.room)
        return self._calls[place]

    def _say(self, kind: TextKind, text: Any) -> None:
        if isinstance(text, str) and text:
            self._texts.add(kind, text)


class _Places:
    """Where in an answer its items stand: as numbered, else by their names in the order they came.

    The vendor numbers them. Some servers only name them, and what they tell twice must not be taken for two.
    """

    def __init__(self, room: AnswerRoom) -> None:
        self._room = room
        self._named: dict[str, int] = {}
        self._last = 0
        self._next = 0

    def of(self, number: int | None, *names: Any) -> int:
        """The place of an item with this number, else with one of these names; a new place for names that are new.

        Without any of them it is the item that was told of last.
        """
        given = [name for name in names if isinstance(name, str) and name]
        if number is None and not given:
            return self._last
        place = self.known(*given, otherwise=self._next) if number is None else number
        for name in given:
            if name not in self._named:
                self._room.take(len(name) + _ITEM)
            self._named[name] = place
        self._last, self._next = place, max(self._next, place + 1)
        return place

    def known(self, *names: Any, otherwise: int) -> int:
        """The place of the item with one of these names."""
        return next((self._named[name] for name in names if name in self._named), otherwise)


def _names(item: Mapping[str, Any] | None) -> tuple[str, ...]:
    """What an item may be called elsewhere in the stream."""
    return tuple(filter(None, (as_text(item.get("id")), as_text(item.get("call_id"))))) if item else ()


def _stop(response: Mapping[str, Any]) -> StopReason:
    """Why it ended. An answer that is not whole is never told as one, also where nobody says what is missing."""
    details = _object(response.get("incomplete_details"))
    rest: StopReason = "max_tokens" if response.get("status") == "incomplete" else "end_turn"
    return _STOPS.get(str(details.get("reason")), rest)


def _known(error: VendorError) -> VendorError:
    """The error in the words that mean the same on every wire."""
    if error.kind in _WITHHELD:
        return msgspec.structs.replace(error, kind="content_filter")
    if error.kind.startswith(("invalid_", "image_", "unsupported_", "failed_to_", "empty_")):
        return msgspec.structs.replace(error, status=error.status or 400)
    return error


def _usage(given: Mapping[str, Any]) -> Usage:
    """Tokens by what they cost: what came from the cache is not counted as input again."""
    details = _object(given.get("input_tokens_details"))
    read, written = count(details, "cached_tokens"), count(details, "cache_write_tokens")
    return Usage(
        input_tokens=max(0, count(given, "input_tokens") - read - written),
        output_tokens=count(given, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    rows = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", row) for row in rows if isinstance(row, dict)]
