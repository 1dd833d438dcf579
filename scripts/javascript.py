"""The generated files of the JavaScript client: the protocol as TypeScript types, and where each kind goes over HTTP.

Run `python scripts/javascript.py` after changing a type of the protocol; a test compares the two.
"""

from __future__ import annotations

import json
import sys
from inspect import cleandoc
from pathlib import Path
from typing import Any, get_args

import msgspec

from bridle.control.routes import routes
from bridle.protocol import queries
from bridle.protocol.codec import COMMAND_KINDS
from bridle.protocol.commands import Accepted
from bridle.protocol.handshake import PROTOCOL_VERSION
from bridle.protocol.schema import documents

FOLDER = Path(__file__).parent.parent / "clients" / "javascript"
MADE = "// Made by scripts/javascript.py from the types of the protocol. Do not edit.\n"
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def files() -> dict[str, str]:
    """File name → text, deterministic."""
    return {"protocol.d.ts": _protocol(), "wire.js": _wire(), "wire.d.ts": _wire_types()}


def _protocol() -> str:
    schemas: dict[str, Any] = {name: msgspec.json.decode(text) for name, text in documents().items()}
    definitions = _definitions(*schemas.values())
    definitions["Accepted"] = msgspec.json.schema(Accepted)["$defs"]["Accepted"]
    events = [choice["if"]["properties"]["kind"]["const"] for choice in schemas["events.json"]["allOf"]]
    answers = {kind.__name__: _answer_of(kind) for kind in get_args(queries.AnyQuery)}
    parts = [
        MADE,
        *(_declared(name, definitions[name]) for name in sorted(definitions)),
        _union("Command", sorted(COMMAND_KINDS)),
        _union("Query", sorted(answers)),
        _table("Answers", answers),
        'export type AnswerOf<Q extends Query> = Answers[Q["kind"]];\n',
        _table("Payloads", {kind: kind for kind in sorted(events)}),
        _envelope(schemas["events.json"]["properties"]),
    ]
    return "\n".join(parts)


def _definitions(*schemas: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for schema in schemas:
        for name, definition in schema["$defs"].items():
            if found.setdefault(name, definition) != definition:
                sys.exit(f"two types are called {name}")
    return found


def _answer_of(query: type[Any]) -> str:
    """The type of a query's answer, as its base says it."""
    return get_args(query.__orig_bases__[0])[0].__name__


def _declared(name: str, schema: dict[str, Any]) -> str:
    words = _comment(schema.get("description", ""))
    if schema.get("type") != "object" or "properties" not in schema:
        return f"{words}export type {name} = {_type(schema)};\n"
    required = schema.get("required", ())
    fields = [
        f"  {_name(field)}{'' if field in required else '?'}: {_type(kind)};"
        for field, kind in schema["properties"].items()
    ]
    return "\n".join([f"{words}export interface {name} {{", *fields, "}\n"])


def _name(field: str) -> str:
    return field if field.isidentifier() else json.dumps(field)


def _comment(words: str) -> str:
    if not words:
        return ""
    lines = cleandoc(words).replace("*/", "* /").split("\n")
    if len(lines) == 1:
        return f"/** {lines[0]} */\n"
    return "\n".join(["/**", *(f" * {line}".rstrip() for line in lines), " */\n"])


def _type(schema: dict[str, Any]) -> str:
    match schema:
        case {"$ref": reference}:
            return reference.removeprefix("#/$defs/")
        case {"anyOf": choices}:
            return " | ".join(dict.fromkeys(_type(choice) for choice in choices))
        case {"enum": values}:
            return " | ".join(json.dumps(value) for value in values)
        case {"const": value}:
            return json.dumps(value)
        case {"type": "array", "prefixItems": items}:
            return f"[{', '.join(_type(item) for item in items)}]"
        case {"type": "array", "items": dict() as item}:
            return f"Array<{_type(item)}>"
        case {"type": "object", "additionalProperties": dict() as value}:
            return f"Record<string, {_type(value)}>"
        case {"type": "object"}:
            return "Record<string, unknown>"
        case {"type": str() as name} if name in _PLAIN:
            return _PLAIN[name]
        case {"type": list() as names}:
            return " | ".join(_PLAIN[name] for name in names)
        case _:
            return "unknown"


def _union(name: str, kinds: list[str]) -> str:
    return "\n".join([f"export type {name} =", *(f"  | {kind}" for kind in kinds)]) + ";\n"


def _table(name: str, rows: dict[str, str]) -> str:
    return "\n".join(
        [f"export interface {name} {{", *(f"  {key}: {rows[key]};" for key in sorted(rows)), "}\n"]
    )


def _envelope(properties: dict[str, Any]) -> str:
    """An event as it travels. A kind that is not known here is read as one, with a payload nobody vouches for."""
    always = {"session", "originator", "ts"}
    fields = [
        f"  {name}{'' if name in always else '?'}: {_type(kind)};"
        for name, kind in properties.items()
        if name not in ("kind", "payload")
    ]
    return "\n".join(
        [
            "export interface EnvelopeFields {",
            *fields,
            "}\n",
            "/** An event as it travels. Kinds of a newer engine come too: leave them alone. */",
            "export type Envelope = {",
            "  [K in keyof Payloads]: EnvelopeFields & { kind: K; payload: Payloads[K] };",
            "}[keyof Payloads];\n",
        ]
    )


def _wire() -> str:
    places = {kind.__name__: (route.method, route.path) for route in routes() for kind in route.kinds}
    rows = [
        f"  {kind}: {{ method: {json.dumps(method)}, path: {json.dumps(path)} }},"
        for kind, (method, path) in sorted(places.items())
    ]
    head = [MADE, f"export const PROTOCOL_VERSION = {json.dumps(PROTOCOL_VERSION)};\n"]
    return "\n".join([*head, "export const ROUTES = {", *rows, "};\n"])


def _wire_types() -> str:
    routes_type = "Record<string, { method: string; path: string }>"
    return f"{MADE}\nexport const PROTOCOL_VERSION: string;\nexport const ROUTES: {routes_type};\n"


def main() -> None:
    for name, text in files().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
