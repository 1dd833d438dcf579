"""`.mcp.json` of a project, as other tools write it, under our own names. What it says counts as settings of it do.

    {"mcpServers": {"files": {"command": "npx", "args": ["-y", "some-server"]}, "far": {"type": "http", "url": "…"}}}

Nothing in it is filled in: `${NAME}` would hand variables of the person to whoever wrote the project.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from bridle.config.problems import Problem, shown
from bridle.config.setting_table import LineNumbers, Table
from bridle.config.settings_file import ParsedFile, SettingsFile

_TRANSPORTS: Final = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_SAME: Final = ("args", "env", "cwd", "url", "headers", "disabled")


def server_settings_of(parsed: ParsedFile, place: SettingsFile) -> ParsedFile:
    """The servers of such a file as settings; what cannot be used is left out, and said."""
    if not parsed.data or parsed.problems:
        return parsed
    problems: list[Problem] = []
    listed: object = parsed.values.get("mcpServers")
    if not isinstance(listed, dict):
        return ParsedFile({}, {}, [place.unusable("has no mcpServers")], parsed.data)
    servers: Table = {}
    for name, entry in cast("dict[str, object]", listed).items():
        found = _server(entry)
        if isinstance(found, str):
            line = parsed.lines.get(("mcpServers", name))
            problems.append(place.report("warning", f"left out the server {shown(name)}: {found}", line))
        else:
            servers[name] = found
    lines: LineNumbers = {
        ("mcp_servers", *path[1:]): line for path, line in parsed.lines.items() if path[0] == "mcpServers"
    }
    return ParsedFile({"mcp_servers": servers} if servers else {}, lines, problems, parsed.data)


def _server(entry: object) -> Table | str:
    """One server under our names, or why it cannot be one."""
    if not isinstance(entry, dict):
        return "it is no object"
    table = cast("dict[str, Any]", entry)
    if b"${" in msgspec.json.encode(table):
        return (
            "it wants ${…} filled in, which is not done for files of a project; "
            "take it into your own settings with: bridle mcp import .mcp.json"
        )
    found: Table = {key: table[key] for key in _SAME if table.get(key) is not None}
    if table.get("command"):
        found["command"] = table["command"]
    kind = table.get("type") or table.get("transport")
    if kind is not None:
        if kind not in _TRANSPORTS:
            return f"its type is none of {', '.join(_TRANSPORTS)}"
        found["transport"] = _TRANSPORTS[kind]
    return found
