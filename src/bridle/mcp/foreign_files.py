"""The MCP servers that files of other tools name, in our words: Claude, Cursor, VS Code and Codex. Pure.

What a file says is data: nothing of it is started or filled in. Their references become ours, `${NAME}`; what has no
word here is named, field by field.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from bridle.mcp.server_definitions import BadServer, decode_server
from bridle.mcp.value_references import BadReference, reference_names

ForeignKind: TypeAlias = Literal["Claude", "Cursor", "VS Code", "Codex"]
ForeignTable: TypeAlias = dict[str, Any]

MOST_BYTES: Final = 8 << 20
"""A file of another tool is read up to this size; that of Claude Code has its whole history in it."""
_STRING = r'"(?:\\.|[^"\\])*"'
_REMARK = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_BARRED = re.compile(r"[\s:/\\@\x00-\x1f\x7f]+")
_NO_NAME = re.compile(r"[^A-Za-z0-9_]+")
_VARIABLE = re.compile(r"[^=\x00-\x1f\x7f]+")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_TRANSPORTS: Final = {
    "stdio": "", "local": "", "http": "", "streamable-http": "", "streamableHttp": "", "sse": "sse",
}  # fmt: skip
_WHY: Final[Mapping[str, str]] = {
    "envFile": "the variables in it are not read; write those the server needs into env",
    "alwaysAllow": "who may call what is said by permissions here",
    "autoApprove": "who may call what is said by permissions here",
    "trust": "who may call what is said by permissions here",
    "default_tools_approval_mode": "who may call what is said by permissions here",
    "oauth": "sign in here: bridle mcp login",
    "auth": "sign in here: bridle mcp login",
    "headersHelper": "no program is run for headers here",
}


class BadForeignFile(ValueError):
    """A file that names no servers in a form that is known. The text is a clause."""


class ForeignServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server of such a file. `table` is what our settings would say; `left_out` are fields that they cannot, each
    with why. `refused` says why it cannot be used at all."""

    name: str
    table: ForeignTable = {}
    left_out: tuple[str, ...] = ()
    refused: str = ""


class ForeignFile(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    kind: ForeignKind
    servers: tuple[ForeignServer, ...]


def read_foreign(path: str, data: bytes, *, folder: str, home: str) -> ForeignFile:
    """What a file says. `folder` is the project that is asked for, `home` the person's. Raises `BadForeignFile`."""
    document = _document(path, data)
    kind, entries = _entries(path, document, folder)
    servers = (_Reader(kind, home).server(name, entry) for name, entry in entries.items())
    return ForeignFile(path=path, kind=kind, servers=tuple(servers))


def usual_places(folder: str, home: str, config_home: str) -> tuple[str, ...]:
    """Where these tools keep such files, those of the project first."""
    return (
        os.path.join(folder, ".mcp.json"),
        os.path.join(folder, ".cursor", "mcp.json"),
        os.path.join(folder, ".vscode", "mcp.json"),
        os.path.join(home, ".claude.json"),
        os.path.join(config_home, "Claude", "claude_desktop_config.json"),
        os.path.join(home, "Library", "Application Support", "Claude", "claude_desktop_config.json"),
        os.path.join(home, ".cursor", "mcp.json"),
        os.path.join(config_home, "Code", "User", "mcp.json"),
        os.path.join(home, "Library", "Application Support", "Code", "User", "mcp.json"),
        os.path.join(home, ".codex", "config.toml"),
    )


def _document(path: str, data: bytes) -> ForeignTable:
    try:
        text = data.decode("utf-8-sig")
        found: Any = tomllib.loads(text) if path.endswith(".toml") else _json(text)
    except (UnicodeDecodeError, ValueError, RecursionError):
        form = "TOML" if path.endswith(".toml") else "JSON"
        raise BadForeignFile(f"it cannot be read as {form}") from None
    if not isinstance(found, dict):
        raise BadForeignFile("it names no MCP servers")
    return cast("ForeignTable", found)


def _json(text: str) -> Any:
    """JSON, also with the remarks and last commas that editors allow."""
    try:
        return json.loads(text)
    except ValueError:
        bare = _REMARK.sub(lambda found: found[1] or " ", text)
        return json.loads(_LAST_COMMA.sub(lambda found: found[1] or "", bare))


def _entries(path: str, document: ForeignTable, folder: str) -> tuple[ForeignKind, ForeignTable]:
    if path.endswith(".toml"):
        return "Codex", _table(document, "mcp_servers")
    if "servers" in document or "mcp" in document:
        return "VS Code", _table(document if "servers" in document else _table(document, "mcp"), "servers")
    if (
        "projects" in document
    ):  # all of Claude Code, where each folder has its own beside those for everywhere
        own = _if_table(_if_table(document["projects"]).get(folder))
        return "Claude", {**_if_table(document.get("mcpServers")), **_if_table(own.get("mcpServers"))}
    kind: ForeignKind = "Cursor" if os.path.basename(os.path.dirname(path)) == ".cursor" else "Claude"
    return kind, _table(document, "mcpServers")


def _if_table(value: object) -> ForeignTable:
    return cast("ForeignTable", value) if isinstance(value, dict) else {}


def _table(document: ForeignTable, key: str) -> ForeignTable:
    if not isinstance(document.get(key), dict):
        raise BadForeignFile("it names no MCP servers")
    return cast("ForeignTable", document[key])


class _Unusable(ValueError):
    """Why a server cannot be taken over."""


class _Reader:
    """Reads the entries of one file."""

    def __init__(self, kind: ForeignKind, home: str) -> None:
        self._kind = kind
        self._home = home

    def server(self, foreign_name: str, entry: object) -> ForeignServer:
        seen = "".join(one if one.isprintable() else "-" for one in foreign_name)
        name = _BARRED.sub("-", seen).strip("-")[:64]
        if not isinstance(entry, dict):
            return ForeignServer(name=name or "?", refused="it is no table")
        left_out = [] if name == foreign_name else [f"name: it is called {name} here"]
        try:
            table = self._taken(cast("ForeignTable", entry), left_out)
            definition = decode_server(name, table, part="x")
            reference_names(definition)
        except (_Unusable, BadServer, BadReference) as why:
            return ForeignServer(name=name or "?", left_out=tuple(left_out), refused=str(why))
        return ForeignServer(name=name, table=table, left_out=tuple(left_out))

    def _taken(self, entry: ForeignTable, left_out: list[str]) -> ForeignTable:
        table: ForeignTable = {}
        for field, value in entry.items():
            if value is None:
                continue
            try:
                taken = self._settings(field, value)
            except TypeError:
                left_out.append(f"{field}: its value is not understood")
                continue
            if taken is None:
                left_out.append(f"{field}: {_WHY.get(field, 'there is nothing like it here')}")
                continue
            for key, setting in taken.items():
                table[key] = {**table.get(key, {}), **setting} if isinstance(setting, dict) else setting
        if "cwd" in table and "${workspaceFolder}" in str((entry.get("command"), entry.get("args"))):
            raise _Unusable("it names the folder of the project and starts in another one")
        return table

    def _settings(self, field: str, value: Any) -> ForeignTable | None:
        """What a field says in our settings; None where they have no word for it. Raises `TypeError`, `_Unusable`."""
        match field:
            case "command":
                return {"command": self._command(value)}
            case "args":
                return {"args": [self._value(word) for word in _texts(value)]}
            case "env":
                return {"env": self._values(value, _VARIABLE)}
            case "headers":
                return {"headers": self._values(value, _HEADER)}
            case "url":
                return {"url": self._value(_text(value))}
            case "type" | "transport":
                return _transport(value)
            case "cwd":
                return self._folder(_text(value))
            case "disabled":
                return {"disabled": True} if value is True else {}
            case "timeout" if self._kind == "Claude":
                return {"call_s": _number(value) / 1000}
            case _:
                return self._of_codex(field, value) if self._kind == "Codex" else None

    def _of_codex(self, field: str, value: Any) -> ForeignTable | None:
        match field:
            case "enabled":
                return {"disabled": True} if value is False else {}
            case "http_headers":
                return {"headers": self._values(value, _HEADER)}
            case "env_http_headers":
                return {"headers": {name: f"${{{_name(one)}}}" for name, one in _pairs(value)}}
            case "bearer_token_env_var":
                return {"headers": {"Authorization": f"Bearer ${{{_name(value)}}}"}}
            case "env_vars":
                return {"env": {_name(one): f"${{{_name(one)}:-}}" for one in _texts(value)}}
            case "startup_timeout_sec":
                return {"connect_s": _number(value)}
            case "startup_timeout_ms":
                return {"connect_s": _number(value) / 1000}
            case "tool_timeout_sec":
                return {"call_s": _number(value)}
            case "enabled_tools" | "disabled_tools":
                return {field: _texts(value)}
            case _:
                return None

    def _command(self, value: Any) -> list[str]:
        program, *words = [value] if isinstance(value, str) else _texts(value) or [""]
        if self._kind != "Codex":
            for home in ("${userHome}", "${env:HOME}", "${HOME}"):
                program = program.replace(home, self._home)
            program = program.replace("${workspaceFolder}", ".")
            if "${" in program:
                raise _Unusable("its program is named by a reference: write where it is")
        return [program, *(self._value(word) for word in words)] if program else []

    def _folder(self, folder: str) -> ForeignTable:
        if folder in ("${workspaceFolder}", ".", ""):
            return {}
        folder = folder.replace("${userHome}", self._home).removeprefix("${workspaceFolder}/")
        if "${" in folder:
            raise _Unusable("the folder it starts in is named by a reference: write where it is")
        return {"cwd": folder}

    def _values(self, value: Any, names: re.Pattern[str]) -> dict[str, str]:
        given = {name: self._value(_text(one)) for name, one in _pairs(value) if one is not None}
        if any(names.fullmatch(name) is None for name in given):
            raise _Unusable("a name among its env or headers can be none")
        return given

    def _value(self, text: str) -> str:
        """The same with our references."""
        if self._kind == "Codex":  # it has none
            return text.replace("${", "$${")
        return _REFERENCE.sub(lambda found: self._reference(found[1]), text)

    def _reference(self, words: str) -> str:
        kind, colon, name = words.partition(":")
        if colon and kind == "env":
            return f"${{{_name(name)}}}"
        if colon and kind == "input":
            return f"${{{input_name(name)}}}"
        if words == "userHome":
            return "${HOME}"
        if words == "workspaceFolder":
            return "."
        if words in ("/", "pathSeparator"):
            return "/"
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(?::-.*)?", words, re.DOTALL):
            return f"${{{words}}}"
        raise _Unusable(f"${{{words[:40]}}} cannot be filled here: write its value")


def input_name(identifier: str) -> str:
    """The name under which an input of VS Code is asked for here."""
    name = _NO_NAME.sub("_", identifier).strip("_").upper()
    return name if name and not name[0].isdigit() else f"INPUT_{name}"


def _transport(value: Any) -> ForeignTable:
    if not isinstance(value, str) or value not in _TRANSPORTS:
        raise _Unusable(f'it speaks "{str(value)[:40]}", which is not spoken here')
    return {"transport": _TRANSPORTS[value]} if _TRANSPORTS[value] else {}


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise TypeError
    yield from cast("ForeignTable", value).items()


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise TypeError
    return str(value)


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return [_text(one) for one in cast("list[Any]", value)]


def _name(value: Any) -> str:
    if not isinstance(value, str) or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value) is None:
        raise _Unusable("it names a variable that can be none")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise TypeError
    return value
