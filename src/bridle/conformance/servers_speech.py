"""What a scripted model server says and refuses, in the words of each wire: field names and event order of the vendors.

A `Speech` is one answer being given. Its methods return the bytes of the events a vendor would send for what happens;
`whole` is the same answer without streaming. `problem` is what a strict vendor would find wrong with a request.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final, TypeAlias, cast

import msgspec

from bridle.protocol.messages import Usage
from bridle.providers.script import FailReason, ScriptCall, ScriptedStop

JsonObject: TypeAlias = dict[str, Any]

_ENCODER: Final = msgspec.json.Encoder()


class ServerRefusal(msgspec.Struct, frozen=True):
    """A status and the JSON that comes with it."""

    status: int
    body: JsonObject


class Speech(ABC):
    """One answer on one wire. Subclasses know its words."""

    path: ClassVar[str]
    stops: ClassVar[Mapping[ScriptedStop, str]]

    def __init__(self, asked: JsonObject, *, number: int, usage: Usage) -> None:
        self.number = number
        self.asked = asked
        self.model = str(asked.get("model", "scripted"))
        self.usage = usage
        self.stop: ScriptedStop = "end_turn"
        self.calls = 0
        self.one_id: str | None = None
        """What every call is named instead of an id of its own."""

    # Requests

    @staticmethod
    @abstractmethod
    def problem(asked: JsonObject, headers: Mapping[str, str]) -> str | None:
        """What is wrong with a request: order and ids of its messages, as the protocol has them."""

    @staticmethod
    @abstractmethod
    def answers_so_far(asked: JsonObject) -> int:
        """How many answers a request holds."""

    # The answer, as it is streamed

    @abstractmethod
    def begin(self) -> bytes: ...

    @abstractmethod
    def text(self, text: str) -> bytes: ...

    @abstractmethod
    def thinking(self, text: str) -> bytes: ...

    @abstractmethod
    def call(self, statement: ScriptCall) -> bytes: ...

    @abstractmethod
    def end(self) -> bytes: ...

    @abstractmethod
    def error(self, reason: FailReason) -> bytes:
        """An error inside an answer that has begun."""

    @abstractmethod
    def whole(self) -> JsonObject: ...

    def call_id(self, kind: str) -> str:
        """The id of the call that is being told."""
        return f"{kind}_{self.number + 1}_{self.calls}" if self.one_id is None else self.one_id

    # Refusals

    @staticmethod
    @abstractmethod
    def refusal(reason: FailReason) -> ServerRefusal | None:
        """How a vendor refuses before the first word; None where it would just go away."""

    @staticmethod
    @abstractmethod
    def bad_request(problem: str) -> JsonObject: ...


def in_halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def bare_event(value: JsonObject) -> bytes:
    return b"data: %b\n\n" % _ENCODER.encode(value)


def named_event(value: JsonObject) -> bytes:
    return b"event: %b\n%b" % (str(value["type"]).encode(), bare_event(value))


def rows(value: Any) -> list[JsonObject]:
    return cast("list[JsonObject]", value if isinstance(value, list) else [])


def are_distinct(ids: list[str]) -> bool:
    """Whether every call that waits for its result has a name of its own."""
    return all(ids) and len(set(ids)) == len(ids)


def sealed(text: str) -> str:
    """What a vendor would sign or encrypt: a change of the text is noticed."""
    return f"sealed-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


# How OpenAI refuses, on both of its wires


def openai_error(message: str, code: str | None, kind: str = "invalid_request_error") -> JsonObject:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


OPENAI_REFUSALS: Final[Mapping[FailReason, ServerRefusal]] = {
    "rate_limited": ServerRefusal(
        429, openai_error("Rate limit reached for requests.", "rate_limit_exceeded", "requests")
    ),
    "overloaded": ServerRefusal(503, openai_error("The server is overloaded.", None, "server_error")),
    "bad_credentials": ServerRefusal(401, openai_error("Incorrect API key provided.", "invalid_api_key")),
}
