"""One setting changed in the person's own file, and everything else left as it is: comments, order, spelling.

The new text is parsed before it takes the old one's place, and must say exactly what the old one said but for the one
change. Secrets are never written here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, MutableMapping
from copy import deepcopy
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from bridle.base.fs.files import FileLock, private_folder, write_atomic
from bridle.config.folders import Folders
from bridle.config.origins import checked_value, settable, value_of
from bridle.config.setting_table import RETIRED, Setting, Table, canonical, key_of, node_at, path_of
from bridle.config.settings_file import OWN_NAMES, ParsedFile, SettingsFile, parse, present, read
from bridle.protocol.errors import BridleError, UsageError

LOCK_TIMEOUT_S = 5.0

_NewTable: TypeAlias = Callable[[], MutableMapping[str, Any]]


class SettingChange(NamedTuple):
    """What was done: the setting under our name, and its value before and after (None: not set)."""

    path: str
    key: str
    before: Any
    after: Any


def set_value(where: Folders, key: str, text: str) -> SettingChange:
    """Sets one setting in the user's file, which is made if there is none. `text` is TOML where it parses.

    Raises `UsageError` for a key that does not exist, a value it does not take, or a secret; `BadConfig` if the file
    cannot be read as it stands.
    """
    path, setting = _known(key)
    value = value_of(text, setting)
    for problem in checked_value(path, value, setting):
        raise UsageError(problem.problem)
    return _changed(where, path, value)


def unset(where: Folders, key: str) -> SettingChange:
    """Takes one setting out of the user's file; nothing happens where it is not set. Raises as `set_value` does."""
    path = path_of(key) if key in RETIRED else _known(key, secrets=True)[0]
    return _changed(where, path, None)


def set_entry(where: Folders, path: tuple[str, ...], entry: Table | None) -> SettingChange:
    """Puts a whole named entry, such as a server, into the user's file; None takes it out. Raises as `set_value`."""
    for problem in checked_value(path, entry, None) if entry is not None else ():
        raise UsageError(problem.problem)
    return _changed(where, path, entry)


def user_file(where: Folders) -> str:
    """The file that `set_value` changes: the one in use, or the one that will be made."""
    name = present(where.config, OWN_NAMES).name or OWN_NAMES[0]
    return os.path.join(where.config, name)


def _known(key: str, *, secrets: bool = False) -> tuple[tuple[str, ...], Setting | None]:
    try:
        named = settable(key)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    path, setting = named.path, named.setting
    if setting is not None and setting.secret and not secrets:
        provider = path[1] if path[0] == "providers" else "PROVIDER"
        raise UsageError(
            f"{key_of(path)} is a secret and is not written to a settings file. "
            f"Name the environment variable that holds it: bridle config set providers.{provider}.key_env NAME"
        )
    return path, setting


def _changed(where: Folders, path: tuple[str, ...], value: Any) -> SettingChange:
    private_folder(where.config)
    lock = FileLock(os.path.join(where.config, ".settings.lock"))
    if not lock.acquire(timeout_s=LOCK_TIMEOUT_S):
        raise BridleError("FileUnwritable", path=user_file(where), problem="another Bridle is changing it")
    with lock:
        file = user_file(where)
        place = SettingsFile(path=file, source=os.path.basename(file))
        old = _current(place)
        before = _at(old, path)
        if before == value and type(before) is type(value):
            return SettingChange(file, key_of(path), before, value)
        text = _new_text(place, old, path, value)
        try:
            write_atomic(os.path.realpath(file), text)
        except OSError as problem:
            raise BridleError("FileUnwritable", path=file, problem=problem.strerror) from None
        return SettingChange(file, key_of(path), before, value)


def _current(place: SettingsFile) -> Table:
    if not os.path.lexists(place.path):
        return {}
    return _sound(read(place)).values


def _sound(parsed: ParsedFile) -> ParsedFile:
    for problem in parsed.problems:
        raise problem.error()
    return parsed


def _new_text(place: SettingsFile, old: Table, path: tuple[str, ...], value: Any) -> bytes:
    """The changed text: the first that says what the old one said but for the change; otherwise the file stays."""
    wanted = deepcopy(old)
    _edit(wanted, path, value)
    # A table written with dots is gone with its last key; one with a header or braces stays, empty.
    emptied = path[:-1] if value is None else ()
    _take_empty(wanted, emptied)
    texts = _json_texts(wanted) if place.path.endswith(".json") else _toml_texts(place.path, path, value)
    for text in texts:
        parsed = parse(text, place)
        _take_empty(parsed.values, emptied)
        if parsed.values == wanted and not parsed.problems:
            return text
    raise place.error(f"cannot be changed without spoiling it; set {key_of(path)} by hand").error()


def _json_texts(wanted: Table) -> Iterator[bytes]:
    yield msgspec.json.format(msgspec.json.encode(wanted), indent=2) + b"\n"


def _toml_texts(file: str, path: tuple[str, ...], value: Any) -> Iterator[bytes]:
    """The text with the change made in two ways, for the nicer one has no place in every file.

    A new table gets a header or braces; a table that loses its last key stays empty or goes.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    text = b""
    if os.path.lexists(file):
        with open(file, "rb") as source:
            text = source.read()
    for new_table, emptied in ((dict[str, Any], "stay"), (tomlkit.inline_table, "go")):
        try:
            document = tomlkit.parse(text.decode("utf-8-sig"))
            _edit(document, path, value, new_table)
            if value is None and emptied == "go":
                _take_empty(document, path[:-1])
            yield tomlkit.dumps(document).encode()
        except TOMLKitError:
            continue


def _edit(
    root: MutableMapping[str, Any], path: tuple[str, ...], value: Any, new_table: _NewTable = dict[str, Any]
) -> None:
    if value is None:
        _take(root, path)
    else:
        _put(root, path, value, new_table)


def _put(root: MutableMapping[str, Any], path: tuple[str, ...], value: Any, new_table: _NewTable) -> None:
    table = root
    for depth, name in enumerate(path[:-1]):
        spelled = _spelled(table, path[:depth], name)
        if not isinstance(table.get(spelled), MutableMapping):
            table[spelled] = new_table()
        table = cast("MutableMapping[str, Any]", table[spelled])
    if isinstance(value, dict):
        filled = new_table()
        filled.update(cast("Table", value))
        value = filled
    table[_spelled(table, path[:-1], path[-1])] = value


def _take(root: MutableMapping[str, Any], path: tuple[str, ...]) -> None:
    table = root
    for depth, name in enumerate(path[:-1]):
        below = table.get(_spelled(table, path[:depth], name))
        if not isinstance(below, MutableMapping):
            return
        table = cast("MutableMapping[str, Any]", below)
    table.pop(_spelled(table, path[:-1], path[-1]), None)


def _take_empty(root: MutableMapping[str, Any], path: tuple[str, ...]) -> None:
    """Takes away the tables on this way that hold nothing, the innermost first."""
    if not path:
        return
    below = root.get(path[0])
    if isinstance(below, MutableMapping):
        _take_empty(cast("MutableMapping[str, Any]", below), path[1:])
        if not below:
            root.pop(path[0])


def _spelled(table: MutableMapping[str, Any], place: tuple[str, ...], name: str) -> str:
    """How this file spells a name: as it stands there already, in whatever form, or ours."""
    node = node_at(place)
    if node is None or node.setting is not None:
        return name
    return next((written for written in table if canonical(node, written) == name), name)


def _at(values: Table, path: tuple[str, ...]) -> Any:
    table: Any = values
    for depth, name in enumerate(path):
        if not isinstance(table, dict):
            return None
        here = cast("Table", table)
        table = here.get(_spelled(here, path[:depth], name))
    return table
