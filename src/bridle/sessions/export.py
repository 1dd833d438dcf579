"""A session as JSON lines: the envelopes of the event stream, one per line, as every client saw them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bridle.protocol.codec import encode_envelope
from bridle.sessions.reading import Record


def jsonl(records: Iterable[Record]) -> Iterator[bytes]:
    """One line with its newline per event. Payloads keep their bytes, fields of newer versions included."""
    for record in records:
        yield encode_envelope(record.envelope, record.payload) + b"\n"
