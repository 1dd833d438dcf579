"""`bridle mcp secret`: store a value that server settings refer to as `${NAME}`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping

from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.base.text.terminal_text import visible
from bridle.cli.console import say, tell
from bridle.cli.hidden_input import hidden_line, secret_from
from bridle.cli.mcp.mcp_servers import FolderServers, folder_servers
from bridle.protocol.errors import UsageError


def mcp_secret(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    stored = stored_values(folder_servers(parsed, env), env)
    name: str = parsed.name
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None or name.upper().startswith("BRIDLE_"):
        rule = "a name is letters, digits and _, and does not begin with BRIDLE_"
        raise UsageError(f'"{visible(name, newlines=False)}" cannot be stored: {rule}')
    if parsed.remove:
        if not stored.forget_value(name):
            raise UsageError(f"Nothing is stored as {name}")
        return say(f"Forgotten: {name}.\n")
    secret = secret_from(f"Value of {name} (hidden) › ", what="value")
    if not secret.isprintable():
        raise UsageError("A value is one line of text; nothing was stored")
    stored.put_value(name, secret)
    if env.get(name):
        tell(f"{name} is set as a variable and goes before what is stored.")
    return say(f"Stored. In settings of MCP servers: ${{{name}}}\n")


def stored_values(here: FolderServers, env: Mapping[str, str]) -> StoredKeys:
    """The credential store of this person; at a terminal they are asked for its passphrase, if it has one."""
    ask = (lambda: hidden_line("Passphrase (hidden) › ")) if sys.stdin.isatty() else None
    back_end = here.tiers.get("credentials.store") or "encrypted"
    return StoredKeys(where=here.where, env=env, clock=SystemClock(), ask=ask, notice=tell, back_end=back_end)
