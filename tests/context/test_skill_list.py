"""What a skill is, what the model is told of skills, and what brings one in: the pure parts."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.context.skills.skill_file import BadSkill, read_skill
from bridle.context.skills.skill_layers import file_names, fits_a_file, said_in
from bridle.context.skills.skill_list import (
    BUILT_IN,
    MAX_LIST_BYTES,
    best_skills,
    built_in_skills,
    skills_text,
)
from bridle.context.skills.skill_records import Skill, SkillHead, SkillTriggers
from tables import table


def text(**fields: str) -> str:
    lines = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in fields.items())
    return f"---\n{lines}---\nbody\n"


def skills_of(*heads: tuple[str, str]) -> list[Skill]:
    return [
        Skill(head=SkillHead(name=name, description=about), source="yours", folder="/x", shown=name)
        for name, about in heads
    ]


@pytest.mark.requirement("G15.2")
def test_a_skill_has_a_name_and_a_description_and_keeps_its_other_fields():
    found = read_skill(
        text(name="a-1", description="'Does  a.'", license="MIT", allowed_tools="bash", colour="red"),
        folder="a-1",
    )
    assert found.head == SkillHead(
        name="a-1", description="Does a.", fields={"license": "MIT", "allowed-tools": "bash", "colour": "red"}
    )
    assert found.body == "body"


@pytest.mark.requirement("G15.2")
@table(
    ("fields", "line", "problem"),
    [
        ({"description": "x"}, 1, "name is missing"),
        ({"name": "a"}, 1, "description is missing"),
        ({"name": "a", "description": "''"}, 3, "description is empty"),
        ({"name": "a", "description": "[x]"}, 3, "description must be a text"),
        ({"name": "a" * 65, "description": "x"}, 2, "name has 65 characters, and at most 64"),
        ({"name": "a", "description": "x" * 1025}, 3, "description has 1,025 characters, and at most 1,024"),
        ({"name": "A", "description": "x"}, 2, "name may hold small letters"),
        ({"name": "a--b", "description": "x"}, 2, "name may hold small letters"),
        ({"name": "-a", "description": "x"}, 2, "name may hold small letters"),
        ({"name": "b", "description": "x"}, 2, 'name is "b" and the folder "a": rename'),
        ({"name": "a", "description": "x", "triggers": "5"}, 4, "triggers is a table"),
        ({"name": "a", "description": "x", "triggers": "{files: [''], other: 1}"}, 4, "triggers is a table"),
        ({"name": "a", "description": "x", "triggers": "['a*b*c']"}, 4, "a word of a keyword has one *"),
    ],
)
def test_what_does_not_fit_is_named_with_its_line_and_what_to_change(
    fields: dict[str, str], line: int, problem: str
):
    with pytest.raises(BadSkill) as bad:
        read_skill(text(**fields), folder="a")
    assert bad.value.line == line
    assert problem in str(bad.value)


def test_the_limits_themselves_fit():
    name, about = "a" * 64, "é" * 1024
    assert read_skill(text(name=name, description=about), folder=name).head.description == about


def test_the_built_in_skills_are_what_their_files_say():
    for skill, head in zip(built_in_skills(), BUILT_IN, strict=True):
        with open(os.path.join(skill.folder, "SKILL.md"), encoding="utf-8") as file:
            assert read_skill(file.read(), folder=head.name).head == head


@pytest.mark.requirement("G15.3")
@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[a-z0-9]{1,20}(-[a-z0-9]{1,20}){0,2}", fullmatch=True), st.text(max_size=1024)
        ),
        max_size=300,
        unique_by=lambda one: one[0],
    )
)
def test_the_list_never_takes_more_than_its_room_and_counts_everybody(heads: list[tuple[str, str]]):
    heads = [(name, " ".join(about.split())) for name, about in heads]
    listed = skills_text(skills_of(*heads))
    assert len(listed.encode("utf-8", "replace")) <= MAX_LIST_BYTES
    assert skills_text(skills_of(*reversed(heads))) == listed
    lines = [line for line in listed.split("\n") if line.startswith("- ")]
    if "more, found by words" in listed:
        count = int(listed.rpartition("\n")[2].split(" ")[0])
        assert len(lines) + count == len(heads)
    else:
        assert len(lines) == len(heads)


def test_a_skill_is_found_by_its_name_before_others_that_speak_of_it():
    found = best_skills(
        "paint", skills_of(("fence", "Paints the fence."), ("paint", "Colours."), ("x", "Nothing."))
    )
    assert [skill.name for skill in found] == ["paint", "fence"]


@pytest.mark.requirement("G15.4")
@table(
    ("keyword", "said", "fits"),
    [
        ("migrat*", "Please MIGRATE it", True),
        ("migrat*", "immigration", False),
        ("*gration", "a migration!", True),
        ("roll back", "roll\n back", True),
        ("roll back", "rollback", False),
        ("c++", "in c++ it is", True),
        ("a.b", "axb", False),
    ],
)
def test_keywords_are_words_as_people_write_them(keyword: str, said: str, fits: bool):
    assert said_in(SkillTriggers(keywords=(keyword,)), said) is fits


@table(
    ("glob", "name", "fits"),
    [
        ("*.sql", "db/one.sql", True),
        ("*.sql", "one.sqlite", False),
        ("migrations/**", "migrations/a/b.py", True),
        ("migrations/**", "src/migrations/b.py", True),
        ("src/**/*.ts", "src/a.ts", True),
        ("src/**/*.ts", "./src/x/a.ts", True),
        ("src/*.ts", "lib/a.ts", False),
        ("Dockerfile", "deploy/Dockerfile", True),
    ],
)
def test_globs_are_for_names_anywhere_and_for_paths(glob: str, name: str, fits: bool):
    assert fits_a_file(SkillTriggers(files=(glob,)), [name]) is fits


def test_files_are_found_in_paths_commands_and_patches():
    given_to = {
        "command": "pytest -q tests/test_a.py && cat 'b.sql';",
        "patch": "*** Update File: c/d.py\n+x",
    }
    assert {"tests/test_a.py", "b.sql", "c/d.py"} <= set(file_names(given_to))


@given(st.text(alphabet="a*b .", min_size=1, max_size=60), st.text(alphabet="ab ", max_size=3000))
def test_no_keyword_takes_long_over_any_text(keyword: str, said: str):
    try:
        found = read_skill(text(name="a", description="x", triggers=f"['{keyword}']"), folder="a")
    except BadSkill:
        return
    said_in(found.head.triggers, said)
