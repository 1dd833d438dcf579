"""A new version of the protocol only adds; what it takes away stands on the page about versions."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.protocol import schema
from tables import table

SAID_ONLY = {"description", "title", "$comment", "default"}
"""What a schema says to people, or what a reader fills in by itself."""


def taken_away(old: Any, new: Any, place: str, *, sent: bool) -> Iterator[str]:
    """What fitted the old schema and does not fit the new one. `sent`: by clients, who may not know a new field."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old.keys() - SAID_ONLY:
            here = f"{place}.{name}" if place else name
            if name == "required":
                yield from (
                    f"{here}: {word} is needed"
                    for word in sorted(set(new.get(name, ())) - set(old[name]))
                    if sent
                )
            elif name not in new:
                yield f"{here} is gone"
            else:
                yield from taken_away(old[name], new[name], here, sent=sent)
        if sent and "required" not in old:
            yield from (f"{place}.required: {word} is needed" for word in new.get("required", ()))
    elif isinstance(old, list) and isinstance(new, list):
        plain = [json.dumps(item, sort_keys=True) for item in new]
        for item in old:
            if json.dumps(item, sort_keys=True) not in plain:
                yield f"{place}: {json.dumps(item, sort_keys=True)} is gone"
    elif old != new:
        yield f"{place}: {old} is {new}"


def compared(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return list(taken_away(old, new, "", sent=True))


@pytest.mark.requirement("G23.4")
@pytest.mark.parametrize("name", sorted(schema.documents()))
def test_what_the_schema_before_took_is_taken_still_or_its_end_is_written_down(
    repository: Path, name: str
) -> None:
    page = (repository / "docs/protocol.md").read_text()
    for folder in sorted(path for path in (repository / "docs/schema").iterdir() if path.is_dir()):
        if not (folder / name).exists():  # it came later
            continue
        old, new = json.loads((folder / name).read_bytes()), json.loads(schema.documents()[name])
        gone = taken_away(old, new, "", sent=name == "commands.json")
        assert [line for line in gone if line not in page] == []


@table(
    ("new", "problem"),
    [
        ({"$defs": {"A": {"properties": {"x": {"type": "string"}}}}}, "$defs.B is gone"),
        ({"$defs": {"A": {"properties": {}}, "B": {}}}, "$defs.A.properties.x is gone"),
        (
            {"$defs": {"A": {"properties": {"x": {"type": "integer"}}}, "B": {}}},
            "$defs.A.properties.x.type: string is integer",
        ),
        (
            {"$defs": {"A": {"properties": {"x": {"type": "string"}}, "required": ["x"]}, "B": {}}},
            "$defs.A.required: x is needed",
        ),
    ],
)
def test_what_is_taken_away_is_found(new: dict[str, Any], problem: str) -> None:
    old = {"$defs": {"A": {"properties": {"x": {"type": "string"}}}, "B": {}}}
    assert compared(old, new) == [problem]
    more = {"x": {"type": "string"}, "y": {"enum": ["a", "b"]}}
    assert compared(old, {"$defs": {"A": {"properties": more}, "B": {}, "C": {}}}) == []


def test_a_list_of_words_may_grow_and_not_shrink() -> None:
    assert compared({"enum": ["a"]}, {"enum": ["a", "b"]}) == []
    assert compared({"enum": ["a", "b"]}, {"enum": ["a"]}) == ['enum: "b" is gone']
