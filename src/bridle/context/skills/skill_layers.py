"""Add skills before a request, by their triggers too, and stop commands of changed skills.

A keyword of a trigger is one or more words in any case; `*` stands for the rest of a word. A glob without a slash is
for the name of a file wherever it lies, one with a slash for its path.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from bridle.context.skills.session_skills import SessionSkills
from bridle.context.skills.skill_content import is_as_read
from bridle.context.skills.skill_list import SOURCE, skills_text
from bridle.context.skills.skill_reading import activation, in_use, news_of
from bridle.context.skills.skill_records import NO_TRIGGERS, Skill, SkillTriggers
from bridle.engine.conversation import Conversation
from bridle.engine.tools import ToolOutput, denied
from bridle.protocol.errors import BridleError, sentence
from bridle.protocol.events import ContextAdded, InputAccepted, Notice, StepEnded, text_of
from bridle.protocol.messages import FileMention, TextBlock

MAX_LOOKED_AT: Final = 100_000
"""So many characters of one text are looked through."""
MAX_NAMES: Final = 500
_NAME_CHARACTERS: Final = 400
_PARTS: Final = re.compile(r"[^\s\"'`<>|;&()=,]+")


def called_for(skills: Iterable[Skill], heard: Iterable[InputAccepted | StepEnded]) -> list[Skill]:
    """The skills whose triggers are met by what was said and done."""
    said: list[str] = []
    files: list[str] = []
    for event in heard:
        if isinstance(event, InputAccepted):
            said += [block.text for block in event.content if isinstance(block, TextBlock)]
            files += [block.path for block in event.content if isinstance(block, FileMention)]
        else:
            files += [name for call in event.calls for name in file_names(call.input)]
    return [
        skill
        for skill in skills
        if (triggers := skill.head.triggers) != NO_TRIGGERS
        and (any(said_in(triggers, text) for text in said) or fits_a_file(triggers, files))
    ]


def said_in(triggers: SkillTriggers, text: str) -> bool:
    """Whether somebody says one of the keywords."""
    text = text[:MAX_LOOKED_AT]
    small = text.lower()
    return any(
        _keyword(keyword).search(text) is not None
        for keyword in triggers.keywords
        if all(part in small for part in keyword.lower().replace("*", " ").split())
    )


def fits_a_file(triggers: SkillTriggers, names: Iterable[str]) -> bool:
    """Whether one of these names or paths fits one of the globs."""
    return bool(triggers.files) and any(_fits(glob, name) for name in names for glob in triggers.files)


def file_names(value: Any) -> Sequence[str]:
    """What may be names of files in the input of a call: words of its texts with a dot or a slash in them."""
    return tuple(dict.fromkeys(_names(value)))[:MAX_NAMES]


def _names(value: Any) -> Iterator[str]:
    for text in _texts(value):
        for found in _PARTS.finditer(text[:MAX_LOOKED_AT]):
            word = found[0].rstrip(".:")
            if len(word) <= _NAME_CHARACTERS and ("." in word or "/" in word):
                yield word


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for one in cast("dict[str, Any]", value).values():
                yield from _texts(one)
        case list() | tuple():
            for one in cast("list[Any]", value):
                yield from _texts(one)
        case _:
            return


def _fits(glob: str, name: str) -> bool:
    name = name.removeprefix("./")
    if "/" not in glob:
        return fnmatchcase(name.rpartition("/")[2], glob)
    plain = glob.removeprefix("./").replace("**/", "")
    return (
        fnmatchcase(name, plain)
        or fnmatchcase(name, glob.removeprefix("./"))
        or fnmatchcase(name, f"*/{plain}")
    )


@functools.lru_cache(maxsize=512)
def _keyword(keyword: str) -> re.Pattern[str]:
    """Each `*` is the rest of one word, so the pattern cannot take long over any text."""
    words = (r"\w*".join(map(re.escape, re.split(r"\*+", word))) for word in keyword.split())
    return re.compile(r"(?<!\w)" + r"\s+".join(words) + r"(?!\w)", re.IGNORECASE)


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
