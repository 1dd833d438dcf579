"""Write a unified diff of bounded size, and count added and removed lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

MAX_DIFF_BYTES = 32 * 1024
MAX_COMPARED_LINES = 2000
"""Of the part that differs, on either side. Finding the smallest change in more takes too long."""
_CONTEXT_LINES = 3
_NO_NEWLINE = "\\ No newline at end of file"


class Diff(msgspec.Struct, frozen=True):
    text: str
    added: int
    removed: int


def diff_of(path: str, old: str | None, new: str) -> Diff:
    """The change from `old` (None: there was no file) to `new`.

    Longer than 32 KB, it ends with a line saying how many lines are missing; the counts are of the whole
    change.
    """
    before, after = _lines(old or ""), _lines(new)
    body = list(_hunks(before, after))
    if not body:
        return Diff("", 0, 0)
    added = sum(line.startswith("+") for line in body)
    removed = sum(line.startswith("-") for line in body)
    header = ["--- /dev/null" if old is None else f"--- a/{path}", f"+++ b/{path}"]
    return Diff(_bounded([*header, *body]), added, removed)


def _lines(text: str) -> list[str]:
    """The lines with their ends; only a newline ends a line, so a form feed cannot split one."""
    lines = text.split("\n")
    last = lines.pop()
    ended = [f"{line}\n" for line in lines]
    return [*ended, last] if last else ended


def _hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    changed_before, changed_after = len(before) - start - end, len(after) - start - end
    if not changed_before and not changed_after:
        return
    if max(changed_before, changed_after) > MAX_COMPARED_LINES:
        yield from _replaced(before, after, start, end)
        return
    import difflib  # only needed when something is written

    # What is equal at both ends is left out of the comparison; the context around the change stays in.
    first = max(start - _CONTEXT_LINES, 0)
    last = max(end - _CONTEXT_LINES, 0)
    matcher = difflib.SequenceMatcher(
        None, before[first : len(before) - last], after[first : len(after) - last]
    )
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        old_range = _range(first + old_from, first + old_to)
        yield f"@@ -{old_range} +{_range(first + new_from, first + new_to)} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from _marked(" ", before[first + i1 : first + i2])
                continue
            yield from _marked("-", before[first + i1 : first + i2])
            yield from _marked("+", after[first + j1 : first + j2])


def _replaced(before: Sequence[str], after: Sequence[str], start: int, end: int) -> Iterator[str]:
    """The whole differing part as one change."""
    yield f"@@ -{_range(start, len(before) - end)} +{_range(start, len(after) - end)} @@"
    yield from _marked("-", before[start : len(before) - end])
    yield from _marked("+", after[start : len(after) - end])


def _common(before: Sequence[str], after: Sequence[str]) -> int:
    count = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        count += 1
    return count


def _range(start: int, stop: int) -> str:
    """Lines as the unified format counts them: an empty range names the line before it."""
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if line.endswith("\n"):
            yield mark + line[:-1]
        else:
            yield mark + line
            yield _NO_NEWLINE


def _bounded(lines: Sequence[str]) -> str:
    kept: list[str] = []
    room = MAX_DIFF_BYTES
    for line in lines:
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            kept.append(f"… {len(lines) - len(kept)} more lines")
            break
        kept.append(line)
    return "\n".join(kept) + "\n"
