"""Nothing heavy at start-up: what each entry point may not import.

A name that stands here costs time before the first word. Whoever needs one imports it where it is used; a list
gets shorter only with a reason.
"""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from bridle.conformance.servers import ModelServer
from bridle.providers.script import say
from cli_kit import Place
from mcp_kit import server as mcp_server

# Says on its last line what was loaded by the time the command ended. What is put off is there, and still empty.
LOADED = "(name for name, module in list(sys.modules.items()) if type(module).__name__ != '_Empty')"
WITNESS = f"""
import atexit, sys
from bridle.cli import main
atexit.register(lambda: print(*{LOADED}, file=sys.stderr))
main()
"""

# The same by the time the first request to a model leaves, on the connection that was opened meanwhile to this port.
AT_REQUEST = f"""
import atexit, sys
port, found = int(sys.argv.pop(1)), []
def hear(event, given):
    if event == "socket.connect" and given[1][1:] == (port,):
        from bridle.base.http import HttpConnections
        post_stream = HttpConnections.post_stream
        def watched(self, *words, **more):
            found.extend({LOADED})
            return post_stream(self, *words, **more)
        HttpConnections.post_stream = watched
sys.addaudithook(hear)
atexit.register(lambda: print(*found, file=sys.stderr))
from bridle.cli import main
main()
"""

NEVER = {
    # extras and what they bring; wires are plain functions over JSON
    "pydantic", "mcp", "acp", "textual", "httpx2", "httpx", "uvicorn", "starlette", "websockets", "PIL",
    "keyring", "opentelemetry", "yaml", "httptools",
    # servers, where settings name none
    "bridle.mcp", "bridle.app.mcp_feature",
    # an engine that listens, and its clients elsewhere
    "bridle.app.serving", "bridle.control.token_files", "bridle.cli.engine_attach", "bridle.clients.remote",
    "bridle.app.mcp_mount", "bridle.app.outer_agents", "bridle.app.parent_register", "bridle.clients.mcp_server",
    "bridle.control.http_app", "bridle.control.http_server", "bridle.control.minting", "bridle.base.websocket_client",
    "anthropic", "openai", "sqlite3",
    # of the standard library, slow and not needed for a local turn
    "importlib.metadata", "http.client", "email", "unittest", "multiprocessing", "xml", "urllib.request",
    "tomllib", "pdb", "doctest", "curses",
}  # fmt: skip
# asyncio imports socket and subprocess; msgspec imports typing, datetime, decimal and uuid: a command that
# reads the log or runs a turn has those anyway. These it does not need.
ENGINE = NEVER | {
    "json", "random", "tempfile", "zipfile", "pathlib", "difflib", "shutil", "importlib.resources", "ctypes",
    "concurrent.futures.process", "bz2", "lzma", "secrets",
    # put off by bridle.cli.lazy_imports, and what comes with them
    "inspect", "ast", "dis", "tokenize", "ssl", "_ssl", "asyncio.sslproto", "gettext", "locale", "platform",
    "msgspec.inspect", "msgspec.toml", "msgspec.yaml", "asyncio.staggered", "traceback", "linecache",
}  # fmt: skip
# What runs servers, asks them, and looks at what they launch: behind the first request, where a list of theirs is kept.
RUNS_SERVERS = {
    "mcp", "pydantic", "glob", "bridle.app.server_use", "bridle.app.mcp_sampling", "bridle.base.duplex",
    "bridle.base.file_digests", "bridle.base.launched_code", "bridle.base.supervision", "bridle.mcp.launch_pins",
    "bridle.mcp.pin_gate", "bridle.mcp.running_servers", "bridle.mcp.server_commands", "bridle.mcp.server_connection",
    "bridle.mcp.server_log", "bridle.mcp.server_pins", "bridle.mcp.server_state", "bridle.mcp.shared_server",
    "bridle.mcp.value_references", "msgspec.inspect", "bridle.sandbox.leftovers", "bridle.sandbox.confinement",
}  # fmt: skip
# What a call meets, built with the first one; asyncio's thread pool, and logging for what goes wrong.
FIRST_CALL = {
    "bridle.app.gates", "bridle.engine.layers", "bridle.safety.guards", "bridle.safety.permission_policy",
    "bridle.safety.rules", "bridle.undo.undoable", "bridle.tools.output", "concurrent.futures", "logging",
}  # fmt: skip
# Of ours, what comes with help, another client, something to trust, a project that says something, and an edit.
WHERE_MET = {
    "bridle.cli.help", "bridle.protocol.connection", "bridle.protocol.handshake", "bridle.safety.trust.lockfile",
    "bridle.config.workspace", "bridle.tools.edits", "bridle.tools.nearest", "bridle.tools.text_files",
    "bridle.tools.replace_file", "bridle.base.unified_diff",
}  # fmt: skip
# Of ours, what a turn without settings, files to trust, hooks, calls, images and a schema never touches.
TURN = ENGINE | {
    "shlex", "base64", "dataclasses", "bridle.clients.images", "bridle.clients.structured",
    "bridle.commands.prompts", "bridle.config.lines", "bridle.safety.hooks", "bridle.shell.understanding",
    "bridle.safety.trust.change_kind", "bridle.safety.trust.launches", "bridle.base.http", "bridle.providers.remote",
    "bridle.tools.patches", "bridle.tools.file_search", "bridle.tools.search_output", "bridle.app.explain",
    "bridle.app.operations", "bridle.base.daily_log", "textwrap", "string", "bridle.recovery",
} | FIRST_CALL | WHERE_MET  # fmt: skip
OVER_HTTP = ENGINE | FIRST_CALL | WHERE_MET | {
    "bridle.providers.script", "bridle.providers.scripted", "bridle.providers.anthropic",
    "bridle.providers.openai_responses", "bridle.providers.local_servers", "h11",
}  # fmt: skip
# It tries out what could confine a command, for which it makes files.
DOCTOR = ENGINE - {"tempfile", "random", "shutil", "bz2", "lzma", "platform", "ctypes"}
OWN_MODULES = 159
"""How many of ours a turn may import: finding and opening one costs more than running a small one."""
# In a folder made for it, which is removed again; and the kernel's own ways to confine have no other door.
TRIES_THE_SANDBOX = {"tempfile", "shutil", "random", "bz2", "lzma", "ctypes"}
HELP = ENGINE | {
    "asyncio", "msgspec", "apsw", "argparse", "subprocess", "ssl", "socket", "logging", "threading",
    "re", "typing", "dataclasses", "enum", "functools", "collections", "contextlib", "inspect",
    "bridle.app", "bridle.protocol", "bridle.engine", "bridle.sessions",
}  # fmt: skip


def imported(place: Place, *words: str) -> set[str]:
    """The modules a command ended with, less those that Python itself began with. In a home that knows what holds
    commands on this machine: finding that out is tried once."""
    place.bridle("sandbox", "--json")
    own = _modules(place, "import sys; print(*sys.modules, file=sys.stderr)")
    return _modules(place, WITNESS, *words) - own


def _modules(place: Place, code: str, *words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=place.work,
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return set(done.stderr.decode().splitlines()[-1].split())


@pytest.mark.parametrize(
    ("words", "forbidden"),
    [
        (("--version",), HELP | {"bridle.cli.help", "bridle.cli.verbs"}),
        (("--help",), HELP | {"bridle.cli.verbs"}),
        (("run", "-m", "demo", "hi"), TURN),
        (("sessions", "list"), ENGINE | {"asyncio", "socket", "subprocess"}),
        (("config",), ENGINE | {"asyncio", "apsw", "bridle.app", "bridle.sessions"}),
        (("tools",), ENGINE | {"apsw", "bridle.app", "bridle.sessions"}),
        (("models", "--keys"), ENGINE | {"bridle.sessions"}),
        (("doctor", "--offline"), DOCTOR),
        (
            ("redact",),
            ENGINE | {"asyncio", "apsw", "bridle.app", "bridle.engine", "bridle.sessions", "bridle.config"},
        ),
        (("completion", "bash"), ENGINE | {"asyncio", "apsw", "bridle.app", "bridle.sessions"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_entry_point_imports_nothing_it_does_not_need(
    place: Place, words: tuple[str, ...], forbidden: set[str]
) -> None:
    assert imported(place, *words) & forbidden == set()


async def test_a_turn_over_http_imports_nothing_it_does_not_need(place: Place) -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    async with ModelServer.playing(say("ok")) as server:
        (folder / "config.toml").write_text(f'[providers.work]\nbase_url = "{server.origin}/v1"\n')
        loaded = await asyncio.to_thread(imported, place, "run", "-m", "work:some-model", "hi")
    assert (len(server.chats), server.connections) == (1, 1)
    assert loaded & (OVER_HTTP - {"tomllib"}) == set()


async def test_a_first_request_loads_of_servers_only_what_is_kept_of_them(place: Place) -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    async with ModelServer.playing(say("ok")) as server:
        command = json.dumps(mcp_server({"tools": 20})["command"])
        (folder / "config.toml").write_text(
            f'[providers.work]\nbase_url = "{server.origin}/v1"\n'
            f'[mcp_servers.one]\nsandbox = "off"\ncommand = {command}\n'
        )
        assert place.bridle("run", "-m", "demo", "hi").code == 0, "it keeps a list"
        (place.home / ".local/state/bridle/cut-off").mkdir()  # a server in a sandbox leaves it, empty
        port = server.origin.rpartition(":")[2]
        loaded = await asyncio.to_thread(
            _modules, place, AT_REQUEST, port, "run", "-m", "work:some-model", "hi"
        )
    assert b'"name":"tool_search"' in server.chats[0].body
    assert "bridle.mcp.session_servers" in loaded
    assert loaded & RUNS_SERVERS == set()


def test_a_turn_imports_no_more_of_ours_than_it_may(place: Place) -> None:
    ours = {name for name in imported(place, "run", "-m", "demo", "hi") if name.startswith("bridle.")}
    assert len(ours) <= OWN_MODULES


def test_the_witness_sees_what_is_imported(place: Place) -> None:
    assert {"asyncio", "msgspec", "apsw", "bridle.app"} <= imported(place, "run", "-m", "demo", "hi")
    assert "gettext" not in imported(place, "config")
    assert "inspect" in _modules(
        place, WITNESS.replace("main()", "import inspect; inspect.stack; main()"), "config"
    )


def test_looking_at_sessions_that_are_not_there_makes_nothing(place: Place) -> None:
    listed = place.bridle("sessions", "list", "--json")
    assert (listed.code, json.loads(listed.out), listed.err) == (0, [], "")
    assert os.listdir(place.home) == []
