"""The words of a skill: put into a conversation with where they come from, read from its files, found there again.

No file of a skill leads out of its folder. Where a person agreed to a skill, only what they agreed to is read.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from bridle.base.fs.files import open_beneath, read_limited
from bridle.base.text.terminal_text import visible
from bridle.base.text.untrusted import neutralise
from bridle.context.skills.skill_file import BadSkill, read_skill
from bridle.context.skills.skill_list import SOURCE, TITLE
from bridle.context.skills.skill_records import MAX_BODY_BYTES, SKILL_FILE, Skill, SkillSource
from bridle.engine.conversation import Conversation
from bridle.engine.journal import redacted
from bridle.protocol.errors import BridleError
from bridle.protocol.events import ContextAdded
from bridle.protocol.messages import TextBlock

MAX_FILE_BYTES: Final = 1024 * 1024
_OPENING: Final = re.compile(r'<skill name="([a-z0-9:_-]+)"')
_END: Final = re.compile(r"<(?=/?\s*skill\b)", re.IGNORECASE)
_WHOSE: Final[Mapping[SkillSource, str]] = {
    "built-in": "Bridle",
    "yours": "the person's own skills",
    "listed": "a folder of the person, agreed to by them",
    "project": "this project, agreed to by the person",
    "bundle": "a bundle, agreed to by the person",
}

UsedBy: TypeAlias = Literal["model", "person", "trigger", "summary"]


def in_use(conversation: Conversation) -> set[str]:
    """The skills whose words are in the conversation now."""
    return {name for text in _added(conversation) if (name := activated(text))}


def activated(text: str) -> str:
    """The skill that a text put in; empty where it is something else."""
    found = _OPENING.match(text)
    return "" if found is None else found[1]


def news_of(listed: str, conversation: Conversation) -> ContextAdded | None:
    """What the model is to be told where `listed`, the skills as they are, is not what it was told last."""
    system = conversation.prefix.system if conversation.prefix is not None else ""
    told = [text for text in _added(conversation) if text.startswith(f"{TITLE}\n")]
    if not told and listed and listed in system:
        return None
    if not told and not listed and f"{TITLE}\n" not in system:
        return None
    text = listed or f"{TITLE}\nThere are none any more."
    news = ContextAdded(source=SOURCE, content=(TextBlock(text=text),))
    (block,) = redacted(news).content  # as the log would hold it
    assert isinstance(block, TextBlock)
    return None if told[-1:] == [block.text] or (not told and block.text in system) else news


def _added(conversation: Conversation) -> list[str]:
    """The texts that others than people and the model have put into the conversation."""
    entries = (entry for entry in conversation.entries if entry.mark.source == "context")
    blocks = (block for entry in entries for block in entry.message.content)
    return [block.text for block in blocks if isinstance(block, TextBlock)]


def activation(skill: Skill, by: UsedBy) -> ContextAdded:
    """The words of a skill for the conversation, with where they come from. Raises as `skill_body` does."""
    text = _END.sub("&lt;", neutralise(skill_body(skill)))
    opening = f'<skill name="{skill.name}" from="{_WHOSE[skill.source]}" used-by="{by}">'
    where = f"Its folder, where its scripts run from and its files are: {skill.folder}"
    return ContextAdded(source=SOURCE, content=(TextBlock(text=f"{opening}\n{where}\n\n{text}\n</skill>"),))


def skill_body(skill: Skill) -> str:
    """The words of a skill as its file has them now. Raises `SkillUnreadable`, `SkillChanged`."""
    text = _text_of(skill, SKILL_FILE, MAX_BODY_BYTES)
    try:
        return read_skill(text, folder=skill.own_name).body
    except BadSkill as bad:
        raise _unreadable(skill, SKILL_FILE, f"line {bad.line}: {bad}") from None


def skill_part(skill: Skill, name: str) -> str:
    """The text of a file of the skill. Raises `SkillUnreadable`, `SkillChanged`."""
    return neutralise(_text_of(skill, name, MAX_FILE_BYTES))


def part_names(skill: Skill, most: int) -> list[str]:
    if skill.files:
        return [name for name in sorted(skill.files) if name != SKILL_FILE][:most]
    found: list[str] = []
    for folder, folders, files in os.walk(skill.folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        below = os.path.relpath(folder, skill.folder)
        found += [os.path.normpath(os.path.join(below, name)) for name in sorted(files)]
        if len(found) > most:
            break
    return [name for name in found if name != SKILL_FILE][:most]


def _text_of(skill: Skill, name: str, limit: int) -> str:
    """A file of the skill, and of nothing else: no way leads out of its folder, and no link is followed behind the
    check."""
    if not name or os.path.isabs(name) or ".." in name.split("/") or "\0" in name:
        raise _unreadable(skill, name, "it names a file by its path inside the folder of the skill")
    folder = os.path.realpath(skill.folder)
    path = os.path.realpath(os.path.join(folder, name))
    is_own_link = not skill.root and name == SKILL_FILE  # people link what they keep elsewhere
    if not path.startswith(f"{folder}/") and not is_own_link:
        raise _unreadable(skill, name, "it leads out of the folder of the skill")
    try:
        fd = open_beneath(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise _unreadable(skill, name, "it is no file")
            contents = read_limited(fd, limit)
        finally:
            os.close(fd)
    except OSError as problem:
        raise _unreadable(skill, name, problem.strerror or str(problem)) from None
    if contents.truncated:
        raise _unreadable(skill, name, f"it has more than {limit:,} bytes")
    if skill.root:
        agreed = skill.files.get(os.path.relpath(path, folder))
        if agreed != hashlib.sha256(contents.data).hexdigest():
            raise BridleError("SkillChanged", name=skill.name, file=visible(name, newlines=False)[:200])
    if b"\0" in contents.data:
        raise _unreadable(skill, name, f"it is no text ({len(contents.data):,} bytes)")
    return contents.data.decode("utf-8", "replace")


def _unreadable(skill: Skill, name: str, problem: str) -> BridleError:
    return BridleError(
        "SkillUnreadable", name=skill.name, file=visible(name, newlines=False)[:200], problem=problem
    )
