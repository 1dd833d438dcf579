"""Foreign clients and the conformance suite of MCP against our door, and against the suite's own tools on our mount."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridle.base.process.peer_process import ParentProgram, file_digest
from bridle.clients.mcp_server.agent_tools import TOOLS
from cli.test_mcp_serve import register, settings
from cli_kit import BRIDLE, Place
from peers.peer_kit import HERE, MODULES, serving

pytestmark = pytest.mark.peers

SUITE = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
INSPECTOR = "node_modules/.bin/mcp-inspector"
OF_THE_DOOR = (
    "server-initialize", "server-session-lifecycle", "ping", "tools-list", "resources-list", "prompts-list",
    "dns-rebinding-protection", "caching", "server-sse-multiple-streams", "sep-2164-resource-not-found",
    "http-header-validation",
)  # fmt: skip
"""What of the suite wants no tools of its own."""


def node(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("node")
    if program is None or not (MODULES / "@modelcontextprotocol").is_dir():
        pytest.skip("needs node and the npm packages: run make test-peers")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").partition(".")[0]) < 22:
        pytest.skip("needs node 22")
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "NODE_NO_WARNINGS": "1", **env}
    return subprocess.run(
        [program, *words], cwd=HERE, env=environment, capture_output=True, text=True, timeout=180, check=False
    )


@contextmanager
def mcp_peer(kind: str) -> Iterator[str]:
    node("--version")
    command = (sys.executable, "-W", "ignore", "mcp_peer.py", kind)
    with serving(*command, PYTHONPATH=str(HERE.parent)) as origin:
        yield f"{origin}/mcp"


@pytest.fixture(scope="module")
def door() -> Iterator[str]:
    with mcp_peer("door") as url:
        yield url


@pytest.mark.requirement("X26")
def test_what_each_revision_requires_of_servers_holds_on_our_mount() -> None:
    with mcp_peer("fixture") as url:
        for revision in ("2025-11-25", "2026-07-28"):
            done = node(SUITE, "server", "--url", url, "--requirements", revision)
            assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize("scenario", OF_THE_DOOR)
def test_the_door_itself_passes_what_needs_no_tools_of_the_suite(door: str, scenario: str) -> None:
    done = node(SUITE, "server", "--url", door, "--scenario", scenario)
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_inspector_lists_the_tools(door: str) -> None:
    done = node(INSPECTOR, "--cli", door, "--transport", "http", "--method", "tools/list")
    assert done.returncode == 0, done.stderr
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == [tool.name for tool in TOOLS]


@pytest.mark.parametrize("package", ["sdk", "client"])
def test_an_official_client_runs_a_turn_over_stdio(tmp_path: Path, package: str) -> None:
    place = Place(tmp_path)
    settings(place)
    program = shutil.which("node") or "node"
    known_as(place, program)
    done = node(
        "mcp_client_peer.mjs", package, *BRIDLE, "mcp", "serve", **place.environment(PEER_CWD=str(place.work))
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["tools"] == [tool.name for tool in TOOLS]
    report = found["result"]["structuredContent"]
    assert (report["answer"], report["files_changed"]) == ("[scripted] It is done.", ["env.txt"])
    assert [line.split()[0] for line in found["lines"]] == ["ran"]
    assert found["resources"] == 9


def known_as(place: Place, program: str) -> None:
    """A person has let node in with this very script."""
    script = os.path.realpath(HERE / "mcp_client_peer.mjs")
    path = os.path.realpath(program)
    seen = ParentProgram(
        pid=1,
        word=program,
        path=path,
        sha256=file_digest(path),
        script=script,
        script_sha256=file_digest(script),
    )
    known = register(place)
    known.allow(known.ask(seen), auto_attach=False)
