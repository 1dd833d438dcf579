"""What changed in a repository, as lines on a screen: a heading per file, then its hunks. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridle.base.visible import visible
from bridle.clients.interaction.question_card import Row, RowStyle

_HEADING: Final = "diff --git "
_STYLES: Final[dict[str, RowStyle]] = {"+": "added", "-": "removed", "@": "faint"}
_MARKS: Final = (
    ("new file mode", "[new file]"),
    ("deleted file mode", "[deleted]"),
    ("rename from", "[renamed]"),
    ("copy from", "[copied]"),
    ("new mode", "[mode changed]"),
    ("Binary files", "[binary]"),
)


def diff_rows(text: str) -> list[Row]:
    """The rows of what git writes, and of words before and behind it. Blanks at the end of a changed line show."""
    rows: list[Row] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        if not lines[at].startswith(_HEADING):
            rows.append(Row(_shown(lines[at])))
            at += 1
            continue
        end = next((n for n in range(at + 1, len(lines)) if _ends_file(lines[n])), len(lines))
        rows += _file(lines[at:end])
        at = end
    return rows


def _ends_file(line: str) -> bool:
    return not line or line.startswith(_HEADING)


def _file(lines: list[str]) -> Iterator[Row]:
    hunks = next((n for n, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    head, body = lines[:hunks], lines[hunks:]
    added = sum(line.startswith("+") for line in body)
    removed = sum(line.startswith("-") for line in body)
    counts = f"+{added} -{removed}" if body else ""
    marks = (mark for start, mark in _MARKS if any(line.startswith(start) for line in head))
    yield Row("   ".join(filter(None, (_shown(_name(head)), counts, *marks))), "title")
    for line in body:
        yield Row(_shown(line), _STYLES.get(line[:1], "plain"))


def _name(head: list[str]) -> str:
    """The file's name: as it is now, or as it was where it is gone."""
    names = {line[:4]: line[4:] for line in head if line.startswith(("--- ", "+++ "))}
    for start, prefix in (("+++ ", "b/"), ("--- ", "a/")):
        name = names.get(start, "/dev/null").removesuffix("\t")
        if name != "/dev/null":
            return name.removeprefix('"').removesuffix('"').removeprefix(prefix)
    for line in head:
        if line.startswith("rename to "):
            return line.removeprefix("rename to ")
    both = head[0].removeprefix(_HEADING)
    return both[: len(both) // 2].removeprefix("a/")


def _shown(line: str) -> str:
    if line.startswith(("+", "-")):
        bare = line.rstrip(" \t")
        line = bare + "·" * (len(line) - len(bare))
    return visible(line, newlines=False).replace("\t", "    ")
