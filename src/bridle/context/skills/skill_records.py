"""What a skill is: its name and description, where it lies, and when it comes into a conversation by itself."""

from typing import Any, Final, Literal, TypeAlias

import msgspec

from bridle.context.context_settings import SkillSection

SKILL_FILE: Final = "SKILL.md"
MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1024
MAX_BODY_BYTES: Final = 64 * 1024

SkillSource: TypeAlias = Literal["built-in", "yours", "listed", "project", "bundle"]
"""Where a skill comes from: Bridle itself, the person's own folder, a folder that settings list, the project, or a
bundle that a person agreed to as a whole."""


class SkillTriggers(msgspec.Struct, frozen=True, kw_only=True):
    """Globs of files and patterns of words. Either, met in a conversation, brings the skill in."""

    files: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


NO_TRIGGERS: Final = SkillTriggers()


class SkillHead(msgspec.Struct, frozen=True, kw_only=True):
    """What the front matter of a SKILL.md says. `fields` are the others that stand there, as they are written.

    `warnings` say what is not as the format has it, although it could be read.
    """

    name: str
    description: str
    triggers: SkillTriggers = NO_TRIGGERS
    fields: dict[str, Any] = {}
    warnings: tuple[str, ...] = ()


class SkillSettings(SkillSection, frozen=True, kw_only=True):
    """The settings of skills, and `bundles`, the folders of installed bundles."""

    bundles: tuple[str, ...] = ()

    def readable_folders(self, config_folder: str) -> tuple[str, ...]:
        """What commands may read although it lies among Bridle's own files: the person's skills, and bundles."""
        return (*((f"{config_folder}/skills",) if self.enabled else ()), *self.bundles)


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that can be offered. One of a bundle has the name of that before its own: `bundle:name`.

    `folder` is where it lies without links, `shown` its path as people read it. Where a person must agree to it,
    `digest` stands for all of its files, `files` are the digests of each, and `path` is its folder below `root`;
    where it is the person's own or Bridle's, all of these are empty. `text_digest` is that of its SKILL.md.
    """

    head: SkillHead
    source: SkillSource
    folder: str
    shown: str
    root: str = ""
    path: str = ""
    digest: str = ""
    files: dict[str, str] = {}
    text_digest: str = ""

    @property
    def name(self) -> str:
        return self.head.name

    @property
    def own_name(self) -> str:
        """What its SKILL.md calls it."""
        return self.head.name.rpartition(":")[2]


class SkillProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that wants to be a skill and cannot: the file, the line from 1 or 0 for none, and what to change."""

    shown: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.shown}{f':{self.line}' if self.line else ''}: {self.problem}"


class FoundSkills(msgspec.Struct, frozen=True, kw_only=True):
    """Every skill there is, agreed to or not, in the order they count; a later one of the same name wins."""

    skills: tuple[Skill, ...]
    problems: tuple[SkillProblem, ...] = ()
