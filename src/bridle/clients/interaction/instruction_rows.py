"""The instruction files of a session as a person reads them: in force or not, how large, why. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from bridle.base.clock import iso_ms
from bridle.base.visible import visible

NAME_COLUMNS: Final = 24


def instruction_rows(told: Mapping[str, Any]) -> list[str]:
    """One line a file, as the engine described them (`instructions.files`). Whatever it said, these are lines."""
    rows = [_row(file) for file in _tables(told.get("files"))]
    return [*rows, *(_other(one) for one in _tables(told.get("others")))]


def _row(file: Mapping[str, Any]) -> str:
    name = visible(str(file.get("path", "")), newlines=False)
    if file.get("state") == "left out":
        return f"  {name:<{NAME_COLUMNS}} not in use: {visible(str(file.get('why', '')), newlines=False)}"
    characters, tokens = _number(file.get("characters")), _number(file.get("tokens"))
    notes = ["in use" if file.get("state") == "in use" else "added when a file of its folder was touched"]
    if by := file.get("imported_by"):
        notes.append(f"imported by {visible(str(by), newlines=False)}")
    if trusted := _number(file.get("trusted_ms")):
        notes.append(f"trusted {iso_ms(trusted)[:10]}")
    return (
        f"  {name:<{NAME_COLUMNS}} {characters:>8,} characters   about {tokens:,} tokens   {', '.join(notes)}"
    )


def _other(one: Mapping[str, Any]) -> str:
    name = visible(str(one.get("path", "")), newlines=False)
    why = "you said no here" if one.get("word") == "declined" else "name it in context.sources"
    return f"  {name:<{NAME_COLUMNS}} not in use: for another agent, {why}"


def _tables(value: object) -> Iterator[Mapping[str, Any]]:
    for one in cast("Sequence[object]", value) if isinstance(value, list | tuple) else ():
        if isinstance(one, Mapping):
            yield cast("Mapping[str, Any]", one)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
