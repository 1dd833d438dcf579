"""What a server asks a person for while a call runs, as questions to that person, and their answers as its form wants.

The forms of the protocol are flat: texts, numbers, yes or no, and choices. Anything else is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from bridle.base.text.json_schema import BadSchema, JsonSchema
from bridle.engine.ports import AskPerson
from bridle.protocol.questions import InputAnswer, InputField, InputQuestion

MOST_FIELDS: Final = 20
_MOST_CHARACTERS: Final = 2_000
_MOST_CHOICES: Final = 100
_KINDS: Final[Mapping[str, Any]] = {
    "string": "text",
    "number": "number",
    "integer": "whole number",
    "boolean": "yes or no",
}
_YES: Final = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
_TRIES: Final = 3


class InputRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a server asks a person for: an address to open, or a form as a JSON Schema."""

    message: str
    url: str = ""
    schema: dict[str, Any] = {}


class InputReply(msgspec.Struct, frozen=True, kw_only=True):
    """What the server is told: `accept` with what a person said, `decline`, or `cancel` where nobody was there."""

    action: str
    values: dict[str, Any] | None = None


NOBODY: Final = InputReply(action="cancel")
DECLINED: Final = InputReply(action="decline")


async def ask_person(request: InputRequest, ask: AskPerson, *, question_id: str, server: str) -> InputReply:
    """Asks field by field. One that is declined ends it: a server gets all of a form, or nothing."""
    message = request.message[:_MOST_CHARACTERS]
    if request.url:
        answer = await ask(question_id, InputQuestion(server=server, message=message, url=request.url))
        if not isinstance(answer, InputAnswer):
            return NOBODY
        return DECLINED if answer.declined else InputReply(action="accept")
    fields = form_fields(request.schema)
    if fields is None:
        return DECLINED
    values: dict[str, Any] = {}
    for number, (field, schema) in enumerate(fields, 1):
        question = InputQuestion(
            server=server, message=message, field=field, number=number, count=max(1, len(fields))
        )
        for attempt in range(_TRIES):
            answer = await ask(f"{question_id}-{number}-{attempt}", question)
            if not isinstance(answer, InputAnswer):
                return NOBODY
            if answer.declined:
                return DECLINED
            try:
                value = field_value(answer.text, field, schema)
            except ValueError as problem:
                question = msgspec.structs.replace(question, problem=str(problem))
                continue
            if value is not None:
                values[field.name] = value
            break
        else:
            return NOBODY
    return InputReply(action="accept", values=values)


def default_reply(request: InputRequest) -> InputReply:
    """What a form says itself, as an answer; a no where that is not enough for it. Pure."""
    fields = form_fields(request.schema) if not request.url else None
    if fields is None:
        return DECLINED
    values: dict[str, Any] = {}
    for field, schema in fields:
        try:
            value = field_value("", field, schema)
        except ValueError:
            return DECLINED
        if value is not None:
            values[field.name] = value
    return InputReply(action="accept", values=values)


def form_fields(schema: Mapping[str, Any]) -> list[tuple[InputField, dict[str, Any]]] | None:
    """The fields of a form, each with its own schema; None where it is none that a person can be asked. Total."""
    properties: object = schema.get("properties")
    if not isinstance(properties, Mapping) or len(cast("Mapping[str, object]", properties)) > MOST_FIELDS:
        return None
    required: object = schema.get("required") or ()
    needed = cast("Sequence[object]", required) if isinstance(required, list | tuple) else ()
    found: list[tuple[InputField, dict[str, Any]]] = []
    for name, raw in cast("Mapping[str, object]", properties).items():
        if not isinstance(raw, Mapping):
            return None
        one = dict(cast("Mapping[str, Any]", raw))
        field = _field(name, one, required=name in needed)
        if field is None:
            return None
        found.append((field, one))
    return found


def field_value(text: str, field: InputField, schema: Mapping[str, Any]) -> Any:
    """What was written, as the field wants it; None leaves it out. Raises `ValueError`, which says what is wrong."""
    written = text.strip() or field.default
    if not written:
        if field.required:
            raise ValueError("it is needed")
        return None
    value = _converted(written, field, schema)
    try:
        problem = JsonSchema({"type": "object", "properties": {field.name: dict(schema)}}).problem(
            {field.name: value}
        )
    except BadSchema:
        return value  # the server has to look at it itself
    if problem is not None:
        raise ValueError(problem.partition(" - at ")[0])
    return value


def _field(name: str, schema: Mapping[str, Any], *, required: bool) -> InputField | None:
    many = schema.get("type") == "array"
    choices = _choices(_mapping(schema.get("items")) if many else schema)
    kind = "text" if many else _KINDS.get(str(schema.get("type", "string")))
    if kind is None or (many and not choices):
        return None
    default: Any = schema.get("default")
    return InputField(
        name=name,
        title=_text(schema.get("title")),
        about=_text(schema.get("description")),
        kind=kind,
        choices=tuple(label for label, _value in choices),
        many=many,
        required=required,
        default=_written(default, choices),
    )


def _choices(schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every choice as it is shown and as it is sent."""
    named: Any = schema.get("oneOf") or schema.get("anyOf") or ()
    found = [
        (_text(one.get("title")) or str(one["const"]), str(one["const"]))
        for one in map(_mapping, cast("Sequence[object]", named) if isinstance(named, list) else ())
        if "const" in one
    ]
    plain: Any = schema.get("enum")
    if not found and isinstance(plain, list):
        labels: Any = schema.get("enumNames")
        values = [str(value) for value in cast("list[object]", plain)]
        shown = [str(label) for label in cast("list[object]", labels)] if isinstance(labels, list) else values
        found = list(zip(shown if len(shown) == len(values) else values, values, strict=True))
    return found[:_MOST_CHOICES]


def _converted(written: str, field: InputField, schema: Mapping[str, Any]) -> Any:
    if field.choices:
        values = dict(_choices(_mapping(schema.get("items")) if field.many else schema))
        chosen = [word.strip() for word in written.split(",")] if field.many else [written]
        for word in chosen:
            if word not in values and word not in values.values():
                raise ValueError(f"{word!r} is none of the choices")
        picked = [values.get(word, word) for word in chosen]
        return picked if field.many else picked[0]
    match field.kind:
        case "yes or no":
            if written.lower() not in _YES:
                raise ValueError("it is yes or no")
            return _YES[written.lower()]
        case "whole number":
            return int(written)
        case "number":
            return float(written)
        case "text":
            return written


def _written(default: Any, choices: Sequence[tuple[str, str]]) -> str:
    labels = {value: label for label, value in choices}
    match default:
        case None:
            return ""
        case bool():
            return "yes" if default else "no"
        case list():
            return ", ".join(labels.get(str(one), str(one)) for one in cast("list[object]", default))
        case _:
            return _text(labels.get(str(default), str(default)))


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return str(value)[:_MOST_CHARACTERS] if value is not None else ""
