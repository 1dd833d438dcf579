"""Files below a folder that nobody may see: a call about the folder was allowed, they were not."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.processes import Processes
from bridle.base.secret_files import SECRET_FILES, is_secret_like, suspect_rules
from bridle.engine.tools import SearchSight, Sight
from bridle.tools.file_search import MAX_LOOKED_AT, find_ripgrep, search
from bridle.tools.folder_walk import IgnoreRules
from bridle.tools.search_output import Search
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
    found = find_ripgrep({"PATH": os.environ["PATH"]}, "/nowhere")
    if found is None:
        pytest.skip("there is no rg here")
    return found


async def test_ripgrep_and_the_fallback_leave_out_the_same(bench, files, start, rg) -> None:
    (files / "sub/.gitignore").write_text("*.key\n")
    (files / "sub/x.key").write_text("hit\n")
    (files / "node_modules").mkdir()
    (files / "node_modules/.env").write_text("hit\n")
    (files / "sub/caf\u00e9").mkdir()
    (files / "sub/caf\u00e9/.env").write_bytes(b"hit\0")
    (files / "link").symlink_to(".env")
    for options in ({}, {"limit": 1}, {"only_files": True}, {"glob": "*.py"}, {"glob": "sub/**"}):
        for folder in (files, files / "sub"):
            wanted = Search(
                pattern=search_pattern("hit|other"),
                folder=str(folder),
                top=str(files),
                sight=SearchSight(bench.sight.shows_content),
                **{"limit": 200, **options},
            )
            theirs, ours = await asyncio.gather(search(wanted, start, rg), search(wanted, start, None))
            assert theirs == ours
            assert all(bench.sight.shows_content(f"{folder}/{match.path}") for match in ours.matches)


def _example(pattern: str) -> str:
    return pattern.replace("**", "any/thing").replace("*", "x").replace("?", "x")


@pytest.mark.parametrize("files", [1, MAX_LOOKED_AT + 1], ids=["few", "many"])
async def test_what_may_not_be_seen_is_found_the_same_by_every_way_to_look_for_it(
    tmp_path, start, rg, files: int
) -> None:
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
    tree |= {"build/.env", "node_modules/.env", "deep/.git/a.key"}
    tree |= {f"plain/{number % 50}/{number}" for number in range(files)}
    for path in sorted(tree):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        if not (tmp_path / path).is_dir():
            (tmp_path / path).write_text("hit\n" if len(path) % 2 else "other\n")
    (tmp_path / ".gitignore").write_text("ignored/\n*.log.*\nkubeconfig\n")
    (tmp_path / "up/.gitignore").write_text("!KUBECONFIG\n*.P12\n")
    (tmp_path / "link.pem").symlink_to("a")
    os.mkfifo(tmp_path / "pipe.pem")
    root = str(tmp_path)
    exact = SearchSight(lambda path: not is_secret_like(path))
    fast = SearchSight(exact.shows, suspect_rules(SECRET_FILES, root))
    assert fast.suspects is not None
    for options in ({}, {"glob": "*.key"}, {"glob": "up/**"}, {"only_files": True}, {"folder": f"{root}/up"}):
        first, *others = [
            await search(
                Search(
                    pattern=search_pattern("hit$"),
                    sight=sight,
                    **{"folder": root, "top": root, "limit": MAX_LOOKED_AT * 2, **options},
                ),
                start,
                program,
            )
            for sight, program in ((exact, rg), (fast, rg), (fast, None))
        ]
        assert others == [first, first]
        assert first.left_out
        assert not any(path.startswith("ignored/") for path in first.left_out)


_PATTERNS = (
    *SECRET_FILES,
    "vault/**",
    "!vault/open/*",
    "pin?.txt",
    "a b*",
    "deep/**/x.tok",
    "[x]",
    "кл*",
    "q#!",
)
_NAMES = st.sampled_from(["", "x", "a.b", ".c", "é", "\udcff", "-", "pem"])


@st.composite
def _secret_paths(draw: st.DrawFn) -> str:
    """Paths that fit a pattern, or nearly do, in one of the spellings that are compared as the same."""
    path = draw(st.sampled_from(_PATTERNS)).removeprefix("!").replace("**", draw(_NAMES) + "d/e")
    path = "".join({"*": draw(_NAMES), "?": "1"}.get(character, character) for character in path)
    if draw(st.booleans()):
        path = path.upper()
    wide = draw(st.integers(-1, len(path) - 1))
    if wide >= 0 and "!" <= path[wide] <= "~" and path[wide] != "/":
        other = chr(ord(path[wide]) + 0xFEE0) + draw(st.sampled_from(["", "\u200d"]))
        path = path[:wide] + other + path[wide + 1 :]
    above = draw(st.sampled_from(["", "src/", "é/deep/", ".ssh/", "VAULT/x/"]))
    return "/".join(part for part in (above + path + draw(_NAMES)).split("/") if part)


@given(
    _secret_paths(),
    st.sampled_from(["/w", "/w/.ssh", "/home/me/.config", "/w/Vault/a", "/caf\u00e9"]),
    st.lists(st.sampled_from([*_PATTERNS, "a**b", "*/x", "/"]), max_size=3).map(tuple) | st.just(_PATTERNS),
)
def test_whatever_looks_secret_is_a_suspect(path: str, folder: str, patterns: tuple[str, ...]) -> None:
    rules = suspect_rules(patterns, folder)
    if rules is None or not is_secret_like(f"{folder}/{path}", patterns):
        return
    with tempfile.TemporaryDirectory(prefix="bridle-") as scratch:
        with open(f"{scratch}/.gitignore", "w") as file:
            file.write("\n".join(rules))
        assert not IgnoreRules(scratch, scratch).leaves_out(path.split("/"))


def test_where_a_pattern_is_about_folders_above_every_file_is_asked_about() -> None:
    assert suspect_rules(SECRET_FILES, "/w/src") is not None
    assert suspect_rules(SECRET_FILES, "/w/.SSH/x") is None
    assert suspect_rules(("*/x",), "/w") is None
    assert suspect_rules(("a**b",), "/w") is None


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
