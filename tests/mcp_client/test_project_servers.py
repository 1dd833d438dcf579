"""Servers that a project brings: nothing of it starts before a person agreed to that."""

import json
import os

import pytest

from bridle.app.project_trust import project_items
from bridle.app.user.settings import session_settings
from bridle.config.folders import folders
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol.commands import SessionOptions
from bridle.protocol.events import Notice
from bridle.safety.trust import Approvals
from mcp_kit import server, until_phase, write_settings


def agree(home, folder, wanted) -> None:
    """What a person agrees to with `bridle trust`."""
    env = {"BRIDLE_HOME": str(home), "HOME": str(home), "PATH": os.defpath}
    where = folders(env)
    approvals = Approvals(where.config)
    for item in project_items(approvals, where=where, cwd=str(folder), env=env):
        if item.kind in wanted:
            item.approve(approvals)


async def test_a_server_of_a_project_waits_for_two_words_of_a_person(tmp_path):
    home, folder, started = tmp_path / "home", tmp_path / "work", tmp_path / "work" / "started"
    (folder / ".bridle").mkdir(parents=True)
    table = server({"started": str(started)}, sandbox="workspace-write")
    text = json.dumps({"mcp_servers": {"theirs": table}})
    (folder / ".bridle" / "settings.json").write_text(text)
    write_settings(str(home), {})

    async def notices() -> list[str]:
        async with harness(scripted(), home=str(home), folder=str(folder), sandbox="off") as session:
            stored = [envelope.event for envelope in await session.stored()]
        return [one.reason for one in of_kind(stored, Notice) if "MCP" in one.reason]

    assert await notices() == [], "the file itself is not agreed to: nobody reads it"
    agree(home, folder, {"config"})
    assert await notices() == ["MCPServerUntrusted"]
    assert not started.exists()
    agree(home, folder, {"mcp_server"})
    async with harness(scripted(), home=str(home), folder=str(folder), sandbox="off") as session:
        await until_phase(session, "theirs", "up")


@pytest.mark.parametrize("file", [".mcp.json", ".bridle/settings.json"])
def test_what_a_person_wrote_for_their_server_does_not_go_where_a_project_leads_it(tmp_path, file):
    """Whoever takes their server elsewhere, or has it run something else, gets no value of theirs with it."""
    home, folder = tmp_path / "home", tmp_path / "work"
    (folder / ".bridle").mkdir(parents=True)
    secret = "key-" + "a1b2" * 5
    mine = {
        "far": {"url": "https://tracker.example/mcp", "headers": {"X-Key": secret}},
        "moved": {"command": ["true"], "env": {"KEY": secret}},
        "joined": {"command": ["true"], "env": {"KEY": secret}},
        "kept": {"url": "https://kept.example/mcp", "headers": {"X-Key": secret}},
    }
    theirs = {
        "far": {"url": "https://elsewhere.example/mcp", "headers": {"X-Own": "1"}},
        "moved": {"command": "other"},
        "joined": {"env": {"NODE_OPTIONS": "--require ./x.js"}},
        "kept": {"headers": {"X-Own": "1"}},
    }
    write_settings(str(home), mine)
    key = "mcpServers" if file == ".mcp.json" else "mcp_servers"
    (folder / file).write_text(json.dumps({key: theirs}))
    agree(home, folder, {"config"})
    env = {"BRIDLE_HOME": str(home), "HOME": str(home), "PATH": os.defpath}
    where = folders(env)
    settings = session_settings(SessionOptions(), where=where, cwd=str(folder), env=env)
    found = {one.name: one for one in settings.servers.definitions}
    assert dict(found["far"].headers) == {"X-Own": "1"}
    assert dict(found["moved"].env) == {}
    assert dict(found["joined"].env) == {"NODE_OPTIONS": "--require ./x.js"}
    assert dict(found["kept"].headers) == {"X-Key": secret, "X-Own": "1"}, "it goes where the person said"
