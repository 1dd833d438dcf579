"""Find the JSON in a model's answer and check it against a schema."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

_FENCED: Final = re.compile(r"^```[^\n`]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


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
