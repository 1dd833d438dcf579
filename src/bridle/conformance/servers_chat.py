"""An answer in the words of the OpenAI chat protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, cast

import msgspec

from bridle.conformance.servers_speech import (
    OPENAI_REFUSALS,
    JsonObject,
    ServerRefusal,
    Speech,
    are_distinct,
    bare_event,
    in_halves,
    openai_error,
    rows,
)
from bridle.protocol.messages import Usage
from bridle.providers.script import FailReason, ScriptCall

_ENCODER: Final = msgspec.json.Encoder()


class ChatSpeech(Speech):
    path = "/chat/completions"
    stops: ClassVar = {"end_turn": "stop", "max_tokens": "length", "content_filter": "content_filter"}

    def __init__(self, asked: JsonObject, *, number: int, usage: Usage) -> None:
        super().__init__(asked, number=number, usage=usage)
        self._texts: dict[str, list[str]] = {}
        self._made: list[JsonObject] = []

    @staticmethod
    def problem(asked: JsonObject, headers: Mapping[str, str]) -> str | None:
        open_calls: list[str] = []
        for place, message in enumerate(asked["messages"]):
            role = message["role"]
            if role == "tool":
                if message["tool_call_id"] not in open_calls:
                    return f"messages[{place}]: a tool message must answer a preceding tool call"
                open_calls.remove(message["tool_call_id"])
                continue
            if open_calls:
                return f"messages[{place}]: tool calls without an answer: {', '.join(open_calls)}"
            if role not in {"system", "developer", "user", "assistant"}:
                return f"messages[{place}]: unknown role"
            open_calls = [call["id"] for call in message.get("tool_calls") or ()]
            if not are_distinct(open_calls):
                return f"messages[{place}]: tool call ids must be unique"
            if message.get("content") is None and not open_calls:
                return f"messages[{place}]: content is required"
        if "stream_options" in asked and not asked.get("stream"):
            return "stream_options is only allowed with stream"
        return None

    @staticmethod
    def answers_so_far(asked: JsonObject) -> int:
        return sum(message.get("role") == "assistant" for message in rows(asked["messages"]))

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def text(self, text: str) -> bytes:
        return self._said("content", text)

    def thinking(self, text: str) -> bytes:
        return self._said("reasoning_content", text)

    def call(self, statement: ScriptCall) -> bytes:
        """A call as a vendor streams it: id and name first, then the arguments in two pieces."""
        index = self.calls
        self.calls += 1
        arguments = _ENCODER.encode(statement.input).decode()
        function = {"name": statement.tool, "arguments": arguments}
        made = {"id": self.call_id("call"), "type": "function", "function": function}
        self._made.append(made)
        first = {**made, "index": index, "function": {**function, "arguments": ""}}
        events = [self._chunk({"tool_calls": [first]})]
        for piece in in_halves(arguments):
            more = {"index": index, "function": {"arguments": piece}}
            events.append(self._chunk({"tool_calls": [more]}))
        return b"".join(events)

    def end(self) -> bytes:
        events = self._chunk({}, finish=self._finish)
        options = cast("JsonObject", self.asked.get("stream_options") or {})
        if options.get("include_usage"):
            named = self._named("chat.completion.chunk")
            events += bare_event({**named, "choices": [], "usage": self._spent()})
        return events + b"data: [DONE]\n\n"

    def error(self, reason: FailReason) -> bytes:
        return bare_event(OPENAI_REFUSALS[reason].body)

    def whole(self) -> JsonObject:
        content = "".join(self._texts.get("content", ()))
        message: JsonObject = {"role": "assistant", "content": content or None}
        if self._made:
            message["tool_calls"] = self._made
        if thought := "".join(self._texts.get("reasoning_content", ())):
            message["reasoning_content"] = thought
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {**self._named("chat.completion"), "choices": [choice], "usage": self._spent()}

    @staticmethod
    def refusal(reason: FailReason) -> ServerRefusal | None:
        return OPENAI_REFUSALS.get(reason)

    @staticmethod
    def bad_request(problem: str) -> JsonObject:
        return openai_error(problem, None)

    @property
    def _finish(self) -> str:
        return "tool_calls" if self.calls else self.stops[self.stop]

    def _said(self, field: str, text: str) -> bytes:
        self._texts.setdefault(field, []).append(text)
        return self._chunk({field: text})

    def _chunk(self, delta: JsonObject, *, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return bare_event({**self._named("chat.completion.chunk"), "choices": [choice]})

    def _named(self, kind: str) -> JsonObject:
        return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": self.model}

    def _spent(self) -> JsonObject:
        usage = self.usage
        prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": usage.output_tokens,
            "total_tokens": prompt + usage.output_tokens,
            "prompt_tokens_details": {
                "cached_tokens": usage.cache_read_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            },
        }
