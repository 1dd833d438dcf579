#!/usr/bin/env python3
"""Finds names that mean two things, modules that import each other, and functions that nobody can read at once.

    python scripts/names.py             print the figures; exit 1 when something stands on no list here

A module's name stands in one package, a public type's name in two modules at most, no function is longer than a
hundred lines, and no module needs itself through others: imports inside functions count, those for types do not, and
neither does the package a module stands in. What has a reason to be otherwise stands on a list with it; what
needs none stands on no list. The sources are read, nothing runs.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).resolve().parent.parent / "src"
MODULES_OF_A_NAME = 1
TYPES_OF_A_NAME = 2
FUNCTION_LINES = 100


class Exceptions(NamedTuple):
    """What may be otherwise, by name, each with the reason."""

    module_names: Mapping[str, str] = {}
    type_names: Mapping[str, str] = {}
    functions: Mapping[str, str] = {}


EXCEPTIONS = Exceptions(
    module_names={
        "remote": "a model and an engine that are elsewhere; clients/remote.py is a public name",
        "tools": "the verb `bridle tools`",
    },
)


class Module(NamedTuple):
    """What a file of ours names, and what it imports."""

    name: str
    path: str
    imports: frozenset[str]
    """Dotted names: of a module, or of something in one."""
    types: tuple[str, ...]
    """Public classes and aliases, of the module itself."""
    functions: Mapping[str, int]
    """How many lines each has, the longest where a name stands twice."""


def read_module(source: str, path: str) -> Module:
    tree = ast.parse(source, filename=path)
    parts = path.removesuffix(".py").split("/")
    package = parts[:-1]
    functions: dict[str, int] = defaultdict(int)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            functions[node.name] = max(functions[node.name], lines)
    return Module(
        ".".join(package if parts[-1] == "__init__" else parts),
        path,
        frozenset(_imports(tree, package)),
        tuple(name for name in map(_type_name, tree.body) if name and not name.startswith("_")),
        functions,
    )


def _imports(node: ast.AST, package: Sequence[str]) -> Iterator[str]:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), orelse=rest):
            for part in rest:
                yield from _imports(part, package)
            return
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            above = package[: len(package) + 1 - level] if level else []
            yield from (".".join([*above, *([module] if module else []), alias.name]) for alias in names)
        case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]):
            yield name
        case _:
            pass
    for part in ast.iter_child_nodes(node):
        yield from _imports(part, package)


def _type_name(node: ast.stmt) -> str:
    match node:
        case ast.ClassDef(name=name):
            return name
        case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
            return name
        case _:
            return ""


def problems(modules: Sequence[Module], exceptions: Exceptions) -> list[str]:
    """Everything that needs a reason and has none, and every reason for nothing, as a sentence with the fix."""
    named = _places((module.path.split("/")[-1].removesuffix(".py"), module.path) for module in modules)
    twice = {
        name: f"module name {name}: {_listed(paths)}. Say in one of them what is inside"
        for name, paths in named.items()
        if len(paths) > MODULES_OF_A_NAME and not name.startswith("__")
    }
    thrice = {
        name: f"type name {name}: {_listed(paths)}. Say in each name whose it is"
        for name, paths in type_places(modules).items()
        if len(paths) > TYPES_OF_A_NAME
    }
    long = {
        f"{module.path} {name}": f"function {module.path} {name}: {lines} lines. Which two ideas are in it?"
        for module in modules
        for name, lines in module.functions.items()
        if lines > FUNCTION_LINES
    }
    return [
        *_judged(twice, exceptions.module_names),
        *_judged(thrice, exceptions.type_names),
        *_judged(long, exceptions.functions),
        *(
            f"import cycle: {' > '.join(cycle)}. Move what both need to a module of its own"
            for cycle in import_cycles(import_graph(modules))
        ),
    ]


def _judged(found: Mapping[str, str], reasons: Mapping[str, str]) -> Iterator[str]:
    yield from (sentence for name, sentence in found.items() if name not in reasons)
    yield from (
        f"{name} stands on the list in scripts/names.py and needs no reason: take it off"
        for name in reasons
        if name not in found
    )


def _places(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for name, path in pairs:
        places[name].append(path)
    return places


def type_places(modules: Iterable[Module]) -> dict[str, list[str]]:
    return _places((name, module.path) for module in modules for name in module.types)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def import_graph(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Which modules of ours each imports. What is no module stands in one."""
    known = {module.name for module in modules}
    return {
        module.name: {
            place
            for name in module.imports
            if (place := name if name in known else name.rpartition(".")[0]) in known
        }
        for module in modules
    }


def import_cycles(graph: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """A shortest way from a module back to itself through others, one for each knot of modules."""
    knotted: set[str] = set()
    for start in graph:
        if start in knotted:
            continue
        came_from = {name: start for name in graph[start] if name != start}
        edge = list(came_from)
        for name in edge:
            for after in graph[name]:
                if after not in came_from and after != name:
                    came_from[after] = name
                    edge.append(after)
        if start not in came_from:
            continue
        knotted |= {name for name in came_from if _reaches(graph, name, start)}
        way = [start]
        while len(way) == 1 or way[-1] != start:
            way.append(came_from[way[-1]])
        yield way[::-1]


def _reaches(graph: Mapping[str, set[str]], start: str, goal: str) -> bool:
    seen = [start]
    for name in seen:
        if goal in graph[name]:
            return True
        seen += graph[name] - {*seen}
    return False


def read_sources(folder: Path = SOURCES) -> list[Module]:
    return [
        read_module(path.read_text(encoding="utf-8"), path.relative_to(folder).as_posix())
        for path in sorted(folder.rglob("*.py"))
    ]


def main() -> int:
    modules = read_sources()
    types = [len(paths) for paths in type_places(modules).values()]
    longest = max(lines for module in modules for lines in module.functions.values())
    print(
        f"{len(modules)} modules, {len(EXCEPTIONS.module_names)} share a name · {len(types)} public types, "
        f"{sum(count > 1 for count in types)} share a name · longest function {longest} lines"
    )
    found = problems(modules, EXCEPTIONS)
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
