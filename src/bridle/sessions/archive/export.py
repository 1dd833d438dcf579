"""Export a session as JSON lines, with secrets redacted.

They were taken out when they were stored; what is known about their shapes may have grown since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from bridle.base.secrets.redact import redact
from bridle.base.secrets.secret_openings import might_hold_secret
from bridle.engine.ports import Record
from bridle.protocol.codec import decode_payload, encode_envelope
from bridle.protocol.events import Envelope


def jsonl(records: Iterable[Record]) -> Iterator[bytes]:
    for record in records:
        yield encode_envelope(record.envelope, without_secrets(record.payload)) + b"\n"


def clean(records: Iterable[Record]) -> Iterator[Envelope]:
    """The events, for whoever makes a page of them."""
    for record in records:
        envelope, payload = record.envelope, without_secrets(record.payload)
        if payload is not record.payload:
            envelope = msgspec.structs.replace(envelope, event=decode_payload(envelope.kind, payload))
        yield envelope


def without_secrets(payload: bytes) -> bytes:
    """The payload with every secret in its texts replaced; the very same bytes when there is none."""
    if not might_hold_secret(payload):
        return payload
    found = msgspec.json.decode(payload)
    cleaned = _cleaned(found)
    return payload if cleaned == found else msgspec.json.encode(cleaned)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {redact(key): _cleaned(item) for key, item in cast("dict[str, Any]", value).items()}
    return value
