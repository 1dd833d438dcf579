"""Comparing what was agreed to with what is there: pure, and for every launch."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.file_digests import FileDigests
from bridle.base.launched_code import LaunchedPart, find_program, launched_code
from bridle.conformance.fake_clock import FakeClock
from bridle.mcp.launch_pins import LaunchPin, launch_changes, with_known
from bridle.mcp.tool_lists import ListedTool
from bridle.mcp.tool_pins import judge_tools, tool_digests

SHORT = st.sampled_from(["", "a", "b"])
PARTS = st.lists(
    st.builds(
        LaunchedPart,
        kind=st.sampled_from(["script", "module", "package"]),
        name=st.sampled_from(["x", "y"]),
        version=SHORT,
        integrity=SHORT,
        place=SHORT,
    ),
    max_size=3,
    unique_by=lambda part: (part.kind, part.name),
).map(tuple)
PINS = st.builds(
    LaunchPin,
    command=SHORT,
    command_digest=SHORT,
    folder=SHORT,
    program=SHORT,
    target=SHORT,
    sha256=SHORT,
    parts=PARTS,
)


@given(PINS)
def test_a_launch_is_as_it_was(pin):
    assert launch_changes(pin, pin) == ()
    assert with_known(pin, pin) == pin


@given(PINS, PINS)
def test_whatever_is_known_of_both_is_the_same_or_a_change(pinned, found):
    """What passes differs at most in what one of both does not know of a package."""
    if launch_changes(pinned, found):
        return
    facts = ("command_digest", "folder", "program", "target", "sha256")
    assert [getattr(pinned, one) for one in facts] == [getattr(found, one) for one in facts]
    before = {(part.kind, part.name): part for part in pinned.parts}
    assert before.keys() == {(part.kind, part.name) for part in found.parts}
    for part in found.parts:
        old = before[part.kind, part.name]
        if part.kind != "package":
            assert old == part
        for fact in ("version", "integrity", "place"):
            one, other = getattr(old, fact), getattr(part, fact)
            assert one == other or (part.kind == "package" and "" in (one, other))


@pytest.mark.parametrize("kind", ["script", "module", "package"])
def test_a_part_that_comes_or_goes_is_a_change(kind):
    without = LaunchPin(command="x", command_digest="x")
    having = LaunchPin(command="x", command_digest="x", parts=(LaunchedPart(kind=kind, name="it"),))
    assert launch_changes(without, having) == launch_changes(having, without) == (f"the {kind} it",)


@pytest.mark.parametrize("fact", ["version", "integrity", "place"])
def test_a_package_with_one_other_fact_is_a_change(fact):
    facts = {"version": "1", "integrity": "a", "place": "/lib"}
    before, after, unknown = (
        LaunchPin(
            command="x",
            command_digest="x",
            parts=(LaunchedPart(kind="package", name="it", **{**facts, fact: value}),),
        )
        for value in ("one", "other", "")
    )
    assert launch_changes(before, after) == ("the package it",)
    assert launch_changes(before, unknown) == launch_changes(unknown, before) == ()


@given(PINS, PINS)
def test_what_was_known_of_a_package_is_never_lost(pinned, found):
    if not launch_changes(pinned, found):
        known = with_known(pinned, found)
        assert launch_changes(pinned, known) == ()
        assert launch_changes(known, found) == ()
        lost = [part for part in pinned.parts if part.integrity and part not in known.parts]
        assert all(any(one.integrity == part.integrity for one in known.parts) for part in lost)


TOOLS = st.lists(
    st.builds(
        ListedTool,
        name=st.sampled_from(["a", "b", "c"]),
        description=SHORT,
        input_schema=st.dictionaries(SHORT, SHORT, max_size=2),
    ),
    max_size=3,
    unique_by=lambda tool: tool.name,
).map(tuple)


@given(TOOLS, TOOLS)
def test_a_tool_is_agreed_to_only_as_it_was(pinned, listed):
    verdict = judge_tools(tool_digests(pinned), listed)
    assert list(verdict.agreed) == [tool for tool in listed if tool in pinned]
    names = sorted((*(tool.name for tool in verdict.agreed), *verdict.held_back))
    assert names == sorted(tool.name for tool in listed), "each of them is one or the other"
    assert set(verdict.gone) == {tool.name for tool in pinned} - {tool.name for tool in listed}


def code(tmp_path: Path, *argv: str, cwd: Path | None = None, **env: str):
    """What a command line leads to, with programs of a scratch folder."""
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("npx", "npm", "uvx", "uv", "pipx", "python3", "node", "bun", "yarn", "sh", "env", "docker"):
        (programs / name).write_text(name)
        (programs / name).chmod(0o755)
    return launched_code(
        argv, cwd=str(cwd or tmp_path), env={"HOME": str(tmp_path), **env}, search_path=str(programs),
        digest=FileDigests().sha256,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "name", "version", "unpinned"),
    [
        ("npx -y @acme/server .", "@acme/server", "", "npx"),
        ("npx -y @acme/server@latest", "@acme/server", "", "npx"),
        ("npx @acme/server@1.2.3", "@acme/server", "1.2.3", ""),
        ("npx --package=@acme/server@1.2.3 -- server", "@acme/server", "1.2.3", ""),
        ("npx -p tool@2.0.0-rc.1 run-it", "tool", "2.0.0-rc.1", ""),
        ("npx github:acme/server", "github:acme/server", "", "npx"),
        ("uvx mcp-server-git", "mcp-server-git", "", "uvx"),
        ("uvx mcp-server-git@1.0", "mcp-server-git", "1.0", ""),
        ("uvx --python 3.12 --from mcp-server-git==1.0 serve", "mcp-server-git", "1.0", ""),
        ("pipx run --spec tool==3 tool", "tool", "3", ""),
        ("pipx run tool", "tool", "", "pipx run"),
        ("env A=b npx tool", "tool", "", "npx"),
    ],
)
def test_the_package_of_a_launcher_is_known_by_its_words(tmp_path, argv, name, version, unpinned):
    found = code(tmp_path, *argv.split(" "))
    package = next(part for part in found.parts if part.kind == "package")
    assert (package.name, package.version) == (name, version)
    assert found.unpinned == (f"unpinned: {unpinned} may run other code tomorrow" if unpinned else "")


def test_what_pip_wrote_down_of_a_package_is_its_integrity(tmp_path):
    info = tmp_path / ".cache/uv/archive-v0/abc/lib/python3.12/site-packages/mcp_server_git-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").write_text("mcp_server_git/__init__.py,sha256=a,1\n")
    (one,) = code(tmp_path, "uvx", "mcp-server-git").parts
    assert (one.version, one.integrity[:7]) == ("1.0", "sha256:")
    (info / "RECORD").write_text("mcp_server_git/__init__.py,sha256=b,1\n")
    (two,) = code(tmp_path, "uvx", "mcp-server-git").parts
    assert two.integrity != one.integrity


@pytest.mark.parametrize(
    "argv",
    [
        "python3 lib/it.py",
        "python3 -X dev -u lib/it.py x",
        "python3 -Ximporttime -Wdefault::ImportWarning lib/it.py",
        "node lib/it.py",
        "node --import ./lib/it.py -e 1",
        "sh lib/it.py",
    ],
)
def test_a_script_is_found_behind_the_options(tmp_path, argv):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/it.py").write_text("1")
    (part,) = code(tmp_path, *argv.split(" ")).parts
    assert part.name == str(tmp_path / "lib/it.py")


def test_a_line_for_the_shell_says_that_it_is_not_looked_at(tmp_path):
    assert "not looked at" in code(tmp_path, "sh", "-c", "run something").unpinned
    assert code(tmp_path, "docker", "run", "-i", "image").unpinned
    assert not code(tmp_path, "docker", "run", f"image@sha256:{'a' * 64}").unpinned


@given(st.lists(st.text(max_size=6), min_size=1, max_size=5))
def test_no_words_are_too_odd_to_be_read(words):
    words = [word.replace("\0", "") for word in words]
    launched_code(words, cwd="/", env={}, search_path="/nowhere", digest=lambda _path: "")


def test_a_file_that_did_not_change_is_not_read_again(tmp_path):
    path, kept = tmp_path / "program", tmp_path / "state" / "digests.json"
    path.write_text("one")
    later = FakeClock(path.stat().st_ctime_ns // 1_000_000 + 10_000)
    first = FileDigests(str(kept), later)
    digest = first.sha256(str(path))
    first.save()
    stored = kept.read_text()
    kept.write_text(stored.replace(digest, "f" * 64))
    kept.chmod(0o600)
    assert FileDigests(str(kept), later).sha256(str(path)) == "f" * 64, "what is remembered is believed"
    path.write_text("two")
    assert FileDigests(str(kept), later).sha256(str(path)) not in ("f" * 64, digest)


def test_a_file_that_changed_a_moment_ago_is_not_remembered(tmp_path):
    path, kept = tmp_path / "program", tmp_path / "state" / "digests.json"
    path.write_text("one")
    digests = FileDigests(str(kept), FakeClock(path.stat().st_ctime_ns // 1_000_000 + 500))
    assert digests.sha256(str(path))
    digests.save()
    assert not kept.exists(), "it could change again in the same tick"


def test_what_cannot_be_read_has_no_digest(tmp_path):
    assert FileDigests().sha256(str(tmp_path)) == ""
    assert FileDigests().sha256(str(tmp_path / "nothing")) == ""


def test_a_program_is_where_the_system_would_find_it(tmp_path):
    path = tmp_path / "program"
    path.write_text("1")
    assert find_program("program", cwd="/", search_path=str(tmp_path)) == "", "it cannot be run"
    path.chmod(0o755)
    assert find_program("program", cwd=str(tmp_path), search_path="/nowhere:.") == f"{tmp_path}/./program"


def names_of(found) -> set[str]:
    return {os.path.basename(part.name) for part in found.parts}


@pytest.mark.parametrize(
    ("file", "text", "argv"),
    [
        (".npmrc", "script-shell=./other\n", "npx tool@1.0.0"),
        (".npmrc", "registry = https://elsewhere.example\n", "npm exec tool@1.0.0"),
        ("bunfig.toml", 'preload = ["./other.ts"]\n', "bun run /opt/it.ts"),
        (".yarnrc.yml", "yarnPath: ./other.cjs\n", "yarn dlx tool"),
        ("pyproject.toml", "[build-system]\n", "uv run --with mcp mcp run /opt/it.py"),
        ("json.py", "", "python3 -m server"),
        ("json.cpython-311-x86_64-linux-gnu.so", "", "python3 -um server"),
        ("json.py", "", "python3 -c 1"),
        ("acme/__init__.py", "", "python3 -m acme.server"),
        ("acme/__init__.pyc", "", "python3 -macme"),
        ("tooling.py", "", "python3 -m server"),
        ("node_modules/early/package.json", "{}", "node -r early /opt/it.js"),
        ("node_modules/early/config.js", "", "node --require=early/config /opt/it.js"),
    ],
)
def test_what_a_folder_says_to_a_launcher_is_part_of_what_runs(tmp_path, file, text, argv):
    """None of these words names the file, and all of them run what it says."""
    (tmp_path / "lib/python3.11/site-packages/tooling").mkdir(parents=True)
    here = tmp_path / "work"
    before = code(tmp_path, *argv.split(" "), cwd=here)
    assert os.path.basename(file) not in names_of(before)
    (here / file).parent.mkdir(parents=True, exist_ok=True)
    (here / file).write_text(text)
    found = code(tmp_path, *argv.split(" "), cwd=here)
    (part,) = (one for one in found.parts if one.name == str(here / file))
    assert part.place.startswith(str(here))


@pytest.mark.parametrize(
    ("file", "text", "argv"),
    [
        (".npmrc", "; ours\nsave-exact=true\nfund = false\n", "npx tool@1.0.0"),
        ("json.py", "", "python3 -P -m server"),
        ("json.py", "", "python3 -Im server"),
        ("tests/test_it.py", "", "python3 -m server"),
        ("json/data.txt", "", "python3 -m server"),
        ("own.py", "", "python3 -m server"),
        ("pyproject.toml", "", "uv run --no-project /opt/it.py"),
        ("pyproject.toml", "", "uv --directory /opt run it.py"),
        ("pyproject.toml", "", "uvx tool"),
    ],
)
def test_what_no_launcher_looks_at_is_no_part_of_it(tmp_path, file, text, argv):
    here = tmp_path / "work"
    (here / file).parent.mkdir(parents=True)
    (here / file).write_text(text)
    assert not any(
        part.place.startswith(str(here)) for part in code(tmp_path, *argv.split(" "), cwd=here).parts
    )


@pytest.mark.parametrize(
    "argv", ["uv --directory lib run it.py", "uv run --directory lib it.py", "uv run --with mcp lib/it.py"]
)
def test_a_script_behind_uv_is_found_wherever_its_folder_is_named(tmp_path, argv):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/it.py").write_text("1")
    found = code(tmp_path, *argv.split(" "))
    assert [part.name for part in found.parts] == [str(tmp_path / "lib/it.py")]
    assert not found.unpinned


def test_a_command_that_uv_looks_up_says_that_it_may_be_other_code(tmp_path):
    assert code(tmp_path, "uv", "run", "--with", "mcp", "mcp", "run", "it.py").unpinned


@pytest.mark.parametrize(
    ("argv", "manifest"),
    [
        ("npm start", "package.json"),
        ("npm run serve", "package.json"),
        ("env DEBUG=1 npm start", "package.json"),
        ("pnpm serve", "package.json"),
        ("yarn start", "package.json"),
        ("bun run serve", "package.json"),
        ("deno task serve", "deno.json"),
        ("make -s serve", "Makefile"),
        ("make -f tools.mk serve", "tools.mk"),
        ("just serve", "justfile"),
        ("cargo run --release", "Cargo.toml"),
        ("go run ./cmd/serve", "go.mod"),
        ("poetry run serve", "pyproject.toml"),
        ("uv run serve", "pyproject.toml"),
    ],
)
def test_a_launcher_that_runs_code_of_its_folder_says_so_and_its_file_is_looked_at(tmp_path, argv, manifest):
    (tmp_path / manifest).write_text("one")
    before = code(tmp_path, *argv.split(), HOME="/nowhere")
    assert before.unpinned == f"runs code of the folder it starts in; nothing of it is pinned but {manifest}"
    assert before.folder_run == os.path.realpath(tmp_path)
    (tmp_path / manifest).write_text("another")
    after = code(tmp_path, *argv.split(), HOME="/nowhere")
    (changed,) = set(after.parts) - set(before.parts)
    assert changed.name == os.path.realpath(tmp_path / manifest)


@pytest.mark.parametrize(
    "argv",
    [
        "npm --prefix sub start",
        "yarn --cwd sub start",
        "make -C sub",
        "make -Csub",
        "make --directory=sub",
        "pnpm -C sub start",
    ],
)
def test_the_folder_that_a_launcher_is_sent_to_is_the_one_whose_code_runs(tmp_path, argv):
    (tmp_path / "sub").mkdir()
    (tmp_path / "package.json").write_text("{}")
    for name in ("package.json", "Makefile"):
        (tmp_path / "sub" / name).write_text("")
    found = code(tmp_path, *argv.split())
    assert found.folder_run == os.path.realpath(tmp_path / "sub")
    assert [os.path.dirname(part.name) for part in found.parts if part.kind == "script"][-1:] == [
        found.folder_run
    ]


def test_a_launcher_without_its_file_says_that_nothing_is_pinned(tmp_path):
    found = code(tmp_path, "make")
    assert (found.unpinned, found.folder_run) == (
        "runs code of the folder it starts in; nothing of it is pinned",
        os.path.realpath(tmp_path),
    )


@pytest.mark.parametrize(
    "argv",
    ["npm --version", "npx thing@1.0.0", "go version", "bun it.ts", "bun run it.ts", "go run x.org/y@v1.2.3"],
)
def test_what_does_not_run_what_a_folder_says_does_not_claim_to(tmp_path, argv):
    (tmp_path / "package.json").write_text("{}")
    (tmp_path / "it.ts").write_text("")
    found = code(tmp_path, *argv.split())
    assert (found.folder_run, found.unpinned) == ("", "")


@given(
    st.lists(
        st.sampled_from(
            ["npm", "make", "-C", "-f", "--", "run", "sub", "--prefix=", "go", "x@y", "uv", "env"]
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_words_can_be_read(tmp_path_factory, argv):
    folder = tmp_path_factory.getbasetemp()
    found = code(folder, *argv)
    assert bool(found.folder_run) <= found.unpinned.startswith("runs code of the folder")
