"""Names of tools: of MCP servers' tools, and those that other agents use for ours."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from hashlib import sha256

TOOL_ALIASES: Mapping[str, tuple[str, ...]] = {
    "edit": ("write_file", "edit_file", "apply_patch"),
    "Edit": ("write_file", "edit_file", "apply_patch"),
    "MultiEdit": ("edit_file", "apply_patch"),
    "Read": ("read_file",),
    "Write": ("write_file",),
    "Bash": ("bash",),
    "run_powershell": ("bash",),
    "Grep": ("grep",),
    "Glob": ("glob",),
    "Ls": ("ls",),
    "LS": ("ls",),
    "WebFetch": ("web_fetch",),
    "TodoWrite": ("todo",),
    "Agent": ("delegate_agent",),
    "Task": ("delegate_agent",),
}


MAX_CHARACTERS = 64
_HASH_CHARACTERS = 8
_OUTSIDE = re.compile(r"[^A-Za-z0-9_-]")
_UNDERSCORES = re.compile(r"__+")


def unique_server_parts(servers: Iterable[str]) -> dict[str, str]:
    """What each of these servers is called inside the names of its tools: no two alike, whatever they are called.

    Two underscores separate the parts of a name, so a server's part has none inside and none at its end: then no
    tool of one server can get a name of another's. One of which nothing readable is left is told apart by a hash.
    """
    parts: dict[str, str] = {}
    for server in servers:
        plain = _part(_UNDERSCORES.sub("_", _OUTSIDE.sub("_", server)).rstrip("_"), server)
        part, number = plain, 2
        while part in parts.values():
            part, number = f"{plain}_{number}", number + 1
        parts[server] = part
    return parts


def mcp_tool_names(part: str, tools: Iterable[str]) -> dict[str, str]:
    """The names of a server's tools, by the server's own. `part` is that of `unique_server_parts`.

    The one that needs no change keeps its name, whatever else the server lists.
    """
    names: dict[str, str] = {}
    for tool in sorted(tools, key=lambda name: (_OUTSIDE.sub("_", name) != name, name)):
        names[tool] = mcp_tool_name(part, tool, names.values())
    return names


def mcp_tool_name(server: str, tool: str, taken: Container[str] = ()) -> str:
    """The name of a server's tool. The same two names give the same one; `taken` ones get `_2`, `_3` ….

    Two underscores separate the parts, so a server's own name keeps none; a name of which nothing readable is left is
    told apart by a hash, and so is one that had to be cut.
    """
    server_part = _part(_UNDERSCORES.sub("_", _OUTSIDE.sub("_", server)), server)
    name = f"mcp__{server_part}__{_part(_OUTSIDE.sub('_', tool), tool)}"
    name = _cut(name, f"{server}\0{tool}", MAX_CHARACTERS)
    if name not in taken:
        return name
    number = 2
    while (
        other := _cut(name, f"{server}\0{tool}", MAX_CHARACTERS - len(f"_{number}")) + f"_{number}"
    ) in taken:
        number += 1
    return other


def _part(readable: str, original: str) -> str:
    return readable if readable.strip("_") else f"_{_hash(original)}"


def _cut(name: str, original: str, limit: int) -> str:
    if len(name) <= limit:
        return name
    return f"{name[: limit - _HASH_CHARACTERS - 1]}_{_hash(original)}"


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
