"""What is written behind the name of a slash command, as data: for the catalogue, for help and for Tab. Pure.

Arguments are words in their order; the last takes the rest of the line. Programs read them as a JSON Schema, whose
properties stand in that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from bridle.protocol.errors import BridleError, UsageError


class SlashArgument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One argument. Where it has `choices` nothing else is taken; `examples` are words it may be among others."""

    name: str
    about: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


SHIPPED: Final = "bridle"
"""The namespace in which every command has a name that ships with Bridle."""
LONG_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "git": ("diff", "branch", "commit", "commit-push-pr", "worktree", "stash"),
    "run": ("stop", "cancel", "queue", "todos", "jobs", "undo", "redo"),
}
"""Namespaces of some of them. Their bare names are short forms that nobody else can take."""

ANY_WORDS: Final = SlashArgument(name="words", about="what is written behind it")
"""The argument of a command that does not say what it takes."""


def args_schema(arguments: Sequence[SlashArgument]) -> dict[str, Any]:
    """The arguments as a JSON Schema."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {one.name: _property(one) for one in arguments},
        "additionalProperties": False,
    }
    if required := [one.name for one in arguments if one.required]:
        schema["required"] = required
    return schema


def _property(argument: SlashArgument) -> dict[str, Any]:
    written: dict[str, Any] = {"type": "string"}
    if argument.about:
        written["description"] = argument.about
    if argument.choices:
        written["enum"] = list(argument.choices)
    if argument.examples:
        written["examples"] = list(argument.examples)
    return written


def schema_arguments(schema: Mapping[str, Any]) -> tuple[SlashArgument, ...]:
    """The arguments of a schema. What is not as `args_schema` writes it is left out: it may be another engine's."""
    required = _strings(schema.get("required"))
    return tuple(
        _argument(name, _object(found), required=name in required)
        for name, found in _object(schema.get("properties")).items()
    )


def _argument(name: str, found: Mapping[str, Any], *, required: bool) -> SlashArgument:
    about = found.get("description")
    return SlashArgument(
        name=name,
        about=about if isinstance(about, str) else "",
        required=required,
        choices=_strings(found.get("enum")),
        examples=_strings(found.get("examples")),
    )


def _object(found: object) -> dict[str, Any]:
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _strings(found: object) -> tuple[str, ...]:
    listed = cast("list[object]", found) if isinstance(found, list) else []
    return tuple(one for one in listed if isinstance(one, str))


def usage_words(name: str, arguments: Sequence[SlashArgument]) -> str:
    """How the command is written: `/name what [rest]`."""
    return " ".join((f"/{name}", *(one.name if one.required else f"[{one.name}]" for one in arguments)))


def check_words(name: str, arguments: Sequence[SlashArgument], words: str) -> None:
    """Raises `BridleError` for words that the command does not take, and where one that it needs is missing."""
    given = words.split(maxsplit=max(len(arguments) - 1, 0))
    if given and not arguments:
        raise BridleError("NoWords", name=name, hint="")
    for at, argument in enumerate(arguments):
        if at >= len(given):
            if argument.required:
                raise UsageError(f"Which {argument.name}? {usage_words(name, arguments)}")
        elif argument.choices and given[at] not in argument.choices:
            known = ", ".join(argument.choices)
            raise UsageError(f'"{given[at]}" is not a {argument.name} of /{name} ({known}).')


AGENT_PREFIX: Final = "agents:"
"""What stands before the name of an agent that is to work: `/agents:review WORDS`."""
ALIAS: Final = "alias:"
"""What may stand before the name of an alias: `/alias:t` is `/t`."""


def bare_name(name: str) -> str:
    """The short name of a command that ships with Bridle, where this is a long one (`bridle:NAME`, `git:commit`)."""
    namespace, _, rest = name.partition(":")
    is_long = (namespace == SHIPPED and ":" not in rest) or rest in LONG_NAMES.get(namespace, ())
    return rest if rest and is_long else name


def in_full(name: str, arguments: str, lines: Mapping[str, str]) -> tuple[str, str]:
    """The name and the words behind it, with the line that it stands for in the place of an alias. Pure."""
    line = lines.get(name.removeprefix(ALIAS))
    if line is None:
        return name, arguments
    lead, _, more = line.removeprefix("/").partition(" ")
    return lead, " ".join(filter(None, (more.strip(), arguments.strip())))
