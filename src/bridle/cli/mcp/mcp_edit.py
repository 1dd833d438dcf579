"""`bridle mcp add`, `remove`, `import` and `secret`: edit servers and their secrets in the user's settings."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from bridle.app.user.setting_sections import TABLE
from bridle.app.user.stored_keys import StoredKeys
from bridle.base.fs.files import read_limited
from bridle.base.secrets.redact import redact
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible_line
from bridle.base.text.tool_names import unique_server_parts
from bridle.cli.console import say, say_json, say_lines, tell
from bridle.cli.mcp.mcp_servers import FolderServers, folder_servers
from bridle.cli.option_values import writing
from bridle.cli.stdin import is_agreed, secret_from, stored_keys, typed_answer
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import Folders, home_of
from bridle.config.origins import checked_value
from bridle.config.problems import shown
from bridle.config.settings_writer import SettingChange, set_entry, user_file
from bridle.mcp.foreign_files import (
    MOST_BYTES,
    BadForeignFile,
    ForeignFile,
    ForeignServer,
    SecretInTheWay,
    read_foreign,
    usual_places,
    without_secrets,
)
from bridle.mcp.launch_pins import unpinned_words
from bridle.mcp.server_definitions import BadServer, decode_server, reference_names
from bridle.protocol.errors import BridleError, UsageError

# Nothing is started, and no server of the same name is touched. A secret in such a file goes into the
# credential store, and a reference to it into the settings.


def mcp_secret(parsed: Args, env: Env) -> int:
    stored = stored_keys(folder_servers(parsed, env).tiers, env)
    name: str = parsed.name
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None or name.upper().startswith("BRIDLE_"):
        rule = "a name is letters, digits and _, and does not begin with BRIDLE_"
        raise UsageError(f'"{visible_line(name)}" cannot be stored: {rule}')
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


def mcp_import(parsed: Args, env: Env) -> int:
    here = folder_servers(parsed, env)
    stored = stored_keys(here.tiers, env)
    chosen = _files(parsed, here, env)
    if not chosen:
        return say_json([]) if parsed.json else say("No file of another tool names MCP servers here.\n")
    plan = _planned(chosen, here, env, stored)
    if parsed.json:
        say_json(plan.servers)
    else:
        say_lines(_lines(plan, user_file(here.where)))
    if parsed.dry_run or not plan.added:
        return 0
    if not parsed.yes and not _wants_plan(plan):
        say("Nothing was written.\n")
        return EXIT_DECLINED
    _write(plan, here, stored)
    if not parsed.json:
        names = ", ".join(visible_line(one.name) for one in plan.added)
        say(f"Written: {names}. Try one: bridle mcp test {visible_line(plan.added[0].name)}\n")
    return 0


# Which files


def _files(parsed: Args, here: FolderServers, env: Env) -> tuple[ForeignFile, ...]:
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
        say(visible_line(f"  {number:>2}  {one.kind:<8}  {one.path}  ({names})") + "\n")
    typed = typed_answer("Which? (numbers, or a for all; Enter leaves) › ")
    if typed == "a":
        return found
    numbers = [int(word) for word in typed.replace(",", " ").split() if word.isascii() and word.isdigit()]
    if not numbers or not all(1 <= number <= len(found) for number in numbers):
        raise UsageError("No file was chosen; nothing was written")
    return tuple(found[number - 1] for number in dict.fromkeys(numbers))


def _found(here: FolderServers, env: Env) -> Iterator[ForeignFile]:
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


def _read(path: str, here: FolderServers, env: Env) -> ForeignFile:
    shown = visible_line(path)
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


def _planned(files: Sequence[ForeignFile], here: FolderServers, env: Env, stored: StoredKeys) -> _Plan:
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
    for problem in checked_value(TABLE, ("mcp_servers", server.name), clean, None):
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


def _wants_plan(plan: _Plan) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("Nobody can be asked here: --yes writes them, --dry-run only shows them")
    return is_agreed(f"Write {counted(len(plan.added), 'server')}? y/N › ")


def _write(plan: _Plan, here: FolderServers, stored: StoredKeys) -> None:
    """Secrets first: a reference without its value is a server that does not start."""
    for name, secret in plan.values.items():
        stored.put_value(name, secret)
    for one in plan.added:
        _written(one.name, one.settings, here.where)


_REFUSAL = (
    "One of these words looks like a secret, and the history of a shell keeps them. Write '${NAME}' in its place and "
    "store it with: bridle mcp secret NAME"
)


def mcp_edit(parsed: Args, env: Env) -> int:
    here = folder_servers(parsed, env)
    return (_add if parsed.action == "add" else _remove)(parsed, here, env)


def _add(parsed: Args, here: FolderServers, env: Env) -> int:
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
    change = _written(name, entry, here.where)
    unpinned = unpinned_words(definition, cwd=here.cwd, env=env)
    return say(
        visible_line(f'MCP server "{name}" is in {change.path} now.')
        + (visible_line(f" It {unpinned}.") if unpinned.startswith("runs") else "")
        + f" Try it: bridle mcp test {visible_line(name)}\n"
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


def _remove(parsed: Args, here: FolderServers, env: Env) -> int:
    row = here.row(parsed.name, env)
    mine = [source for source in here.tiers.sources if source.tier == "user"]
    if not any(row.name in source.values.get("mcp_servers", ()) for source in mine):
        raise UsageError(
            f'MCP server "{shown(row.name)}" is not in your own settings but in {", ".join(row.files)}. '
            "Take it out there"
        )
    change = _written(row.name, None, here.where)
    left = [one for one in folder_servers(parsed, env).rows(env) if one.name == row.name]
    still = f" It is still in {', '.join(left[0].files)}." if left else ""
    return say(visible_line(f'MCP server "{row.name}" is no longer in {change.path}.{still}') + "\n")


def _written(name: str, entry: dict[str, Any] | None, where: Folders) -> SettingChange:
    with writing(user_file(where)):
        return set_entry(TABLE, where, ("mcp_servers", name), entry)
