"""A program that searches files as `rg` would, for machines without it. It stands alone: nothing of ours is imported.

It runs as a process of its own because a regular expression can take for ever, and only a process can be stopped.

Reads from stdin a line of JSON with `pattern`, `ignore_case`, `count` and `max_file_bytes`, then the paths to search,
relative to the current folder, each ended by a zero byte. Writes what `rg --json` writes, or with `count` what
`rg --count --null` does, as far as Bridle reads it. A file with a zero byte is binary and passed over.
"""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import Any


def main() -> None:
    head, _, paths = sys.stdin.buffer.read().partition(b"\n")
    request = json.loads(head)
    wanted = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    write = sys.stdout.buffer.write
    for path in paths.split(b"\0")[:-1]:
        matches = list(_matches(wanted, path, request["max_file_bytes"]))
        if matches and request["count"]:
            write(b"%s\0%d\n" % (path, len(matches)))
        elif matches:
            for match in matches:
                write(_line("match", {"path": _text(path), **match}))
            write(_line("end", {"path": _text(path), "binary_offset": None}))


def _matches(wanted: re.Pattern[str], path: bytes, max_bytes: int) -> Iterator[dict[str, Any]]:
    lines = read_text(path, max_bytes).split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        text = line.decode("utf-8", "surrogateescape")
        if found := wanted.search(text):
            start = len(text[: found.start()].encode("utf-8", "surrogateescape"))
            yield {"lines": _text(line), "line_number": number, "submatches": [{"start": start}]}


def read_text(path: bytes, max_bytes: int) -> bytes:
    """The content of a text file; nothing for anything else."""
    try:
        fd = _open(path)
    except OSError:
        return b""
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
            return b""
        data = file.read(max_bytes)
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


def _text(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(data).decode()}


def _line(kind: str, data: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "data": data}).encode() + b"\n"


if __name__ == "__main__":
    main()
