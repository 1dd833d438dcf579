"""A SKILL.md as text: its front matter checked against the open format, and its body. Pure."""

from __future__ import annotations

import re
from typing import Final, cast

import msgspec

from bridle.base.text.front_matter import BadFrontMatter, FrontMatter, Value, read_front_matter
from bridle.context.skills.skill_records import MAX_DESCRIPTION, MAX_NAME, SkillHead, SkillTriggers

MAX_COMPATIBILITY: Final = 500
MAX_TRIGGERS: Final = 50
MAX_TRIGGER: Final = 200
_OWN: Final = frozenset({"name", "description", "triggers"})
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class BadSkill(ValueError):
    """Says, with the line from 1, what to change so that the file is a skill."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


class SkillText(msgspec.Struct, frozen=True):
    head: SkillHead
    body: str


def read_skill(text: str, *, folder: str) -> SkillText:
    """The skill of a folder with this name. Raises `BadSkill`."""
    try:
        found = read_front_matter(text)
    except BadFrontMatter as problem:
        raise BadSkill(problem.line, str(problem)) from None
    name = _text(found, "name", MAX_NAME)
    if _NAME.fullmatch(name) is None:
        raise BadSkill(
            found.lines["name"],
            "name may hold small letters a-z, digits and single hyphens between them; write it so, as the folder",
        )
    if name != folder:
        raise BadSkill(
            found.lines["name"], f'name is "{name}" and the folder "{folder}": rename one of the two'
        )
    warnings = [f"line {line}: put quotation marks around a text with a colon" for line in found.mended]
    compatibility = found.values.get("compatibility")
    if isinstance(compatibility, str) and len(compatibility) > MAX_COMPATIBILITY:
        warnings.append(
            f"line {found.lines['compatibility']}: compatibility has {len(compatibility)} characters, "
            f"and at most {MAX_COMPATIBILITY} are meant"
        )
    head = SkillHead(
        name=name,
        description=" ".join(_text(found, "description", MAX_DESCRIPTION).split()),
        triggers=_triggers(found),
        fields={key: value for key, value in found.values.items() if key not in _OWN},
        warnings=tuple(warnings),
    )
    return SkillText(head, found.body.strip("\n"))


def _text(found: FrontMatter, key: str, most: int) -> str:
    value = found.values.get(key)
    if value is None:
        raise BadSkill(1, f"{key} is missing: add a line `{key}: …` between the lines ---")
    line = found.lines[key]
    if not isinstance(value, str):
        raise BadSkill(line, f"{key} must be a text")
    value = value.strip()
    if not value:
        raise BadSkill(line, f"{key} is empty")
    if len(value) > most:
        raise BadSkill(
            line, f"{key} has {len(value):,} characters, and at most {most:,} are allowed: shorten it"
        )
    return value


def _triggers(found: FrontMatter) -> SkillTriggers:
    """`triggers` as a table of `files` and `keywords`; a plain list are keywords."""
    value = found.values.get("triggers")
    if value is None:
        return SkillTriggers()
    line = found.lines["triggers"]
    if isinstance(value, list):
        return SkillTriggers(keywords=_keywords(value, line))
    if not isinstance(value, dict) or not value.keys() <= {"files", "keywords"}:
        raise BadSkill(line, "triggers is a table with the lists `files` and `keywords`, and nothing else")
    return SkillTriggers(
        files=_patterns(value.get("files", []), line), keywords=_keywords(value.get("keywords", []), line)
    )


def _keywords(value: Value, line: int) -> tuple[str, ...]:
    found = _patterns(value, line)
    if any(word.count("*") > 1 or word == "*" for keyword in found for word in keyword.split()):
        raise BadSkill(line, "a word of a keyword has one * at most, and something beside it")
    return found


def _patterns(value: Value, line: int) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    if len(listed) > MAX_TRIGGERS or not all(
        isinstance(one, str) and 0 < len(one.strip()) <= MAX_TRIGGER for one in listed
    ):
        raise BadSkill(
            line, f"triggers are at most {MAX_TRIGGERS} texts, each of 1 to {MAX_TRIGGER} characters"
        )
    return tuple(one.strip() for one in cast("list[str]", listed))
