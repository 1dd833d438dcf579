"""The protocol as JSON Schema, made from the types. `docs/schema/` holds the committed copy.

Run `python -m bridle.protocol.schema FOLDER` after changing a type; a test compares the two.
"""

from __future__ import annotations

import sys
from inspect import cleandoc
from pathlib import Path
from typing import Any, cast, get_args

import msgspec

from bridle.protocol import commands, events, queries
from bridle.protocol.codec import DURABLE_KINDS
from bridle.protocol.handshake import PROTOCOL_VERSION, Handshake
from bridle.protocol.tokens import Claims

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def documents() -> dict[str, bytes]:
    """File name → bytes, deterministic."""
    return {
        "commands.json": _document("Command", commands.AnyCommand),
        "events.json": _events(),
        "queries.json": _document("Query", queries.AnyQuery),
        "query-answers.json": _document("QueryAnswer", queries.AnyQueryAnswer),
        "handshake.json": _document("Handshake", Handshake),
        "token-claims.json": _document("TokenClaims", Claims),
    }


def _document(title: str, kind: Any) -> bytes:
    (schema,), definitions = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    return _bytes({"$schema": DRAFT, "title": title, **schema, "$defs": definitions})


def _events() -> bytes:
    """The envelope, its payload chosen by kind. Other kinds are allowed: readers keep what they do not know."""
    kinds = (*get_args(events.DurableEvent), *get_args(events.LiveEvent))
    payloads, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    choices = [
        {
            "if": {"properties": {"kind": {"const": kind.__name__}}},
            "then": {
                "properties": {"payload": payload},
                **({"required": ["id"]} if kind.__name__ in DURABLE_KINDS else {}),
            },
        }
        for kind, payload in zip(kinds, payloads, strict=True)
    ]
    return _bytes(
        {
            "$schema": DRAFT,
            "title": "Envelope",
            "type": "object",
            "required": ["kind", "session", "originator", "ts", "payload"],
            "properties": {
                "id": {"type": "integer", "minimum": 1},
                "kind": {"type": "string"},
                "session": {"type": "string"},
                "originator": {"type": "string"},
                "ts": {"type": "string", "format": "date-time"},
                "payload": {"type": "object"},
                "turn": {"type": "integer"},
                "agent_path": {"type": "array", "items": {"type": "string"}},
                "invocation": {"type": "string"},
            },
            "allOf": choices,
            "$defs": definitions,
        }
    )


def _bytes(schema: dict[str, Any]) -> bytes:
    schema["$comment"] = f"Bridle protocol {PROTOCOL_VERSION}"
    return (
        msgspec.json.format(msgspec.json.encode(clean_descriptions(schema), order="deterministic"), indent=2)
        + b"\n"
    )


def clean_descriptions(value: Any) -> Any:
    """Descriptions are docstrings, whose indentation differs between versions of Python."""
    if isinstance(value, list):
        return [clean_descriptions(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {
            name: cleandoc(item)
            if name == "description" and isinstance(item, str)
            else clean_descriptions(item)
            for name, item in fields.items()
        }
    return value


def main(folder: str) -> None:
    for name, text in documents().items():
        Path(folder, name).write_bytes(text)


if __name__ == "__main__":
    main(sys.argv[1])
