"""What a bundle holds: a folder of skills, slash commands, hooks, servers and agents, read and never run.

Two forms are understood: `bridle-bundle.toml`, and `.claude-plugin/plugin.json` as far as it is documented. Everything
in it is a plain file below its folder; a link, a device or a folder too large is no bundle. No code of one is imported:
what it starts are programs, as hooks and servers, which a person sees before they agree.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, cast

import msgspec

from bridle.base.fs.files import PathChanged, open_beneath, read_limited
from bridle.config.problems import shown
from bridle.config.setting_table import Table
from bridle.config.settings_file import SettingsFile, read

MANIFEST: Final = "bridle-bundle.toml"
CLAUDE_MANIFEST: Final = ".claude-plugin/plugin.json"
SCHEMA_VERSION: Final = 1
MAX_FILES: Final = 2_000
MAX_FILE_BYTES: Final = 4 * 1024 * 1024
MAX_BYTES: Final = 32 * 1024 * 1024
ROOT_NAMES: Final = ("${BUNDLE}", "${CLAUDE_PLUGIN_ROOT}")
"""What a command of a bundle calls its folder."""
_NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
_MAX_NAME: Final = 32
_WORD = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLAIN_PATH = re.compile(r"[\w./@+-]+")
_NATIVE_KEYS: Final = frozenset({"schema_version", "name", "version", "about", "hooks", "mcp_servers"})
_SERVER_KEYS: Final = frozenset(
    {"command", "args", "env", "cwd", "url", "headers", "transport", "sha256", "discovery", "lazy_above", "connect_s",
     "call_s", "idle_s", "enabled_tools", "disabled_tools", "sandbox", "network", "disabled"}
)  # fmt: skip
"""What a bundle says of a server. Whom to believe, what answers of your model it may have and as whom it signs in is
for the person's own settings to say."""
_LOOSE: Final = {"sandbox": ("read-only", "workspace-write"), "network": ("deny",)}
"""Of these settings, the values that give a server no more than commands have."""
_CLAUDE_EVENTS: Final[Mapping[str, str]] = {"PreCompact": "Compact"}
_CLAUDE_UNUSED_EVENTS: Final = frozenset(
    {"Notification", "SubagentStop", "SubagentStart", "PermissionRequest"}
)
_CLAUDE_KEYS: Final = frozenset(
    {"name", "version", "description", "author", "homepage", "repository", "license", "keywords", "commands", "agents",
     "skills", "hooks", "mcpServers"}
)  # fmt: skip


class BadBundle(Exception):
    """This folder is no bundle; the words are a clause that says why."""


class BundleFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a bundle, by its path below the folder."""

    path: str
    data: bytes
    executable: bool


class BundleContents(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle would add. `hooks` and `servers` are as settings have them, with the folder still by its name.

    `skills` and `commands` are folders, below the bundle's own; `unused` says what of it counts for nothing here.
    """

    name: str
    version: str = ""
    about: str = ""
    form: Literal["bridle", "claude"] = "bridle"
    skills: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    hooks: tuple[Table, ...] = ()
    servers: dict[str, Table] = {}
    unused: tuple[str, ...] = ()
    executables: tuple[str, ...] = ()
    files: int = 0
    digest: str = ""

    def settings(self, folder: str) -> Table:
        """What it sets where it lies in `folder`: servers under its own name, hooks that start what lies there."""
        servers = {f"{self.name}_{name}": _placed(server, folder) for name, server in self.servers.items()}
        hooks = [_placed(hook, folder) for hook in self.hooks]
        return {**({"mcp_servers": servers} if servers else {}), **({"hooks": hooks} if hooks else {})}


def read_bundle(folder: str) -> BundleContents:
    """What lies in a folder as a bundle. Raises `BadBundle`."""
    folder = os.path.realpath(folder)
    files = list(bundle_files(folder))
    paths = {file.path for file in files}
    if MANIFEST in paths:
        found = _native(folder, paths)
    elif CLAUDE_MANIFEST in paths:
        found = _claude(folder, paths)
    else:
        raise BadBundle(f"there is neither {MANIFEST} nor {CLAUDE_MANIFEST} in it")
    servers, loose = _held(found.servers)
    return msgspec.structs.replace(
        found,
        servers=servers,
        unused=(*found.unused, *loose),
        files=len(files),
        digest=tree_digest(files),
        executables=tuple(file.path for file in files if file.executable),
    )


def bundle_files(folder: str) -> Iterator[BundleFile]:
    """Every file of a bundle in the order of its path, without what git keeps beside them. Raises `BadBundle`."""
    size = 0
    for count, path in enumerate(sorted(_paths(folder, "")), 1):
        try:
            fd = open_beneath(os.path.join(folder, path), os.O_RDONLY | os.O_NONBLOCK)
        except (PathChanged, OSError):
            raise BadBundle(f"{shown(path)} is no plain file that can be read") from None
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise BadBundle(f"{shown(path)} is no plain file that can be read")
            contents = read_limited(fd, MAX_FILE_BYTES)
        finally:
            os.close(fd)
        size += len(contents.data)
        if contents.truncated or size > MAX_BYTES or count > MAX_FILES:
            most = f"{MAX_FILES:,} files, {MAX_FILE_BYTES >> 20} MiB each, {MAX_BYTES >> 20} MiB in all"
            raise BadBundle(f"it is too large at {shown(path)} (at most {most})")
        yield BundleFile(path=path, data=contents.data, executable=bool(status.st_mode & 0o111))


def _paths(folder: str, below: str, depth: int = 0) -> Iterator[str]:
    if depth > 16:
        raise BadBundle(f"its folders are nested too deeply at {shown(below)}")
    try:
        with os.scandir(os.path.join(folder, below)) as entries:
            found = list(entries)
    except OSError as problem:
        raise BadBundle(f"{shown(below) or 'it'} cannot be read ({problem.strerror})") from None
    for entry in found:
        path = os.path.join(below, entry.name)
        if entry.is_symlink():
            raise BadBundle(f"{shown(path)} is a link, and a bundle has none")
        if entry.name == ".git" and not below:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _paths(folder, path, depth + 1)
        else:
            yield path


def tree_digest(files: list[BundleFile]) -> str:
    """What stands for all of a bundle: every path, whether it can be started, and its content."""
    digest = hashlib.sha256()
    for file in files:
        path = os.fsencode(file.path)
        digest.update(len(path).to_bytes(8, "big") + path + bytes([file.executable]))
        digest.update(hashlib.sha256(file.data).digest())
    return digest.hexdigest()


# Our own form


def _native(folder: str, paths: set[str]) -> BundleContents:
    values = _table(folder, MANIFEST)
    version = values.get("schema_version", SCHEMA_VERSION)
    if type(version) is not int or not 0 < version <= SCHEMA_VERSION:
        clause = (
            f"schema_version = {shown(str(version))} is not one this Bridle knows (up to {SCHEMA_VERSION})"
        )
        raise BadBundle(f"{MANIFEST}: {clause}")
    return BundleContents(
        name=_checked_name(values.get("name"), MANIFEST),
        version=_text(values.get("version")),
        about=_text(values.get("about")),
        skills=_folders_with(paths, "skills"),
        commands=_folders_with(paths, "commands"),
        agents=_below(paths, "agents"),
        hooks=tuple(_own_hook(hook) for hook in _tables(values.get("hooks"), f"{MANIFEST}: hooks")),
        servers=_servers(values.get("mcp_servers", {}), MANIFEST),
        unused=tuple(f"{MANIFEST}: {shown(key)}" for key in values if key not in _NATIVE_KEYS),
    )


def _own_hook(hook: Table) -> Table:
    if "script" in hook:
        raise BadBundle("a hook of a bundle is a program (command), never Python of ours (script)")
    return hook


# The form of Claude plugins


def _claude(folder: str, paths: set[str]) -> BundleContents:
    values = _table(folder, CLAUDE_MANIFEST)
    unused = [f"{CLAUDE_MANIFEST}: {shown(key)}" for key in values if key not in _CLAUDE_KEYS]
    hooks = list(_claude_hooks(_part(folder, paths, values.get("hooks"), "hooks/hooks.json"), unused))
    servers = _part(folder, paths, values.get("mcpServers"), ".mcp.json")
    return BundleContents(
        name=_checked_name(values.get("name"), CLAUDE_MANIFEST),
        version=_text(values.get("version")),
        about=_text(values.get("description")),
        form="claude",
        skills=(*_folders_with(paths, "skills"), *_named_folders(values.get("skills"), paths)),
        commands=(*_folders_with(paths, "commands"), *_named_folders(values.get("commands"), paths)),
        agents=_below(paths, "agents"),
        hooks=tuple(hooks),
        servers={
            name: dict(_claude_server(server))
            for name, server in _servers(servers.get("mcpServers", servers), ".mcp.json").items()
        },
        unused=tuple(unused),
    )


def _part(folder: str, paths: set[str], given: object, default: str) -> Table:
    """What stands in the manifest itself, in the file it names, or where it is looked for."""
    if isinstance(given, dict):
        return cast("Table", given)
    path = os.path.normpath(given) if isinstance(given, str) else default
    if path in paths:
        return _table(folder, path)
    if isinstance(given, str):
        raise BadBundle(f"{CLAUDE_MANIFEST} names {shown(given)}, which is not there")
    return {}


def _claude_hooks(values: Table, unused: list[str]) -> Iterator[Table]:
    """`{"PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": …}]}]}` as our settings."""
    events = values.get("hooks", values)
    for event, groups in (cast("Table", events) if isinstance(events, dict) else {}).items():
        if event == "description":
            continue
        if event in _CLAUDE_UNUSED_EVENTS:
            unused.append(f"hooks at {shown(event)}")
            continue
        for group in _tables(groups, f"hooks.json: {shown(event)}"):
            matcher = group.get("matcher")
            for hook in _tables(group.get("hooks"), f"hooks.json: {shown(event)}"):
                if hook.get("type", "command") != "command" or not isinstance(hook.get("command"), str):
                    unused.append(f"a hook of type {shown(str(hook.get('type')))} at {shown(event)}")
                    continue
                timeout_s = hook.get("timeout")
                yield {
                    "event": _CLAUDE_EVENTS.get(event, event),
                    **({"tool": matcher} if isinstance(matcher, str) and matcher not in ("", "*") else {}),
                    "command": hook["command"],
                    **(
                        {"timeout_ms": int(timeout_s * 1000)}
                        if isinstance(timeout_s, int | float) and timeout_s > 0
                        else {}
                    ),
                }


def _claude_server(server: Table) -> Iterator[tuple[str, Any]]:
    for key, value in server.items():
        yield ("transport", value) if key == "type" else (key, value)


# Parts of both


def _table(folder: str, path: str) -> Table:
    parsed = read(SettingsFile(path=os.path.join(folder, path), source=path, foreign=True))
    if parsed.problems:
        raise BadBundle(parsed.problems[0].text.removesuffix("."))
    return parsed.values


def _checked_name(name: object, where: str) -> str:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None or len(name) > _MAX_NAME:
        rule = f"small letters, digits, single - or _; {_MAX_NAME} at most"
        raise BadBundle(f"{where}: name is no name for a bundle ({rule})")
    return name


def _text(value: object) -> str:
    return " ".join(value.split())[:300] if isinstance(value, str) else ""


def _tables(value: object, where: str) -> list[Table]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in cast("list[object]", value)):
        raise BadBundle(f"{where} is no list of tables")
    return cast("list[Table]", value)


def _servers(value: object, where: str) -> dict[str, Table]:
    if not isinstance(value, dict):
        raise BadBundle(f"{where}: its servers are no table")
    servers = cast("Table", value)
    for name, server in servers.items():
        if _WORD.fullmatch(name) is None or not isinstance(server, dict):
            raise BadBundle(f'{where}: "{shown(name)}" is no server')
    return cast("dict[str, Table]", servers)


def _held(servers: Mapping[str, Table]) -> tuple[dict[str, Table], list[str]]:
    """The servers with what a bundle may say of them, and the names of the rest."""
    held = {
        name: {
            key: value
            for key, value in server.items()
            if key in _SERVER_KEYS and value in _LOOSE.get(key, (value,))
        }
        for name, server in servers.items()
    }
    return held, [
        f"{shown(key)} of server {name}, which only your own settings may say"
        for name, server in servers.items()
        for key in server
        if key not in held[name]
    ]


def _folders_with(paths: set[str], name: str) -> tuple[str, ...]:
    return (name,) if any(path.startswith(f"{name}/") for path in paths) else ()


def _named_folders(value: object, paths: set[str]) -> Iterator[str]:
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    for one in listed:
        path = os.path.normpath(one) if isinstance(one, str) else ""
        if path and _folders_with(paths, path) and path not in ("skills", "commands"):
            yield path


def _below(paths: set[str], name: str) -> tuple[str, ...]:
    return tuple(sorted(path for path in paths if path.startswith(f"{name}/") and path.endswith(".md")))


def _placed(value: Any, folder: str) -> Any:
    """The value, with the folder in the place of its name."""
    if isinstance(value, str):
        for name in ROOT_NAMES:
            value = value.replace(name, folder)
        return value
    if isinstance(value, dict):
        return {key: _placed(one, folder) for key, one in cast("Table", value).items()}
    if isinstance(value, list):
        return [_placed(one, folder) for one in cast("list[Any]", value)]
    return value


def is_plain_folder(folder: str) -> bool:
    """Whether a folder can stand in a command as it is written, without quotes."""
    return _PLAIN_PATH.fullmatch(folder) is not None
