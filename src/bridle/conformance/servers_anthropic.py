"""An answer in the words of Anthropic's Messages protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Final, cast

import msgspec

from bridle.conformance.servers_speech import (
    JsonObject,
    ServerRefusal,
    Speech,
    are_distinct,
    in_halves,
    named_event,
    rows,
    sealed,
)
from bridle.protocol.messages import Usage
from bridle.providers.script import FailReason, ScriptCall

_ENCODER: Final = msgspec.json.Encoder()

_STRICT_ID: Final = re.compile(r"[A-Za-z0-9_-]+\Z")


def _anthropic_error(message: str, kind: str) -> JsonObject:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"}


_ANTHROPIC_REFUSALS: Final[Mapping[FailReason, ServerRefusal]] = {
    "rate_limited": ServerRefusal(
        429, _anthropic_error("This request would exceed your rate limit.", "rate_limit_error")
    ),
    "overloaded": ServerRefusal(529, _anthropic_error("Overloaded", "overloaded_error")),
    "bad_credentials": ServerRefusal(401, _anthropic_error("invalid x-api-key", "authentication_error")),
}
_BLOCKS: Final = {
    "user": {"text", "image", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
}


class AnthropicSpeech(Speech):
    path = "/messages"
    stops: ClassVar = {"end_turn": "end_turn", "max_tokens": "max_tokens", "content_filter": "refusal"}

    def __init__(self, asked: JsonObject, *, number: int, usage: Usage) -> None:
        super().__init__(asked, number=number, usage=usage)
        self._content: list[JsonObject] = []
        self._is_open = False

    @staticmethod
    def problem(asked: JsonObject, headers: Mapping[str, str]) -> str | None:
        if "anthropic-version" not in headers:
            return "anthropic-version: header is required"
        if not isinstance(asked["max_tokens"], int) or asked["max_tokens"] < 1:
            return "max_tokens: Field required"
        if wrong := _wrong_thinking(asked):
            return wrong
        open_calls: list[str] = []
        turns = _turns(asked)
        if not turns or turns[0]["role"] != "user":
            return "messages: first message must use the user role"
        for place, turn in enumerate(turns):
            where = f"messages.{place}"
            results = [block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"]
            if missing := [call for call in open_calls if call not in results]:
                return (
                    f"{where}: `tool_use` ids were found without `tool_result` blocks: {', '.join(missing)}"
                )
            if set(results) - set(open_calls):
                return f"{where}: unexpected `tool_use_id` found in `tool_result` blocks"
            if any(block["type"] != "tool_result" for block in turn["content"][: len(results)]):
                return f"{where}: `tool_result` blocks come first"
            open_calls = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
            if not are_distinct(open_calls):
                return f"{where}: `tool_use` ids must be unique"
            for block in turn["content"]:
                if wrong := _wrong_block(turn["role"], block):
                    return f"{where}: {wrong}"
        if open_calls:
            return "`tool_use` ids were found without `tool_result` blocks"
        return None

    @staticmethod
    def answers_so_far(asked: JsonObject) -> int:
        return sum(message.get("role") == "assistant" for message in rows(asked["messages"]))

    def begin(self) -> bytes:
        usage = {**self._spent(), "output_tokens": 1}
        start = {**self._message(), "usage": usage}
        return named_event({"type": "message_start", "message": start}) + named_event({"type": "ping"})

    def text(self, text: str) -> bytes:
        opened = self._opened({"type": "text", "text": ""})
        self._content[-1]["text"] += text
        return opened + self._delta({"type": "text_delta", "text": text})

    def thinking(self, text: str) -> bytes:
        opened = self._opened({"type": "thinking", "thinking": "", "signature": ""})
        self._content[-1]["thinking"] += text
        return opened + self._delta({"type": "thinking_delta", "thinking": text})

    def call(self, statement: ScriptCall) -> bytes:
        self.calls += 1
        block = {"type": "tool_use", "id": self.call_id("toolu"), "name": statement.tool}
        events = [self._closed(), self._opened({**block, "input": {}})]
        self._content[-1]["input"] = statement.input
        events += [
            self._delta({"type": "input_json_delta", "partial_json": piece})
            for piece in ("", *in_halves(_ENCODER.encode(statement.input).decode()))
        ]
        return b"".join((*events, self._closed()))

    def end(self) -> bytes:
        delta = {"stop_reason": self._stop, "stop_sequence": None}
        events = (
            {"type": "message_delta", "delta": delta, "usage": self._spent()},
            {"type": "message_stop"},
        )
        return self._closed() + b"".join(map(named_event, events))

    def error(self, reason: FailReason) -> bytes:
        return named_event(_ANTHROPIC_REFUSALS[reason].body)

    def whole(self) -> JsonObject:
        self._closed()
        told = {"content": self._content, "stop_reason": self._stop, "usage": self._spent()}
        return {**self._message(), **told}

    @staticmethod
    def refusal(reason: FailReason) -> ServerRefusal | None:
        return _ANTHROPIC_REFUSALS.get(reason)

    @staticmethod
    def bad_request(problem: str) -> JsonObject:
        return _anthropic_error(problem, "invalid_request_error")

    @property
    def _stop(self) -> str:
        return "tool_use" if self.calls else self.stops[self.stop]

    def _opened(self, block: JsonObject) -> bytes:
        if self._is_open and self._content[-1]["type"] == block["type"]:
            return b""
        closed = self._closed()
        self._content.append(block)
        self._is_open = True
        start = {"type": "content_block_start", "index": len(self._content) - 1, "content_block": block}
        return closed + named_event(start)

    def _closed(self) -> bytes:
        if not self._is_open:
            return b""
        signed = b""
        block = self._content[-1]
        if block["type"] == "thinking":
            block["signature"] = sealed(block["thinking"])
            signed = self._delta({"type": "signature_delta", "signature": block["signature"]})
        self._is_open = False
        return signed + named_event({"type": "content_block_stop", "index": len(self._content) - 1})

    def _delta(self, delta: JsonObject) -> bytes:
        return named_event({"type": "content_block_delta", "index": len(self._content) - 1, "delta": delta})

    def _message(self) -> JsonObject:
        return {
            "id": f"msg_scripted_{self.number + 1}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }

    def _spent(self) -> JsonObject:
        return {
            "input_tokens": self.usage.input_tokens,
            "cache_creation_input_tokens": self.usage.cache_write_tokens,
            "cache_read_input_tokens": self.usage.cache_read_tokens,
            "output_tokens": self.usage.output_tokens,
        }


def _turns(asked: JsonObject) -> list[JsonObject]:
    """The messages, neighbours of one role joined as the vendor joins them."""
    turns: list[JsonObject] = []
    for message in asked["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        if turns and turns[-1]["role"] == message["role"]:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": message["role"], "content": blocks})
    return turns


def _wrong_thinking(asked: JsonObject) -> str | None:
    thinking = cast("JsonObject", asked.get("thinking") or {"type": "disabled"})
    if thinking["type"] == "enabled" and not 1024 <= thinking["budget_tokens"] < asked["max_tokens"]:
        return "max_tokens must be greater than thinking.budget_tokens"
    if thinking["type"] != "disabled" and asked.get("temperature", 1) != 1:
        return "temperature may only be set to 1 when thinking is enabled"
    return None


def _wrong_block(role: str, block: JsonObject) -> str | None:
    if block["type"] not in _BLOCKS[role]:
        return f"a {role} has no block {block['type']}"
    match block["type"]:
        case "text" if not block["text"].strip():
            return "text content blocks must contain non-whitespace text"
        case "tool_use" if not _STRICT_ID.match(block["id"]) or not isinstance(block["input"], dict):
            return "tool_use: String should match pattern '^[a-zA-Z0-9_-]+$'"
        case "thinking" if block["signature"] != sealed(block["thinking"]):
            return "Invalid `signature` in `thinking` block"
        case "image" if block["source"]["type"] not in {"base64", "url"}:
            return "image: unknown source"
        case _:
            return None
