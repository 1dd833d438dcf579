"""`bridle mcp list`, `show`, `logs` and `restart`."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial, reduce
from typing import Any, Literal, TypeAlias, cast

import msgspec

from bridle.app.features.server_trust import ServerPlace, untrusted_servers
from bridle.app.user.settings import ServerSettings, decoded_servers, is_acked
from bridle.base.clock import SystemClock, iso_ms
from bridle.base.fs.files import read_limited, repository_root
from bridle.base.net.engine_place import EnginePlace
from bridle.base.secrets.redact import redact
from bridle.base.text.phrases import counted
from bridle.base.text.spelling import meant_words
from bridle.base.text.terminal_text import visible, visible_line
from bridle.base.text.tool_names import unique_server_parts
from bridle.cli.console import aligned, say, say_json, say_lines, tell
from bridle.cli.option_values import has_any_content, settings_here
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.remote import RemoteConnection, connect_remote, place_opener
from bridle.config.folders import Folders, folders
from bridle.config.origins import BadSetting
from bridle.config.problems import shown
from bridle.config.tiers import Tiers, merge
from bridle.mcp.launch_pins import unpinned_words
from bridle.mcp.presented_tools import used_tools
from bridle.mcp.server_definitions import BadServer, ServerDefinition, decode_server, launch_hash
from bridle.mcp.server_pins import PinStore, PinsUnreadable, ServerPins, pin_place
from bridle.mcp.server_run import MOST_BYTES, log_path
from bridle.mcp.server_tokens import SignInMarks, login_command
from bridle.mcp.tool_lists import KeptLists
from bridle.protocol.commands import AttachSession, RunSlash
from bridle.protocol.errors import BridleError, UsageError
from bridle.protocol.events import Notice
from bridle.protocol.queries import CustomQuery, ListSessions
from bridle.safety.trust.approvals import Approvals

EXIT_FAILED = 1
ANSWER_S = 120.0
"""So long is waited for one: the server ends, and has its own time to be ready."""
_ANSWERS = frozenset({"MCPServers", "MCPServerUnavailable", "MCPNoServer"})


def mcp_restart(parsed: Args, env: Env) -> int:
    place = EnginePlace(folders(env).runtime)
    if place.found() is None:
        tell(
            "No engine listens here, so there is nothing to start anew: other sessions start their servers themselves. "
            f"In one of them: /mcp:restart {parsed.name}"
        )
        return EXIT_FAILED
    return asyncio.run(_restart(place, parsed.name))


async def _restart(place: EnginePlace, name: str) -> int:
    connection = await connect_remote(
        place_opener(place), address=place.socket, name="mcp restart", answers=False
    )
    try:
        using = await _sessions_using(connection, name)
        if not using:
            tell(f'No session of the engine uses an MCP server "{visible_line(name)}".')
            return EXIT_FAILED
        answers = [await _restarted(connection, session, since, name) for session, since in using]
    finally:
        await connection.close()
    for answer in answers:
        say(visible(answer.message) + "\n")
    return 0 if all(answer.reason == "MCPServers" for answer in answers) else EXIT_FAILED


async def _sessions_using(connection: RemoteConnection, name: str) -> list[tuple[str, int]]:
    """One session for each process of this server, and its last event: sessions of one folder mostly share it."""
    using: dict[str, tuple[str, int]] = {}
    for session in (await connection.ask(ListSessions())).sessions:
        if session.state == "stored":
            continue
        attached = await connection.send(AttachSession(session=session.id))
        try:
            query = CustomQuery(session=session.id, namespace="mcp", verb="servers")
            answer = await connection.ask(query)
        except BridleError:  # it has no servers
            continue
        servers: list[dict[str, Any]] = answer.payload.get("servers", [])
        for server in servers:
            if server["name"] == name:
                using.setdefault(server["process"], (session.id, attached.event or 0))
    return list(using.values())


async def _restarted(connection: RemoteConnection, session: str, since: int, name: str) -> Notice:
    await connection.send(RunSlash(session=session, name="mcp:restart", arguments=name))
    try:
        async with asyncio.timeout(ANSWER_S):
            async for envelope in connection.events(session, since=since):
                if isinstance(envelope.event, Notice) and envelope.event.reason in _ANSWERS:
                    return envelope.event
    except TimeoutError:
        pass
    return Notice(reason="MCPServerUnavailable", message=f"{session} has not said how it went.")


RowState: TypeAlias = Literal["used", "disabled", "waits for trust", "wrong"]


class ServerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One server as people look for it, without the values of its variables and headers.

    `why` says why it is not used. `files` name it, the strongest first. `pin` says what was agreed to and when, and
    `unpinned` what of that can be other code the next time. `tools` are those that an earlier run kept, by the names
    the model knows; None where nothing is kept. `needs_sign_in`: it let nobody in when it was last asked.
    """

    name: str
    state: RowState
    why: str = ""
    files: tuple[str, ...] = ()
    transport: str = ""
    launch: str = ""
    cwd: str = ""
    env: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    sandbox: str = ""
    network: str = ""
    discovery: str = ""
    pin: str = ""
    unpinned: str = ""
    tools: tuple[str, ...] | None = None
    log: str = ""
    needs_sign_in: bool = False


class FolderServers(msgspec.Struct, frozen=True, kw_only=True):
    """What is written of servers for a folder, and what of it counts. `written` has the disabled ones too, and what
    files say that nobody has agreed to."""

    cwd: str
    where: Folders
    tiers: Tiers
    written: Tiers
    approvals: Approvals

    def row(self, name: str, env: Env) -> ServerRow:
        """Raises `UsageError` where there is none of that name."""
        found = {row.name: row for row in self.rows(env)}
        if name not in found:
            hint = meant_words(name, found)
            raise UsageError(f'There is no MCP server "{shown(name)}" here.{hint} See: bridle mcp list')
        return found[name]

    def counting(self) -> frozenset[str]:
        """The names in files that count, those of disabled servers too."""
        return frozenset(_tables(self.tiers))

    def definition(self, name: str) -> ServerDefinition:
        """One that is used."""
        tables: Mapping[str, Mapping[str, Any]] = self.tiers.get("mcp_servers") or {}
        found = dict(zip(tables, decoded_servers(self.tiers, tables), strict=True))[name]
        assert isinstance(found, ServerDefinition), "a row says that it is used"
        return found

    def rows(self, env: Env) -> Iterator[ServerRow]:
        """Every server, in the order of their names."""
        counting: Mapping[str, Mapping[str, Any]] = self.tiers.get("mcp_servers") or {}
        decoded = dict(zip(counting, decoded_servers(self.tiers, counting), strict=True))
        good = tuple(one for one in decoded.values() if not isinstance(one, BadSetting))
        untrusted = frozenset(
            untrusted_servers(
                ServerSettings(definitions=good, tables=counting),
                ServerPlace(cwd=self.cwd, env=env),
                self.approvals,
            )
        )
        here, everywhere = _tables(self.tiers), _tables(self.written)
        for name in sorted({**everywhere, **here}):
            found = decoded.get(name)
            if isinstance(found, BadSetting):
                why = f"{found.key}: {found.clause}"
                yield ServerRow(name=name, state="wrong", why=why, files=_files(self.tiers, name))
            elif found is not None:
                waits = name in untrusted
                why = "this project starts it, and nobody has agreed to that: bridle trust" if waits else ""
                yield self._described(found, "waits for trust" if waits else "used", why, self.tiers, env)
            elif name in here:
                yield self._unused(name, here[name], "disabled", "disabled = true", self.tiers, env)
            else:
                waiting = ", ".join(file.shown for file in self.tiers.waiting)
                why = f"nobody has agreed to {waiting}: bridle trust"
                yield self._unused(name, everywhere[name], "waits for trust", why, self.written, env)

    def _unused(
        self,
        name: str,
        table: Mapping[str, Any],
        state: RowState,
        why: str,
        tiers: Tiers,
        env: Env,
    ) -> ServerRow:
        try:
            definition = decode_server(name, table, part=unique_server_parts([name])[name])
        except BadServer:  # it does not count, so neither does what is wrong with it
            return ServerRow(name=name, state=state, why=why, files=_files(tiers, name))
        return self._described(definition, state, why, tiers, env)

    def _described(
        self,
        definition: ServerDefinition,
        state: RowState,
        why: str,
        tiers: Tiers,
        env: Env,
    ) -> ServerRow:
        kept = KeptLists(self.where.state).read(launch_hash(definition, self.cwd), SystemClock().now_ms())
        starts = definition.transport == "stdio"
        pins = self._pins(definition)
        return ServerRow(
            name=definition.name,
            state=state,
            why=why,
            files=_files(tiers, definition.name),
            transport=definition.transport,
            launch=redact(shlex.join(definition.argv) if starts else definition.url),
            cwd=definition.folder,
            env=tuple(sorted(definition.env)),
            headers=tuple(sorted(definition.headers)),
            sandbox=definition.sandbox if starts else "",
            network=(definition.network or "as commands have it") if starts else "",
            discovery=definition.discovery,
            pin=_pinned(pins),
            unpinned=unpinned_words(definition, cwd=self.cwd, env=env),
            tools=None if kept is None else tuple(used_tools(definition, kept)),
            log=log_path(self.where.state, definition.name),
            needs_sign_in=SignInMarks(self.where.state).read(launch_hash(definition, self.cwd)) is not None,
        )

    def _pins(self, definition: ServerDefinition) -> ServerPins | None:
        """What was agreed to of a server, for this project or for all of them."""
        store = PinStore(self.where.state, SystemClock())
        for folder in (os.path.realpath(repository_root(self.cwd)), ""):
            with suppress(PinsUnreadable):
                if (pins := store.read(pin_place(definition, folder))) is not None:
                    return pins
        return None


def _pinned(pins: ServerPins | None) -> str:
    if pins is None:
        return ""
    launch = pins.launch
    if launch is None:
        what = "its tools"
    elif launch.is_address:
        what = "its address"
    elif launch.by_path and not launch.sha256:
        what = "its path in a system folder"
    else:
        what = f"sha256 {launch.sha256[:12] or 'not known'}"
    when_ms, agreed = (
        (pins.tools_ms, pins.tools_agreed) if launch is None else (pins.launch_ms, pins.launch_agreed)
    )
    by = "by you" if agreed else "by its first use"
    return f"{what}, {by}, {iso_ms(when_ms)[:10]}"


def mcp_servers(parsed: Args, env: Env) -> int:
    here = folder_servers(parsed, env)
    if parsed.action == "show":
        row = here.row(parsed.name, env)
        return say_json(row) if parsed.json else say_lines(_page(row))
    if parsed.action == "logs":
        return _logs(here.row(parsed.name, env).name, parsed.lines, here.where)
    rows = list(here.rows(env))
    if parsed.json:
        return say_json(rows)
    if not rows:
        return say("No MCP servers. How to name one: bridle help mcp\n")
    return say_lines(_lines(rows))


def folder_servers(parsed: Args, env: Env) -> FolderServers:
    """The servers that are written for this folder. Raises `BadConfig`."""
    where, cwd = folders(env), os.path.realpath(os.getcwd())
    approvals = Approvals(where.config)

    return FolderServers(
        cwd=cwd,
        where=where,
        tiers=settings_here(parsed, env, is_acked=is_acked(approvals)).checked(),
        written=settings_here(parsed, env, is_acked=has_any_content),
        approvals=approvals,
    )


def _logs(name: str, lines: int, where: Folders) -> int:
    """The end of what a server wrote, and of what was written down about it."""
    path = log_path(where.state, name)
    try:
        text = read_limited(path, MOST_BYTES).data.decode(errors="replace")
    except FileNotFoundError:
        return say(f"{visible_line(name)} has written nothing yet: {visible_line(path)}\n")
    except OSError as problem:
        raise BridleError("FileUnreadable", path=path, problem=problem.strerror) from None
    return say("".join(text.splitlines(keepends=True)[-lines:]))


def _tables(tiers: Tiers) -> dict[str, Mapping[str, Any]]:
    """Every server that a file names, disabled or not."""
    written = [source.values.get("mcp_servers", {}) for source in tiers.sources]
    return cast("dict[str, Mapping[str, Any]]", reduce(partial(merge, tiers.table), written, {}))


def _files(tiers: Tiers, name: str) -> tuple[str, ...]:
    naming = [one for one in reversed(tiers.sources) if name in one.values.get("mcp_servers", ())]
    places = [one.origin(("mcp_servers", name)) for one in naming]
    return tuple(at.name if at.line is None else f"{at.name} line {at.line}" for at in places)


def _lines(rows: list[ServerRow]) -> Iterator[str]:
    heads = ("server", "used", "pinned", "tools", "written in", "launch")
    cells = [
        (
            row.name,
            _used(row),
            "no" if not row.pin else "in part" if row.unpinned else "yes",
            "-" if row.tools is None else str(len(row.tools)),
            ", ".join(row.files),
            row.launch or "-",
        )
        for row in rows
    ]
    yield from aligned([heads, *cells])
    for row in rows:
        if said := row.why if row.state == "wrong" else row.unpinned:
            yield f"{row.name}: {said}"


def _used(row: ServerRow) -> str:
    if row.state != "used":
        return f"no: {row.state}"
    return f"needs sign-in: {login_command(row.name)}" if row.needs_sign_in else "yes"


def _page(row: ServerRow) -> Iterator[str]:
    """One server, line by line; what it does not have is not there."""
    kept = None if row.tools is None else counted(len(row.tools), "tool")
    facts = {
        "used": _used(row) if row.state == "used" else f"no, {row.state}: {row.why}",
        "written in": ", ".join(row.files),
        "starts" if row.transport == "stdio" else row.transport or "launch": row.launch,
        "folder": row.cwd,
        "variables": ", ".join(row.env),
        "headers": ", ".join(row.headers),
        "sandbox": row.sandbox and f"{row.sandbox}, network {row.network}",
        "discovery": row.discovery,
        "pinned": row.pin,
        "unpinned": row.unpinned.removeprefix("unpinned: "),
        "tools": "not known yet" if kept is None else f"{kept}, as kept: {', '.join(row.tools or ())}",
        "log": row.log,
    }
    yield row.name
    for label, value in facts.items():
        if value:
            yield f"  {label:<10}  {value}"
