"""The table of settings, made from the sections that packages declare.

A key names its place with dots: `*` stands for a name users choose (`providers.*.wire`), `[]` for the entries of a
list (`hooks[].event`). The meaning of a setting belongs to the package that declares it; the table knows types, so that
a typing error is found before anything starts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, cast, get_args, get_origin

import msgspec

from bridle.base.text.spelling import folded_name
from bridle.engine.setting_fields import About, Section, ValueKind, WorkspaceRule, about, kind_of

SettingPath: TypeAlias = tuple[str | int, ...]
"""The place of a value: names, and positions in lists."""
LineNumbers: TypeAlias = dict[SettingPath, int]
"""The line, counted from 1, of every key and every list entry of a file."""
Table: TypeAlias = dict[str, Any]

RETIRED = frozenset({"engine.standby", "sandbox.warm"})
"""Settings of the release before. They are accepted with a notice and do nothing."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. `required`: an entry without it, or `about.or_key` in its place, means nothing."""

    key: str
    kind: ValueKind
    about: About
    default: Any = None
    required: bool = False
    workspace: WorkspaceRule = "never"


class Node(msgspec.Struct, kw_only=True):
    """A place in the tree of keys: a section with children, or a leaf with its setting.

    `other_names` are names of children that are understood besides ours.
    """

    key: str
    setting: Setting | None = None
    workspace: WorkspaceRule = "never"
    children: dict[str, Node] = {}
    other_names: dict[str, str] = {}

    @property
    def named(self) -> Node | None:
        """The node below every name, where users choose the names."""
        return self.children.get("*")

    def child(self, name: str) -> Node | None:
        """The node below a name: ours if there is one, else the one below every name."""
        return self.children.get(name) or self.named

    @property
    def listed(self) -> Node | None:
        """The node of every entry, where there is a list of tables."""
        return self.children.get("[]")

    def canonical(self, written: str) -> str | None:
        """Return our name for a key as it is written below this node; None if there is no such key.

        Names that users choose stay as they are.
        """
        if self.named is not None:
            return written
        name = folded_name(written)
        if name not in self.children:
            name = self.other_names.get(name, "")
        return name if name in self.children and name != "[]" else None


class SettingTable:
    """Every setting of some sections. Nothing is computed before it is asked for."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self.sections = tuple(sections)

    @functools.cached_property
    def settings(self) -> tuple[Setting, ...]:
        return tuple(setting for node in _leaves(self.tree) if (setting := node.setting) is not None)

    @functools.cached_property
    def tree(self) -> Node:
        """The table as a tree. It is never changed."""
        root = Node(key="", children={}, other_names={})
        for section in self.sections:
            _add_section(root, section)
        return root

    @functools.cached_property
    def joined(self) -> frozenset[str]:
        """Lists whose tiers add up instead of replacing each other: a project must not remove a rule by adding one."""
        return frozenset(_joined(self.tree))

    def defaults(self) -> Table:
        """Return the values that hold when nothing is set."""
        values: Table = {}
        for setting in self.settings:
            if setting.default is not None and "*" not in setting.key and "[]" not in setting.key:
                *sections, name = setting.key.split(".")
                table = values
                for section in sections:
                    table = table.setdefault(section, {})
                is_list = isinstance(setting.default, tuple)
                table[name] = list(cast("tuple[str, ...]", setting.default)) if is_list else setting.default
        return values

    def node_at(self, path: Iterable[str | int]) -> Node | None:
        """Return the node that describes a place; None where the table knows nothing."""
        node = self.tree
        for part in path:
            child = node.listed if isinstance(part, int) else node.child(part)
            if child is None:
                return None
            node = child
        return node

    def workspace_rule(self, path: Iterable[str]) -> WorkspaceRule:
        """Return the rule for a place. Inside a value the rule of its setting holds."""
        node = self.tree
        for part in path:
            if node.setting is not None or (child := node.child(part)) is None:
                break
            node = child
        return node.workspace


def _add_section(root: Node, section: Section) -> None:
    node, key = root, section.key.replace("[]", ".[]")
    for part in key.split(".") if key else ():
        parent, node = node, _below(node, part, section.workspace)
        if section.also and part == key.rpartition(".")[2]:
            parent.other_names |= dict.fromkeys(section.also, part)
    _add_fields(node, section.fields, section.workspace)


def _add_fields(node: Node, fields: type[msgspec.Struct], workspace: WorkspaceRule) -> None:
    for field in msgspec.structs.fields(fields):
        name, said = field.encode_name, about(field.type)
        nested = _nested_fields(field.type)
        rule = workspace if said.workspace is None else said.workspace
        child = _below(node, name, rule)
        node.other_names |= dict.fromkeys(said.also, name)
        if nested is not None:
            place, inner = nested
            _add_fields(_below(child, place, rule) if place else child, inner, rule)
            continue
        default = None if field.default is msgspec.NODEFAULT else field.default
        child.workspace = rule
        child.setting = Setting(
            key=child.key,
            kind=kind_of(field.type),
            about=said,
            default=default,
            required=field.required,
            workspace=rule,
        )


def _nested_fields(annotation: Any) -> tuple[str, type[msgspec.Struct]] | None:
    """Return the Struct of a field that is a section itself, and `[]` where it is a list of them."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        (annotation, *others) = [one for one in get_args(annotation) if one is not NoneType]
        if others:
            return None
    place = "[]" if get_origin(annotation) is tuple else ""
    inner = get_args(annotation)[0] if place else annotation
    return (place, inner) if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else None


def _below(node: Node, part: str, workspace: WorkspaceRule) -> Node:
    key = part if not node.key else f"{node.key}[]" if part == "[]" else f"{node.key}.{part}"
    if part not in node.children:
        node.children[part] = Node(key=key, workspace=workspace, children={}, other_names={})
    return node.children[part]


def _leaves(node: Node) -> Iterator[Node]:
    if node.setting is not None:
        yield node
    for child in node.children.values():
        yield from _leaves(child)


def _joined(node: Node) -> Iterator[str]:
    if node.listed is not None or (node.setting is not None and node.setting.about.adds_up):
        yield node.key
    for child in node.children.values():
        yield from _joined(child)


def path_of(key: str) -> tuple[str, ...]:
    """`providers.work.base_url` as its parts. A name with dots is written in quotes: `providers."my.host".wire`.

    Raises ValueError if it cannot be read.
    """
    plain = tuple(key.split("."))
    if all(map(str.isidentifier, plain)):
        return plain
    parts: list[str] = []
    rest = key.strip()
    while True:
        found = re.match(r'"([^"]+)"|([^."\s]+)', rest)
        if found is None:
            raise ValueError(key)
        parts.append(found[1] or found[2])
        rest = rest[found.end() :]
        if not rest:
            return tuple(parts)
        if not rest.startswith("."):
            raise ValueError(key)
        rest = rest[1:]


def key_of(path: Iterable[str | int]) -> str:
    """The dotted spelling of a path, the inverse of `path_of`; positions in brackets."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if re.fullmatch(r"[^.\"\s\[\]]+", part) else f'"{part}"'
            text += f".{name}" if text else name
    return text
