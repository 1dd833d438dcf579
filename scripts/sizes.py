#!/usr/bin/env python3
"""Prints what has grown large in src, and how many checks are silenced there. It informs and never fails.

Each line is a question: which two ideas are in here? Parameters are counted with keyword-only ones, `*args`
and `**kwargs`, without `self` and `cls`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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


def main() -> int:
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
