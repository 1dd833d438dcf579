"""`grep`, through the layers a session puts around it."""

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridle.base.process.processes import Processes
from bridle.protocol.display_values import ShownSearch
from bridle.tools.search.file_search import Search, SearchAnswer, Unsearchable, find_ripgrep, search
from bridle.tools.search.search_patterns import BadSearchPattern, search_pattern
from effort import examples
from secret_kit import private_key_lines


@pytest.mark.requirement("T2.15")
async def test_matching_lines_come_by_path_and_line(bench) -> None:
    (bench.workspace / "src").mkdir()
    (bench.workspace / "src/b.py").write_text("import os\nx = os.sep\n")
    (bench.workspace / "a.py").write_text("pass\nimport os\n")
    (bench.workspace / "c.txt").write_text("import os\n")
    output = await bench.run("grep", pattern=r"^import\s+os$", glob="*.py")
    assert output.content == "a.py:2:import os\nsrc/b.py:1:import os\n"
    assert output.shown == ShownSearch(found=2, files=2)
    output = await bench.run("grep", pattern="OS", path="src", ignore_case=True, output_mode="count")
    assert output.content == "src/b.py:2\n"
    output = await bench.run("grep", pattern="os", outputMode="files_with_matches", headLimit=2)
    assert output.content == (
        "a.py\nc.txt\n[there are more than these 2 files; narrow pattern, path or glob]\n"
    )
    output = await bench.run("grep", pattern="nowhere")
    assert output.content == "[no matches]\n"


@pytest.mark.requirement("D9.2")
async def test_at_most_200_matches_outside_of_git_packages_and_build_output(bench) -> None:
    for folder in (
        ".git",
        "node_modules",
        "build",
        "dist",
        "target",
        "__pycache__",
        "src/node_modules",
        "src",
    ):
        (bench.workspace / folder).mkdir(exist_ok=True, parents=True)
        (bench.workspace / folder / "file").write_text("hit\n")
    assert (await bench.run("grep", pattern="hit")).content == "src/file:1:hit\n"
    assert (await bench.run("grep", pattern="hit", path="build")).content == "build/file:1:hit\n"
    (bench.workspace / "many").write_text("hit\n" * 1000)
    output = await bench.run("grep", pattern="hit", path="many", head_limit=1000)
    assert output.content.count(":hit\n") == 200
    assert output.content.endswith(
        "[there are more than these 200 matching lines; narrow pattern, path or glob]\n"
    )
    assert output.shown == ShownSearch(found=200, files=1, more=True)


async def test_a_single_file_is_searched_whatever_ignores_it(bench) -> None:
    (bench.workspace / ".gitignore").write_text("*.log\n")
    (bench.workspace / "a.log").write_text("hit\n")
    (bench.workspace / "b.bin").write_bytes(b"hit\0")
    assert (await bench.run("grep", pattern="hit")).content == "[no matches]\n"
    assert (await bench.run("grep", pattern="hit", path="a.log")).content == "a.log:1:hit\n"
    for path, problem in (("b.bin", "it is a binary file"), ("missing", "No such file")):
        output = await bench.run("grep", pattern="hit", path=path)
        assert (output.outcome, output.reason) == ("error", "FileUnreadable")
        assert problem in output.content


async def test_long_lines_are_cut_around_the_match(bench) -> None:
    (bench.workspace / "a.js").write_text("x" * 5000 + "hit" + "y" * 5000 + "\n")
    output = await bench.run("grep", pattern="hit")
    assert output.content == f"a.js:1:…{'x' * 100}hit{'y' * 197}…\n"


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a(", "a ( is not closed"),
        ("a)", "closes nothing"),
        ("[a", "a [ is not closed"),
        ("*a", "has nothing to repeat"),
        ("a**", "has nothing to repeat"),
        ("(?=a)", "not supported"),
        (r"(a)\1", "back references"),
        (r"a\nb", "stays on one line"),
        (r"\p{L}", "not supported"),
        ("[[:alpha:]]", "not supported"),
        (r"\<a", r"write \b"),
        ("[z-a]", "backwards"),
        ("a{2,1}", "is no count"),
        ("a\\", "ends with a backslash"),
    ],
)
async def test_a_pattern_that_cannot_be_used_is_an_input_error_that_says_why(
    bench, pattern: str, problem: str
) -> None:
    output = await bench.run("grep", pattern=pattern)
    assert (output.outcome, output.reason) == ("error", "InvalidInput")
    assert problem in output.content


@pytest.mark.parametrize("glob", ["/etc/*", "../*", "[a", "{a"])
async def test_a_glob_that_cannot_be_used_is_an_input_error(bench, glob: str) -> None:
    output = await bench.run("grep", pattern="a", glob=glob)
    assert (output.outcome, output.reason) == ("error", "InvalidInput")


class Searched:
    """Searches a folder as the tool does."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.folder = folder
        self._processes = processes

    async def search(self, pattern: str, **options) -> SearchAnswer:
        folder = str(self.folder)
        options = {"folder": folder, "top": folder, "limit": 200, **options}
        wanted = Search(
            pattern=search_pattern(pattern, ignore_case=options.pop("ignore_case", False)), **options
        )
        return await search(wanted, self._start, find_ripgrep({"PATH": os.environ["PATH"]}, "/nowhere"))

    async def _start(self, argv, cwd, stdin, on_output):
        return await self._processes.start(
            argv, cwd=cwd, env={}, on_output=on_output, on_error=lambda _: None, stdin=stdin
        )


@pytest.fixture
async def searched(tmp_path: Path) -> AsyncIterator[Searched]:
    processes = Processes()
    folder = tmp_path / "tree"
    folder.mkdir()
    yield Searched(folder, processes)
    await processes.close()


@pytest.mark.requirement("D9.2")
async def test_what_is_searched(searched) -> None:
    tree = {
        ".gitignore": "*.log\n!keep.log\n/only_top\nsub/deep/\n*.{tmp,bak}\n# hit\n\\#hash\nspace \nesc\\ \n[ab\n",
        ".hidden": "hit",
        ".ignore": "x.py\n",
        "a.log": "hit",
        "keep.log": "hit\n",
        "only_top": "hit",
        "sub/only_top": "hit",
        "sub/deep/a": "hit",
        "sub/.gitignore": "!a.log\nlocal\r\n",
        "sub/a.log": "hit",
        "sub/local": "hit",
        "x.tmp": "hit",
        "#hash": "hit",
        "space": "hit",
        "esc ": "hit",
        "x.py": "hit\r\nno\r\nhit\r\n",
        "node_modules/m.js": "hit",
        "b-c/x": "hit",
        "b/x": "hit",
        "b.x": "hit",
        "binary": "hit\n\0",
        "late": "hit\n" * 20_000 + "\0",
        "later": "hit\n" + "-\n" * 200_000 + "\0",
        "caf\u00e9": "caf\u00e9 hit\n",
        "line\nbreak": "hit",
    }
    for path, text in tree.items():
        file = searched.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    unreadable = [os.fsdecode(b"bad\xff")] if sys.platform == "linux" else []  # others allow no such name
    for name in unreadable:
        (searched.folder / name).write_bytes(b"\xff hit \xfe\n")
    (searched.folder / "link").symlink_to("keep.log")
    (searched.folder / "loop").symlink_to(".")
    os.mkfifo(searched.folder / "pipe")
    answer = await searched.search("hit$|\xe9|hit ")
    found = list(dict.fromkeys(match.path for match in answer.matches))
    assert found == [
        ".gitignore",
        ".hidden",
        "b/x",
        "b-c/x",
        "b.x",
        *unreadable,
        "caf\u00e9",
        "keep.log",
        "line\nbreak",
        "sub/a.log",
        "sub/only_top",
        "x.py",
    ]
    assert [match.number for match in answer.matches if match.path == "x.py"] == [1, 3]
    counted = await searched.search("hit", only_files=True)
    assert [(match.path, match.number) for match in counted.matches][-1] == ("x.py", 2)
    assert (await searched.search("hit", limit=3)).more
    assert (await searched.search("hit", glob="**/*.{log,py}", limit=4)).more is False
    below = await searched.search("hit", folder=str(searched.folder / "sub"))
    assert [match.path for match in below.matches] == ["a.log", "only_top"]
    (searched.folder / ".gitignore").write_text("sub/only*\nsub/deep\n")
    below = await searched.search("hit", folder=str(searched.folder / "sub"))
    assert [match.path for match in below.matches] == ["a.log"]


async def test_of_more_answers_than_are_wanted_the_first_by_path_are_shown(searched) -> None:
    lines = 10
    for number in range(60):
        folder = searched.folder / f"d{number:02}"
        folder.mkdir()
        (folder / "x.py").write_text("hit\n" * lines)
        (folder / "x.md").write_text("hit\n")
    (searched.folder / "d00/x.py").write_bytes(b"hit\n" * 300 + b"\0")  # is found first, and is no text
    answer = await searched.search("hit", limit=2 * lines + 5)
    assert answer.more
    assert [match.path for match in answer.matches] == (
        ["d00/x.md", "d01/x.md"]
        + ["d01/x.py"] * lines
        + ["d02/x.md"]
        + ["d02/x.py"] * lines
        + ["d03/x.md", "d03/x.py"]
    )
    assert not (await searched.search("hit", limit=59 * lines + 60)).more
    few = await searched.search("hit", glob="*.md", limit=200)
    assert [match.path for match in few.matches] == [f"d{number:02}/x.md" for number in range(60)]
    assert not few.more


names = st.sampled_from(["a", "b", "ab", "a.c", "build", ".x"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
lines = st.lists(st.text(alphabet="abAB 1_é.\r", max_size=6), max_size=4).map("\n".join)
rule = st.lists(
    st.sampled_from(["a", "b", "*", "?", "/", "**", "[ab]", ".c", "\\a", "{a,b}"]),
    min_size=1,
    max_size=4,
).map("".join)
rules = st.lists(st.builds(str.__add__, st.sampled_from(["", "", "!"]), rule), max_size=3).map("\n".join)
atoms = st.sampled_from(
    [
        "a",
        "B",
        "é",
        ".",
        r"\w",
        r"\d",
        r"\s",
        r"\W",
        "[ab]",
        "[^a]",
        r"[\w.-]",
        "(a|b)",
        r"\b",
        "^",
        "$",
        "|",
        "{",
    ]
)
repeats = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{,2}", "*?"])
patterns = st.lists(st.builds(str.__add__, atoms, repeats), min_size=1, max_size=4).map("".join)


@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    files=st.dictionaries(paths, lines, max_size=6),
    ignored=st.dictionaries(st.sampled_from(["", "a/", "b/"]), rules, max_size=2),
    pattern=patterns,
    ignore_case=st.booleans(),
    glob=st.sampled_from([None, "*", "a*", "*.{c,x}", "{a,b}*", "*.c", "a/**", "[ab]*", "?"]),
)
def test_lines_and_files_are_those_that_a_plain_reading_of_the_rules_gives(
    files, ignored, pattern: str, ignore_case: bool, glob: str | None
) -> None:
    try:
        search_pattern(pattern)
    except BadSearchPattern:
        pattern = "a"
    asyncio.run(_compared(files, ignored, pattern, ignore_case=ignore_case, glob=glob))


async def _compared(
    files: dict[str, str], ignored: dict[str, str], pattern: str, *, ignore_case: bool, glob: str | None
) -> None:
    """What ripgrep finds against Python's expressions, and what it searches against our own walk."""
    expected = re.compile(
        pattern.replace("$", r"(?:\r?\Z)"), re.ASCII | (re.IGNORECASE if ignore_case else re.NOFLAG)
    )
    processes = Processes()
    try:
        with tempfile.TemporaryDirectory(prefix="bridle-") as scratch:
            folder = Path(scratch)
            for path, text in (
                files | {f"{place}.gitignore": text for place, text in ignored.items()}
            ).items():
                if (
                    not any(parent.is_file() for parent in (folder / path).parents)
                    and not (folder / path).is_dir()
                ):
                    (folder / path).parent.mkdir(parents=True, exist_ok=True)
                    (folder / path).write_bytes(f"{text}\n".encode())
            searched = Searched(folder, processes)
            every = await searched.search("^", glob=glob, only_files=True)
            paths = tuple(match.path for match in every.matches)
            hidden = await searched.search("^", glob=glob, shows_content=lambda _path: False)
            assert hidden == SearchAnswer((), more=False, left_out=paths)
            found = await searched.search(pattern, glob=glob, ignore_case=ignore_case)
            assert [(match.path, match.number) for match in found.matches] == [
                (path, number)
                for path in paths
                for number, line in enumerate((folder / path).read_bytes().decode()[:-1].split("\n"), 1)
                if expected.search(line)
            ]
    finally:
        await processes.close()


@given(st.text(alphabet="ab()[]{}*+?|^$\\.-:,<>=!iPdwsbnx01&~# \t\n", max_size=12))
def test_any_text_is_a_pattern_or_is_refused(pattern: str) -> None:
    try:
        assert search_pattern(pattern).text or pattern in {"", "(?i)"}
    except BadSearchPattern as refused:
        assert str(refused)


async def test_an_rg_of_the_workspace_is_never_run(bench, tmp_path, monkeypatch) -> None:
    inside, outside = bench.workspace / "bin", tmp_path / "bin"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "rg").write_text("#!/bin/sh\n")
        (folder / "rg").chmod(0o755)
    path = f".:{inside}:{outside}"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert find_ripgrep({"PATH": path}, str(bench.workspace)) == str(outside / "rg")
    with pytest.raises(Unsearchable, match="is not installed"):
        find_ripgrep({"PATH": f".:{inside}"}, str(bench.workspace))


async def test_a_pattern_that_ripgrep_cannot_take_is_an_error_and_no_empty_answer(bench) -> None:
    (bench.workspace / "a").write_text("a\n")
    output = await bench.run("grep", pattern="((a{1000}){1000}){1000}")
    assert (output.outcome, output.reason) == ("error", "FileUnreadable")
    assert "ripgrep failed" in output.content


@pytest.mark.requirement("G7.8")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_lines_in_the_middle_of_a_secret_are_not_shown(bench, end: str) -> None:
    key = private_key_lines()
    (bench.workspace / "notes").write_text(end.join(["before", *key, "after", ""]), newline="")
    output = await bench.run("grep", pattern="[A-Za-z0-9+/]{40,}|after", output_mode="content")
    assert not [line for line in key[1:-1] if line in output.content]
    assert "notes:24:after" in output.content
