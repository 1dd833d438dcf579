"""Files below a folder that nobody may see: a call about the folder was allowed, they were not."""

import asyncio
import os

import pytest

from bridle.base.processes import Processes
from bridle.engine.tools import Sight
from bridle.tools.file_search import Search, find_ripgrep, search
from bridle.tools.search_patterns import search_pattern


@pytest.fixture
def files(bench):
    """Two files whose content is nobody's business, and one whose name is not either."""
    for path, text in {
        "a.py": "hit\n", ".env": "hit\n", "sub/.env": "other\n", "private/x.py": "hit\n", "private/y.md": "hit\n",
    }.items():  # fmt: skip
        (bench.workspace / path).parent.mkdir(exist_ok=True)
        (bench.workspace / path).write_text(text)
        os.utime(bench.workspace / path, (1, 1))

    def shows_name(path: str) -> bool:
        return not f"{path}/".startswith(f"{bench.workspace}/private/")

    bench.sight = Sight(
        shows_name=shows_name, shows_content=lambda path: shows_name(path) and not path.endswith("/.env")
    )
    return bench.workspace


async def test_grep_says_how_many_files_it_left_out_whether_they_match_or_not(bench, files) -> None:
    output = await bench.run("grep", pattern="hit")
    assert output.content == "a.py:1:hit\n[4 files left out: .env, sub/.env, …]\n"
    never = await bench.run("grep", pattern="never")
    assert never.content == "[no matches]\n[4 files left out: .env, sub/.env, …]\n"
    for mode, line in (("files_with_matches", "a.py"), ("count", "a.py:1")):
        output = await bench.run("grep", pattern="hit", output_mode=mode)
        assert output.content == f"{line}\n[4 files left out: .env, sub/.env, …]\n"
    output = await bench.run("grep", pattern="hit", glob="*.py")
    assert output.content == "a.py:1:hit\n[1 file left out]\n"
    output = await bench.run("grep", pattern="hit", path="sub")
    assert output.content == "[no matches]\n[1 file left out: sub/.env]\n"


async def test_a_file_that_was_asked_for_by_name_is_searched(bench, files) -> None:
    assert (await bench.run("grep", pattern="hit", path=".env")).content == ".env:1:hit\n"


async def test_ignored_files_are_not_counted_as_left_out(bench, files) -> None:
    (files / ".gitignore").write_text(".env\n")
    assert (await bench.run("grep", pattern="hit")).content == "a.py:1:hit\n[2 files left out]\n"


async def test_ripgrep_and_the_fallback_leave_out_the_same(bench, files) -> None:
    rg = find_ripgrep({"PATH": os.environ["PATH"]}, "/nowhere")
    if rg is None:
        pytest.skip("there is no rg here")
    (files / "sub/.gitignore").write_text("*.key\n")
    (files / "sub/x.key").write_text("hit\n")
    (files / "node_modules").mkdir()
    (files / "node_modules/.env").write_text("hit\n")
    (files / "sub/caf\u00e9").mkdir()
    (files / "sub/caf\u00e9/.env").write_bytes(b"hit\0")
    (files / "link").symlink_to(".env")
    processes = Processes()

    async def start(argv, cwd, stdin, on_output):
        return await processes.start(
            argv, cwd=cwd, env={}, on_output=on_output, on_error=lambda _: None, stdin=stdin
        )

    try:
        for options in ({}, {"limit": 1}, {"only_files": True}, {"glob": "*.py"}, {"glob": "sub/**"}):
            for folder in (files, files / "sub"):
                wanted = Search(
                    pattern=search_pattern("hit|other"),
                    folder=str(folder),
                    top=str(files),
                    shows=bench.sight.shows_content,
                    **{"limit": 200, **options},
                )
                theirs, ours = await asyncio.gather(search(wanted, start, rg), search(wanted, start, None))
                assert theirs == ours
                assert all(bench.sight.shows_content(f"{folder}/{match.path}") for match in ours.matches)
    finally:
        await processes.close()


async def test_an_answer_that_is_cut_says_nothing_of_what_was_left_out(bench, files) -> None:
    (files / "a.py").write_text("hit\nhit\n")
    output = await bench.run("grep", pattern="hit", head_limit=1)
    assert "left out" not in output.content


async def test_glob_shows_names_of_secrets_and_counts_what_it_may_not_name(bench, files) -> None:
    assert (await bench.run("glob", pattern="*")).content == ".env\na.py\nsub/.env\n[2 files left out]\n"
    assert (await bench.run("glob", pattern="*.md")).content == "[no files]\n[1 file left out]\n"
    assert (await bench.run("glob", pattern=".env")).content == ".env\nsub/.env\n"


async def test_ls_shows_names_of_secrets_and_counts_what_it_may_not_name(bench, files) -> None:
    output = await bench.run("ls")
    assert output.content == ".env\t4 bytes\na.py\t4 bytes\nsub/\n[1 entry left out]\n"
    assert (await bench.run("ls", path="private")).content == "[2 entries left out]\n"
