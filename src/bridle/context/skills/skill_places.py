"""The folders that are searched for skills."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import msgspec

from bridle.base.fs.files import repository_root
from bridle.context.skills.skill_records import SkillSource


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
