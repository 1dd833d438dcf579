"""Where skills meet a session: what is added before a request, and which commands do not run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from bridle.context.skills.session_skills import SessionSkills
from bridle.context.skills.skill_content import is_as_read
from bridle.context.skills.skill_list import SOURCE, skills_text
from bridle.context.skills.skill_reading import activation, in_use, news_of
from bridle.context.skills.skill_records import Skill
from bridle.engine.conversation import Conversation
from bridle.engine.tools import ToolOutput, denied
from bridle.protocol.errors import BridleError, sentence
from bridle.protocol.events import ContextAdded, Notice, text_of
from bridle.protocol.messages import TextBlock

MOST_AT_ONCE: Final = 3
"""So many skills come in by themselves before one request."""


def brought_in(
    skills: SessionSkills, wanted: Sequence[Skill], conversation: Conversation
) -> Iterator[ContextAdded | Notice]:
    """What is to be added before a request: that the skills are others now, and those that something calls for."""
    if not skills.is_told:
        skills.is_told = True
        news = news_of(skills_text(tuple(skills.offered.skills.values())), conversation)
        if news is not None:
            yield news
    there = in_use(conversation) if wanted else set[str]()
    for skill in [one for one in wanted if one.name not in there][:MOST_AT_ONCE]:
        try:
            yield activation(skill, "trigger")
        except BridleError as problem:
            yield Notice(reason=problem.reason, message=problem.message, data=problem.data)


def brought_again(
    skills: SessionSkills, used: Sequence[str], conversation: Conversation, most_bytes: int
) -> Iterator[ContextAdded]:
    """The words of skills in use that a summary took away, those used last first, as far as there is room; the others
    are named. One that a person has to agree to again, or that is gone, does not come."""
    there, named = in_use(conversation), list[str]()
    for name in [one for one in reversed(used) if one not in there]:
        try:
            again = activation(skills.get(name), "summary")
        except BridleError:
            continue
        size = len(text_of(again.content).encode("utf-8", "replace"))
        if size <= most_bytes:
            most_bytes -= size
            yield again
        else:
            named.append(name)
    if named:
        words = f"The words of these skills were summarised: {', '.join(named)}. Use them again where you need them."
        yield ContextAdded(source=SOURCE, content=(TextBlock(text=words),))


def changed_skill(command: object, skills: SessionSkills) -> ToolOutput | None:
    """Why a command is not run: it names a skill whose files are not those a person agreed to."""
    if not isinstance(command, str):
        return None
    agreed = (skill for skill in skills.offered.skills.values() if skill.root and skill.own_name in command)
    named = (skill for skill in agreed if re.search(rf"(?<![\w-]){skill.own_name}(?![\w-])", command))
    changed = next((skill for skill in named if not is_as_read(skill)), None)
    return None if changed is None else denied("SkillChanged", sentence("SkillChanged", _any_file(changed)))


def _any_file(skill: Skill) -> dict[str, str]:
    return {"name": skill.name, "file": "A file"}
