"""Files below a folder that nobody may see: a call about the folder was allowed, they were not."""

import os
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from bridle.base.process.processes import Processes
from bridle.base.secrets.secret_files import SECRET_FILES, is_secret_like
from bridle.engine.tools import Sight
from bridle.tools.search.file_search import Search, find_ripgrep, search
from bridle.tools.search.search_patterns import search_pattern


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


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., object]]:
    processes = Processes()

    async def started(argv, cwd, stdin, on_output):
        return await processes.start(
            argv, cwd=cwd, env={}, on_output=on_output, on_error=lambda _: None, stdin=stdin
        )

    yield started
    await processes.close()


@pytest.fixture
def rg() -> str:
    return find_ripgrep({"PATH": os.environ["PATH"]}, "/nowhere")


def _example(pattern: str) -> str:
    return pattern.replace("**", "any/thing").replace("*", "x").replace("?", "x")


async def test_of_all_files_that_look_secret_none_is_shown_and_each_is_counted(tmp_path, start, rg) -> None:
    tree = {_example(pattern.removeprefix("!")) for pattern in SECRET_FILES}
    tree |= {f"up/{path.upper()}" for path in tree} | {f"ignored/{path}" for path in tree}
    tree |= {
        ".e\u200dnv",
        "\uff0eenv",
        ".\uff33\uff33\uff28/a",
        "a\nb.key",
        os.fsdecode(b"bad\xff.pem"),
        "x.log.key",
    }
    tree |= {"build/.env", "node_modules/.env", "deep/.git/a.key", "plain/1"}
    for path in sorted(tree):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        if not (tmp_path / path).is_dir():
            (tmp_path / path).write_text("hit\n")
    (tmp_path / ".gitignore").write_text("ignored/\n*.log.*\nkubeconfig\n")
    (tmp_path / "up/.gitignore").write_text("!KUBECONFIG\n*.P12\n")
    (tmp_path / "link.pem").symlink_to("a")
    os.mkfifo(tmp_path / "pipe.pem")
    root = str(tmp_path)
    for options in ({}, {"glob": "*.key"}, {"glob": "up/**"}, {"only_files": True}, {"folder": f"{root}/up"}):
        wanted = Search(
            pattern=search_pattern("^hit$"), **{"folder": root, "top": root, "limit": 2000, **options}
        )
        every = {match.path for match in (await search(wanted, start, rg)).matches}
        secret = {path for path in every if is_secret_like(wanted.absolute(path))}
        seen = await search(
            msgspec.structs.replace(wanted, shows_content=lambda path: not is_secret_like(path)), start, rg
        )
        assert {match.path for match in seen.matches} == every - secret
        assert set(seen.left_out) == secret
        assert secret
        assert not any(path.startswith("ignored/") for path in secret)


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
