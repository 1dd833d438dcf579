"""An answer that must fit a JSON Schema: asked for in words, checked when it comes."""

from __future__ import annotations

from typing import Any

import msgspec

from bridle.base.files import read_limited
from bridle.protocol.errors import UsageError

MAX_BYTES = 256 * 1024


def read_schema(path: str) -> dict[str, Any]:
    """The schema in a file. Raises `UsageError` for one that is no JSON Schema."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        schema = msgspec.json.decode(read_limited(path, MAX_BYTES).data, type=dict[str, Any])
    except OSError as problem:
        raise UsageError(f"The schema {path} cannot be read ({problem.strerror})") from None
    except ValueError as problem:
        raise UsageError(f"The schema {path} is not a JSON object ({problem})") from None
    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as problem:
        raise UsageError(f"The schema {path} is not a JSON Schema ({problem.message})") from None
    return schema


def asked_for(schema: dict[str, Any]) -> str:
    """What the model is told."""
    text = msgspec.json.encode(schema).decode()
    return f"Answer with one JSON value that matches this JSON Schema, and with nothing else:\n{text}"


def mismatch(answer: str, schema: dict[str, Any]) -> str | None:
    """What is wrong with an answer; None when it fits."""
    from jsonschema.validators import validator_for

    try:
        value = msgspec.json.decode(_unfenced(answer))
    except ValueError as problem:
        return f"it is not JSON ({problem})"
    error = next(validator_for(schema)(schema).iter_errors(value), None)
    if error is None:
        return None
    where = "/".join(str(part) for part in error.absolute_path) or "the whole"
    return f"{where}: {error.message[:200]}"


def _unfenced(answer: str) -> str:
    """Models like to put JSON between fences; those are not part of it."""
    text = answer.strip()
    if text.startswith("```") and text.endswith("```"):
        return text.partition("\n")[2].rpartition("```")[0]
    return text
