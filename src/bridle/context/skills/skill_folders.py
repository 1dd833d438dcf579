"""Finding skills: what lies in the folders that are searched. Finding a skill obeys nothing of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from bridle.base.fs.files import first_entries, repository_root
from bridle.base.fs.paths import is_beneath
from bridle.context.skills.skill_content import (
    MAX_BYTES_OF_PLACE,
    MAX_FILES_OF_PLACE,
    PlaceFull,
    Room,
    UnusableSkill,
    read_folder,
)
from bridle.context.skills.skill_records import SKILL_FILE, FoundSkills, Skill, SkillProblem, SkillSource


class SkillPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A folder whose folders are skills. With `root` a person must agree to each; `inside`: none may lead out of it.

    `shown` is its path as people read it; `bundle` the name of the bundle that it is part of.
    """

    folder: str
    source: SkillSource
    shown: str
    root: str = ""
    inside: bool = False
    bundle: str = ""


def skill_places(
    *, config_folder: str, project: str | None, cwd: str, home: str, listed: Sequence[str]
) -> Iterator[SkillPlace]:
    """The folders that are there, in the order they count: listed ones of the home, the person's own, listed ones of
    the project, and `skills` in `project`, its `.bridle` folder."""
    root = repository_root(cwd)
    absolute = [os.path.join(home, one[2:]) if one.startswith("~/") else one for one in listed]
    for name in absolute:
        folder = name if os.path.isabs(name) else os.path.join(home, name)
        if os.path.isdir(folder):
            yield SkillPlace(folder=folder, source="listed", shown=_short(folder, home), root=home)
    own = os.path.join(config_folder, "skills")
    if os.path.isdir(own):
        yield SkillPlace(folder=own, source="yours", shown=_short(own, home))
    for name in absolute:
        found = None if os.path.isabs(name) else _nearest(name, cwd, root)
        if found is not None and found != os.path.join(home, name):
            yield SkillPlace(
                folder=found, source="project", shown=os.path.relpath(found, cwd), root=root, inside=True
            )
    of_project = os.path.join(project, "skills") if project else ""
    if of_project and os.path.isdir(of_project) and os.path.realpath(of_project) != os.path.realpath(own):
        shown = os.path.relpath(of_project, cwd)
        yield SkillPlace(folder=of_project, source="project", shown=shown, root=root, inside=True)


def _nearest(name: str, cwd: str, root: str) -> str | None:
    folder, above = cwd, os.path.dirname(cwd)
    while True:
        if os.path.isdir(os.path.join(folder, name)):
            return os.path.join(folder, name)
        if folder in (root, above):
            return None
        folder, above = above, os.path.dirname(above)


def _short(path: str, home: str) -> str:
    return f"~/{os.path.relpath(path, home)}" if home and path.startswith(f"{home}/") else path


MAX_SKILLS: Final = 2_000


def find_skills(places: Sequence[SkillPlace]) -> FoundSkills:
    skills: list[Skill] = []
    problems: list[SkillProblem] = []
    for place in places:
        within, room = _Within(place), Room()
        for name, is_link in _names(place, problems):
            try:
                found = _found(place, within, name, is_link, room)
            except PlaceFull:
                most = f"{MAX_FILES_OF_PLACE:,} files and {MAX_BYTES_OF_PLACE >> 20} MiB"
                problem = f"from {name} on nothing is looked at: its skills together have more than {most}"
                problems.append(SkillProblem(shown=place.shown, line=0, problem=problem))
                break
            if isinstance(found, SkillProblem):
                problems.append(found)
            elif found is not None:
                skills.append(found)
    return FoundSkills(skills=tuple(skills), problems=tuple(problems))


class _Within:
    """What is the same for all folders of a place: where it and its root really are, whether it leads out of that, and
    its path below it."""

    def __init__(self, place: SkillPlace) -> None:
        self.folder = os.path.realpath(place.folder)
        self.root = os.path.realpath(place.root) if place.root else ""
        self.leads_out = not is_beneath(self.folder, self.root)
        self.path = os.path.relpath(place.folder, place.root) if place.root else ""


def _names(place: SkillPlace, problems: list[SkillProblem]) -> list[tuple[str, bool]]:
    """The names in a place, in order, each with whether it is a link."""
    try:
        entries = first_entries(place.folder)
        names = [(one.name, one.is_symlink()) for one in entries if one.name[0] != "."]
    except OSError as problem:
        problems.append(SkillProblem(shown=place.shown, line=0, problem=problem.strerror or str(problem)))
        return []
    if len(names) > MAX_SKILLS:
        problem = f"only the first {MAX_SKILLS:,} of its entries are looked at: move some away"
        problems.append(SkillProblem(shown=place.shown, line=0, problem=problem))
    return names[:MAX_SKILLS]


def _found(
    place: SkillPlace, within: _Within, name: str, is_link: bool, room: Room
) -> Skill | SkillProblem | None:
    """The skill in a folder of this name; None where there is no SKILL.md, so that it is something else. Raises
    `PlaceFull`."""
    real, shown, leads_out = f"{within.folder}/{name}", f"{place.shown}/{name}", within.leads_out
    if is_link:
        real = os.path.realpath(real)
        leads_out = not is_beneath(real, within.root)
    if not os.path.lexists(f"{real}/{SKILL_FILE}"):
        return None
    if place.inside and leads_out:
        return SkillProblem(shown=shown, line=0, problem="a link that leads out of the project is not read")
    try:
        read = read_folder(real, name, room if place.root else None)
    except UnusableSkill as problem:
        return SkillProblem(shown=os.path.join(shown, problem.file), line=problem.line, problem=str(problem))
    except OSError as problem:
        why = problem.strerror or str(problem)
        return SkillProblem(shown=os.path.join(shown, SKILL_FILE), line=0, problem=why)
    head = read.head
    if place.bundle:
        head = msgspec.structs.replace(head, name=f"{place.bundle}:{head.name}")
    return Skill(
        head=head,
        source=place.source,
        folder=real,
        shown=shown,
        root=place.root,
        path=f"{within.path}/{name}" if place.root else "",
        digest=read.digest,
        files=read.files,
        text_digest=read.text_digest,
    )
