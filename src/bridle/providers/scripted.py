"""The scripted model: plays a script instead of asking anybody, on this machine and without a network.

It runs only when asked for by name, and labels every answer that has text, so nobody takes it for a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from bridle.engine.ports import (
    ModelCall,
    ModelDone,
    ModelPart,
    ModelRequest,
    ModelText,
    ModelThinking,
    ModelYield,
)
from bridle.engine.sizes import messages_tokens
from bridle.protocol.errors import ProviderError, sentence
from bridle.protocol.messages import Message, Parameters, StopReason, ToolSchema, Usage
from bridle.providers.model_listing import ModelInfo
from bridle.providers.script import (
    Fail,
    FailReason,
    Say,
    Script,
    ScriptAnswer,
    ScriptCall,
    Spend,
    Stop,
    Think,
    Wait,
    Yield,
    shipped_scripts,
)

if TYPE_CHECKING:
    from bridle.base.clock import Clock
    from bridle.protocol.events import PrefixSet

LABEL: Final = "[scripted] "
"""How the text of every answer begins, but for one that a program reads: of that a schema is asked."""

_CHUNK_AT_ONCE: Final = 512
_CHUNK_PACED: Final = 8
# Sorted keys: the same message is the same bytes, whatever order its input was written in.
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """What stands before the messages, in the order of the body."""

    model: str
    system: str
    parameters: Parameters
    tools: tuple[ToolSchema, ...]


class _Asked(msgspec.Struct):
    """What of a request changes how the answer is told."""

    parameters: Parameters


class ScriptedWire:
    """The canonical form itself: `{"model", "system", "parameters", "tools", "messages"}`, as JSON."""

    canonical_form_version: ClassVar[int] = 1

    @property
    def name(self) -> str:
        return "scripted"

    def head(self, prefix: PrefixSet) -> bytes:
        head = _Head(
            model=prefix.model, system=prefix.system, parameters=prefix.parameters, tools=prefix.tools
        )
        return _ENCODER.encode(head).removesuffix(b"}") + b',"messages":['

    def message(self, message: Message) -> bytes:
        return _ENCODER.encode(message)

    def tail(self, prefix: PrefixSet) -> bytes:
        return b"]}"


class ScriptedModel:
    """A `Provider` that plays `script`: after n answers in a conversation comes number n, counted from 0;
    an agent that was sent has answers of its own.

    What to play is read from the request alone, so a resumed session goes on where it was. The one thing
    kept is how often a `fail` was met, until its answer is complete. After the last answer comes a sentence
    saying so.
    """

    def __init__(self, script: Script, *, clock: Clock, name: str = "demo") -> None:
        self._script = script
        self._clock = clock
        self._name = name
        self._wire = ScriptedWire()
        self._failures: Counter[tuple[str, int, int]] = Counter()

    @property
    def name(self) -> str:
        return self._name

    @property
    def wire(self) -> ScriptedWire:
        return self._wire

    async def models(self) -> tuple[ModelInfo, ...]:
        """The scripts that come with Bridle; one's own are named by their path."""
        return tuple(ModelInfo(name=name) for name in shipped_scripts())

    def token_count(self, messages: Sequence[Message]) -> int:
        return messages_tokens(messages)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        # A real answer never comes at once; here, too, others get their turn first.
        await self._clock.sleep(0)
        agent, number = request.agent, request.answers
        calls, before = 0, "" if _asks_for_schema(request.body) else LABEL
        stop: StopReason = "end_turn"
        usage = Usage()
        for index, statement in enumerate(self._answer(agent, number).statements):
            match statement:
                case Say() | Think():
                    for pause_s, text in _deltas(statement, before=before):
                        if pause_s:
                            await self._clock.sleep(pause_s)
                        yield ModelText(text) if isinstance(statement, Say) else ModelThinking(text)
                    before = "\n" if isinstance(statement, Say) else before
                case ScriptCall():
                    calls += 1
                    arguments = _ENCODER.encode(statement.input).decode()
                    yield ModelCall(statement.tool, arguments, f"s{number + 1}_{calls}")
                case Wait():
                    await self._clock.sleep(statement.seconds)
                case Fail() if self._is_due(statement, (agent, number, index)):
                    if statement.reason == "cut":
                        return
                    raise self._error(statement)
                case Fail():
                    pass
                case Yield():
                    yield ModelYield()
                case Stop():
                    stop = statement.reason
                case Spend():
                    usage = statement.usage
        self._forget_failures(agent, number)
        yield ModelDone("tool_use" if calls else stop, usage)

    def _answer(self, agent: str, number: int) -> ScriptAnswer:
        answers = self._script.agents.get(agent, ()) if agent else self._script.answers
        if number < len(answers):
            return answers[number]
        return ScriptAnswer((Say(sentence("ScriptEnded", {"path": self._script.path})),))

    def _is_due(self, fail: Fail, place: tuple[str, int, int]) -> bool:
        if fail.times is not None and self._failures[place] >= fail.times:
            return False
        self._failures[place] += 1
        return True

    def _forget_failures(self, agent: str, number: int) -> None:
        for place in [place for place in self._failures if place[:2] == (agent, number)]:
            del self._failures[place]

    def _error(self, fail: Fail) -> ProviderError:
        reason, retryable, data = _ERRORS[fail.reason]
        if fail.status is not None:
            data = {**data, "status": fail.status}
        return ProviderError(
            reason, retryable=retryable, retry_after_s=fail.retry_after_s, provider=self._name, **data
        )


_ERRORS: Final[Mapping[FailReason, tuple[str, bool, Mapping[str, Any]]]] = {
    "rate_limited": ("RateLimited", True, {"status": 429}),
    "overloaded": ("Overloaded", True, {"status": 503}),
    "unreachable": (
        "ProviderUnreachable",
        True,
        {"address": "the script", "problem": "connection refused", "hint": ""},
    ),
    "bad_credentials": ("BadCredentials", False, {"status": 401, "source": "the script"}),
    "garbage": ("BadStream", False, {"problem": "it is not JSON"}),
}
"""What a scripted failure raises: reason, whether trying again may help, and what its sentence names."""


def _asks_for_schema(body: bytes) -> bool:
    if b'"answer_schema":{' not in body:
        return False
    return msgspec.json.decode(body, type=_Asked).parameters.answer_schema is not None


def _deltas(statement: Say | Think, *, before: str) -> Iterator[tuple[float, str]]:
    """The text piece by piece, each with the pause before it; `before` stands before what is said."""
    text = statement.text if isinstance(statement, Think) else before + statement.text
    chunk = statement.chunk or (_CHUNK_PACED if statement.pace else _CHUNK_AT_ONCE)
    for start in range(0, len(text), chunk):
        yield (1 / statement.pace if start and statement.pace else 0.0), text[start : start + chunk]
