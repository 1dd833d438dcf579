"""An answer that must fit a JSON Schema: asked for in words, checked when it comes, asked for once more."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from bridle.base.files import read_limited
from bridle.protocol.errors import UsageError

MAX_BYTES: Final = 256 * 1024
_FENCED: Final = re.compile(r"^```[^\n`]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


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


class CheckedAnswer(msgspec.Struct, frozen=True):
    """An answer held against a schema: the JSON in it, and what is wrong with that; None when it fits."""

    text: str
    problem: str | None = None


def checked(answer: str, schema: dict[str, Any]) -> CheckedAnswer:
    """The JSON of an answer, without fences and words around it, and whether it fits."""
    from jsonschema.validators import validator_for

    text, value, problem = _json_in(answer)
    if problem is not None:
        return CheckedAnswer(text, f"it is not JSON ({problem})")
    error = next(validator_for(schema)(schema).iter_errors(value), None)
    if error is None:
        return CheckedAnswer(text)
    where = "/".join(str(part) for part in error.absolute_path) or "the whole"
    return CheckedAnswer(text, f"{where}: {error.message[:200]}")


def _json_in(answer: str) -> tuple[str, Any, str | None]:
    """Models like to put JSON between fences, with a word before: what stands there counts if the whole is no JSON."""
    text = answer.strip()
    try:
        return text, msgspec.json.decode(text), None
    except ValueError as problem:
        first = str(problem)
    fenced = _FENCED.findall(text)
    if len(fenced) == 1:
        try:
            return fenced[0].strip(), msgspec.json.decode(fenced[0].strip()), None
        except ValueError as problem:
            return fenced[0].strip(), None, str(problem)
    return text, None, first
