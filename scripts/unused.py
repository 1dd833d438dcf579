#!/usr/bin/env python3
"""Finds words that nobody uses: settings, reasons, ports, kinds of events and of commands.

    python scripts/unused.py            print what is on a list for later; exit 1 when a word is on none and unused

A setting is used when something reads it, a reason when something gives it, a kind of event when something emits it, a
kind of command when something carries it out, a port when somebody asks for it. What comes before
its user stands on the list beside it (`AWAITED…`, `About.awaits`), with the capability that will use it; what is
used stands on none. The sources are read, nothing runs.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "bridle"
CARRIED_OUT_BY = ("control", "app", "engine")
"""The packages that carry commands out. Clients and checks only send them."""
DECLARED_IN = ("_settings.py", "setting_sections.py")
"""How the files end in which settings are declared."""


class Module(NamedTuple):
    """What a file of ours names, by the way it names it."""

    path: str
    strings: frozenset[str]
    attributes: frozenset[str]
    names: frozenset[str]
    made: frozenset[str]
    """Names that are called: classes among them are made."""
    matched: frozenset[str]
    """Classes that something is compared with."""


class Word(NamedTuple):
    """Something that should be used: what it is, its name, and the capability it waits for, if it may."""

    kind: str
    name: str
    awaits: str


def read_module(source: str, path: str) -> Module:
    tree = ast.parse(source, filename=path)
    told = {id(docstring) for node in ast.walk(tree) if (docstring := _docstring(node)) is not None}
    strings: set[str] = set()
    attributes: set[str] = set()
    names: set[str] = set()
    made: set[str] = set()
    matched: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in told:
                strings.add(text)
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, classes]):
                matched |= {_name(part) for part in ast.walk(classes)}
            case ast.Call(func=called):
                made.add(_name(called))
            case ast.MatchClass(cls=called):
                matched.add(_name(called))
            case ast.Attribute(attr=name):
                attributes.add(name)
            case ast.Name(id=name) | ast.keyword(arg=str(name)):
                names.add(name)
            case ast.ImportFrom(names=imported):
                names |= {alias.name for alias in imported}
            case _:
                pass
    return Module(
        path,
        frozenset(strings),
        frozenset(attributes),
        frozenset(names | attributes),
        frozenset(made),
        frozenset(matched),
    )


def _docstring(node: ast.AST) -> ast.Constant | None:
    """The text below a definition that nobody reads while the program runs."""
    match node:
        case ast.Expr(value=ast.Constant(value=str()) as text):
            return text
        case _:
            return None


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def problems(words: Iterable[Word], modules: Sequence[Module]) -> list[str]:
    """Every word without a user and a list, and every one on a list that has a user, as a sentence with the fix."""
    found: list[str] = []
    for word in words:
        used = _is_used(word, modules)
        if not used and not word.awaits:
            found.append(
                f"{word.kind} {word.name} is used by nobody: use it, remove it, or list what will use it"
            )
        elif used and word.awaits and word.kind != "setting":
            found.append(
                f'{word.kind} {word.name} is used: take it off the list that waits for "{word.awaits}"'
            )
    return found


def _is_used(word: Word, modules: Sequence[Module]) -> bool:
    match word.kind:
        case "setting":
            return _is_read(word.name, [one for one in modules if not one.path.endswith(DECLARED_IN)])
        case "reason":
            return any(word.name in one.strings for one in modules if one.path != "protocol/errors.py")
        case "event":
            return any(word.name in one.made for one in modules if not one.path.startswith("conformance/"))
        case "command":
            return any(
                word.name in one.matched for one in modules if one.path.split("/")[0] in CARRIED_OUT_BY
            )
        case _:
            return any(word.name.rpartition(".")[2] in one.names for one in modules)


def _is_read(key: str, modules: Sequence[Module]) -> bool:
    """By its whole name; else its section is read, and its last part is an attribute or a key somewhere."""
    words = frozenset[str]().union(*(one.strings | one.attributes for one in modules))
    section, _, last = key.replace("[]", ".*").rpartition(".")
    return key in words or (section.split(".*")[0] in words and last in words)


def read_sources(folder: Path = SOURCES) -> list[Module]:
    return [
        read_module(path.read_text(encoding="utf-8"), path.relative_to(folder).as_posix())
        for path in sorted(folder.rglob("*.py"))
    ]


def ports(folder: Path = SOURCES) -> Iterator[str]:
    """Every protocol class, by the module it stands in."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef) and any(_name(base) == "Protocol" for base in node.bases):
                yield f"{path.relative_to(folder).as_posix()}.{node.name}"


def words() -> list[Word]:
    """Everything that is to be used, with what it may wait for."""
    from bridle.app.user.setting_sections import TABLE
    from bridle.protocol.codec import COMMAND_KINDS, EVENT_KINDS
    from bridle.protocol.errors import AWAITED_REASONS, SENTENCES
    from bridle.protocol.handshake import AWAITED_COMMANDS, AWAITED_EVENTS

    def listed(kind: str, names: Iterable[str], awaited: Mapping[str, str]) -> Iterator[Word]:
        yield from (Word(kind, name, awaited.get(name, "")) for name in names)

    return [
        *(Word("setting", setting.key, setting.about.awaits) for setting in TABLE.settings),
        *listed("reason", SENTENCES, AWAITED_REASONS),
        *listed("event", EVENT_KINDS, AWAITED_EVENTS),
        *listed("command", COMMAND_KINDS, AWAITED_COMMANDS),
        *listed("port", ports(), {}),
    ]


def main() -> int:
    known = words()
    waiting = [word for word in known if word.awaits]
    print(f"{len(known)} words, {len(waiting)} wait for their user:")
    for capability in sorted({word.awaits for word in waiting}):
        print(f"  {capability}: {', '.join(word.name for word in waiting if word.awaits == capability)}")
    found = problems(known, read_sources())
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
