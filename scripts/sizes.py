#!/usr/bin/env python3
"""Print the size of each package in src, what has grown large, and how many checks are silenced. Never fails.

    python scripts/sizes.py             everything
    python scripts/sizes.py --packages  only the table of packages

Lines with code are those that the parser sees: no comments, docstrings or blank lines. Statements are nodes of the
syntax tree, without docstrings. Imports inside functions are those of our own code. Parameters include keyword-only
ones, `*args` and `**kwargs`, but not `self` and `cls`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_MODULES = 30
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
MAX_METHODS = 15
MAX_PARAMETERS = 5
SILENCED = {
    "noqa": re.compile(r"#\s*noqa\b"),
    "type: ignore": re.compile(r"#\s*type:\s*ignore\b"),
    "pyright: ignore": re.compile(r"#\s*pyright:\s*ignore\b"),
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def large_parts(source: str, place: str) -> Iterator[str]:
    """A line for each large thing in one file: the file, its functions, its classes."""
    line_count = len(source.splitlines())
    if line_count > MAX_FILE_LINES:
        yield f"{place}: {line_count} lines"
    for node in ast.walk(ast.parse(source, filename=place)):
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(part, Function) for part in node.body)
            if methods > MAX_METHODS:
                yield f"{place}:{node.lineno} {node.name}: {methods} methods"
        elif isinstance(node, Function):
            yield from _large_function(node, f"{place}:{node.lineno} {node.name}")


def _large_function(function: Function, place: str) -> Iterator[str]:
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if lines > MAX_FUNCTION_LINES:
        yield f"{place}: {lines} lines"
    parameters = parameter_count(function.args)
    if parameters > MAX_PARAMETERS:
        yield f"{place}: {parameters} parameters"


def parameter_count(arguments: ast.arguments) -> int:
    """Every parameter a reader has to understand."""
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if positional[:1] in (["self"], ["cls"]):
        positional = positional[1:]
    rest = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return len(positional) + len(arguments.kwonlyargs) + len(rest)


@dataclass
class Size:
    """What a reader of a package has before them."""

    lines: int = 0
    code: int = 0
    statements: int = 0
    modules: int = 0
    public: int = 0
    inner_imports: int = 0

    def add(self, other: Size) -> None:
        for field in fields(Size):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def module_size(source: str, place: str) -> Size:
    tree = ast.parse(source, filename=place)
    docstrings = {id(text) for node in ast.walk(tree) if (text := _docstring(node)) is not None}
    statements = [
        node for node in ast.walk(tree) if isinstance(node, ast.stmt) and id(node) not in docstrings
    ]
    code: set[int] = set()
    for node in statements:
        inner = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.stmt)]
        code.add(node.lineno)
        for part in inner:
            for deep in ast.walk(part):
                if isinstance(deep, ast.expr | ast.arg | ast.keyword | ast.alias):
                    code.update((deep.lineno, deep.end_lineno or deep.lineno))
    return Size(
        lines=len(source.splitlines()),
        code=len(code),
        statements=len(statements),
        modules=1,
        public=sum(not name.startswith("_") for name in _names(tree)),
        inner_imports=len(_inner_imports(tree)),
    )


def _docstring(node: ast.AST) -> ast.stmt | None:
    if isinstance(node, ast.Module | ast.ClassDef | Function) and node.body:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            return first
    return None


def _names(tree: ast.Module) -> Iterator[str]:
    """Names that a module defines."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | Function):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _inner_imports(tree: ast.Module) -> set[int]:
    """Lines of imports of our own code inside functions."""
    found: set[int] = set()
    for function in ast.walk(tree):
        if isinstance(function, Function):
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bridle":
                    found.add(node.lineno)
    return found


def print_packages() -> bool:
    """Print the size of every package; return whether no folder has too many modules."""
    packages: dict[str, Size] = {}
    folders: Counter[str] = Counter()
    for path in sorted((ROOT / "src/bridle").rglob("*.py")):
        parts = path.relative_to(ROOT / "src/bridle").parts
        folders["/".join(("bridle", *parts[:-1]))] += 1
        size = module_size(path.read_text(encoding="utf-8"), str(path))
        packages.setdefault(parts[0] if len(parts) > 1 else "(top)", Size()).add(size)
    total = Size()
    for size in packages.values():
        total.add(size)
    names = [field.name for field in fields(Size)]
    print(f"{'package':<14}" + "".join(f"{name:>14}" for name in names))
    by_lines = sorted(packages.items(), key=lambda row: -row[1].lines)
    for name, size in (*by_lines, ("total", total)):
        print(f"{name:<14}" + "".join(f"{getattr(size, column):>14,}" for column in names))
    large = [f"{folder} {modules}" for folder, modules in folders.most_common() if modules > MAX_MODULES]
    print(f"folders with more than {MAX_MODULES} modules: {', '.join(large) or 'none'}")
    return not large


def main() -> int:
    fits = print_packages()
    if "--packages" in sys.argv:
        return 0 if fits else 1
    silenced = dict.fromkeys(SILENCED, 0)
    for path in sorted((ROOT / "src").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for name, pattern in SILENCED.items():
            silenced[name] += len(pattern.findall(source))
        try:
            for line in large_parts(source, path.relative_to(ROOT).as_posix()):
                print(line)
        except SyntaxError as error:
            print(f"{path.relative_to(ROOT).as_posix()}:{error.lineno} cannot be read: {error.msg}")
    print("silenced in src: " + ", ".join(f"{count} {name}" for name, count in silenced.items()))
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
