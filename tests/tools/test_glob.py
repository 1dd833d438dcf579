"""`glob`, through the layers a session puts around it, and path patterns alone."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.base.fs.path_patterns import BadPathPattern, PathPattern, anywhere
from bridle.engine.tools import Sight
from bridle.protocol.display_values import ShownSearch
from bridle.tools.search.folder_walk import walk
from effort import examples
from tables import table


def touch(bench, path: str, changed_s: int = 0) -> None:
    file = bench.workspace / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    os.utime(file, (changed_s, changed_s))


@pytest.mark.requirement("D9.3", "T2.14")
async def test_the_files_changed_last_come_first_inside_the_folder(bench) -> None:
    for index, path in enumerate(
        ["old.py", "src/deep/mid.py", "new.py", "a.txt", ".git/x.py", "src/node_modules/y.py"]
    ):
        touch(bench, path, index)
    assert (await bench.run("glob", pattern="*.py")).content == "new.py\nsrc/deep/mid.py\nold.py\n"
    assert (await bench.run("glob", pattern="**/*.py", path="src")).content == "src/deep/mid.py\n"
    assert (await bench.run("glob", pattern="src/*.py")).content == "[no files]\n"
    output = await bench.run("glob", pattern="*.rs")
    assert (output.content, output.shown) == ("[no files]\n", ShownSearch(found=0))


@pytest.mark.requirement("D9.3", "T2.14")
async def test_of_more_than_1000_files_the_newest_are_shown(bench) -> None:
    for index in range(1005):
        touch(bench, f"f{index:04}", index)
    output = await bench.run("glob", pattern="f*")
    lines = output.content.splitlines()
    assert lines[:2] == ["f1004", "f1003"]
    assert lines[-2:] == ["f0005", "[the 1000 changed last of 1005 are shown]"]
    assert output.shown == ShownSearch(found=1005, more=True)


@pytest.mark.parametrize("times", [1, 4])
async def test_of_files_changed_at_once_the_first_by_path_are_shown(bench, times: int) -> None:
    """Far more than are shown, in folders that are come by in any order."""
    changed_s: dict[str, int] = {}
    beginnings = ("\udcff", "é", "", "", "")
    for number in range(3600):
        path = f"{number % 36:02}/{beginnings[number % 5]}f{number}"
        changed_s[path] = number * 7919 % times
        touch(bench, path, changed_s[path])
    output = await bench.run("glob", pattern="**/*f*")
    newest = sorted(changed_s, key=lambda path: (-changed_s[path], path))[:1000]
    shown = [path.replace("\udcff", "\ufffd") for path in newest]
    assert output.content.splitlines() == [*shown, "[the 1000 changed last of 3600 are shown]"]


async def test_a_file_that_is_gone_before_its_time_is_asked_for_is_not_counted(bench) -> None:
    for path in ("a/x", "a/y", "a/z", "b/x"):
        touch(bench, path)

    def look_and_delete(path: str) -> bool:
        if path.endswith("a/y"):
            os.unlink(path)
        return True

    bench.sight = Sight(shows_name=look_and_delete)
    output = await bench.run("glob", pattern="*")
    assert (output.content, output.shown) == ("a/x\na/z\nb/x\n", ShownSearch(found=3))


async def test_links_are_listed_and_never_followed(bench, tmp_path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.py").write_text("x")
    touch(bench, "a/b.py")
    (bench.workspace / "a/loop").symlink_to("..")
    (bench.workspace / "out").symlink_to(tmp_path / "outside")
    assert (await bench.run("glob", pattern="**/*.py")).content == "a/b.py\n"
    assert set((await bench.run("glob", pattern="*")).content.split()) == {"a/b.py", "a/loop", "out"}


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../../b", "[a", "{a,b", "a\\", ""])
async def test_a_pattern_that_leads_elsewhere_or_nowhere_is_an_input_error(bench, pattern: str) -> None:
    output = await bench.run("glob", pattern=pattern)
    assert (output.outcome, output.reason) == ("error", "InvalidInput")


async def test_a_folder_that_is_none_is_an_error(bench) -> None:
    touch(bench, "file")
    for path in ("file", "missing"):
        output = await bench.run("glob", pattern="*", path=path)
        assert (output.outcome, output.reason) == ("error", "FileUnreadable")


async def test_a_name_that_would_look_like_two_stays_on_one_line(bench) -> None:
    touch(bench, "a\nb.py")
    assert (await bench.run("glob", pattern="*.py")).content == "'a\\nb.py'\n"


@table(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py"], ["a.pyc", "a.py/b"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "x/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py"]),
        ("src/**", ["src/a", "src/x/y"], ["src", "x/src/a"]),
        ("**/a/b", ["a/b", "x/a/b"], ["a/x/b"]),
        ("**/**/b/**/**", ["b/x", "a/b/x", "a/a/b/x/y"], ["b", "a/b"]),
        ("*.{c,h}", ["a.c", "b/a.h"], ["a.ch"]),
        ("{a,b/{c,d}}/x", ["a/x", "b/c/x", "b/d/x"], ["b/x"]),
        ("[a-c]?", ["ax", "c1"], ["dx", "a"]),
        ("[!a]", ["b"], ["a"]),
        ("[]-]", ["]", "-"], ["a"]),
        ("a\\*", ["a*"], ["ab"]),
        ("*a*b*", ["ab", "xaxbx"], ["ba"]),
    ],
)
def test_patterns_mean_what_people_expect(pattern: str, yes: list[str], no: list[str]) -> None:
    wanted = PathPattern(anywhere(pattern))
    assert [path for path in yes if not wanted.matches(path.split("/"))] == []
    assert [path for path in no if wanted.matches(path.split("/"))] == []


def test_a_hostile_pattern_takes_no_time() -> None:
    assert not PathPattern("*a" * 40 + "b").matches(["a" * 250])
    assert not PathPattern("**/" * 40 + "b").matches(["a"] * 100)
    with pytest.raises(BadPathPattern):
        PathPattern("{a,b}" * 30)
    with pytest.raises(BadPathPattern):
        PathPattern("{" * 5000 + "}" * 5000)


@given(st.text(alphabet="ab*?[]!^-{},\\/.", max_size=12), st.text(alphabet="ab-/.]", max_size=8))
def test_any_text_is_a_pattern_or_is_refused(pattern: str, path: str) -> None:
    try:
        PathPattern(pattern).matches(path.split("/"))
    except BadPathPattern as refused:
        assert str(refused)


@given(st.text(alphabet="ab.é", min_size=1, max_size=8))
def test_a_plain_name_matches_itself_only(name: str) -> None:
    assert PathPattern(name).matches([name])
    assert not PathPattern(name).matches([name + "x"])


NAMES = st.sampled_from(["a", "b", "ab", "a.c", ".x", "node_modules"])
TREES = st.lists(st.lists(NAMES, min_size=1, max_size=4), max_size=8)
PARTS = st.sampled_from(["a", "b", "*", "**", "?", "[ab]", "*.c", "{a,b}", "a*"])


@settings(max_examples=examples(60), deadline=None)
@given(TREES, st.lists(PARTS, min_size=1, max_size=4))
def test_a_walk_by_a_pattern_comes_to_just_the_files_that_match(tree, parts) -> None:
    pattern = PathPattern("/".join(parts))
    with tempfile.TemporaryDirectory(prefix="bridle-") as scratch:
        for path in tree:
            file = Path(scratch, *path)
            if not file.exists() and not any(parent.is_file() for parent in file.parents):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
        everything = [path for path, _ in walk(scratch, skipped={"node_modules"})]
        matching = [path for path, _ in walk(scratch, skipped={"node_modules"}, pattern=pattern)]
    assert matching == [path for path in everything if pattern.matches(path.split("/"))]
