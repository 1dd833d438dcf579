"""Export turns as OpenTelemetry spans.

A turn is `invoke_agent`, and below it stand its model requests (`chat`) and its calls (`execute_tool`). Names, numbers
and reasons only: nothing that was said, read or printed, no paths and no inputs. Imported where somebody traces.
"""

from __future__ import annotations

import re

import msgspec
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from bridle._version import __version__
from bridle.engine.features import EventListener, Feature
from bridle.protocol import events as e
from bridle.protocol.messages import Usage

AGENT = "bridle"
KINDS = frozenset(
    {
        "TurnStarted", "TurnEnded", "StepStarted", "StepEnded", "StepFailed", "ToolCallRequested", "ToolCallStarted",
        "ToolResult", "SessionEnded",
    }
)  # fmt: skip
_TOOL_NAME = re.compile(r"[\w.-]{1,128}")
"""A name that is none was made up by a model: it would be its words."""


def traced(tracer: Tracer, *, name: str = "traces") -> Feature:
    """A feature that traces every session it is given to."""
    return Feature(name=name, listeners=(EventListener(kinds=KINDS, hear=TurnSpans(tracer).hear),))


class _Call(msgspec.Struct, kw_only=True):
    """A call that was asked for: when, and its span once it runs. `wire_id` is what its model calls it by."""

    wire_id: str
    asked_ms: int
    span: Span | None = None


class _Turn(msgspec.Struct, kw_only=True):
    span: Span
    chat: Span | None = None
    calls: dict[str, _Call] = {}
    wire_ids: dict[str, str] = {}
    input_tokens: int = 0
    output_tokens: int = 0


class TurnSpans:
    """The spans of turns that are under way, whatever session and invocation they are of."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._turns: dict[tuple[str, str | None], _Turn] = {}

    def hear(self, envelope: e.Envelope) -> None:
        event, ts_ms, key = envelope.event, envelope.ts_ms, (envelope.session, envelope.invocation)
        if isinstance(event, e.TurnStarted):
            self._end_turn(key, ts_ms, "interrupted")  # what has no end in the log
            self._turns[key] = _Turn(span=self._invoke_agent(envelope))
        elif isinstance(event, e.SessionEnded):
            for other in [one for one in self._turns if one[0] == envelope.session]:
                self._end_turn(other, ts_ms, event.cause)
        elif isinstance(event, e.TurnEnded):
            is_good = event.stop in ("end_turn", "max_tokens")
            self._end_turn(key, ts_ms, None if is_good else event.reason or event.stop)
        elif (turn := self._turns.get(key)) is not None:
            self._within(turn, envelope)

    def _within(self, turn: _Turn, envelope: e.Envelope) -> None:
        ts_ms = envelope.ts_ms
        match envelope.event:
            case e.StepStarted(provider=provider, model=model):
                turn.chat = self._chat(turn, envelope, provider, model)
            case e.StepEnded(usage=usage, stop=stop, calls=calls) if turn.chat is not None:
                turn.wire_ids = {call.call_id: call.wire_id for call in calls}
                turn.input_tokens += _input_tokens(usage)
                turn.output_tokens += usage.output_tokens
                turn.chat.set_attributes({**_usage(usage), "gen_ai.response.finish_reasons": (stop,)})
                _end(turn.chat, ts_ms, "error" if stop == "error" else None)
                turn.chat = None
            case e.StepFailed(reason=reason) if turn.chat is not None:
                _end(turn.chat, ts_ms, reason)
                turn.chat = None
            case e.ToolCallRequested(call_id=call_id):
                turn.calls[call_id] = _Call(wire_id=turn.wire_ids.get(call_id, call_id), asked_ms=ts_ms)
            case e.ToolCallStarted(call_id=call_id, tool=tool) if call_id in turn.calls:
                turn.calls[call_id].span = self._execute_tool(turn, turn.calls[call_id], tool, ts_ms)
            case e.ToolResult(call_id=call_id, tool=tool) as result if call_id in turn.calls:
                call = turn.calls.pop(call_id)
                span = call.span or self._execute_tool(turn, call, tool, call.asked_ms)
                _end(span, ts_ms, None if result.outcome == "ok" else result.reason or result.outcome)
            case _:
                pass

    def _invoke_agent(self, envelope: e.Envelope) -> Span:
        return self._tracer.start_span(
            f"invoke_agent {AGENT}",
            kind=SpanKind.INTERNAL,
            start_time=envelope.ts_ms * 1_000_000,
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": AGENT,
                "gen_ai.agent.version": __version__,
                "gen_ai.conversation.id": envelope.session,
            },
        )

    def _chat(self, turn: _Turn, envelope: e.Envelope, provider: str, model: str) -> Span:
        about = {"gen_ai.provider.name": provider, "gen_ai.request.model": model}
        turn.span.set_attributes(about)
        return self._tracer.start_span(
            f"chat {model}",
            context=trace.set_span_in_context(turn.span),
            kind=SpanKind.CLIENT,
            start_time=envelope.ts_ms * 1_000_000,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.conversation.id": envelope.session,
                "gen_ai.request.stream": True,
                **about,
            },
        )

    def _execute_tool(self, turn: _Turn, call: _Call, tool: str, start_ms: int) -> Span:
        name = tool if _TOOL_NAME.fullmatch(tool) else "unknown"
        return self._tracer.start_span(
            f"execute_tool {name}",
            context=trace.set_span_in_context(turn.span),
            kind=SpanKind.INTERNAL,
            start_time=start_ms * 1_000_000,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": call.wire_id,
                "gen_ai.tool.type": "function",
            },
        )

    def _end_turn(self, key: tuple[str, str | None], ts_ms: int, error: str | None) -> None:
        turn = self._turns.pop(key, None)
        if turn is None:
            return
        running = (turn.chat, *(call.span for call in turn.calls.values()))
        for span in running:
            if span is not None:
                _end(span, ts_ms, error or "interrupted")
        if turn.input_tokens or turn.output_tokens:
            turn.span.set_attribute("gen_ai.usage.input_tokens", turn.input_tokens)
            turn.span.set_attribute("gen_ai.usage.output_tokens", turn.output_tokens)
        _end(turn.span, ts_ms, error)


def _input_tokens(usage: Usage) -> int:
    """Those of a cache are tokens that were read, too."""
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def _usage(usage: Usage) -> dict[str, int]:
    if usage == Usage():
        return {}  # not known
    return {
        "gen_ai.usage.input_tokens": _input_tokens(usage),
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }


def _end(span: Span, ts_ms: int, error: str | None) -> None:
    if error is not None:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR))
    span.end(end_time=ts_ms * 1_000_000)
