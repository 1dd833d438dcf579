"""`bridle plugins`: list and install plugins and bundles."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Literal, cast

import msgspec

from bridle.app.user.setting_sections import TABLE
from bridle.base.clock import SystemClock
from bridle.base.git.git_calls import GitCall
from bridle.base.process.processes import CannotStart, CompletedProgram, Processes
from bridle.base.text.phrases import counted
from bridle.base.text.spelling import meant_words
from bridle.base.text.terminal_text import visible, visible_line
from bridle.cli.console import say, say_json, say_lines, tell
from bridle.cli.option_values import settings_here
from bridle.cli.policy.trust import review_lines, typed_line
from bridle.cli.setup.plugin_template import new_plugin
from bridle.cli.verbs.rows import Args, Env
from bridle.config.bundle_contents import BadBundle, BundleContents
from bridle.config.bundles import (
    BundleRecord,
    InstalledBundle,
    installed_bundles,
    read_records,
    wrong_settings,
)
from bridle.config.folders import Folders, folders
from bridle.config.problems import shown, written
from bridle.config.tiers import Tiers
from bridle.plugin.bundle_install import (
    FETCH_S,
    BundleOrigin,
    IncomingBundle,
    bring,
    bundle_origin,
    git_environment,
    incoming_folder,
    keep,
    take_out,
)
from bridle.plugin.loading import RESERVED, LoadedPlugin, load_plugins, offered_plugins
from bridle.protocol.errors import BridleError, CommandRefused, UsageError
from bridle.safety.hooks.definitions import BadHook, hook_from

EXIT_DRIFT = 3
EXIT_UNUSABLE = 2


class AddedThing(msgspec.Struct, frozen=True):
    """One thing that a plugin or a bundle adds: what it is, its name, and what there is to know of it."""

    kind: str
    name: str
    about: str = ""


class PluginRow(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin or a bundle. `origin` is the package, the folder or the repository; `why` says who wants it, or why it
    is not used."""

    name: str
    kind: Literal["plugin", "bundle"]
    state: Literal["used", "not listed", "not used"]
    version: str = ""
    origin: str = ""
    why: str = ""
    adds: tuple[AddedThing, ...] = ()


def plugins(parsed: Args, env: Env) -> int:
    where = folders(env)
    match parsed.action:
        case "new":
            return new_plugin(parsed.name, os.path.join(os.getcwd(), parsed.folder or parsed.name))
        case "add":
            return _add(parsed, where, env)
        case "update":
            return _update(parsed, where, env)
        case "remove":
            return _remove(parsed.name, where)
        case "verify":
            return _verify(where, as_json=parsed.json)
        case _:
            return _list(parsed, where, env)


# Looking


def _list(parsed: Args, where: Folders, env: Env) -> int:
    rows, failure = _plugin_rows(settings_here(parsed, env))
    rows += [_bundle_row(bundle) for bundle in _bundles(where)]
    code = EXIT_UNUSABLE if failure is not None else 0
    if parsed.json:
        return say_json(rows) or code
    if failure is not None:
        tell(visible(failure.message))
    if not rows:
        return say("No plugins and no bundles. How to get some: bridle help plugins\n") or code
    return say_lines(line for row in rows for line in _lines(row, why=parsed.why)) or code


def _plugin_rows(tiers: Tiers) -> tuple[list[PluginRow], BridleError | None]:
    """Those that are listed, then those that are installed and are not. Of the second nothing is imported."""
    offered = offered_plugins()
    listed = cast("tuple[str, ...]", tiers.get("plugins.enabled") or ())
    loaded: tuple[LoadedPlugin, ...] = ()
    failure = None
    try:
        loaded = load_plugins(tiers)
    except BridleError as problem:
        failure = problem
    rows = [
        PluginRow(
            name=one.name,
            kind="plugin",
            state="used",
            version=one.version,
            origin=offered.get(one.name, ""),
            why=one.where,
            adds=tuple(_plugin_things(one)),
        )
        for one in loaded
    ]
    used = {row.name for row in rows}
    for name in dict.fromkeys((*listed, *sorted(offered))):
        if name not in used:
            state = "not used" if name in listed else "not listed"
            why = (
                "one of those listed cannot be used" if name in listed else "plugins.enabled does not name it"
            )
            rows.append(
                PluginRow(name=name, kind="plugin", state=state, origin=offered.get(name, ""), why=why)
            )
    return rows, failure


def _plugin_things(plugin: LoadedPlugin) -> Iterator[AddedThing]:
    """Everything a plugin put into its lists, by the names it is known by."""
    feature = plugin.feature
    for tool in feature.tools:
        yield AddedThing("tool", tool.name, f"risk {tool.risk}")
    for source in feature.sources:
        yield AddedThing("tool source", source.name)
    for layer in feature.request_layers:
        yield AddedThing("layer", f"around requests, in {layer.slot}")
    for layer in feature.tool_layers:
        yield AddedThing("layer", f"around calls, in {layer.slot}")
    for command in feature.slash:
        yield AddedThing("slash command", f"/{command.name}", command.does)
    for query in feature.queries:
        yield AddedThing("query", f"{feature.name}.{query.verb}")
    for command in feature.commands:
        yield AddedThing("command", f"{feature.name}.{command.verb}")
    for service in feature.services:
        yield AddedThing("service", type(service).__name__)
    for listener in feature.listeners:
        yield AddedThing("listener", ", ".join(sorted(listener.kinds)))
    for rule in plugin.rules:
        about = ", ".join(filter(None, (rule.path, rule.command, rule.reason)))
        yield AddedThing("rule", f"{rule.verdict} {rule.tool}", about)
    for hook in plugin.hooks:
        yield AddedThing("hook", str(hook.get("event")), _words(hook.get("command")))
    for name, given in plugin.providers.items():
        yield AddedThing("provider", name, str(given.get("base_url", "")))
    for agent in plugin.agents:
        yield AddedThing("agent", agent.name, agent.description)
    if plugin.transport is not None:
        yield AddedThing("transport", f"/v1/plugins/{plugin.name}")
    for key in plugin.settings:
        yield AddedThing("setting", key)


def _bundle_row(bundle: InstalledBundle) -> PluginRow:
    record = bundle.record
    at = f"{record.source} at {record.commit[:12]}" if record.commit else record.source
    return PluginRow(
        name=record.name,
        kind="bundle",
        state="used" if bundle.counts else "not used",
        version=record.version,
        origin=at,
        why=bundle.problem or f"you agreed to sha256 {record.digest[:16]}",
        adds=tuple(bundle_things(bundle.contents)) if bundle.contents is not None and bundle.counts else (),
    )


def bundle_things(contents: BundleContents) -> Iterator[AddedThing]:
    """Everything a bundle would add, by the names it is known by."""
    for hook in contents.hooks:
        where = f"{hook.get('event')} {hook.get('tool', '')}".strip()
        about = _words(hook.get("command")) + _more(hook, ("event", "tool", "command"))
        yield AddedThing("hook", where, about)
    for name, server in contents.servers.items():
        words = (_words(server.get("command") or server.get("url")), *(server.get("args") or ()))
        given = cast("dict[str, object]", server.get("env") or {})
        variables = ", ".join(f"{key}={value}" for key, value in given.items())
        about = " ".join(map(str, words)) + (f" (variables {variables})" if variables else "")
        told = ("command" if server.get("command") else "url", "args", "env")
        yield AddedThing("MCP server", f"{contents.name}_{name}", about + _more(server, told))
    for folder in contents.skills:
        yield AddedThing("skills", folder, f"as /skills:{contents.name}:NAME")
    for folder in contents.commands:
        yield AddedThing("commands", folder, f"as /{contents.name}:NAME")
    for path in contents.agents:
        stem = path.rpartition("/")[2].removesuffix(".md")
        yield AddedThing("agent", path, f"as {contents.name}__{stem}")
    for words in contents.unused:
        yield AddedThing("not used", words)


def _more(table: Mapping[str, object], told: tuple[str, ...]) -> str:
    """What else stands there, so that a person has seen all of it."""
    rest = ", ".join(f"{key} = {written(value)}" for key, value in table.items() if key not in told)
    return f" ({rest})" if rest else ""


def _words(command: object) -> str:
    if isinstance(command, list | tuple):
        return " ".join(map(str, cast("list[object]", command)))
    return str(command)


def _lines(row: PluginRow, *, why: bool) -> Iterator[str]:
    head = f"{row.name} {row.version}".strip()
    counts = _counts(row.adds) or ("nothing" if row.state == "used" else row.why)
    yield visible_line(f"{head}  {row.kind}, {row.state}: {counts}")
    if why:
        yield visible_line(f"  from     {row.origin or 'not installed'}")
        yield visible_line(f"  because  {row.why}")
        for thing in row.adds:
            yield visible_line(f"  {thing.kind:<13}  {thing.name}  {thing.about}").rstrip()


def _counts(adds: tuple[AddedThing, ...]) -> str:
    kinds: dict[str, int] = {}
    for thing in adds:
        kinds[thing.kind] = kinds.get(thing.kind, 0) + 1
    named = {"skills": "folder of skills", "commands": "folder of commands", "query": "query verb"}
    return ", ".join(
        counted(number, named.get(kind, kind)) for kind, number in kinds.items() if kind != "not used"
    )


def _bundles(where: Folders) -> list[InstalledBundle]:
    try:
        return installed_bundles(where.data)
    except (OSError, msgspec.DecodeError) as problem:
        raise _unreadable(problem) from None


def _records(where: Folders) -> tuple[BundleRecord, ...]:
    try:
        return read_records(where.data)
    except (OSError, msgspec.DecodeError) as problem:
        raise _unreadable(problem) from None


def _unreadable(problem: Exception) -> BridleError:
    words = problem.strerror if isinstance(problem, OSError) else str(problem)
    return BridleError("FileUnreadable", path="bundles.json", problem=words)


def _verify(where: Folders, *, as_json: bool) -> int:
    found = _bundles(where)
    drifted = [bundle for bundle in found if not bundle.counts]
    if as_json:
        rows = [{"name": one.record.name, "ok": one.counts, "problem": one.problem} for one in found]
        return say_json(rows) or (EXIT_DRIFT if drifted else 0)
    lines = [f"{one.record.name}: {one.problem}. It counts for nothing." for one in drifted]
    end = "" if drifted else f"{counted(len(found), 'bundle')}, as you agreed to them.\n"
    return say("".join(f"{visible_line(line)}\n" for line in lines) + end) or (EXIT_DRIFT if drifted else 0)


# Bringing


def _add(parsed: Args, where: Folders, env: Env) -> int:
    try:
        origin = bundle_origin(parsed.source, parsed.ref or "", cwd=os.getcwd())
    except BadBundle as bad:
        raise _refused(parsed.source, bad) from None
    return _bring(origin, parsed.digest, where, env, update_of=None)


def _update(parsed: Args, where: Folders, env: Env) -> int:
    record = _named(parsed.name, where)
    try:
        origin = bundle_origin(record.source, record.ref, cwd="/")
    except BadBundle as bad:
        raise _refused(record.source, bad) from None
    return _bring(origin, parsed.digest, where, env, update_of=record)


def _bring(
    origin: BundleOrigin,
    digest: str | None,
    where: Folders,
    env: Env,
    *,
    update_of: BundleRecord | None,
) -> int:
    """Fetches it, shows everything it would add, and keeps it where a person agrees to that, or named its digest."""
    try:
        with incoming_folder(where.data) as incoming:
            found = asyncio.run(_brought(origin, incoming, env))
            contents = found.contents
            _refuse_conflicts(contents, where, update_of)
            if update_of is not None and contents.digest == update_of.digest:
                return say(f"{contents.name} is as you agreed to it; nothing changed.\n")
            if digest is not None and digest.removeprefix("sha256:") != contents.digest:
                raise CommandRefused(
                    "BundleDiffers", name=contents.name, expected=digest, found=contents.digest
                )
            if digest is None and not _agreed(contents, origin.source, found.commit, update_of):
                return say("Nothing was added.\n") or EXIT_DRIFT
            keep(found, where.data, SystemClock().now_ms())
    except BadBundle as bad:
        raise _refused(origin.source, bad) from None
    except OSError as problem:
        raise BridleError("FileUnwritable", path=where.data, problem=problem.strerror) from None
    done = "updated" if update_of is not None else "added"
    return say(f"Bundle {contents.name} is {done}. What it adds: bridle plugins list --why\n")


async def _brought(origin: BundleOrigin, incoming: str, env: Env) -> IncomingBundle:
    processes = Processes()

    async def run_git(call: GitCall, *, cwd: str, stdin: bytes | None, max_bytes: int) -> CompletedProgram:
        try:
            return await processes.run(
                call.argv,
                cwd=cwd,
                env=git_environment(env, call),
                stdin=stdin,
                timeout_s=FETCH_S,
                max_output_bytes=max_bytes,
            )
        except CannotStart as problem:
            raise BadBundle(f"git cannot be started ({problem.reason})") from None

    try:
        return await bring(origin, incoming, run_git)
    finally:
        await processes.close()


def _agreed(contents: BundleContents, source: str, commit: str, before: BundleRecord | None) -> bool:
    """A person's yes, after everything was shown. Nobody else can give it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        say_lines((f"Bundle {contents.name} would add:", *screen_lines(contents, source, commit)))
        raise CommandRefused("BundleNeedsPerson", name=contents.name, digest=contents.digest)
    change = "has changed since you agreed to it" if before is not None else "is new to you"
    title = f"Bundle {contents.name} {contents.version}".rstrip() + f" {change}. It would add:"
    try:
        return review_lines(title, list(screen_lines(contents, source, commit)), (), typed_line)
    except EOFError:
        say("\n")
        return False


def screen_lines(contents: BundleContents, source: str, commit: str) -> Iterator[str]:
    """Everything a bundle would add and where it comes from, for the person who says yes or no."""
    at = f" at {commit}" if commit else ""
    yield visible_line(f"    from        {source}{at}")
    if contents.about:
        yield visible_line(f"    about       {contents.about}")
    yield f"    content     {counted(contents.files, 'file')}, sha256 {contents.digest}"
    for thing in bundle_things(contents):
        yield visible_line(f"    {thing.kind:<10}  {thing.name}  {thing.about}").rstrip()
    for path in contents.executables:
        yield visible_line(f"    program     {path}")
    if contents.hooks or contents.servers:
        yield "    Hooks and servers run by themselves, with the rights of the session's commands."


def _refuse_conflicts(contents: BundleContents, where: Folders, update_of: BundleRecord | None) -> None:
    """A namespace has one owner."""
    name = contents.name
    if update_of is not None and name != update_of.name:
        raise BadBundle(f'it calls itself "{name}" now, and was "{update_of.name}"')
    if name.replace("-", "_") in RESERVED:
        raise BadBundle(f'the namespace "{name}" is Bridle\'s own')
    if name in offered_plugins():
        raise BadBundle(f'an installed plugin is called "{name}" too, and a namespace has one owner')
    if update_of is None:
        for record in _records(where):
            if record.name == name:
                again = f"bridle plugins update {name}"
                raise BadBundle(
                    f'there is a bundle "{name}" already, from {shown(record.source)}; see: {again}'
                )
    if problem := wrong_settings(TABLE, contents):
        raise BadBundle(problem)
    for hook in contents.hooks:
        try:
            hook_from(hook, scope="user")
        except BadHook as bad:
            raise BadBundle(f"one of its hooks means nothing: {bad.problem}") from None


def _remove(name: str, where: Folders) -> int:
    record = _named(name, where)
    try:
        take_out(record.name, where.data)
    except OSError as problem:
        raise BridleError("FileUnwritable", path=where.data, problem=problem.strerror) from None
    return say(f"Bundle {record.name} is gone, with everything it added.\n")


def _named(name: str, where: Folders) -> BundleRecord:
    found = {record.name: record for record in _records(where)}
    if name not in found:
        hint = meant_words(name, found)
        raise UsageError(f'There is no bundle "{shown(name)}" here.{hint} See: bridle plugins list')
    return found[name]


def _refused(source: str, bad: BadBundle) -> BridleError:
    return BridleError("BadBundle", source=shown(source), problem=str(bad))
