"""Collect the skills of a session."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bridle.config.bundles import counting_bundles
from bridle.config.folders import Folders, home_of, project_folder
from bridle.context.skills.session_skills import Offered, SessionSkills, offered_of
from bridle.context.skills.skill_content import reviewed_text
from bridle.context.skills.skill_folders import SkillPlace, find_skills, skill_places
from bridle.context.skills.skill_list import built_in_skills
from bridle.context.skills.skill_records import FoundSkills, Skill, SkillSettings
from bridle.safety.trust import Approvals
from bridle.safety.trust.approvals import content_digest
from bridle.safety.trust.trust_items import TrustItem
from bridle.safety.trust.trust_questions import ReviewedText


def find_all(
    settings: SkillSettings, *, where: Folders, cwd: str | None, env: Mapping[str, str]
) -> FoundSkills:
    """Every skill there is for a session in `cwd`, or for none in particular, agreed to or not."""
    home, project = home_of(env), project_folder(cwd) if cwd else None
    places = skill_places(
        config_folder=where.config,
        project=project,
        cwd=cwd or home,
        home=home,
        listed=settings.folders if cwd else (),
    )
    of_bundles = _bundle_places(settings.bundles, where) if settings.bundles else ()
    searched = (*of_bundles, *places)
    if not searched:
        return FoundSkills(skills=built_in_skills())

    found = find_skills(searched)
    return FoundSkills(skills=(*built_in_skills(), *found.skills), problems=found.problems)


def _bundle_places(bundles: Sequence[str], where: Folders) -> Iterator[SkillPlace]:
    """The skills of these bundles, where they are as the person agreed to them, under the names of the bundles."""

    for bundle in counting_bundles(where.data, bundles):
        for one in bundle.skills:
            yield SkillPlace(
                folder=os.path.join(bundle.folder, one),
                source="bundle",
                shown=f"bundle {bundle.name}: {one}",
                root=bundle.folder,
                inside=True,
                bundle=bundle.name,
            )


def agreed_of(approvals: Approvals) -> Callable[[Iterable[Skill]], frozenset[str]]:
    """For `offered_of`: which of these skills a person agreed to, as they are. Those of a bundle they did with it."""

    def agreed(skills: Iterable[Skill]) -> frozenset[str]:
        listed = list(skills)
        asked = [(one.digest, one.path) for one in listed if one.source != "bundle"]
        of_bundles = _of_bundles(listed) if len(asked) < len(listed) else frozenset[str]()
        return of_bundles | (approvals.held("skill", asked) if asked else frozenset[str]())

    return agreed


def _of_bundles(skills: Iterable[Skill]) -> frozenset[str]:
    return frozenset(one.digest for one in skills if one.source == "bundle")


def session_skills(
    settings: SkillSettings,
    *,
    where: Folders,
    cwd: str,
    env: Mapping[str, str],
    approvals: Approvals,
) -> SessionSkills | None:
    """The skills of a session in `cwd`, looked for when they are needed; None where settings want none."""
    if not settings.enabled:
        return None

    def find() -> Offered:
        found = find_all(settings, where=where, cwd=cwd, env=env)
        return offered_of(found, agreed_of(approvals), settings.disabled)

    return SessionSkills(find)


def own_skills(*, where: Folders, env: Mapping[str, str]) -> SessionSkills:
    """Those that are there whatever the session: Bridle's, the person's own, and those of their bundles."""

    def find() -> Offered:
        settings = SkillSettings(bundles=_all_bundles(where))
        found = find_all(settings, where=where, cwd=None, env=env)
        return offered_of(found, _of_bundles, ())

    return SessionSkills(find)


def _all_bundles(where: Folders) -> tuple[str, ...]:
    if not os.path.isdir(os.path.join(where.data, "bundles")):
        return ()

    return tuple(bundle.folder for bundle in counting_bundles(where.data))


def skill_item(skill: Skill) -> TrustItem:
    """What a person is asked about a skill: all of its files."""

    data = reviewed_text(skill.folder, skill.files)
    return TrustItem(
        kind="skill",
        root=skill.root,
        path=skill.path,
        shown=skill.shown,
        digest=content_digest(data),
        data=data,
        reviewed=ReviewedText(shown=skill.shown, text=data.decode("utf-8", "replace"), kind="skill"),
    )


def project_skill_items(
    settings: SkillSettings, *, where: Folders, cwd: str, env: Mapping[str, str]
) -> Iterator[TrustItem]:
    """The skills here that want a person's word, agreed to or not."""
    found = find_all(settings, where=where, cwd=cwd, env=env)
    off = frozenset(settings.disabled)
    asked = (skill for skill in found.skills if skill.root and skill.source != "bundle")
    return (skill_item(skill) for skill in asked if skill.name not in off)
