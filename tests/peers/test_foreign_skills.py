"""Skills that others publish on npm load as they are, once a person agreed to them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bridle.app.sources.skill_sources import project_skill_items
from bridle.config.folders import folders
from bridle.context.skills.skill_records import SkillSettings
from bridle.safety.trust.approvals import Approvals
from cli_kit import Place

pytestmark = pytest.mark.peers

PACKAGES = Path(__file__).parent / "node_modules"
PUBLISHED = {
    "@tanstack/intent/meta": (
        "domain-discovery",
        "generate-skill",
        "skill-staleness-check",
        "tree-generator",
    ),
    "openskills/examples": ("my-first-skill",),
}


@pytest.mark.requirement("G15.1")
@pytest.mark.parametrize("package", PUBLISHED)
def test_published_skills_load_unchanged(tmp_path: Path, package: str) -> None:
    place = Place(tmp_path)
    (place.work / ".git").mkdir()
    theirs = place.work / ".claude/skills"
    shutil.copytree(PACKAGES / package, theirs)
    config = place.home / ".config/bridle"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[skills]\nfolders = [".claude/skills"]\n')
    found = json.loads(place.bridle("skills", "list", "--json").out)
    assert found["problems"] == []
    assert {one["name"] for one in found["skills"] if not one.get("trusted", True)} == set(PUBLISHED[package])
    env = place.environment()
    items = project_skill_items(
        SkillSettings(folders=(".claude/skills",)),
        where=folders(env),
        cwd=str(place.work),
        env=env,
    )
    for item in items:
        item.approve(Approvals(str(config)))
    name = PUBLISHED[package][-1]
    model = place.script(f'call skill {{"name": "{name}"}}\n---\nsay Read it.\n')
    ran = place.bridle("run", "-m", model, "use it")
    assert ran.code == 0, ran.err
    assert f"skill    {name}" in ran.err
    assert place.bridle("skills", "check", *(str(theirs / one) for one in PUBLISHED[package])).code == 0
