"""`bridle mcp approve`, and servers of a project's `.mcp.json`: real commands at a real terminal."""

import json
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from tests.cli.test_mcp_verbs import agree, listed, own

from cli_kit import Place
from cli_terminal import sitting
from mcp_kit import PROGRAM

KEYS = "u use it"


def program(path: Path, note: str = "one", tools: str = '[{"name": "echo"}]') -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    told = json.dumps({"named": json.loads(tools)})
    path.write_text(f"#!/bin/sh\n# {note}\nexec {sys.executable} -S -E {PROGRAM} '{told}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.requirement("X9", "G39.1", "G47.9")
def test_a_changed_server_is_approved_at_a_terminal(place: Place) -> None:
    path = program(place.home / "bin" / "serve")
    own(place, {"files": {"command": [str(path)], "sandbox": "off"}})
    assert place.bridle("mcp", "test", "files").code == 0
    assert listed(place)["files"]["pin"].startswith(
        f"sha256 {sha256(path.read_bytes()).hexdigest()[:12]}, by its"
    )
    program(path, "two", '[{"name": "echo"}, {"name": "more"}]')
    refused = place.bridle("mcp", "test", "files")
    changed = f"not as it was when it was pinned: the program {path}"
    agree = "Look at it and agree: bridle mcp approve files"
    assert (refused.code, refused.story[0]) == (1, f'MCP server "files" cannot be used: {changed}. {agree}')
    with sitting(place, "mcp", "approve", "files") as person:
        person.sees("MCP server files changed since you trusted it", KEYS)
        person.types("u\n")
        person.sees("What MCP server files says of its tools changed", "tool more")
        person.waits(lambda: person.text.count(KEYS) == 2, "the second question")
        person.types("u\n")
        person.sees("files is pinned as it is now.")
        assert person.ends() == 0
    assert place.bridle("mcp", "test", "files").code == 0
    assert ", by you, " in listed(place)["files"]["pin"]
    trusted = place.bridle("trust", "list").out
    assert [line.split()[:5] for line in trusted.splitlines()] == [
        ["pinned", "mcp_server", "MCP", "server", "files"]
    ]
    assert place.bridle("trust", "revoke", "mcp_servers.files").code == 0
    assert listed(place)["files"]["pin"] == ""


def test_enter_approves_nothing(place: Place) -> None:
    path = program(place.home / "bin" / "serve")
    own(place, {"files": {"command": [str(path)], "sandbox": "off", "sha256": "ab" * 32}})
    with sitting(place, "mcp", "approve", "files") as person:
        person.sees("settings expect sha256", KEYS)
        person.types("\n")
        person.sees("Not approved.")
        assert person.ends() == 3
    done = place.bridle("mcp", "test", "files")
    found = sha256(path.read_bytes()).hexdigest()[:12]
    assert f"its program has sha256 {found}, and settings expect abababababab" in done.err


@pytest.mark.requirement("X9")
def test_a_run_that_insists_on_trust_does_not_begin_with_a_server_nobody_has_seen(place: Place) -> None:
    path = program(place.home / "bin" / "serve")
    own(place, {"files": {"command": [str(path)], "sandbox": "off"}})

    def insisting() -> tuple[int, str | None, list[str]]:
        ran = place.bridle("run", "-m", "demo", "--require-trust", "--yes", "--json", "hi")
        return ran.code, ran.result.get("reason"), [line for line in ran.story if "MCP server" in line]

    begins = "Refusing to begin: MCP server 'files' waits for a person"
    look = "To look at it and agree: bridle mcp approve files"
    unseen = f"{begins} (nobody has agreed to what it starts). {look}"
    assert insisting() == (3, "MCPServerUnseen", [unseen])
    assert insisting()[0] == 3, "being refused agrees to nothing"
    assert place.bridle("mcp", "test", "files").code == 0
    assert insisting() == (0, None, [])
    program(path, "two")
    changed = f"{begins} (not as it was when it was pinned: the program {path}). {look}"
    assert insisting() == (3, "MCPServerUnseen", [changed])
    own(place, {"files": {"command": [str(path)], "sandbox": "off", "sha256": "ab" * 32}})
    assert insisting()[2] == [f"{begins} (its program is not the one settings expect). {look}"]


@pytest.mark.requirement("X9")
def test_a_server_that_runs_code_of_its_folder_says_so_and_waits_for_an_approval(place: Place) -> None:
    npm = program(place.home / "bin" / "npm")
    said = "runs code of the folder it starts in; nothing of it is pinned"
    added = place.bridle("mcp", "add", "web", "--", str(npm), "start")
    assert (added.code, f"now. It {said}. Try it:" in added.out) == (0, True)
    assert f"web: {said}\n" in place.bridle("mcp", "list").out
    assert f"  unpinned    {said}\n" in place.bridle("mcp", "show", "web").out
    assert place.bridle("config", "set", "mcp_servers.web.sandbox", "off").code == 0
    refused = place.bridle("mcp", "test", "web")
    assert (refused.code, "it would run code of this folder" in refused.err) == (1, True)
    with sitting(place, "mcp", "approve", "web") as person:
        person.sees("runs code of the folder it starts in", KEYS)
        person.types("u\n")
        person.sees("web is pinned as it is now.")
        assert person.ends() == 0
    assert place.bridle("mcp", "test", "web").code == 0


def test_a_run_that_insists_on_trust_names_a_server_of_the_project(place: Place) -> None:
    command = json.dumps([str(program(place.home / "bin" / "serve"))])
    (place.work / ".bridle").mkdir()
    (place.work / ".bridle" / "config.toml").write_text(f"[mcp_servers.theirs]\ncommand = {command}\n")
    agree(place, {"config"})
    ran = place.bridle("run", "-m", "demo", "--require-trust", "hi")
    assert (ran.code, "an unseen program of MCP server theirs" in ran.err) == (3, True)
    agree(place, {"mcp_server"})
    assert place.bridle("run", "-m", "demo", "--require-trust", "hi").code == 0


def test_nobody_approves_without_a_terminal(place: Place) -> None:
    path = program(place.home / "bin" / "serve")
    own(place, {"files": {"command": [str(path)], "sandbox": "off"}})
    done = place.bridle("mcp", "approve", "files", stdin="u\n")
    assert (done.code, listed(place)["files"]["pin"]) == (3, "")
    assert "the MCP server 'files'. There: bridle mcp approve files" in done.err
    assert place.bridle("mcp", "approve", "files", "-y").code == 2
    assert place.bridle("mcp", "approve", "nobody").code == 2


def test_a_server_with_values_is_approved_by_what_they_lead_to(place: Place) -> None:
    path = program(place.home / "bin" / "serve.sh")
    table = {"command": ["sh", "${WHERE}/serve.sh"], "env": {"KEY": "${KEY}"}, "sandbox": "off"}
    own(place, {"files": table})
    secret, env = "quiet-" + "words" * 3, {"WHERE": str(path.parent)}
    assert place.bridle("mcp", "secret", "KEY", stdin=f"{secret}\n").code == 0
    refused = place.bridle("mcp", "test", "files")
    assert "WHERE has no value: set that variable, or store one with: bridle mcp secret WHERE" in refused.err
    assert place.bridle("mcp", "test", "files", env=env).code == 0
    program(path, "two")
    changed = place.bridle("mcp", "test", "files", env=env)
    assert f"not as it was when it was pinned: the script {path}" in changed.err
    with sitting(place, "mcp", "approve", "files") as person:
        person.sees("WHERE has no value")
        assert person.ends() == 2
    with sitting(place, "mcp", "approve", "files", **env) as person:
        person.sees(
            "MCP server files changed since you trusted it", "script     /", "+            sha256:", KEYS
        )
        person.types("u\n")
        person.sees("files is pinned as it is now.")
        assert person.ends() == 0
        assert secret not in person.text
    assert place.bridle("mcp", "test", "files", env=env).code == 0


@pytest.mark.parametrize("text", ['{"mcpServers": []}', "[]", "{", '{"mcpServers": {"a": 1}}', "\0"])
def test_a_file_of_servers_that_means_nothing_stops_nobody(place: Place, text: str) -> None:
    (place.work / ".mcp.json").write_text(text)
    done = place.bridle("run", "-m", place.script("say Hi.\n"), "--sandbox", "off", "go")
    assert done.code in (0, 2)
    assert "Traceback" not in done.err


def test_the_file_that_other_tools_share_waits_for_the_same_words(place: Place) -> None:
    started = place.work / "started"
    told = json.dumps({"named": [{"name": "echo"}], "started": str(started)})
    table = {"command": sys.executable, "args": ["-S", "-E", PROGRAM, told], "type": "stdio"}
    wants = {"command": "serve", "env": {"KEY": "${ANTHROPIC_" + "API_KEY}"}}
    (place.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": table, "nosy": wants}}))
    row = listed(place)["theirs"]
    assert (row["state"], row["why"]) == ("waits for trust", "nobody has agreed to .mcp.json: bridle trust")
    run = ("run", "-m", place.script("say Hi.\n"), "--sandbox", "off", "go")
    assert place.bridle(*run).code == 0
    agree(place, {"config"})
    row = listed(place)["theirs"]
    assert (row["state"], row["files"]) == ("waits for trust", [".mcp.json line 1"])
    assert "nosy" not in listed(place), "nothing of the person's environment is filled in"
    assert not started.exists()
    agree(place, {"mcp_server"})
    assert place.bridle("mcp", "test", "theirs").code == 0
    assert started.exists()
    assert "left out the server nosy: it wants ${…} filled in" in place.bridle("config", "validate").out


def test_a_server_that_a_project_leaves_to_be_filled_in_is_named_once_and_can_be_taken_over(
    place: Place,
) -> None:
    wants = {"command": str(program(place.home / "bin" / "serve")), "env": {"KEY": "${SOME_KEY}"}}
    (place.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"nosy": wants}}))
    done = place.bridle("run", "-m", place.script("say Hi.\n"), "--sandbox", "off", "go")
    assert (done.code, done.err.count("nosy")) == (0, 1)
    assert "with: bridle mcp import .mcp.json" in done.err
    assert place.bridle("mcp", "import", ".mcp.json", "--yes").code == 0
    assert listed(place)["nosy"]["state"] == "used"
