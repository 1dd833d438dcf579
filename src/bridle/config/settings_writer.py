"""Change the user's own settings file: one setting or rule at a time, or as a whole in an editor.

Comments, order and spelling of everything else stay. The new text is parsed before it takes the old one's place, and
must say exactly what the old one said but for the one change. Secrets are never written here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from copy import deepcopy
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec

from bridle.base.fs.files import FileLock, private_folder, read_limited, repository_root, write_atomic
from bridle.config.folders import PROJECT_FOLDER, Folders, project_folder
from bridle.config.origins import checked_value, settable, value_of
from bridle.config.setting_table import RETIRED, Setting, SettingTable, Table, key_of, path_of
from bridle.config.settings_file import LOCAL_NAMES, OWN_NAMES, ParsedFile, SettingsFile, parse, present, read
from bridle.config.tiers import Tiers
from bridle.protocol.errors import BridleError, UsageError

LOCK_TIMEOUT_S = 5.0

_NewTable: TypeAlias = Callable[[], MutableMapping[str, Any]]


class SettingChange(NamedTuple):
    """What was done: the setting under our name, and its value before and after (None: not set)."""

    path: str
    key: str
    before: Any
    after: Any


def set_value(table: SettingTable, where: Folders, key: str, text: str) -> SettingChange:
    """Sets one setting in the user's file, which is made if there is none. `text` is TOML where it parses.

    Raises `UsageError` for a key that does not exist, a value it does not take, or a secret; `BadConfig` if the file
    cannot be read as it stands.
    """
    path, setting = _known(table, key)
    value = value_of(text, setting)
    for problem in checked_value(table, path, value, setting):
        raise UsageError(problem.problem)
    return _changed(table, where, path, value)


def unset(table: SettingTable, where: Folders, key: str) -> SettingChange:
    """Takes one setting out of the user's file; nothing happens where it is not set. Raises as `set_value` does."""
    path = path_of(key) if key in RETIRED else _known(table, key, secrets=True)[0]
    return _changed(table, where, path, None)


def set_entry(
    table: SettingTable, where: Folders, path: tuple[str, ...], entry: Table | None
) -> SettingChange:
    """Puts a whole named entry, such as a server, into the user's file; None takes it out. Raises as `set_value`."""
    for problem in checked_value(table, path, entry, None) if entry is not None else ():
        raise UsageError(problem.problem)
    return _changed(table, where, path, entry)


def user_file(where: Folders) -> str:
    """The file that `set_value` changes: the one in use, or the one that will be made."""
    name = present(where.config, OWN_NAMES).name or OWN_NAMES[0]
    return os.path.join(where.config, name)


def _known(table: SettingTable, key: str, *, secrets: bool = False) -> tuple[tuple[str, ...], Setting | None]:
    try:
        named = settable(table, key)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    path, setting = named.path, named.setting
    if setting is not None and setting.about.secret and not secrets:
        provider = path[1] if path[0] == "providers" else "PROVIDER"
        raise UsageError(
            f"{key_of(path)} is a secret and is not written to a settings file. "
            f"Name the environment variable that holds it: bridle config set providers.{provider}.key_env NAME"
        )
    return path, setting


def _changed(table: SettingTable, where: Folders, path: tuple[str, ...], value: Any) -> SettingChange:
    private_folder(where.config)
    lock = FileLock(os.path.join(where.config, ".settings.lock"))
    if not lock.acquire(timeout_s=LOCK_TIMEOUT_S):
        raise BridleError("FileUnwritable", path=user_file(where), problem="another Bridle is changing it")
    with lock:
        file = user_file(where)
        place = SettingsFile(path=file, source=os.path.basename(file))
        old = _current(place)
        spelled, before = _find(table, old, path)
        if before == value and type(before) is type(value):
            return SettingChange(file, key_of(path), before, value)
        text = _new_text(place, old, spelled, value)
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
    for name in path[:-1]:
        if not isinstance(table.get(name), MutableMapping):
            table[name] = new_table()
        table = cast("MutableMapping[str, Any]", table[name])
    if isinstance(value, dict):
        filled = new_table()
        filled.update(cast("Table", value))
        value = filled
    table[path[-1]] = value


def _take(root: MutableMapping[str, Any], path: tuple[str, ...]) -> None:
    table = root
    for name in path[:-1]:
        below = table.get(name)
        if not isinstance(below, MutableMapping):
            return
        table = cast("MutableMapping[str, Any]", below)
    table.pop(path[-1], None)


def _take_empty(root: MutableMapping[str, Any], path: tuple[str, ...]) -> None:
    """Takes away the tables on this way that hold nothing, the innermost first."""
    if not path:
        return
    below = root.get(path[0])
    if isinstance(below, MutableMapping):
        _take_empty(cast("MutableMapping[str, Any]", below), path[1:])
        if not below:
            root.pop(path[0])


def _find(table: SettingTable, values: Table, path: tuple[str, ...]) -> tuple[tuple[str, ...], Any]:
    """Return a path as this file spells it, with our names where the file has none, and the value there."""
    spelled: tuple[str, ...] = ()
    here: Any = values
    for depth, name in enumerate(path):
        below = cast("Table", here) if isinstance(here, dict) else {}
        node = table.node_at(path[:depth])
        in_file = name
        if node is not None and node.setting is None:
            in_file = next((one for one in below if node.canonical(one) == name), name)
        spelled, here = (*spelled, in_file), below.get(in_file)
    return spelled, here


def put_rule_first(where: Folders, tiers: Tiers, rule: Mapping[str, str]) -> str:
    """Puts a rule before all others, unless it is there; returns the file it stands in. Raises `FileUnwritable`."""
    mine = _user_rules(tiers)
    new = [rule] if rule not in mine else []
    try:
        return set_value(tiers.table, where, "permissions.rules", _toml([*new, *mine])).path
    except OSError as problem:
        raise BridleError("FileUnwritable", path=user_file(where), problem=problem.strerror) from None


def _user_rules(tiers: Tiers) -> list[dict[str, Any]]:
    """The rules of the person's own file, as they stand there."""
    own: dict[str, Any] = next(
        (source.values for source in tiers.sources if source.tier == "user"), dict[str, Any]()
    )
    return [dict(rule) for rule in own.get("permissions", {}).get("rules", [])]


def _toml(rules: Iterable[Mapping[str, Any]]) -> str:
    """A list of tables on one line; the strings of JSON are strings of TOML."""
    tables = (
        ", ".join(f"{name} = {msgspec.json.encode(value).decode()}" for name, value in rule.items())
        for rule in rules
    )
    return f"[{', '.join(f'{{{table}}}' for table in tables)}]"


_IGNORE_BYTES = 1 << 20

OwnTier: TypeAlias = Literal["user", "project", "local"]
"""The tiers whose file a person edits."""

_WHO: dict[OwnTier, str] = {
    "user": "your own, in every folder",
    "project": "of this project; it may only tighten, and is shared with it",
    "local": "of this project on this machine; it may only tighten, and is not committed",
}


def file_of(where: Folders, cwd: str, tier: OwnTier) -> str:
    """The file of a tier for somebody in `cwd`: the one in use, or the one that will be made."""
    if tier == "user":
        return user_file(where)
    folder = project_folder(cwd)
    if folder is None:
        here = os.path.realpath(cwd)
        folder = os.path.join(repository_root(here), PROJECT_FOLDER)
    names = OWN_NAMES if tier == "project" else LOCAL_NAMES
    return os.path.join(folder, present(folder, names).name or names[0])


def made_for_editing(where: Folders, file: str, tier: OwnTier) -> bytes | None:
    """Makes the file of a tier, with nothing but comments in it, if there is none; returns what was written.

    Raises `UsageError` for a file in a project that is reached by a link: it would lead the editor elsewhere.
    """
    folder = os.path.dirname(file)
    if tier != "user":
        for path in (folder, file):
            if os.path.islink(path):
                raise UsageError(f"{path} is a symbolic link, and Bridle reads no such file in a project")
    if os.path.lexists(file):
        return None
    if tier == "user":
        private_folder(where.config)
    else:
        os.makedirs(folder, exist_ok=True)
    text = (
        f"# Settings of Bridle, {_WHO[tier]}.\n"
        "# All keys: bridle help settings     What holds now, and from where: bridle config show --origin\n"
    ).encode()
    write_atomic(file, text, mode=0o644 if tier == "project" else 0o600)
    return text


def forgotten(file: str, made: bytes) -> bool:
    """Whether a file that was made for editing holds nothing else. It is taken away then, with its empty folder."""
    if read_limited(file, len(made) + 1).data != made:
        return False
    os.unlink(file)
    with contextlib.suppress(OSError):  # there is something else in it
        os.rmdir(os.path.dirname(file))
    return True


def keep_out_of_git(file: str) -> None:
    """Has git ignore a file, by a line in the `.gitignore` beside it."""
    ignoring, name = os.path.join(os.path.dirname(file), ".gitignore"), os.path.basename(file)
    try:
        lines = read_limited(ignoring, _IGNORE_BYTES).data
    except FileNotFoundError:
        lines = b""
    if name.encode() not in lines.split(b"\n"):
        start = lines if not lines or lines.endswith(b"\n") else lines + b"\n"
        write_atomic(ignoring, start + f"{name}\n".encode(), mode=0o644)
