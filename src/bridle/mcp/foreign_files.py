"""The MCP servers that files of other tools name, in our words: Claude, Cursor, VS Code and Codex. Pure.

What a file says is data: nothing of it is started or filled in. Their references become ours, `${NAME}`; what has no
word here is named, field by field.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

import msgspec

from bridle.base.secrets.redact import redact
from bridle.mcp.server_definitions import BadReference, BadServer, decode_server, reference_names

_SECRET_NAME = re.compile(
    r"(?i)(?:^|.*[_-])(?:(?:api|access|private|secret|auth)?[_-]?key|apikey|token|secret|password|passwd|pwd|"
    r"credentials?|authorization|auth|cookie|pat)"
)
_VALUE_REFERENCE = re.compile(r"\$\{[A-Za-z_][^}]*\}")
_SCHEME = re.compile(r"(?i)\s*(?:bearer|basic|token)?\s*")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_]+")


class SecretInTheWay(ValueError):
    """A secret that cannot be told apart from what surrounds it. The text is a clause."""


class WithoutSecrets(NamedTuple):
    """A table of settings, and what stood in it, by the names that stand there now."""

    table: dict[str, Any]
    secrets: Mapping[str, str]


def without_secrets(server: str, table: Mapping[str, Any], is_taken: Callable[[str], bool]) -> WithoutSecrets:
    """The settings of a server without secrets. `is_taken`: that name means something already.

    Raises `SecretInTheWay`.
    """
    taking = _Taking(server, is_taken)
    clean = dict(table)
    for key in ("env", "headers"):
        if key in table:
            clean[key] = {name: taking.named(name, value) for name, value in table[key].items()}
    for key in ("command", "args"):
        if isinstance(table.get(key), list):
            clean[key] = taking.words(table[key])
    if "url" in table:
        clean["url"] = taking.address(table["url"])
    return WithoutSecrets(clean, taking.secrets)


class _Taking:
    def __init__(self, server: str, is_taken: Callable[[str], bool]) -> None:
        self.secrets: dict[str, str] = {}
        self._server = server
        self._is_taken = is_taken

    def named(self, name: str, value: str) -> str:
        """The value of a variable or a header."""
        literal = _VALUE_REFERENCE.sub("", value)
        if _SCHEME.fullmatch(literal) or not _is_secret(name, literal):
            return value
        if literal != value:
            raise SecretInTheWay(f"{name} mixes a secret with a reference: store it whole")
        scheme = _SCHEME.match(value)
        head = scheme[0] if scheme and scheme[0].strip() else ""
        return f"{head}{self._reference(name, value[len(head) :])}"

    def words(self, words: list[str]) -> list[str]:
        """The words of a command: a secret stands by itself, behind an option, or behind its `=`."""
        done: list[str] = []
        option = ""
        for word in words:
            name, equals, value = word.partition("=")
            if option and _is_secret(option, _VALUE_REFERENCE.sub("", word)) and not word.startswith("-"):
                done.append(self._reference(option, word))
            elif equals and value and _is_secret(name.lstrip("-"), _VALUE_REFERENCE.sub("", value)):
                done.append(f"{name}={self._reference(name.lstrip('-'), value)}")
            elif redact(word) != word:
                done.append(self._reference("key", word))
            else:
                done.append(word)
            option = word.lstrip("-") if word.startswith("-") and not equals else ""
        return done

    def address(self, url: str) -> str:
        try:
            parts = urlsplit(url)
            password = parts.password
        except ValueError:
            return url
        if password is not None:
            raise SecretInTheWay("its url has a password in it: send it as a header")
        query = parts.query
        for name, value in parse_qsl(query):
            if _is_secret(name, _VALUE_REFERENCE.sub("", value)):
                written = next((one for one in (value, quote(value, safe="")) if f"={one}" in query), None)
                if written is None:
                    raise SecretInTheWay("its url has a secret in it: send it as a header")
                query = query.replace(f"={written}", f"={self._reference(name, written)}")
        clean = urlunsplit(parts._replace(query=query)) if query != parts.query else url
        bare = _VALUE_REFERENCE.sub("", clean)
        if redact(bare) != bare:
            raise SecretInTheWay("its url has a secret in it: send it as a header")
        return clean

    def _reference(self, hint: str, secret: str) -> str:
        own = _word(self._server)
        name = _word(hint)
        name = name if name.startswith(f"{own}_") else f"{own}_{name}"
        if name[0].isdigit() or name.startswith("BRIDLE_"):
            name = f"MCP_{name}"
        known = next((there for there, value in self.secrets.items() if value == secret), None)
        if known is not None:
            return f"${{{known}}}"
        number, free = 1, name
        while free in self.secrets or self._is_taken(free):
            number += 1
            free = f"{name}_{number}"
        self.secrets[free] = secret
        return f"${{{free}}}"


def _word(text: str) -> str:
    return _NOT_IN_NAME.sub("_", text).strip("_").upper() or "X"


def _is_secret(name: str, literal: str) -> bool:
    if not literal.strip():
        return False
    return _SECRET_NAME.fullmatch(name) is not None or any(
        redact(text) != text for text in (literal, f"{name}={literal}")
    )


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
