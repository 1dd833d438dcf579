"""Skills for people and programs: the list of a session, one skill whole, and what `/skills:NAME words` says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible
from bridle.context.skills.session_skills import MOST_FILES, Offered, SessionSkills
from bridle.context.skills.skill_reading import activation, in_use, part_names, skill_body
from bridle.context.skills.skill_records import Skill, SkillProblem
from bridle.engine.conversation import Conversation
from bridle.engine.slash_command import SaidPrompt
from bridle.protocol import queries as q
from bridle.protocol.errors import sentence
from bridle.protocol.events import Notice

PREFIX: Final = "skills:"
_MOST_NAMED: Final = 20
_MOST_SHOWN: Final = 100
_MOST_PROBLEMS: Final = 5
_MOST_OF_A_PROBLEM: Final = 600


def said_skill(skills: SessionSkills, name: str, words: str, conversation: Conversation) -> SaidPrompt | None:
    """`/skills:NAME words`: the skill joins the conversation, and the words, or that it is to be used, are said."""
    if not name.startswith(PREFIX):
        return None
    skill = skills.get(name.removeprefix(PREFIX))
    text = words.strip() or f"Use the skill {skill.name} now."
    if skill.name in in_use(conversation):
        return SaidPrompt(text=text)
    return SaidPrompt(text=text, context=activation(skill, "person"))


def skill_entries(offered: Offered, conversation: Conversation | None) -> tuple[q.SkillEntry, ...]:
    """Those that are offered, then those that wait for a person."""
    used = in_use(conversation) if conversation is not None else set[str]()
    listed = [_entry(skill, trusted=True, used=used) for skill in offered.skills.values()]
    return (*listed, *(_entry(skill, trusted=False, used=set()) for skill in offered.waiting))


def _entry(skill: Skill, *, trusted: bool, used: set[str]) -> q.SkillEntry:
    """Of one that nobody agreed to no word is told: a list is read by models too."""
    return q.SkillEntry(
        name=skill.name,
        description=skill.head.description if trusted else "",
        source=skill.source,
        folder=skill.folder,
        trusted=trusted,
        in_use=skill.name in used,
    )


def skill_list(offered: Offered, conversation: Conversation | None = None) -> q.SkillList:
    return q.SkillList(
        skills=skill_entries(offered, conversation),
        problems=tuple(
            visible(str(problem), newlines=False)[:_MOST_OF_A_PROBLEM] for problem in offered.problems
        ),
    )


def skill_description(
    skills: SessionSkills, name: str, conversation: Conversation | None = None
) -> q.SkillDescription:
    """One that is offered. Raises `UnknownSkill`, `SkillNotTrusted`, `SkillUnreadable`, `SkillChanged`."""
    skill = skills.get(name)
    used = in_use(conversation) if conversation is not None else set[str]()
    return q.SkillDescription(
        skill=_entry(skill, trusted=True, used=used),
        body=skill_body(skill),
        fields=skill.head.fields,
        files=tuple(part_names(skill, MOST_FILES)),
    )


def skills_notice(offered: Offered, conversation: Conversation) -> Notice:
    entries = skill_entries(offered, conversation)
    lines = skill_lines(entries)
    lines += [f"! {visible(str(problem), newlines=False)}" for problem in offered.problems]
    data: dict[str, Any] = msgspec.to_builtins(skill_list(offered, conversation))
    return Notice(reason="Skills", message=sentence("Skills", {"text": "\n".join(lines)}), data=data)


def skill_lines(entries: Sequence[q.SkillEntry]) -> list[str]:
    """A line each: name, where it comes from, how it stands, what it is for."""
    if not entries:
        return ["No skills here."]
    width = max(len(entry.name) for entry in entries)
    return [
        f"{one.name:<{width}}  {one.source:<8}  {_state(one):<11}  {_brief(one.description)}"
        for one in entries
    ]


def _brief(description: str) -> str:
    """The beginning of it, up to a whole word."""
    text = visible(description, newlines=False)
    return (
        text
        if len(text) <= _MOST_SHOWN
        else f"{text[:_MOST_SHOWN].rpartition(' ')[0] or text[:_MOST_SHOWN]} …"
    )


def _state(entry: q.SkillEntry) -> str:
    return "not trusted" if not entry.trusted else "in use" if entry.in_use else "offered"


def problem_notices(problems: Sequence[SkillProblem]) -> Iterator[Notice]:
    for problem in problems[:_MOST_PROBLEMS]:
        yield _problem(visible(str(problem), newlines=False)[:_MOST_OF_A_PROBLEM])
    if (more := len(problems) - _MOST_PROBLEMS) > 0:
        yield _problem(f"{counted(more, 'more folder')} are no skills")


def _problem(text: str) -> Notice:
    data = {"problem": text}
    return Notice(reason="BadSkill", message=sentence("BadSkill", data), data=dict(data))


def waiting_notice(waiting: Sequence[Skill], how: str) -> Notice:
    """Names every skill that is left out, once."""
    names = [visible(skill.shown, newlines=False) for skill in waiting]
    more = len(names) - _MOST_NAMED
    listed = ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    what = "Skills that are" if len(names) > 1 else "A skill that is"
    text = f"{what} not trusted here {'were' if len(names) > 1 else 'was'} not used: {listed}. {how}"
    return Notice(reason="NotTrusted", message=text, data={"path": listed, "skills": names})
