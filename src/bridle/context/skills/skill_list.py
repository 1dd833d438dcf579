"""What the model is told of skills before it uses one: names and descriptions, within bounds; finding one by words.

The list stands in the system text and is the same bytes for the same skills. Pure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from bridle.base.text.phrases import counted
from bridle.context.skills.skill_records import Skill, SkillHead

MAX_LIST_BYTES: Final = 4 * 1024
"""What all names and descriptions together may take of every request."""
MAX_LINE: Final = 400
"""About 100 tokens of one description."""
MOST_FOUND: Final = 10
TITLE: Final = "# Skills"
SOURCE: Final = "skill"
"""The source of what skills add to a conversation."""
_HOW: Final = (
    "Instructions for some tasks. Before one, call the tool `skill` with its name, and follow what it says."
)

BUILT_IN: Final = (
    SkillHead(
        name="find-the-cause",
        description="Find the change or the line that broke something: reproduce, halve, prove. "
        "Use it when a test or a program worked before and now does not.",
    ),
    SkillHead(
        name="write-a-skill",
        description="Write or improve a skill (a SKILL.md). Use it when the person wants to keep a way of working.",
    ),
)
"""The skills that Bridle brings, as their files say. Written here too, so that a start reads none of them."""


def built_in_skills() -> tuple[Skill, ...]:
    """They lie beside this module."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "builtin")
    return tuple(
        Skill(
            head=head,
            source="built-in",
            folder=os.path.join(here, head.name),
            shown=f"{head.name} (built in)",
        )
        for head in BUILT_IN
    )


def skills_text(skills: Sequence[Skill]) -> str:
    """The part of the system text about skills; empty where there are none.

    Everybody has a line while there is room; then the last ones have only their names, then only their number.
    """
    if not skills:
        return ""
    heads = {skill.head.name: skill.head for skill in skills}
    names = sorted(heads)
    room = MAX_LIST_BYTES - _size(f"{TITLE}\n{_HOW}\n")
    lines: list[str] = []
    left = room
    for name in names:
        lines.append(_line(heads[name]))
        left -= _size(lines[-1]) + 1
        if left < 0:  # what comes behind has no line in any case
            return "\n".join((TITLE, _HOW, *_cut(lines, names, room)))
    return "\n".join((TITLE, _HOW, *lines))


def _cut(lines: Sequence[str], names: Sequence[str], room: int) -> list[str]:
    """As many lines as leave room for the names of the rest; where not even those have room, as many names as do."""
    with_lines = [0, *accumulate(_size(line) + 1 for line in lines)]
    of_names = [0, *accumulate([len(name) + 2 for name in names])]  # a name is plain letters
    rest = _size(_more(len(names), "")) + 1
    for count in range(len(lines) - 1, -1, -1):
        if with_lines[count] + of_names[-1] - of_names[count] + rest <= room:
            return [*lines[:count], _more(len(names) - count, ", ".join(names[count:]))]
    fitting = max(count for count in range(len(names) + 1) if of_names[count] + rest <= room)
    return [_more(len(names), ", ".join((*names[:fitting], "…")))]


def _more(number: int, names: str) -> str:
    return f"{counted(number, 'skill')} more, found by words with the tool `skill` (search): {names}"


def _line(head: SkillHead) -> str:
    text = head.description
    if len(text) > MAX_LINE:
        text = text[: MAX_LINE - 1].rsplit(" ", 1)[0] + "…"
    return f"- {head.name}: {text}"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def best_skills(words: str, skills: Iterable[Skill]) -> list[Skill]:
    """The skills that fit the words best, by name and description; the best first."""
    wanted = _words(words)
    scored = [(_score(wanted, skill.head), skill) for skill in skills]
    found = sorted((one for one in scored if one[0]), key=lambda one: (-one[0], one[1].name))
    return [skill for _, skill in found[:MOST_FOUND]]


def _score(wanted: Sequence[str], head: SkillHead) -> int:
    name, about = _words(head.name), _words(head.description)
    return sum(
        5
        if word in name
        else 3
        if word in about
        else 1
        if any(one.startswith(word) for one in (*name, *about))
        else 0
        for word in wanted
    )


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
