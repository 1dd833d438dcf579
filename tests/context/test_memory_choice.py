"""Which memories go with a turn, and how one stands in its file."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.context.memory.memory_choice import (
    INDEX,
    MAX_CHOSEN,
    MAX_CHOSEN_BYTES,
    MAX_ENTRY_BYTES,
    MemoryIndex,
    MemoryRow,
    choose,
    is_near,
    stem,
    words_of,
)
from bridle.context.memory.memory_entry import TYPES, BadMemory, Memory, read_memory
from bridle.context.memory.memory_files import MemoryFolder, memory_files
from tables import table

MANY = 500


def row(
    name: str, description: str = "x", *tags: str, size=100, scope="user", updated="2026-01-01"
) -> MemoryRow:
    return MemoryRow(scope, name, name, "", description, "user", updated, tags, size)


def chosen(rows, said: str, present=()) -> list[str]:
    return [one.name for one in choose([MemoryIndex(rows)], said, present)]


@table(
    ("said", "names"),
    [
        ("release a new version", ["ship"]),  # the tag
        ("Releasing it now", ["ship"]),  # its other forms
        ("relaese it", []),  # a slip in a tag alone is not enough
        ("relaese the verison", ["ship"]),  # two of them are
        ("how do we ship this", ["ship"]),  # the name
        ("what about the database migrations", ["tables"]),  # two words of the description
        ("the database", []),  # one is not enough
        ("look at src/tables/old.py", ["tables"]),  # a path counts as its words
        ("", []),
        ("the and with of", []),
    ],
)
def test_a_tag_a_name_or_two_words_of_the_description_bring_a_memory_back(said, names):
    rows = [
        row("ship", "How a new version goes out", "release"),
        row("tables", "Migrations of the database are written by hand"),
    ]
    assert chosen(rows, said) == names


def test_a_memory_tagged_always_comes_whatever_is_said():
    assert chosen([row("tone", "Short answers", "always")], "anything") == ["tone"]


def test_the_choice_is_bounded_and_the_best_come_first():
    rows = [row(f"deploy-{number}", "How to deploy", size=MAX_ENTRY_BYTES) for number in range(50)]
    best = row("deploy", "How to deploy the service", "deploy", size=MAX_ENTRY_BYTES)
    names = chosen([*rows, best], "deploy the service")
    assert names[0] == "deploy"
    assert len(names) * MAX_ENTRY_BYTES <= MAX_CHOSEN_BYTES
    small = [row(f"deploy-{number}", "How to deploy", size=10) for number in range(50)]
    assert len(chosen(small, "deploy it")) == MAX_CHOSEN


def test_a_memory_of_the_project_goes_before_one_of_the_person_and_a_newer_one_before_an_older():
    rows = [
        row("deploy", "x", scope="user"),
        row("deploy", "y", scope="project", updated="2025-01-01"),
        row("deploy-it", "deploy", scope="project", updated="2026-02-02"),
    ]
    found = choose([MemoryIndex(rows)], "deploy")
    assert [(one.scope, one.updated) for one in found] == [
        ("project", "2026-02-02"), ("project", "2025-01-01"), ("user", "2026-01-01"),
    ]  # fmt: skip


def test_what_is_there_already_is_left_out():
    assert chosen([row("ship")], "ship it", present={("user/ship", "ship")}) == []
    assert chosen([row("ship")], "ship it", present={("user/ship", "another content")}) == ["ship"]


def test_a_script_without_spaces_is_compared_by_its_signs():
    assert chosen([row("tone", "数据库迁移的说明")], "请检查数据库迁移") == ["tone"]


SUBJECTS = (
    "deploy",
    "database",
    "tests",
    "tabs",
    "docs",
    "api",
    "cache",
    "login",
    "queue",
    "worker",
    "index",
    "rust",
)
WORDS = st.lists(st.sampled_from(SUBJECTS))


@given(st.lists(st.tuples(WORDS, WORDS), max_size=12), WORDS, st.randoms(use_true_random=False))
def test_the_choice_depends_on_nothing_but_memories_and_words(given_rows, said, shuffled: random.Random):
    rows = [
        row(f"m{number}", " ".join(words) or "x", *dict.fromkeys(tags))
        for number, (words, tags) in enumerate(given_rows)
    ]
    first = chosen(rows, " ".join(said))
    shuffled.shuffle(rows)
    assert chosen(rows, " ".join(said)) == first
    assert len(first) <= MAX_CHOSEN


@given(st.text("abcd", max_size=6), st.text("abcd", max_size=6))
def test_one_slip_is_near_both_ways_and_two_are_not(one, other):
    def slips(word: str) -> set[str]:
        cut = [(word[:at], word[at:]) for at in range(len(word) + 1)]
        return {
            word,
            *(a + b[1:] for a, b in cut if b),
            *(a + sign + b for a, b in cut for sign in "abcd"),
            *(a + sign + b[1:] for a, b in cut if b for sign in "abcd"),
            *(a + b[1] + b[0] + b[2:] for a, b in cut if len(b) > 1),
        }

    assert is_near(one, other) == (other in slips(one))
    assert is_near(one, other) == is_near(other, one)


@given(st.text(max_size=80))
def test_words_are_the_same_when_they_are_read_again(text):
    words = words_of(text)
    assert len(set(words)) == len(words)
    assert all(stem(word) or word for word in words)


LINE = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=60).map(
    lambda text: " ".join(text.split())
)


@pytest.mark.requirement("T11.1", "T11.2")
@given(
    description=LINE.filter(bool),
    kind=st.sampled_from(TYPES),
    tags=st.lists(LINE.filter(lambda tag: 0 < len(tag) <= 40), max_size=4, unique=True),
    text=st.text(st.characters(blacklist_categories=("Cs",)), max_size=200),
)
def test_a_memory_reads_as_it_was_written(description, kind, tags, text):
    text = text.replace("\r", "").strip("\n")
    memory = Memory(
        name="a-name", description=description, type=kind, updated="2026-01-01", tags=tuple(tags), text=text
    ).checked()
    assert read_memory("a-name", memory.written(), scope="user", changed="") == memory


@given(st.text(max_size=300))
def test_whatever_stands_in_a_file_is_a_memory_or_says_why_not(text):
    for given_text in (text, f"---\n{text}\n---\n", f"---\ndescription: x\n{text}"):
        try:
            read_memory("a-name", given_text, scope="user", changed="2026-01-01")
        except BadMemory as bad:
            assert str(bad)


def test_a_file_written_by_hand_is_read_as_people_write_it():
    text = (
        "---\nname: user-preferences\ndescription: User's coding preferences: short\n"
        'metadata:\n  type: feedback\n  updated: "2026-06-10"\n'
        "tags:\n  - style\n  - naming\n---\n\nUser prefers kebab-case.\n"
    )
    memory = read_memory("user-preferences", text, scope="user", changed="2026-01-01")
    assert memory == Memory(
        name="user-preferences",
        description="User's coding preferences: short",
        type="feedback",
        updated="2026-06-10",
        tags=("style", "naming"),
        text="User prefers kebab-case.",
    )


def filled(tmp_path: Path, count: int) -> MemoryFolder:
    folder = memory_files(str(tmp_path / "data"), str(tmp_path / "state"), str(tmp_path)).user
    os.makedirs(folder.path)
    for number in range(count):
        first, second = SUBJECTS[number % 12], SUBJECTS[(number // 12) % 12]
        fields = f"description: How {first} number {number} works with {second}\ntags: [{first}{number}]"
        text = f"---\n{fields}\n---\n\nText {number}.\n"
        Path(folder.path, f"note-{number}.md").write_text(text)
    return folder


def test_a_file_that_changed_is_read_again(tmp_path: Path):
    folder = filled(tmp_path, 20)
    assert len(folder.rows()) == 20
    Path(folder.path, "note-3.md").write_text("---\ndescription: another\n---\n")
    assert [one.description for one in folder.rows() if one.name == "note-3"] == ["another"]
    assert "note-3.md): another" in Path(folder.path, INDEX).read_text()


@pytest.mark.requirement("G35.2")
def test_choosing_among_five_hundred_reads_none_of_their_files(tmp_path: Path):
    folder = filled(tmp_path, MANY)
    index = folder.index()
    shutil.rmtree(folder.path)
    found = choose([index], "please look at deploy204 and database1 " + "some more words " * 100)
    assert {"note-204", "note-1"} <= {one.name for one in found}
    assert len(found) <= MAX_CHOSEN


def test_a_missing_index_is_made_again(tmp_path: Path):
    folder = filled(tmp_path, 3)
    rows = folder.rows()
    os.unlink(Path(folder.path, INDEX))
    assert folder.rows() == rows
    assert Path(folder.path, INDEX).exists()


def test_what_is_no_file_of_ours_is_named_and_waits_for_nobody(tmp_path: Path):
    folder = filled(tmp_path, 0)
    os.mkfifo(os.path.join(folder.path, "pipe.md"))
    os.mkdir(os.path.join(folder.path, "folder.md"))
    os.symlink("nowhere", os.path.join(folder.path, "link.md"))
    Path(folder.path, "My Notes.md").write_text("x")
    Path(folder.path, "large.md").write_text("x" * 70_000)
    Path(folder.path, "bytes.md").write_bytes(b"---\ndescription: \xff\n---\n")
    assert all(one.problem for one in folder.rows())
    assert len(folder.rows()) == 6
