"""Finding skills on a real disk."""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
from pathlib import Path

import pytest

from bridle.context.skills.skill_content import is_as_read, reviewed_text
from bridle.context.skills.skill_folders import SkillPlace, find_skills, skill_places

TEXT = "---\nname: beans\ndescription: Counts.\n---\nCount.\n"


@pytest.fixture
def place(tmp_path: Path) -> SkillPlace:
    (tmp_path / "skills/beans/scripts").mkdir(parents=True)
    (tmp_path / "skills/beans/SKILL.md").write_text(TEXT)
    (tmp_path / "skills/beans/scripts/go.sh").write_text("echo go\n")
    return SkillPlace(
        folder=str(tmp_path / "skills"), source="project", shown="skills", root=str(tmp_path), inside=True
    )


def test_a_change_that_keeps_size_and_time_makes_another_skill(place: SkillPlace, tmp_path: Path):
    (first,) = find_skills([place]).skills
    script = tmp_path / "skills/beans/scripts/go.sh"
    before = script.stat()
    script.write_text("echo no\n")
    os.utime(script, ns=(before.st_atime_ns, before.st_mtime_ns))
    (changed,) = find_skills([place]).skills
    assert changed.digest != first.digest
    assert changed.head == first.head


def test_a_linked_file_is_read_again_when_what_it_leads_to_changes(tmp_path: Path):
    (tmp_path / "skills/beans").mkdir(parents=True)
    (tmp_path / "kept.md").write_text(TEXT)
    (tmp_path / "skills/beans/SKILL.md").symlink_to(tmp_path / "kept.md")
    own = SkillPlace(folder=str(tmp_path / "skills"), source="yours", shown="skills")
    assert find_skills([own]).skills[0].head.description == "Counts."
    (tmp_path / "kept.md").write_text(TEXT.replace("Counts.", "Paints."))
    assert find_skills([own]).skills[0].head.description == "Paints."


def test_every_name_and_every_byte_counts_for_what_a_person_agrees_to(place: SkillPlace, tmp_path: Path):
    def digest() -> str:
        return find_skills([place]).skills[0].digest

    seen = {digest()}
    beans = tmp_path / "skills/beans"
    (beans / "scripts/go.sh").rename(beans / "scripts/run.sh")
    seen.add(digest())
    (beans / "scripts/run.sh").write_bytes(b"\x00\x01")
    seen.add(digest())
    (beans / "scripts/run.sh").write_bytes(b"\x00\x02")
    seen.add(digest())
    (beans / "more.md").write_text("== scripts/run.sh\n")
    seen.add(digest())
    (beans / "link.md").symlink_to("more.md")
    seen.add(digest())
    (beans / ".git").mkdir()
    (beans / ".git/config").write_text("not part of it")
    seen.add(digest())
    assert len(seen) == 6


def test_a_skill_is_known_to_be_as_it_was_read_or_not(place: SkillPlace, tmp_path: Path):
    (skill,) = find_skills([place]).skills
    script = tmp_path / "skills/beans/scripts/go.sh"
    os.utime(script)
    assert is_as_read(skill)
    script.write_text("echo no\n")
    assert not is_as_read(skill)
    script.unlink()
    assert not is_as_read(skill)


def test_a_text_for_people_shows_what_is_text_and_tells_of_the_rest(place: SkillPlace, tmp_path: Path):
    beans = tmp_path / "skills/beans"
    (beans / "picture.png").write_bytes(b"\x89PNG\x00")
    (skill,) = find_skills([place]).skills
    text = reviewed_text(skill.folder, skill.files).decode()
    assert text.startswith("3 files, by sha256:\n")
    assert text.index("== SKILL.md") < text.index("== picture.png")
    assert "(not shown: no text, or too long)" in text
    assert "echo go" in text


@pytest.mark.requirement("G15.5")
def test_places_count_from_bridles_own_to_the_projects(tmp_path: Path):
    home, work = tmp_path / "home", tmp_path / "home/work"
    for folder in (
        home / ".claude/skills",
        home / ".config/bridle/skills",
        work / ".claude/skills",
        work / ".bridle/skills",
        work / "sub",
        tmp_path / "shared",
    ):
        folder.mkdir(parents=True)
    (work / ".git").mkdir()
    found = skill_places(
        config_folder=str(home / ".config/bridle"),
        project=str(work / ".bridle"),
        cwd=str(work / "sub"),
        home=str(home),
        listed=[".claude/skills", str(tmp_path / "shared"), ".agents/skills"],
    )
    assert [(one.source, one.shown, bool(one.root)) for one in found] == [
        ("listed", "~/.claude/skills", True),
        ("listed", str(tmp_path / "shared"), True),
        ("yours", "~/.config/bridle/skills", False),
        ("project", "../.claude/skills", True),
        ("project", "../.bridle/skills", True),
    ]


def test_what_is_told_of_a_skill_is_what_its_digest_stands_for_while_another_swaps_the_file(
    place: SkillPlace, tmp_path: Path
):
    file, over = tmp_path / "skills/beans/SKILL.md", threading.Event()
    said = {digest_of(text): words for words in ("Counts.", "Steals.") if (text := swapped(words))}

    def swap() -> None:
        for words in itertools.cycle(("Counts.", "Steals.")):
            (tmp_path / "next").write_text(swapped(words))
            (tmp_path / "next").rename(file)
            if over.is_set():
                return

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        found = [find_skills([place]).skills for _ in range(400)]
    finally:
        over.set()
        swapper.join()
    told = [(skill.files["SKILL.md"], skill.head.description) for skills in found for skill in skills]
    assert {words for digest, words in told if said[digest] != words} == set()


def swapped(words: str) -> str:
    return TEXT.replace("Counts.", words)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_skill_that_could_not_be_shown_to_a_person_is_none(place: SkillPlace, tmp_path: Path):
    (tmp_path / "skills/beans/SKILL.md").write_text(TEXT + "\0")
    (problem,) = find_skills([place]).problems
    assert "no text" in problem.problem


FULL = "nothing is looked at: its skills together have more than 4,000 files and 64 MiB"


@pytest.mark.requirement("G15.1")
def test_of_all_skills_of_a_place_together_no_more_is_read_than_a_place_has_room_for(
    place: SkillPlace, tmp_path: Path
):
    for number in range(6):
        folder = tmp_path / f"skills/large-{number}"
        folder.mkdir()
        (folder / "SKILL.md").write_text(TEXT.replace("beans", folder.name))
        with open(folder / "data", "wb") as file:
            file.truncate(16 * 1024 * 1024)
    found = find_skills([place])
    assert [one.name for one in found.skills] == ["beans", "large-0", "large-1", "large-2"]
    assert [str(one) for one in found.problems] == [f"skills: from large-3 on {FULL}"]


def test_skills_that_are_none_because_they_are_too_large_take_room_as_well(place: SkillPlace, tmp_path: Path):
    folder = tmp_path / "skills/c-0"
    folder.mkdir()
    for number in range(2_001):
        (folder / f"{number}").touch()
    (folder / "SKILL.md").write_text(TEXT)
    for name in ("c-1", "c-2", "c-3"):
        (tmp_path / "skills" / name).symlink_to(folder)
    problems = [str(one) for one in find_skills([place]).problems]
    assert problems == [
        "skills/c-0/: it has more than 2,000 files: keep only what the skill needs",
        f"skills: from c-1 on {FULL}",
    ]


def test_a_file_too_much_is_seen_before_any_is_read(place: SkillPlace, tmp_path: Path):
    os.mkfifo(tmp_path / "skills/beans/zzz")
    (found,) = find_skills([place]).problems
    assert str(found) == "skills/beans/zzz: this is no file: take it away"
