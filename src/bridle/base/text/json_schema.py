"""Check JSON Schemas from untrusted sources and values against them in bounded time, and find JSON in a model's answer.

Nothing is fetched: a reference leads to another place of the same schema or is refused. Every keyword counts against a
limit. Regular expressions are not run: the server that wrote a `pattern` checks its own input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Final, cast

import msgspec

MOST_BYTES: Final = 128 * 1024
MOST_CHECKS: Final = 30_000
"""How much a check may cost, in keywords and what they are held against: about half a second."""
_MOST_TO_READ: Final = 10 * MOST_CHECKS
"""The same for a schema itself, once."""
_MEMBERS: Final = 16
"""So many members of a list or an object cost what a keyword costs."""
_MESSAGE_CHARACTERS: Final = 200

_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose values are schemas by name."""
_DATA: Final = frozenset({"const", "enum", "default", "examples"})
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_INDEX_DIGITS: Final = 6
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_PATTERNS: Final = ("pattern", "patternProperties")
_REFUSES_MATCHES: Final = ("not", "disallow", "if", "contains", "unevaluatedProperties", "unevaluatedItems")
"""Keywords that may refuse a value because a schema matches it. A pattern counts as matching, so they are not checked
in a schema that has one; `oneOf` is checked as `anyOf`."""


class BadSchema(ValueError):
    """Its text reads as the end of a sentence."""


class JsonSchema:
    """A JSON Schema of an object. `check` it before it is used; both `check` and `problem` load what knows schemas.

    `checked`: somebody has, and it need not be done again.
    """

    def __init__(self, document: Mapping[str, Any], *, checked: bool = False) -> None:
        self.document = dict(document)
        self._checked = checked
        self._left = 0
        self._validator: Any = None

    def check(self) -> None:
        """Raises `BadSchema` where it is none, leads out of itself, or is too large to be obeyed."""
        if self._checked:
            return
        try:
            if _encoded_bytes(self.document) > MOST_BYTES:
                raise BadSchema(f"it has more than {MOST_BYTES // 1024} KB")
            if self.document.get("type") != "object":
                raise BadSchema('its type is not "object"')
            self._made()
        except RecursionError:
            raise BadSchema("it is nested too deeply") from None
        except _Exhausted:
            raise BadSchema("reading it takes too long") from None

    def problem(self, value: object) -> str | None:
        """What is wrong with a value, and where; None when it fits."""
        self._left = MOST_CHECKS
        try:
            error = next(self._made().iter_errors(value), None)
        except _Exhausted:
            return "checking it takes too long - at `$`"
        except RecursionError:
            return "it is nested too deeply - at `$`"
        except OverflowError:
            return "a number in it is too large - at `$`"
        if error is None:
            return None
        message = error.message.rstrip(".")
        if len(message) > _MESSAGE_CHARACTERS:
            message = message[: _MESSAGE_CHARACTERS - 1] + "…"
        return f"{message} - at `{error.json_path}`"

    def _made(self) -> Any:
        if self._validator is None:
            self._validator = self._validator_of_document()
        return self._validator

    def _validator_of_document(self) -> Any:
        import jsonschema.validators

        library: Any = jsonschema.validators
        self._left = _MOST_TO_READ
        try:
            known = library.validator_for(self.document, default=library.Draft202012Validator)
        except (TypeError, ValueError, AttributeError):
            raise BadSchema('its "$schema" is no address') from None
        local = library.SPECIFICATIONS  # what it takes by default would fetch
        of_schemas = self._bounded(library, known, {})(known.META_SCHEMA, registry=local)
        if (error := next(of_schemas.iter_errors(self.document), None)) is not None:
            raise BadSchema(f"{error.message[:_MESSAGE_CHARACTERS]} - at `{error.json_path}`")
        schemas = list(_schemas(self.document))
        anchors = {f"#{schema[name]}" for schema in schemas for name in _ANCHORS if name in schema}
        places, targets = {id(schema) for schema in schemas}, dict[str, Any]()
        for schema in schemas:
            if schema is not self.document and "$id" in schema:
                raise BadSchema('"$id" inside of it is not supported')
            for name in _REFERENCES:
                if isinstance(target := schema.get(name), str):
                    if not target.startswith("#"):
                        raise BadSchema(f'"{name}" leads to {target[:80]!r}, and nothing is fetched')
                    if target in anchors or target == "#":
                        continue
                    targets[target] = place = _place_of(self.document, target)
                    if not isinstance(place, bool) and id(place) not in places:
                        raise BadSchema(f'"{name}" leads to {target[:80]!r}, which is not there')
        for target, place in targets.items():  # nobody has looked at one in a place that schemas do not know
            if (error := next(of_schemas.iter_errors(place), None)) is not None:
                raise BadSchema(f"{error.message[:_MESSAGE_CHARACTERS]} - at {target[:80]!r}")
        own: dict[str, Callable[..., Any]] = {}
        if any(name in schema for schema in schemas for name in _PATTERNS):
            own = dict.fromkeys((*_PATTERNS, *_REFUSES_MATCHES), _unchecked)
            own |= {"oneOf": known.VALIDATORS.get("anyOf", _unchecked)}
        return self._bounded(library, known, own)(self.document, registry=local)

    def _bounded(self, library: Any, known: Any, own: Mapping[str, Callable[..., Any]]) -> Any:
        """The library's validators with a limit, and with our own where its could take for ever."""
        ours: dict[str, Callable[..., Any]] = {
            "additionalProperties": _additional_properties,
            "uniqueItems": _unique_items,
            **own,
        }
        chosen = {**known.VALIDATORS, **{name: ours[name] for name in ours.keys() & known.VALIDATORS.keys()}}
        return library.extend(known, {name: self._counted(run) for name, run in chosen.items()})

    def _counted(self, run: Callable[..., Any]) -> Callable[..., Generator[Any]]:
        """A keyword that counts what it looks at."""

        def counted(validator: Any, keyword: Any, value: Any, schema: Any) -> Generator[Any]:
            self._left -= 1 + (_size(keyword) + _size(value)) // _MEMBERS
            if self._left < 0:
                raise _Exhausted
            yield from run(validator, keyword, value, schema) or ()

        return counted


def _encoded_bytes(document: object) -> int:
    try:
        return len(msgspec.json.encode(document))
    except (TypeError, ValueError, msgspec.MsgspecError):
        raise BadSchema("it is not JSON") from None


def _place_of(document: object, pointer: str) -> Any:
    """What stands where a JSON Pointer leads, as the fragment of a reference; None where that is nowhere."""
    if not pointer.startswith("#/"):
        return None
    from urllib.parse import unquote

    place: Any = document
    for step in unquote(pointer[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and name.isdecimal() and len(name) < _INDEX_DIGITS:
            here = cast("list[Any]", place)
            place = here[int(name)] if int(name) < len(here) else None
        elif isinstance(place, dict):
            place = cast("dict[str, Any]", place).get(name)
        else:
            return None
    return place


class _Exhausted(Exception):
    """The limit of a check is reached."""


def _size(value: object) -> int:
    return len(cast("list[Any]", value)) if isinstance(value, list | dict) else 0


def _error(message: str) -> Any:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message)


def _unchecked(_validator: Any, _keyword: Any, _value: Any, _schema: Any) -> tuple[Any, ...]:
    return ()


def _additional_properties(validator: Any, allowed: Any, value: Any, schema: Any) -> Iterator[Any]:
    """Without running patterns: beside `patternProperties` every name may be one of those."""
    if not isinstance(value, dict) or "patternProperties" in schema:
        return
    for name, item in cast("dict[str, Any]", value).items():
        if name in schema.get("properties", {}):
            continue
        if isinstance(allowed, dict):
            yield from validator.descend(item, allowed, path=name)
        elif not allowed:
            yield _error(f"there is no property {name!r}")


def _unique_items(_validator: Any, wanted: Any, value: Any, _schema: Any) -> Iterator[Any]:
    if wanted and isinstance(value, list):
        encode, items = msgspec.json.Encoder(order="deterministic").encode, cast("list[Any]", value)
        if len({encode(item) for item in items}) < len(items):
            yield _error("the items are not all different")


def _schemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    for name, value in schema.items():
        if name in _DATA:
            continue
        if name in _NAMED and isinstance(value, dict):
            inner = list(cast("dict[str, Any]", value).values())
        else:
            inner = cast("list[Any]", value) if isinstance(value, list) else [value]
        for one in inner:
            if isinstance(one, dict):
                yield from _schemas(cast("dict[str, Any]", one))


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
