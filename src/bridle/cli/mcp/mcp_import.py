"""`bridle mcp import`: take over servers from settings of other tools.

Nothing is started, and no server of the same name is touched. A secret in such a file goes into the credential store,
and a reference to it into the settings.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from bridle.app.user.stored_keys import StoredKeys
from bridle.base.fs.files import read_limited
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible
from bridle.cli.console import say, say_json
from bridle.cli.mcp.mcp_secret import stored_values
from bridle.cli.mcp.mcp_servers import FolderServers, folder_servers
from bridle.cli.settings_here import unwritable
from bridle.cli.stdin import typed_line
from bridle.config.folders import home_of
from bridle.config.origins import checked_value
from bridle.config.settings_writer import set_entry, user_file
from bridle.mcp.foreign_files import (
    MOST_BYTES,
    BadForeignFile,
    ForeignFile,
    ForeignServer,
    read_foreign,
    usual_places,
)
from bridle.mcp.foreign_secrets import SecretInTheWay, without_secrets
from bridle.mcp.server_definitions import decode_server
from bridle.mcp.value_references import reference_names
from bridle.protocol.errors import BridleError, UsageError

Verdict: TypeAlias = Literal["add", "there already", "cannot be used"]
EXIT_DECLINED = 3


class PlannedServer(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of one server. `secrets` are values of the file that are stored under these names, which are
    all that is shown of them; `missing` are references that have no value yet."""

    name: str
    file: str
    verdict: Verdict
    why: str = ""
    settings: dict[str, Any] = {}
    left_out: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class _Plan(msgspec.Struct, frozen=True):
    """`values` are secrets by name: they are never part of what is shown."""

    servers: tuple[PlannedServer, ...]
    values: Mapping[str, str]

    @property
    def added(self) -> tuple[PlannedServer, ...]:
        return tuple(one for one in self.servers if one.verdict == "add")


def mcp_import(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    here = folder_servers(parsed, env)
    stored = stored_values(here, env)
    chosen = _files(parsed, here, env)
    if not chosen:
        return say_json([]) if parsed.json else say("No file of another tool names MCP servers here.\n")
    plan = _planned(chosen, here, env, stored)
    if parsed.json:
        say_json(plan.servers)
    else:
        say("\n".join(visible(line, newlines=False) for line in _lines(plan, user_file(here.where))) + "\n")
    if parsed.dry_run or not plan.added:
        return 0
    if not parsed.yes and not _is_agreed(plan):
        say("Nothing was written.\n")
        return EXIT_DECLINED
    _write(plan, here, stored)
    if not parsed.json:
        names = ", ".join(visible(one.name, newlines=False) for one in plan.added)
        say(f"Written: {names}. Try one: bridle mcp test {visible(plan.added[0].name, newlines=False)}\n")
    return 0


# Which files


def _files(
    parsed: argparse.Namespace, here: FolderServers, env: Mapping[str, str]
) -> tuple[ForeignFile, ...]:
    if parsed.file is not None:
        return (_read(os.path.abspath(parsed.file), here, env),)
    found = tuple(_found(here, env))
    if len(found) < 2 or parsed.dry_run or parsed.json:
        return found
    if not sys.stdin.isatty():
        raise UsageError(
            f"Which file? bridle mcp import FILE. There are: {', '.join(one.path for one in found)}"
        )
    for number, one in enumerate(found, 1):
        names = ", ".join(server.name for server in one.servers)
        say(visible(f"  {number:>2}  {one.kind:<8}  {one.path}  ({names})", newlines=False) + "\n")
    typed = typed_line("Which? (numbers, or a for all; Enter leaves) › ").strip().lower()
    if typed == "a":
        return found
    numbers = [int(word) for word in typed.replace(",", " ").split() if word.isascii() and word.isdigit()]
    if not numbers or not all(1 <= number <= len(found) for number in numbers):
        raise UsageError("No file was chosen; nothing was written")
    return tuple(found[number - 1] for number in dict.fromkeys(numbers))


def _found(here: FolderServers, env: Mapping[str, str]) -> Iterator[ForeignFile]:
    """Those in the usual places that name any server; what cannot be read is passed over, for nobody named it."""
    home = home_of(env)
    config_home = env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    for path in dict.fromkeys(usual_places(here.cwd, home, config_home)):
        try:
            found = _read(path, here, env)
        except (UsageError, BridleError):
            continue
        if found.servers:
            yield found


def _read(path: str, here: FolderServers, env: Mapping[str, str]) -> ForeignFile:
    shown = visible(path, newlines=False)
    try:
        contents = read_limited(path, MOST_BYTES)
    except OSError as problem:
        raise UsageError(f"{shown} cannot be read: {problem.strerror}") from None
    if contents.truncated:
        raise UsageError(f"{shown}: it is larger than {MOST_BYTES >> 20} MiB")
    try:
        return read_foreign(path, contents.data, folder=here.cwd, home=home_of(env))
    except BadForeignFile as bad:
        raise UsageError(f"{shown}: {bad}. Known are files of Claude, Cursor, VS Code and Codex") from None


# What would be written


def _planned(
    files: Sequence[ForeignFile], here: FolderServers, env: Mapping[str, str], stored: StoredKeys
) -> _Plan:
    counting = here.counting()
    there = {row.name: ", ".join(row.files) for row in here.rows(env) if row.name in counting}
    known = stored.value_names()
    values: dict[str, str] = {}
    planned: list[PlannedServer] = []

    def is_taken(name: str) -> bool:
        return name in known or name in values or name in env

    for file in files:
        for one in file.servers:
            row = _one(file, one, there, is_taken, values)
            has = {*known, *values, *(name for name in env if env[name])}
            planned.append(msgspec.structs.replace(row, missing=_missing(row, has)))
            if row.verdict == "add":
                there[row.name] = file.path
    return _Plan(tuple(planned), values)


def _one(
    file: ForeignFile,
    server: ForeignServer,
    there: Mapping[str, str],
    is_taken: Any,
    values: dict[str, str],
) -> PlannedServer:
    row = PlannedServer(name=server.name, file=file.path, verdict="add", left_out=server.left_out)
    if server.name in there:
        return msgspec.structs.replace(row, verdict="there already", why=f"in {there[server.name]}")
    if server.refused:
        return msgspec.structs.replace(row, verdict="cannot be used", why=server.refused)
    try:
        clean, secrets = without_secrets(server.name, server.table, is_taken)
    except SecretInTheWay as why:
        return msgspec.structs.replace(row, verdict="cannot be used", why=str(why))
    for problem in checked_value(("mcp_servers", server.name), clean, None):
        return msgspec.structs.replace(row, verdict="cannot be used", why=problem.problem)
    values |= secrets
    return msgspec.structs.replace(row, settings=clean, secrets=tuple(secrets))


def _missing(row: PlannedServer, has: set[str]) -> tuple[str, ...]:
    if row.verdict != "add":
        return ()
    names = reference_names(decode_server(row.name, row.settings, part="x"))
    defaulted = str(row.settings)
    return tuple(name for name in names if name not in has and f"${{{name}:-" not in defaulted)


def _lines(plan: _Plan, target: str) -> Iterator[str]:
    import tomlkit

    for one in plan.servers:
        head = f"{one.name}  from {one.file}"
        if one.verdict != "add":
            yield f"{head}: {one.verdict}, {one.why}" if one.why else f"{head}: {one.verdict}"
            continue
        yield head
        written = tomlkit.dumps({"mcp_servers": {one.name: one.settings}})
        yield from (f"  {line}" for line in written.splitlines() if line and line != "[mcp_servers]")
        for field in one.left_out:
            yield f"  left out: {field}"
        for name in one.secrets:
            yield f"  stored: a secret of the file, as {name}, in the credential store"
        for name in one.missing:
            yield f"  needs: {name}, a variable, or: bridle mcp secret {name}"
    added = len(plan.added)
    yield f"{counted(added, 'server')} for {target}" if added else "Nothing to write."


# Writing


def _is_agreed(plan: _Plan) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("Nobody can be asked here: --yes writes them, --dry-run only shows them")
    typed = typed_line(f"Write {counted(len(plan.added), 'server')}? y/N › ")
    return typed.strip().lower() in ("y", "yes")


def _write(plan: _Plan, here: FolderServers, stored: StoredKeys) -> None:
    """Secrets first: a reference without its value is a server that does not start."""
    for name, secret in plan.values.items():
        stored.put_value(name, secret)
    for one in plan.added:
        try:
            set_entry(here.where, ("mcp_servers", one.name), one.settings)
        except OSError as problem:
            raise unwritable(user_file(here.where), problem) from None
