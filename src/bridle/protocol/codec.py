"""Commands and events as JSON bytes, both ways.

An event is encoded once: the payload bytes go to the log, and the same bytes inside an envelope to every client.
The kind stands on the envelope, so decoding is a look-up by kind. A kind this version does not know becomes
`UnknownEvent` and is written back exactly as it came.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, get_args

import msgspec

from bridle.base.clock import from_iso_ms, iso_ms
from bridle.protocol import commands, events
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import AnyEvent, Envelope, UnknownEvent
from bridle.protocol.other_shapes import READERS, with_shown

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
