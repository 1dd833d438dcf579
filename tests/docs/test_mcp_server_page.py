"""What the page on MCP tells people to write for other agents starts a server that answers."""

import json
import re
import shlex
import tomllib
from pathlib import Path

from bridle.clients.mcp_server.agent_door import KINDS
from bridle.clients.mcp_server.agent_tools import TOOLS
from cli_kit import Place

PAGE = (Path(__file__).resolve().parents[2] / "docs/mcp-server.md").read_text(encoding="utf-8")
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}


def written_commands() -> list[list[str]]:
    """The command of every snippet: of files, and of the tools that write them."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    found = [shlex.split(words) for words in re.findall(r"(?:mcp add bridle (?:-- )?)(bridle [^`]*)`", PAGE)]
    for form, text in blocks:
        read = json.loads(text) if form == "json" else tomllib.loads(text)
        (section,) = read.values()
        entry = section["bridle"]
        command = entry["command"]
        found.append([*([command] if isinstance(command, str) else command), *entry.get("args", ())])
    return found


def test_every_snippet_starts_a_server_that_answers(tmp_path: Path) -> None:
    commands = written_commands()
    assert len(commands) == 6
    assert {tuple(command) for command in commands} == {("bridle", "mcp", "serve")}
    ran = Place(tmp_path).bridle(*commands[0][1:], stdin=json.dumps(HELLO) + "\n")
    assert (ran.code, json.loads(ran.out)["result"]["serverInfo"]["name"]) == (0, "bridle")


def test_the_page_names_every_tool_and_every_address() -> None:
    assert [tool.name for tool in TOOLS if f"`{tool.name}`" not in PAGE] == []
    written = {
        re.sub(r"/(ID|NAME)", "", address)
        for address in re.findall(r"`(?:bridle-v1://)?([a-z]+(?:/(?:ID|NAME))?(?:/[a-z]+)?)`", PAGE)
    }
    assert set(KINDS) - written == set()
