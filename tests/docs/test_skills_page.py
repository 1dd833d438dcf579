"""The page on skills, followed from an empty folder to a skill that is used; its table says what holds."""

import re
from pathlib import Path

from bridle.context.skills.skill_file import read_skill
from bridle.context.skills.skill_list import MAX_LIST_BYTES, built_in_skills
from bridle.context.skills.skill_records import MAX_DESCRIPTION, MAX_NAME
from bridle.protocol.events import ContextAdded, text_of
from cli_kit import Place
from cli_terminal import sitting

PAGE = (Path(__file__).resolve().parents[2] / "docs/skills.md").read_text(encoding="utf-8")


def test_a_skill_is_written_agreed_to_and_used_as_the_page_says(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place.bridle("skills", "new", "release-notes").code == 0
    folder = place.work / ".bridle/skills/release-notes"
    (written,) = re.findall(r"^```markdown\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (folder / "SKILL.md").write_text(written)
    (folder / "scripts").mkdir()
    (folder / "scripts/commits.sh").write_text("echo one commit\n")
    assert place.bridle("skills", "check").code == 0
    assert "release-notes   project   not trusted" in place.bridle("skills", "list").out
    model = place.script("say Written.\n")
    place.bridle("run", "-m", model, "release notes, please")
    with sitting(place, "trust", "ack") as person:
        person.sees("The skill .bridle/skills/release-notes wants to tell the model how to work.", "›")
        person.types("v\n")
        person.sees("echo one commit")
        person.waits(lambda: person.text.count("Enter not now ›") == 2, "the question again")
        person.types("u\n")
        assert person.ends() == 0
    assert "release-notes   project   offered" in place.bridle("skills", "list").out
    ran = place.bridle("run", "-m", model, "release notes, please")
    assert "skill    release-notes" in ran.err
    sessions = [place.events(row.id) for row in place.sessions()]
    added = [
        text_of(one.event.content) for some in sessions for one in some if isinstance(one.event, ContextAdded)
    ]
    assert len(added) == 1
    assert "One line for each change" in added[0]


def test_the_page_names_the_limits_and_the_skills_that_come_along() -> None:
    assert f"at most {MAX_NAME}; the same as the folder" in PAGE
    assert f"at most {MAX_DESCRIPTION:,} characters" in PAGE
    assert f"at most {MAX_LIST_BYTES // 1024} KB for all of them" in PAGE
    assert all(f"`{skill.name}`" in PAGE for skill in built_in_skills())
    (written,) = re.findall(r"^```markdown\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert read_skill(written, folder="release-notes").head.triggers.files == ("CHANGELOG.md",)
