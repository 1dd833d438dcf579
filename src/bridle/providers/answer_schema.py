"""The JSON Schema of an answer as vendors take it: they hold a model to a part of JSON Schema only. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from bridle.protocol.events import PrefixSet
from bridle.providers.endpoints import Quirks

NAME: Final = "answer"
"""Some vendors want to know what the schema is called."""
_NOTES: Final = frozenset({"title", "description", "default", "examples"})
_HELD: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf"}
)
_NAMES_ONLY: Final = frozenset({"$schema", "$id"})
"""Which schema it is says nothing about the answer."""


def sent_schema(prefix: PrefixSet, quirks: Quirks) -> dict[str, Any] | None:
    """The schema that goes with a request; None where the model takes none, or none that is no object."""
    schema = prefix.parameters.answer_schema
    if schema is None or schema.get("type") != "object":
        return None
    if any(fnmatchcase(prefix.model, pattern) for pattern in quirks.schemaless_models):
        return None
    return {name: value for name, value in schema.items() if name not in _NAMES_ONLY}


def is_closed(schema: object, *, optional: bool) -> bool:
    """Whether a vendor can hold a model to every word of a schema: objects that name all they may have, and nothing
    about sizes, patterns or other schemas. With `optional` an object may leave properties out.
    """
    if not isinstance(schema, Mapping):
        return False
    node = cast("Mapping[str, Any]", schema)
    if not node.keys() <= _HELD | _NOTES or not (node.keys() & {"type", "enum", "const", "anyOf"}):
        return False
    properties = node.get("properties", {})
    if node.get("type") == "object" or properties:
        if node.get("additionalProperties") is not False or not isinstance(properties, Mapping):
            return False
        names = cast("Mapping[str, Any]", properties)
        if not optional and set(node.get("required", ())) != set(names):
            return False
        if not all(is_closed(one, optional=optional) for one in names.values()):
            return False
    if node.get("type") == "array" and not is_closed(node.get("items"), optional=optional):
        return False
    return all(is_closed(one, optional=optional) for one in node.get("anyOf", ()))
