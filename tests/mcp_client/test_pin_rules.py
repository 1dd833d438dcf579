"""Comparing what was agreed to with what is there: pure, and for every launch."""

import os
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.process.launched_code import (
    LaunchedPart,
    file_sha256,
    find_program,
    is_system_file,
    launched_code,
)
from bridle.mcp.launch_pins import LaunchPin, launch_changes
from bridle.mcp.server_pins import judge_tools, tool_digests
from bridle.mcp.tool_lists import ListedTool

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
    by_path=st.booleans(),
    parts=PARTS,
    rules=st.just(2),
)


@given(PINS)
def test_a_launch_is_as_it_was(pin):
    assert launch_changes(pin, pin) == ()


@given(PINS, PINS)
def test_every_fact_is_the_same_or_a_change(pinned, found):
    """Facts of a system program other than its path may differ."""
    if launch_changes(pinned, found):
        return
    facts = ["command_digest", "folder", "program"]
    if not (found.by_path and found.target == found.program):
        facts.append("target")
    if not found.by_path:
        facts.append("sha256")
    assert [getattr(pinned, one) for one in facts] == [getattr(found, one) for one in facts]
    assert set(pinned.parts) == set(found.parts)


@given(PINS, PINS)
def test_an_older_pin_holds_at_most_where_nothing_new_is_looked_at(pinned, found):
    newer = msgspec.structs.replace(found, rules=3)
    if not launch_changes(pinned, newer):
        before = {(part.kind, part.name): part for part in pinned.parts}
        for part in newer.parts:
            old = before[part.kind, part.name]
            assert part.kind == "package" or not part.integrity or part == old


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
    )  # fmt: skip


def test_the_package_of_a_launcher_is_known_by_its_words(tmp_path):
    cases = [
        ("npx -y @acme/server .", "@acme/server", "", "npx"),
        ("npx -y @acme/server@latest", "@acme/server", "", "npx"),
        ("npx @acme/server@1.2.3", "@acme/server", "1.2.3", ""),
        ("npx --package=@acme/server@1.2.3 -- server", "@acme/server", "1.2.3", ""),
        ("npx -p tool@2.0.0-rc.1 run-it", "tool", "2.0.0-rc.1", ""),
        ("npx github:acme/server", "github:acme/server", "", "npx"),
        ("npx git+https://acme.example/x@1.0", "git+https://acme.example/x@1.0", "", "npx"),
        ("npm exec tool@1.0.0", "tool", "1.0.0", ""),
        ("npx tool@1", "tool", "1", "npx"),
        ("npx tool@1.2", "tool", "1.2", "npx"),
        ("npx tool@1.2.x", "tool", "1.2.x", "npx"),
        ("uvx mcp-server-git", "mcp-server-git", "", "uvx"),
        ("uvx mcp-server-git@1.0", "mcp-server-git", "1.0", ""),
        ("uvx -p 3.12 mcp-server-git[all]==1.0", "mcp-server-git", "1.0", ""),
        ("uvx --python 3.12 --from mcp-server-git==1.0 serve", "mcp-server-git", "1.0", ""),
        ("uvx tool>=1.0", "tool>=1.0", "", "uvx"),
        ("pipx run --spec tool==3 tool", "tool", "3", ""),
        ("pipx run tool", "tool", "", "pipx run"),
        ("env A=b npx tool", "tool", "", "npx"),
        ("go run x.org/y@v1.2.3", "x.org/y", "v1.2.3", ""),
        ("go run x.org/y@latest", "x.org/y", "", "go run"),
        ("go run x.org/y@v1", "x.org/y", "v1", "go run"),
    ]
    wrong = []
    for argv, name, version, unpinned in cases:
        found = code(tmp_path, *argv.split(" "))
        package = next((part for part in found.parts if part.kind == "package"), None)
        sentence = f"unpinned: {unpinned} may run other code tomorrow" if unpinned else ""
        if package is None or (package.name, package.version, found.unpinned) != (name, version, sentence):
            wrong.append((argv, found))
    assert wrong == []


def test_a_script_among_the_words_is_looked_at_and_data_is_not(tmp_path):
    here = tmp_path / "work"
    for name in ("lib/it.py", "lib/plain", "lib/hashed", "lib/__main__.py", "lib/data.db", "early.js"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text("#!/bin/sh" if name == "lib/hashed" else "1")
    cases = [
        ("python3 lib/it.py", ["it.py"]),
        ("python3 -X dev -u lib/it.py x", ["it.py"]),
        ("python3 -Ximporttime -Wdefault::ImportWarning lib/it.py", ["it.py"]),
        ("python3 lib", ["__main__.py"]),
        ("python3 -m server lib/data.db", []),
        ("node lib/plain lib/data.db", ["plain"]),
        ("node --import ./lib/it.py -e 1", ["it.py"]),
        ("node --import=./early.js lib/plain", ["early.js", "plain"]),
        ("node -r ./early.js lib/it.py", ["early.js", "it.py"]),
        ("sh lib/it.py", ["it.py"]),
        ("sh -e lib/hashed", ["hashed"]),
        ("bun run lib/it.py", ["it.py"]),
        ("uv --directory lib run it.py", ["it.py"]),
        ("uv run --directory lib it.py", ["it.py"]),
        ("uv run --with mcp lib/it.py", ["it.py"]),
        ("serve --db lib/data.db --config=lib/plain", []),
        ("serve --hook=lib/hashed lib/it.py", ["hashed", "it.py"]),
        ("npx tool lib/data.db", []),
    ]
    wrong = []
    for argv, names in cases:
        found = code(tmp_path, *argv.split(" "), cwd=here)
        scripts = [os.path.basename(part.name) for part in found.parts if part.kind == "script"]
        if scripts != names or found.folder_run or any(part.kind == "module" for part in found.parts):
            wrong.append((argv, scripts, found.folder_run))
    assert wrong == []


def test_what_is_known_by_its_command_line_alone_says_so(tmp_path):
    cases = [
        ("sh -c run", "sh"),
        ("python3 -m server", "python3"),
        ("python3 -c 1", "python3"),
        ("node -e 1", "node"),
        ("docker run -i image", "docker"),
        (f"docker run image@sha256:{'a' * 64}", ""),
        ("serve --stdio", ""),
        ("env -S server.py", "env"),
        ("env -u A python3 -m server", "env"),
        ("env -C lib serve", "env"),
        ("env --split-string=server.py", "env"),
        ("env -i A=b serve", ""),
    ]
    sentences = {
        "": "",
        **{name: f"unpinned: only the command line of {name} is pinned" for _, name in cases if name},
    }
    wrong = [
        (argv, found.unpinned)
        for argv, name in cases
        if (found := code(tmp_path, *argv.split(" "))).unpinned != sentences[name]
    ]
    assert wrong == []


@given(st.lists(st.text(max_size=6), min_size=1, max_size=5))
def test_no_words_are_too_odd_to_be_read(words):
    words = [word.replace("\0", "") for word in words]
    launched_code(words, cwd="/", env={}, search_path="/nowhere")


def test_what_cannot_be_read_has_no_digest(tmp_path):
    assert file_sha256(str(tmp_path)) == ""
    assert file_sha256(str(tmp_path / "nothing")) == ""


def test_a_program_is_where_the_system_would_find_it(tmp_path):
    path = tmp_path / "program"
    path.write_text("1")
    assert find_program("program", cwd="/", search_path=str(tmp_path)) == "", "it cannot be run"
    path.chmod(0o755)
    assert find_program("program", cwd=str(tmp_path), search_path="/nowhere:.") == f"{tmp_path}/./program"


def test_a_system_file_is_one_that_only_root_can_change():
    plain, link, folder = 0o100755, 0o120777, 0o040755
    cases = [
        ("/usr/bin/it", {}, True),
        ("/usr/bin/it", {"/usr/bin/it": (link, 0)}, True),
        ("/usr/bin/it", {"/usr/bin/it": (plain, 1000)}, False),
        ("/usr/bin/it", {"/usr/bin/it": (plain | 0o002, 0)}, False),
        ("/usr/bin/it", {"/usr/bin": (folder | 0o020, 0)}, False),
        ("/usr/local/bin/it", {"/usr/local": (folder, 1000)}, False),
        ("/srv/bin/it", {}, False),
        ("/opt/bin/it", {}, False),
    ]
    wrong = []
    for path, known, expected in cases:

        def lstat(one, known=known, path=path):
            mode, owner = known.get(one, (plain if one == path else folder, 0))
            return os.stat_result((mode, 1, 1, 1, owner, 0, 0, 0, 0, 0))

        if is_system_file(path, lstat) != expected:
            wrong.append((path, known))
    assert wrong == []
    assert not is_system_file("/usr/bin/no such file")


def test_code_of_the_folder_that_no_word_names_is_noticed(tmp_path):
    """`is_of_folder` of a launch asks for exactly these: a file that configures a launcher, and `folder_run`."""
    cases = [
        (".npmrc", "npx tool@1.0.0", True),
        (".npmrc", "npm exec tool@1.0.0", True),
        ("bunfig.toml", "bun run /opt/it.ts", True),
        (".yarnrc.yml", "yarn dlx tool", True),
        ("pyproject.toml", "uv run --with mcp mcp run /opt/it.py", True),
        ("node_modules/tool/package.json", "npx tool", True),
        ("json.py", "python3 -m server", True),
        ("json.cpython-311-x86_64-linux-gnu.so", "python3 -um server", True),
        ("json.py", "python3 -c 1", True),
        ("acme/__init__.py", "python3 -m acme.server", True),
        ("package.json", "npm start", True),
        ("package.json", "env DEBUG=1 npm start", True),
        ("Makefile", "make -s serve", True),
        ("Cargo.toml", "cargo run --release", True),
        ("sub/package.json", "npm --prefix sub start", True),
        ("sub/Makefile", "make -Csub", True),
        ("json.py", "python3 -P -m server", False),
        ("json.py", "python3 -Im server", False),
        ("json/data.txt", "python3 -m server", False),
        ("pyproject.toml", "uv --directory /opt run it.py", False),
        ("pyproject.toml", "uvx tool", False),
        ("package.json", "npx tool@1.0.0", False),
        ("package.json", "npm --prefix /opt start", False),
    ]
    wrong = []
    for number, (file, argv, expected) in enumerate(cases):
        here = tmp_path / f"work{number}"
        (here / file).parent.mkdir(parents=True)
        (here / file).write_text("text")
        found = code(tmp_path, *argv.split(" "), cwd=here)
        places = [found.folder_run, *(part.place for part in found.parts)]
        if any(place.startswith(str(here)) for place in places) != expected:
            wrong.append((file, argv, found))
    assert wrong == []


def test_a_launcher_that_runs_code_of_its_folder_says_so(tmp_path):
    for argv in ("npm start", "make", "uv run serve", "go run ./cmd/serve", "deno task serve"):
        found = code(tmp_path, *argv.split())
        assert (found.unpinned, found.folder_run) == (
            "runs code of the folder it starts in; nothing of it is pinned",
            os.path.realpath(tmp_path),
        ), argv


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
