"""A separate program that extracts definitions and references from source files.

It runs as a process of its own because a file can be made so that understanding it takes for ever, and only a process
can be stopped: one that a single file holds up for `FILE_S`, or that wants more memory than it may have, ends.

Reads from stdin for each file a language and a path relative to the current folder, each ended by a zero byte. Writes a
line of JSON a file, in this order, at once: `sha256` of what was read, `defs` (name, line, its text), `refs` (name and
how often), or only a `problem`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import resource
import signal
import stat
import sys
from collections import Counter
from functools import cache
from typing import Any

FILE_S = 2.0
BUILD_S = 30
"""So much time of the processor one file may take, and all of them together: how busy the machine is makes no
difference."""
MAX_MEMORY_BYTES = 1 << 30
MAX_FILE_BYTES = 256 * 1024
MAX_DEFINITIONS = 500
MAX_REFERENCES = 1_000
MAX_NAME_CHARACTERS = 80
MAX_LINE_CHARACTERS = 100

GRAMMARS = {
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "rust": ("tree_sitter_rust", "language"),
    "go": ("tree_sitter_go", "language"),
    "java": ("tree_sitter_java", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
}
"""Each language, the package that has its grammar and its tags, and where in it."""


def main() -> None:
    for ends in (signal.SIGPROF, signal.SIGXCPU):
        signal.signal(ends, signal.SIG_DFL)  # the default ends the process, whatever it is in the middle of
    resource.setrlimit(resource.RLIMIT_CPU, (BUILD_S, BUILD_S + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    words = sys.stdin.buffer.read().split(b"\0")[:-1]
    for language, path in zip(words[::2], words[1::2], strict=True):
        signal.setitimer(signal.ITIMER_PROF, FILE_S)
        try:
            answer = _answer(language.decode(), path)
        except Exception as fault:  # noqa: BLE001  the next file may do better
            answer = {"problem": type(fault).__name__}
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _answer(language: str, path: bytes) -> dict[str, Any]:
    data = _read_text(path)
    return {"sha256": hashlib.sha256(data).hexdigest(), **tags(language, data)}


def _read_text(path: bytes) -> bytes:
    """The content of a text file; nothing for anything else."""
    try:
        fd = _open(path)
    except OSError:
        return b""
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return b""
        data = file.read(MAX_FILE_BYTES)
    return b"" if b"\0" in data else data


def _open(path: bytes) -> int:
    """Opens what was listed: since then a folder on the way may have become a link to somewhere else."""
    *folders, name = path.split(b"/")
    where = os.open(b".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            deeper = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=where)
            os.close(where)
            where = deeper
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=where)
    finally:
        os.close(where)


def tags(language: str, data: bytes) -> dict[str, Any]:
    from tree_sitter import Parser, QueryCursor

    grammar, query = _grammar(language)
    defined: dict[int, tuple[str, int, str]] = {}
    referred: Counter[str] = Counter()
    lines = data.split(b"\n")
    for _, found in QueryCursor(query).matches(Parser(grammar).parse(data).root_node):
        for node in found.get("name", ()):
            name = (node.text or b"").decode("utf-8", "replace")
            if not name or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
                continue
            row = node.start_point[0]
            if any(kind.startswith("definition") for kind in found):
                text = lines[row].decode("utf-8", "replace").rstrip()
                defined.setdefault(node.start_byte, (name, row + 1, text[:MAX_LINE_CHARACTERS]))
            else:
                referred[name] += 1
    ordered = [defined[at] for at in sorted(defined)][:MAX_DEFINITIONS]
    most = sorted(referred.items(), key=lambda item: (-item[1], item[0]))[:MAX_REFERENCES]
    return {"defs": ordered, "refs": dict(most)}


@cache
def _grammar(language: str) -> tuple[Any, Any]:
    from tree_sitter import Language, Query

    package, name = GRAMMARS[language]
    module = importlib.import_module(package)
    pointer: object = getattr(module, name)()
    grammar = Language(pointer)
    text = module.TAGS_QUERY
    if package == "tree_sitter_typescript":  # its tags are those that JavaScript has not
        text += importlib.import_module("tree_sitter_javascript").TAGS_QUERY
    return grammar, Query(grammar, text)


if __name__ == "__main__":
    main()
