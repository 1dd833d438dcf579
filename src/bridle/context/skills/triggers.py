"""When a skill comes into a conversation by itself: a file that fits one of its globs, or words that fit a pattern.

A keyword is one or more words as people write them, in any case; `*` stands for the rest of a word. A glob without a
slash is for the name of a file wherever it lies, one with a slash for its path. Pure.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from bridle.context.skills.skill_records import NO_TRIGGERS, Skill, SkillTriggers
from bridle.protocol.events import InputAccepted, StepEnded
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
