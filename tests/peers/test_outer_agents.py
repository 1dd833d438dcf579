"""Agents of other makers drive a Bridle session over stdio: their own command line, against a scripted model.

Each is given Bridle as its own settings file wants it, with the snippet of docs/mcp-server.md.
"""

import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bridle.protocol.events import Notice
from cli.test_mcp_serve import register, settings
from cli_kit import BRIDLE, Place
from peers.peer_kit import HERE, MODULES, running

pytestmark = [pytest.mark.peers, pytest.mark.timeout(180)]

AIMOCK = "node_modules/@copilotkit/aimock/dist/cli.js"
SNIPPETS = HERE.parents[1] / "docs" / "mcp-server.md"
WITHIN_S = 90.0


class OuterAgent(NamedTuple):
    """`env` leads it to its model at an address; `auth` is what its settings say of that."""

    package: str
    script: str
    words: Sequence[str]
    settings: str
    env: Mapping[str, str]
    auth: str


AGENTS = {
    "gemini": OuterAgent(
        "@google/gemini-cli",
        "bundle/gemini.js",
        ("-p", "go", "--yolo", "--skip-trust", "-m", "gemini-2.5-flash", "--output-format", "json"),
        ".gemini/settings.json",
        {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{origin}"},
        "gemini-api-key",
    ),
    "qwen": OuterAgent(
        "@qwen-code/qwen-code",
        "cli.js",
        ("-p", "go", "--yolo", "--output-format", "json"),
        ".qwen/settings.json",
        {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "{origin}/v1", "OPENAI_MODEL": "m"},
        "openai",
    ),
}


def snippet() -> dict[str, Any]:
    """The object that docs/mcp-server.md has for such agents, with our program in place of the installed one."""
    text = SNIPPETS.read_text().partition("```json\n")[2].partition("\n```")[0]
    given = json.loads(text)
    server = given["mcpServers"]["bridle"]
    program, *words = BRIDLE
    server |= {"command": program, "args": [*words, *server["args"]]}
    return given


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.requirement("G19.1")
def test_an_agent_of_another_maker_runs_a_session_once_a_person_let_it_in(tmp_path: Path, name: str) -> None:
    agent = AGENTS[name]
    if not (MODULES / agent.package).is_dir():
        pytest.skip("needs the npm packages: run make test-peers")
    place = Place(tmp_path)
    settings(place)
    given = snippet()
    given["mcpServers"]["bridle"] |= {"trust": True, "env": place.environment()}
    quiet = {"privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}}
    general = {"disableAutoUpdate": True, "enableAutoUpdate": False}
    auth = {"security": {"auth": {"selectedType": agent.auth}}}
    path = place.home / agent.settings
    path.parent.mkdir()
    path.write_text(json.dumps({**given, **quiet, **auth, "general": general}))
    fixture = f"aimock_outer/{name}.json"
    with running(AIMOCK, "-p", "0", "-f", fixture, package="@copilotkit/aimock") as origin:
        done = _carried_out(agent, place, origin)
        asked = json.load(urllib.request.urlopen(f"{origin}/v1/_requests", timeout=10))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The inner agent is done." in done.stdout
    read = json.dumps(asked[-1]["body"]) + done.stdout
    assert "[scripted] It is done." in read, "its model reads what our session answered"
    assert (place.work / "env.txt").exists()
    (session,) = place.sessions()
    events = [envelope.event for envelope in place.events(session.id)]
    (told,) = [one for one in events if isinstance(one, Notice) and one.reason == "OuterAgent"]
    assert name in told.message.lower()
    assert events[-1].__class__.__name__ == "SessionEnded", "its own end is that of its sessions"


@pytest.mark.parametrize("name", AGENTS)
def test_the_agents_own_command_writes_what_the_page_shows(tmp_path: Path, name: str) -> None:
    agent = AGENTS[name]
    node = shutil.which("node")
    if node is None or not (MODULES / agent.package).is_dir():
        pytest.skip("needs the npm packages: run make test-peers")
    place = Place(tmp_path)
    command = [
        node,
        str(MODULES / agent.package / agent.script),
        "mcp",
        "add",
        "bridle",
        "bridle",
        "mcp",
        "serve",
    ]
    env = {"PATH": os.environ["PATH"], "HOME": str(place.home), "NO_COLOR": "1", "NODE_NO_WARNINGS": "1"}
    subprocess.run(command, cwd=place.work, env=env, check=True, capture_output=True, timeout=WITHIN_S)
    (written,) = [
        folder / agent.settings for folder in (place.work, place.home) if (folder / agent.settings).exists()
    ]
    shown = json.loads(SNIPPETS.read_text().partition("```json\n")[2].partition("\n```")[0])
    assert json.loads(written.read_text())["mcpServers"] == shown["mcpServers"]


def _carried_out(agent: OuterAgent, place: Place, origin: str) -> subprocess.CompletedProcess[str]:
    """The agent, to its end. A person lets it in when it asks."""
    node = shutil.which("node")
    assert node is not None
    env = {key: value.format(origin=origin) for key, value in agent.env.items()}
    env |= {"PATH": os.environ["PATH"], "HOME": str(place.home), "NO_COLOR": "1", "NODE_NO_WARNINGS": "1"}
    command = [node, str(MODULES / agent.package / agent.script), *agent.words]
    until = time.monotonic() + WITHIN_S
    with (
        open(place.home / "out", "w+") as out,
        open(place.home / "err", "w+") as err,
        subprocess.Popen(
            command, cwd=place.work, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        ) as process,
    ):
        try:
            while process.poll() is None:
                assert time.monotonic() < until, Path(err.name).read_text()
                for parent in register(place).parents():
                    if parent.state != "allowed":
                        register(place).allow(parent, auto_attach=False)
                time.sleep(0.1)
        finally:
            process.kill()
    said = (Path(out.name).read_text(), Path(err.name).read_text())
    return subprocess.CompletedProcess(command, process.returncode, *said)
