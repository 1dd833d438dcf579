"""Commands and events as JSON bytes, both ways.

An event is encoded once: the payload bytes go to the log, and the same bytes inside an envelope to every client.
The kind stands on the envelope, so decoding is a look-up by kind. A kind this version does not know becomes
`UnknownEvent` and is written back exactly as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any, get_args

import msgspec

from bridle.base.clock import from_iso_ms, iso_ms
from bridle.protocol import commands, events
from bridle.protocol import display_values as shown
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import AnyEvent, Envelope, UnknownEvent
from bridle.protocol.questions import OpenQuestion, WordsAnswer

# Until 0.2 questions and answers were texts, and a result told by loose keys of its metadata what there is to
# show. What a memory is found by was its `key`, which every look for secrets stopped at. A later version may
# show a result in a way that is not known here: then its text is all there is.


def _asked_in_words(payload: dict[str, Any]) -> events.QuestionAsked:
    question = OpenQuestion(text=str(payload["question"]), choices=tuple(payload.get("choices", ())))
    return events.QuestionAsked(question_id=str(payload["question_id"]), question=question)


def _answered_in_words(payload: dict[str, Any]) -> events.QuestionAnswered:
    return events.QuestionAnswered(
        question_id=str(payload["question_id"]),
        answer=WordsAnswer(text=str(payload["answer"])),
        answered_by=str(payload["answered_by"]),
    )


def _as_plain(payload: dict[str, Any]) -> events.ToolResult:
    return msgspec.convert({**payload, "shown": None}, events.ToolResult)


def _found_by_key(payload: dict[str, Any]) -> events.ChildMemoryUpdated:
    return msgspec.convert({**payload, "memory_id": payload.get("key")}, events.ChildMemoryUpdated)


READERS: dict[str, Callable[[dict[str, Any]], events.AnyEvent]] = {
    "ChildMemoryUpdated": _found_by_key,
    "QuestionAsked": _asked_in_words,
    "QuestionAnswered": _answered_in_words,
    "ToolResult": _as_plain,
}
"""For payloads that do not fit the type of their kind. Raise `msgspec.ValidationError` where nothing fits."""


def with_shown(result: events.ToolResult) -> events.ToolResult:
    """The result with what its metadata says for people as a value; as it is where that says nothing."""
    try:
        value = _value(result.tool, result.metadata)
    except (AttributeError, KeyError, TypeError, ValueError, msgspec.ValidationError):  # somebody else's keys
        return result
    return result if value is None else msgspec.structs.replace(result, shown=value)


def _value(tool: str, told: dict[str, Any]) -> shown.AnyShown | None:
    if "judged" in told:
        return _shown_as("judgement", judgement=told["judged"], by=told.get("judged_by", ""))
    if "timeout_s" in told:
        return _shown_as("wait", waited_s=told["timeout_s"])
    if tool == "bash" and ("exit_code" in told or "sandbox" in told):
        return _shown_as("command", **told, **told.get("hosts", {}))
    if tool == "read_file" and "last_line" in told:
        return _shown_as("read", **told) if told["last_line"] else shown.ShownRead()
    if tool == "grep" and "matches" in told:
        return _shown_as("search", found=told["matches"], files=told["files"], more=told["more"])
    if tool in ("glob", "ls") and "more" in told:
        return _shown_as("search", found=told["files" if tool == "glob" else "entries"], more=told["more"])
    if "diff" in told and tool in ("write_file", "edit_file", "apply_patch"):
        files: list[dict[str, Any]] = told.get("files", [told])
        given = [_file(file) for file in files]
        diffs = _parts(told["diff"], given)
        return _shown_as("edit", files=[{**file, "diff": diffs[at]} for at, file in enumerate(given)])
    return None


def _shown_as(tag: str, **fields: Any) -> shown.AnyShown:
    return msgspec.convert({**fields, "as": tag}, shown.AnyShown)


def _parts(diff: str, files: list[dict[str, Any]]) -> list[str]:
    """The diffs of the files, which were one text; a file without changes in its lines has none."""
    starts: list[int] = []
    for file in files:
        old = "/dev/null" if file["kind"] == "create" else f"a/{file.get('moved_from', file['path'])}"
        new = "/dev/null" if file["kind"] == "delete" else f"b/{file['path']}"
        starts.append(diff.find(f"--- {old}\n+++ {new}\n@@ ", max(starts, default=0)))
    if max(starts) < 0:
        starts[0] = 0  # whoever wrote it, it is shown
    ends = [min((other for other in starts if other > start), default=len(diff)) for start in starts]
    return [diff[start:end] if start >= 0 else "" for start, end in zip(starts, ends, strict=True)]


def _file(told: dict[str, Any]) -> dict[str, Any]:
    if told.get("created"):
        kind = "create"
    elif told.get("deleted"):
        kind = "delete"
    else:
        kind = "move" if "moved_from" in told else "change"
    return {**told, "kind": kind}


DURABLE_KINDS: frozenset[str] = frozenset(kind.__name__ for kind in get_args(events.DurableEvent))
_TYPES: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (*get_args(events.DurableEvent), *get_args(events.LiveEvent))
}
EVENT_KINDS: tuple[str, ...] = tuple(_TYPES)
COMMAND_KINDS: tuple[str, ...] = tuple(kind.__name__ for kind in get_args(commands.AnyCommand))

EXPIRED = '"«ttl-expired»"'.encode()
"""What stands in place of a payload whose content was deleted because of its age."""

_encoder = msgspec.json.Encoder()


class _Wire(msgspec.Struct, kw_only=True, omit_defaults=True):
    id: int | None = None
    kind: str
    session: str
    originator: str
    ts: str
    payload: msgspec.Raw
    turn: int | None = None
    agent_path: tuple[str, ...] = ()
    invocation: str | None = None


def kind_of(event: AnyEvent) -> str:
    return event.kind if type(event) is UnknownEvent else type(event).__name__


def kind_of_command(command: commands.AnyCommand) -> str:
    return type(command).__name__


def encode_payload(event: AnyEvent) -> bytes:
    return event.raw if type(event) is UnknownEvent else _encoder.encode(event)


def payload_of(envelope: Envelope) -> bytes:
    """The event as bytes: those in the log or on the wire, encoded once where there were none."""
    kept = vars(envelope)
    if "payload" not in kept:
        kept["payload"] = encode_payload(envelope.event)
    return kept["payload"]


def with_payload(envelope: Envelope, payload: bytes) -> Envelope:
    """The envelope, which keeps the bytes its event has in the log or had on the wire."""
    vars(envelope)["payload"] = payload
    return envelope


def decode_payload(kind: str, raw: bytes | memoryview) -> AnyEvent:
    return read_payload(kind, raw)[0]


def read_payload(kind: str, raw: bytes | memoryview) -> tuple[AnyEvent, bool]:
    """The event, and whether its bytes have the shape of today: others are not handed on, clients read one version."""
    known = _TYPES.get(kind)
    if known is None or raw == EXPIRED:
        return UnknownEvent(kind=kind, raw=bytes(raw)), True
    try:
        event = _decoder(known).decode(raw)
    except msgspec.ValidationError:
        if kind not in READERS:
            raise
        return READERS[kind](_decoder(dict[str, Any]).decode(raw)), False
    if kind == "ToolResult" and event.shown is None and event.metadata:
        shown = with_shown(event)
        return shown, shown is event
    return event, True


def is_expired(event: AnyEvent) -> bool:
    """Whether only the place of this event is left."""
    return isinstance(event, UnknownEvent) and event.raw == EXPIRED


def encode_envelope(envelope: Envelope, payload: bytes | None = None) -> bytes:
    """The wire form. `payload` stands in place of the event's own bytes, without its secrets for one."""
    return _encoder.encode(
        _Wire(
            id=envelope.id,
            kind=envelope.kind,
            session=envelope.session,
            originator=envelope.originator,
            ts=iso_ms(envelope.ts_ms),
            payload=msgspec.Raw(payload_of(envelope) if payload is None else payload),
            turn=envelope.turn,
            agent_path=envelope.agent_path,
            invocation=envelope.invocation,
        )
    )


def wire_of(envelope: Envelope) -> bytes:
    """The wire form with the event's own bytes, made once for all who are sent it."""
    kept = vars(envelope)
    if "wire" not in kept:
        kept["wire"] = encode_envelope(envelope)
    return kept["wire"]


def decode_envelope(raw: bytes) -> Envelope:
    wire = _decoder(_Wire).decode(raw)
    payload = bytes(wire.payload)
    event, is_of_today = read_payload(wire.kind, payload)
    envelope = Envelope(
        id=wire.id,
        kind=wire.kind,
        session=wire.session,
        originator=wire.originator,
        ts_ms=from_iso_ms(wire.ts),
        event=event,
        turn=wire.turn,
        agent_path=wire.agent_path,
        invocation=wire.invocation,
    )
    return with_payload(envelope, payload) if is_of_today else envelope


def encode_command(command: commands.AnyCommand) -> bytes:
    return _encoder.encode(command)


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are no JSON of ours: broken, no UTF-8, or nested without end."""


def decode_command(raw: bytes) -> commands.AnyCommand:
    """Reads a command; an unknown kind and a malformed body are refused with a reason that names them."""
    return decode_request(raw, commands.AnyCommand, COMMAND_KINDS)


def decode_request(raw: bytes, union: Any, kinds: Collection[str]) -> Any:
    """Reads one of a union, whose `kinds` are these. Raises `CommandRefused`."""
    try:
        return _decoder(union).decode(raw)
    except _UNREADABLE as problem:
        kind = _kind_named_in(raw)
        if kind not in kinds:
            raise CommandRefused("UnknownCommand", kind=kind) from None
        raise CommandRefused("BadCommand", kind=kind, problem=str(problem)) from None


def _kind_named_in(raw: bytes) -> str:
    try:
        body = msgspec.json.decode(raw)
    except _UNREADABLE:
        return ""
    return str(body.get("kind", "")) if isinstance(body, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


@cache
def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
