"""`bridle mcp add` and `remove`: edit servers in the user's settings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from bridle.base.secrets.redact import redact
from bridle.base.text.terminal_text import visible
from bridle.base.text.tool_names import unique_server_parts
from bridle.cli.console import say
from bridle.cli.mcp.mcp_servers import FolderServers, folder_servers
from bridle.cli.settings_here import unwritable
from bridle.config.folders import folders
from bridle.config.problems import shown
from bridle.config.settings_writer import SettingChange, set_entry, user_file
from bridle.mcp.launch_pins import unpinned_words
from bridle.mcp.server_definitions import BadServer, decode_server
from bridle.protocol.errors import UsageError

_REFUSAL = (
    "One of these words looks like a secret, and the history of a shell keeps them. Write '${NAME}' in its place and "
    "store it with: bridle mcp secret NAME"
)


def mcp_edit(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    here = folder_servers(parsed, env)
    return (_add if parsed.action == "add" else _remove)(parsed, here, env)


def _add(parsed: argparse.Namespace, here: FolderServers, env: Mapping[str, str]) -> int:
    name: str = parsed.name
    entry = _entry(parsed.words, parsed.transport)
    try:
        definition = decode_server(name, entry, part=unique_server_parts([name])[name])
    except BadServer as bad:
        raise UsageError(f'"{shown(name)}" cannot be added: {bad}. See: bridle help mcp') from None
    if there := [row for row in here.rows(env) if row.name == name]:
        raise UsageError(
            f'There is an MCP server "{shown(name)}" already, in {", ".join(there[0].files)}. See: bridle mcp remove'
        )
    change = _written(name, entry, env)
    unpinned = unpinned_words(definition, cwd=here.cwd, env=env)
    return say(
        visible(f'MCP server "{name}" is in {change.path} now.', newlines=False)
        + (visible(f" It {unpinned}.", newlines=False) if unpinned.startswith("runs") else "")
        + f" Try it: bridle mcp test {visible(name, newlines=False)}\n"
    )


def _entry(words: Sequence[str], transport: str | None) -> dict[str, Any]:
    """The settings that these words are. Raises `UsageError`."""
    if not words:
        raise UsageError("What is to be started? bridle mcp add NAME -- CMD ARGS, or bridle mcp add NAME URL")
    if any(map(_holds_secret, (*words, " ".join(words)))):
        raise UsageError(_REFUSAL)
    chosen = {} if transport is None else {"transport": transport}
    if "://" not in words[0]:
        return {"command": list(words), **chosen}
    if len(words) > 1:
        raise UsageError("A server that listens has an address and nothing else. See: bridle help mcp")
    return {"url": words[0], **chosen}


def _holds_secret(word: str) -> bool:
    if redact(word) != word:
        return True
    try:
        return "://" in word and urlsplit(word).password is not None
    except ValueError:
        return False


def _remove(parsed: argparse.Namespace, here: FolderServers, env: Mapping[str, str]) -> int:
    row = here.row(parsed.name, env)
    mine = [source for source in here.tiers.sources if source.tier == "user"]
    if not any(row.name in source.values.get("mcp_servers", ()) for source in mine):
        raise UsageError(
            f'MCP server "{shown(row.name)}" is not in your own settings but in {", ".join(row.files)}. '
            "Take it out there"
        )
    change = _written(row.name, None, env)
    left = [one for one in folder_servers(parsed, env).rows(env) if one.name == row.name]
    still = f" It is still in {', '.join(left[0].files)}." if left else ""
    return say(
        visible(f'MCP server "{row.name}" is no longer in {change.path}.{still}', newlines=False) + "\n"
    )


def _written(name: str, entry: dict[str, Any] | None, env: Mapping[str, str]) -> SettingChange:
    where = folders(env)
    try:
        return set_entry(where, ("mcp_servers", name), entry)
    except OSError as problem:
        raise unwritable(user_file(where), problem) from None
