"""The skills of one session: which are offered, which wait for a person's word, and the tool to use one.

They are looked for with the first request. What reads and adds their words is loaded when a skill is used: a turn with
nothing but the built-in ones pays for two lines of text and a tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from bridle.base.text.spelling import nearest
from bridle.base.text.terminal_text import visible
from bridle.context.skills.skill_list import best_skills
from bridle.context.skills.skill_records import NO_TRIGGERS, FoundSkills, Skill, SkillProblem
from bridle.engine.conversation import Conversation
from bridle.engine.tools import Tool, ToolContext, ToolOutput, never_mutating
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import SkillRegistryChanged

TOOL: Final = "skill"
MOST_FILES: Final = 100
_DOES: Final = (
    "Uses a skill: its instructions join the conversation, and you follow them. Give `name`; or `search` with words to "
    "find one; or `name` and `file` to read a file of a skill. Scripts of a skill run with bash, from its folder."
)


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """The skills of a session by name, sorted; `waiting` are those that no person has agreed to."""

    skills: Mapping[str, Skill]
    waiting: tuple[Skill, ...] = ()
    problems: tuple[SkillProblem, ...] = ()


def offered_of(
    found: FoundSkills, agreed: Callable[[Iterable[Skill]], frozenset[str]], disabled: Iterable[str]
) -> Offered:
    """What of it is offered: what needs no word or has one, less what is switched off; the last of a name wins. Pure.

    `agreed` tells the digests of those that a person agreed to.
    """
    off = frozenset(disabled)
    wanted = [skill for skill in found.skills if skill.name not in off] if off else found.skills
    asked = [skill for skill in wanted if skill.root]
    said = agreed(asked) if asked else frozenset[str]()
    usable = {skill.head.name: skill for skill in wanted if not skill.root or skill.digest in said}
    return Offered(
        skills=dict(sorted(usable.items())),
        waiting=tuple(skill for skill in asked if skill.digest not in said),
        problems=found.problems,
    )


class SessionSkills:
    """What a session knows of skills. `find` looks for them; it is called with the first need, and to look again.

    `is_told`: the model was told of the skills as they are now. `refused` are the digests of those that a person did
    not want in this session.
    """

    def __init__(self, find: Callable[[], Offered]) -> None:
        self._find = find
        self._offered: Offered | None = None
        self._triggered: bool | None = None
        self.is_told = False
        self.refused: set[str] = set()

    @property
    def offered(self) -> Offered:
        if self._offered is None:
            self._offered = self._find()
        return self._offered

    def get(self, name: str) -> Skill:
        """Raises `UnknownSkill`, or `SkillNotTrusted` for one that waits for a person."""
        found = self.offered.skills.get(name)
        if found is None:
            waiting = next((skill for skill in self.offered.waiting if skill.name == name), None)
            if waiting is not None:
                raise CommandRefused("SkillNotTrusted", path=waiting.shown)
            raise unknown_skill(name, self.offered.skills)
        return found

    @property
    def has_triggers(self) -> bool:
        """Whether a skill may come in by itself."""
        if self._triggered is None:
            self._triggered = any(
                skill.head.triggers != NO_TRIGGERS for skill in self.offered.skills.values()
            )
        return self._triggered

    def look_again(self, since: Offered | None = None) -> SkillRegistryChanged:
        """Looks for skills anew, and tells what is different from now, or from `since`."""
        before = (since or self.offered).skills
        self._offered = self._triggered = None
        now = self.offered
        self.is_told = False
        return SkillRegistryChanged(
            skills=tuple(now.skills),
            added=tuple(name for name in now.skills if name not in before),
            removed=tuple(name for name in before if name not in now.skills),
            changed=tuple(name for name, one in now.skills.items() if _differs(before.get(name), one)),
            waiting=tuple(skill.shown for skill in now.waiting),
            problems=tuple(map(str, now.problems)),
        )


def unknown_skill(name: str, known: Iterable[str]) -> CommandRefused:
    names = list(known)
    near = nearest(name, names)
    some = (", ".join(names[:10]) or "none") + (f" (nearest: {near})" if near else "")
    return CommandRefused("UnknownSkill", name=visible(name, newlines=False)[:100], known=some)


def _differs(before: Skill | None, now: Skill) -> bool:
    return before is not None and _content(before) != _content(now)


def _content(skill: Skill) -> tuple[str, str, str]:
    return skill.folder, skill.digest, skill.text_digest


class SkillArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=200, description="The skill.")] = ""
    search: Annotated[str, Meta(max_length=400, description="What a skill should be about.")] = ""
    file: Annotated[str, Meta(max_length=1000, description="A file of it, by its path in it.")] = ""


def skill_tool(skills: SessionSkills, conversation: Callable[[], Conversation]) -> Tool:
    """`skill`, the one tool by which the model uses the skills of a session: puts one in, finds one, reads a file."""

    async def run(args: SkillArgs, context: ToolContext) -> ToolOutput:
        try:
            return _used(args, context, skills, conversation())
        except BridleError as problem:
            return ToolOutput(outcome="error", content=problem.message, reason=problem.reason)

    return Tool(
        name=TOOL,
        description=_DOES,
        input=SkillArgs,
        risk="read",
        run=run,
        mutating=never_mutating,
        side_effect="none",
    )


def _used(
    args: SkillArgs, context: ToolContext, skills: SessionSkills, conversation: Conversation
) -> ToolOutput:
    from bridle.context.skills.skill_reading import activation, in_use, part_names, skill_part

    if args.search or not args.name:
        found = best_skills(args.search, skills.offered.skills.values())
        lines = [f"{skill.name}: {skill.head.description}" for skill in found]
        return ToolOutput(content="\n".join(lines) or "No skill fits. Try other words.")
    skill = skills.get(args.name)
    if args.file:
        return ToolOutput(content=skill_part(skill, args.file))
    if skill.name in in_use(conversation):
        return ToolOutput(content=f"The skill {skill.name} is in the conversation already: follow it.")
    context.emit(activation(skill, "model"))
    files = ", ".join(part_names(skill, MOST_FILES))
    return ToolOutput(
        content=f"The skill {skill.name} follows. Do what it says.{f' Its files: {files}' if files else ''}"
    )
