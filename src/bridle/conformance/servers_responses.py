"""An answer in the words of the OpenAI Responses protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import msgspec

from bridle.conformance.servers_speech import (
    OPENAI_REFUSALS,
    JsonObject,
    ServerRefusal,
    Speech,
    are_distinct,
    in_halves,
    named_event,
    openai_error,
    rows,
    sealed,
)
from bridle.protocol.messages import Usage
from bridle.providers.script import FailReason, ScriptCall

_ENCODER: Final = msgspec.json.Encoder()


class ResponsesSpeech(Speech):
    path = "/responses"
    stops: ClassVar = {
        "end_turn": "completed",
        "max_tokens": "max_output_tokens",
        "content_filter": "content_filter",
    }

    def __init__(self, asked: JsonObject, *, number: int, usage: Usage) -> None:
        super().__init__(asked, number=number, usage=usage)
        self._output: list[JsonObject] = []
        self._open: JsonObject | None = None
        self._sequence = 0

    @staticmethod
    def problem(asked: JsonObject, headers: Mapping[str, str]) -> str | None:
        open_calls: list[str] = []
        items = rows(asked["input"])
        for place, item in enumerate(items):
            where = f"input[{place}]"
            match item.get("type", "message"):
                case "function_call_output":
                    if item["call_id"] not in open_calls:
                        return f"No tool call found for function call output with call_id {item['call_id']}."
                    open_calls.remove(item["call_id"])
                case "function_call":
                    if not isinstance(item["name"], str) or not isinstance(item["arguments"], str):
                        return f"{where}: a call has a name and arguments"
                    open_calls.append(item["call_id"])
                    if not are_distinct(open_calls):
                        return f"{where}: call ids must be unique"
                case "reasoning":
                    if not str(item.get("encrypted_content")).startswith(sealed(_summary_of(item))):
                        return "The encrypted content could not be verified."
                    following = items[place + 1 : place + 2]
                    if not following or following[0].get("role") == "user":
                        return f"Item {item['id']} was provided without its required following item."
                case "message":
                    if open_calls and item["role"] != "assistant":
                        return f"No tool output found for function call {open_calls[0]}."
                    if wrong := _wrong_content(item):
                        return f"{where}: {wrong}"
                case kind:
                    return f"{where}: unknown type {kind}"
        if open_calls:
            return f"No tool output found for function call {open_calls[0]}."
        return None if asked.get("store") is False else "this server stores nothing: store must be false"

    @staticmethod
    def answers_so_far(asked: JsonObject) -> int:
        """Neighbouring items of the model are one answer."""
        count, before = 0, False
        for item in rows(asked["input"]):
            now = item.get("role") == "assistant" or item.get("type") in {"function_call", "reasoning"}
            count += now and not before
            before = now
        return count

    def begin(self) -> bytes:
        events = (
            self._event(f"response.{name}", response=self._response("in_progress")) for name in _BEGINNING
        )
        return b"".join(events)

    def text(self, text: str) -> bytes:
        return self._within("message", text)

    def thinking(self, text: str) -> bytes:
        return self._within("reasoning", text)

    def call(self, statement: ScriptCall) -> bytes:
        self.calls += 1
        item: JsonObject = {"id": self.call_id("fc"), "type": "function_call", "status": "in_progress"}
        item |= {"call_id": self.call_id("call"), "name": statement.tool, "arguments": ""}
        events = [self._closed(), self._added(item)]
        place: JsonObject = {"item_id": item["id"], "output_index": len(self._output) - 1}
        arguments = _ENCODER.encode(statement.input).decode()
        events += [
            self._event("response.function_call_arguments.delta", **place, delta=piece)
            for piece in in_halves(arguments)
        ]
        done: JsonObject = {**place, "name": statement.tool, "arguments": arguments}
        events.append(self._event("response.function_call_arguments.done", **done))
        item |= {"arguments": arguments}
        return b"".join((*events, self._closed()))

    def end(self) -> bytes:
        closed = self._closed()
        response = self.whole()
        return closed + self._event(f"response.{response['status']}", response=response)

    def error(self, reason: FailReason) -> bytes:
        """Both forms the vendor has: an event of its own, and a response that failed."""
        body = OPENAI_REFUSALS[reason].body["error"]
        if reason != "overloaded":
            return self._event("error", code=body["code"], message=body["message"], param=None)
        failed = {**self._response("failed"), "error": {"code": "server_error", "message": body["message"]}}
        return self._event("response.failed", response=failed)

    def whole(self) -> JsonObject:
        self._closed()
        complete = self.calls > 0 or self.stop == "end_turn"
        response = self._response("completed" if complete else "incomplete")
        if not complete:
            response["incomplete_details"] = {"reason": self.stops[self.stop]}
        return {**response, "output": self._output, "usage": self._spent()}

    @staticmethod
    def refusal(reason: FailReason) -> ServerRefusal | None:
        return OPENAI_REFUSALS.get(reason)

    @staticmethod
    def bad_request(problem: str) -> JsonObject:
        return openai_error(problem, None)

    def _within(self, kind: str, text: str) -> bytes:
        """Text in the item of its kind, opened where the one before was of another."""
        events: list[bytes] = []
        if self._open is None or self._open["type"] != kind:
            events += [self._closed(), *self._opened(kind)]
        assert self._open is not None
        part = self._open["content" if kind == "message" else "summary"][0]
        part["text"] += text
        name = "output_text" if kind == "message" else "reasoning_summary_text"
        events.append(self._event(f"response.{name}.delta", **self._place(), delta=text, **_logprobs(kind)))
        return b"".join(events)

    def _opened(self, kind: str) -> Iterator[bytes]:
        identity = f"{self.number + 1}_{len(self._output)}"
        if kind == "message":
            item: JsonObject = {"id": f"msg_{identity}", "type": "message", "status": "in_progress"}
            yield self._added({**item, "role": "assistant", "content": []})
            part: JsonObject = {"type": "output_text", "text": "", "annotations": []}
            field = "content"
        else:
            yield self._added({"id": f"rs_{identity}", "type": "reasoning", "summary": []})
            part, field = {"type": "summary_text", "text": ""}, "summary"
        assert self._open is not None
        self._open[field] = [part]
        name = "content_part" if kind == "message" else "reasoning_summary_part"
        yield self._event(f"response.{name}.added", **self._place(), part=part)

    def _closed(self) -> bytes:
        """The end of the item that is open."""
        item, place = self._open, self._place() if self._open else {}
        self._open = None
        if item is None:
            return b""
        events: list[bytes] = []
        if item["type"] == "message":
            part = item["content"][0]
            done = self._event("response.output_text.done", **place, text=part["text"], logprobs=[])
            events += [done, self._event("response.content_part.done", **place, part=part)]
        elif item["type"] == "reasoning":
            part = item["summary"][0]
            done = self._event("response.reasoning_summary_text.done", **place, text=part["text"])
            events += [done, self._event("response.reasoning_summary_part.done", **place, part=part)]
            item["encrypted_content"] = sealed(part["text"])
        if item["type"] != "reasoning":
            item["status"] = "completed"
        index = len(self._output) - 1
        return b"".join((*events, self._event("response.output_item.done", output_index=index, item=item)))

    def _added(self, item: JsonObject) -> bytes:
        self._output.append(item)
        self._open = item
        return self._event("response.output_item.added", output_index=len(self._output) - 1, item=item)

    def _place(self) -> JsonObject:
        assert self._open is not None
        index = "summary_index" if self._open["type"] == "reasoning" else "content_index"
        return {"item_id": self._open["id"], "output_index": len(self._output) - 1, index: 0}

    def _event(self, kind: str, **more: Any) -> bytes:
        event = named_event({"type": kind, "sequence_number": self._sequence, **more})
        self._sequence += 1
        return event

    def _response(self, status: str) -> JsonObject:
        echoed = ("instructions", "max_output_tokens", "prompt_cache_key", "temperature")
        return {
            "id": f"resp_scripted_{self.number + 1}",
            "object": "response",
            "created_at": 0,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self.model,
            "output": [],
            "parallel_tool_calls": self.asked.get("parallel_tool_calls", True),
            "tool_choice": self.asked.get("tool_choice", "auto"),
            "tools": self.asked.get("tools", []),
            "reasoning": self.asked.get("reasoning", {"effort": None, "summary": None}),
            "store": False,
            "usage": None,
            **{name: self.asked.get(name) for name in echoed},
        }

    def _spent(self) -> JsonObject:
        usage = self.usage
        given = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        return {
            "input_tokens": given,
            "input_tokens_details": {
                "cached_tokens": usage.cache_read_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            },
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": given + usage.output_tokens,
        }


_BEGINNING: Final = ("created", "in_progress")


def _logprobs(kind: str) -> JsonObject:
    return {"logprobs": []} if kind == "message" else {}


def _summary_of(item: JsonObject) -> str:
    return "".join(part["text"] for part in rows(item.get("summary")))


def _wrong_content(item: JsonObject) -> str | None:
    wanted = {"assistant": {"output_text", "refusal"}, "user": {"input_text", "input_image"}}
    if item["role"] not in {"user", "assistant", "system", "developer"}:
        return "unknown role"
    kinds = {part["type"] for part in rows(item["content"])}
    return None if kinds <= wanted.get(item["role"], {"input_text"}) else f"not content of the {item['role']}"
