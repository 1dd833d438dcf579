"""An answer that must fit a JSON Schema: asked for in words, and once more. What checks it is `base.json_answer`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bridle.base.fs.files import read_limited
from bridle.protocol.errors import UsageError

MAX_BYTES: Final = 256 * 1024


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
        validator_for(schema)(schema).is_valid({})
    except SchemaError as problem:
        raise UsageError(f"The schema {path} is not a JSON Schema ({problem.message})") from None
    except RecursionError:
        raise UsageError(f"The schema {path} is nested too deeply. Make it flatter") from None
    return schema


def asked_for(schema: dict[str, Any]) -> str:
    """What the model is told."""
    text = msgspec.json.encode(schema).decode()
    return f"Answer with one JSON value that matches this JSON Schema, and with nothing else:\n{text}"


def asked_again(problem: str) -> str:
    """What the model is told of an answer that does not fit."""
    return (
        f"That answer does not fit the JSON Schema: {problem}. "
        "Answer again with one JSON value that matches it, and with nothing else."
    )
