r"""Parse patches: unified diffs and the `*** Begin Patch` format.

BadPatch   the text is no patch; `line` says where

    --- a/src/cart.py                    *** Begin Patch
    +++ b/src/cart.py                    *** Update File: src/cart.py
    @@ -1,2 +1,2 @@                      @@ def total():
     def total():                         def total():
    -    return 0                        -    return 0
    +    return 1                        +    return 1
                                         *** End Patch

Both become the same `PatchedFile`s. The line counts of a unified diff are taken as a hint: people and models
miscount, and a change is only ever made where its own lines are found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

Mark: TypeAlias = Literal[" ", "-", "+"]

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _UPDATE, _DELETE = "*** Add File: ", "*** Update File: ", "*** Delete File: "
_MOVE, _END_OF_FILE = "*** Move to: ", "*** End of File"
_NO_NEWLINE = "\\ "
_NOWHERE = "/dev/null"
_RANGE = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_PREFIXES = frozenset({"a/", "b/", "c/", "i/", "o/", "w/"})
_SIGNATURES = frozenset({"--", "-- ", "---"})
"""What mails have behind a patch and before the next."""
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class BadPatch(ValueError):
    """`line` counts from 1, in the patch."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line} of the patch: {problem}")
        self.line = line
        self.problem = problem


class PatchLine(msgspec.Struct, frozen=True):
    mark: Mark
    text: str


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring lines that stay, go and come.

    `start`: where a unified diff says they are, counted from 1. `anchors`: lines of the file that stand above
    them, in this order. `at_end`: they are the last ones. `old_unended` and `new_unended`: the last line has
    no line end, before and after.
    """

    lines: tuple[PatchLine, ...]
    start: int | None = None
    anchors: tuple[str, ...] = ()
    at_end: bool = False
    old_unended: bool = False
    new_unended: bool = False

    @property
    def old(self) -> tuple[str, ...]:
        return tuple(line.text for line in self.lines if line.mark != "+")

    @property
    def new(self) -> tuple[str, ...]:
        return tuple(line.text for line in self.lines if line.mark != "-")


class PatchedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one file.

    A new file is one hunk of lines that come. A deletion may name the lines that go. `changes_mode`: the patch
    also wanted to change its rights, which is not done.
    """

    kind: Literal["add", "update", "delete"]
    path: str
    moved_to: str | None = None
    hunks: tuple[Hunk, ...] = ()
    changes_mode: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,) if self.moved_to is None else (self.path, self.moved_to)


def parse_patch(text: str) -> tuple[PatchedFile, ...]:
    """The changes in the order they stand there, at least one. Raises `BadPatch` and nothing else."""
    reader = _Reader(_without_fence(text.split("\n")))
    while reader.more and not _begins_patch(reader):
        if _RANGE.match(reader.line):
            raise BadPatch(reader.number, "a change without the --- and +++ lines of its file")
        reader.next()  # words before a patch are no part of it
    changes = _envelopes(reader) if reader.more and reader.line.rstrip() == _BEGIN else _unified(reader)
    if not changes:
        raise BadPatch(1, "it changes no file; write a unified diff, or *** Begin Patch … *** End Patch")
    return tuple(changes)


def files_of_patch(text: str) -> tuple[str, ...]:
    """The files a patch names, each once; none where it cannot be read."""
    try:
        changes = parse_patch(text)
    except BadPatch:
        return ()
    return tuple(dict.fromkeys(path for change in changes for path in change.paths))


class _Reader:
    """The lines of a patch and how far it was read. A carriage return at a line's end is not part of it."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = [line.removesuffix("\r") for line in lines]
        if self._lines and not self._lines[-1]:
            self._lines.pop()
        self._at = 0

    @property
    def more(self) -> bool:
        return self._at < len(self._lines)

    @property
    def line(self) -> str:
        return self._lines[self._at]

    @property
    def number(self) -> int:
        return self._at + 1

    def next(self) -> str:
        self._at += 1
        return self._lines[self._at - 1]

    def ahead(self, count: int) -> str | None:
        """A later line, None past the end."""
        return self._lines[self._at + count] if self._at + count < len(self._lines) else None

    def ahead_starts(self, count: int, prefix: str) -> bool:
        return (self.ahead(count) or "").startswith(prefix)

    def past_blank(self) -> int:
        """How far ahead the next line is that is not empty."""
        count = 0
        while self.ahead(count) == "":
            count += 1
        return count

    def takes(self, prefix: str) -> str | None:
        """The rest of the line, and past it, if it begins so."""
        return self.next().removeprefix(prefix) if self.more and self.line.startswith(prefix) else None


def _begins_patch(reader: _Reader) -> bool:
    return reader.line.rstrip() == _BEGIN or reader.line.startswith("diff --git ") or _begins_file(reader)


def _without_fence(lines: list[str]) -> list[str]:
    """The lines inside a Markdown fence around the whole, emptied rather than dropped so that numbers hold."""
    full = [index for index, line in enumerate(lines) if line.strip()]
    if len(full) > 1 and lines[full[0]].startswith("```") and lines[full[-1]].strip() == "```":
        return ["", *([""] * full[0]), *lines[full[0] + 1 : full[-1]]]
    return lines


# The form models write


def _envelopes(reader: _Reader) -> list[PatchedFile]:
    """One after the other, with words between them and behind."""
    changes: list[PatchedFile] = []
    while reader.more:
        if reader.line.rstrip() == _BEGIN:
            changes += _envelope(reader)
        elif _begins_patch(reader) or reader.line.startswith("*** "):
            raise BadPatch(reader.number, f"it goes on after {_END}")
        else:
            reader.next()
    return changes


def _envelope(reader: _Reader) -> list[PatchedFile]:
    reader.next()
    changes: list[PatchedFile] = []
    while reader.more:
        number = reader.number
        if (path := reader.takes(_ADD)) is not None:
            changes.append(_added(reader, _checked_path(path, number)))
        elif (path := reader.takes(_UPDATE)) is not None:
            changes.append(_updated(reader, _checked_path(path, number), number))
        elif (path := reader.takes(_DELETE)) is not None:
            changes.append(PatchedFile(kind="delete", path=_checked_path(path, number)))
        elif reader.line.rstrip() == _END:
            reader.next()
            return changes
        elif not reader.line.strip():
            reader.next()
        else:
            raise BadPatch(number, f"expected *** Add, Update or Delete File: or {_END}")
    raise BadPatch(reader.number, f"it ends without {_END}, so it may be cut off")


def _added(reader: _Reader, path: str) -> PatchedFile:
    lines: list[PatchLine] = []
    while reader.more and not reader.line.startswith("*** "):
        if reader.line and not reader.line.startswith("+"):
            raise BadPatch(reader.number, "every line of a new file begins with +")
        is_inside = bool(reader.line) or not _only_blank_before_header(reader)
        line = reader.next()
        if is_inside:  # a blank line may have lost its mark
            lines.append(PatchLine("+", line[1:]))
    hunks = (Hunk(lines=tuple(lines), start=0),) if lines else ()
    return PatchedFile(kind="add", path=path, hunks=hunks)


def _updated(reader: _Reader, path: str, number: int) -> PatchedFile:
    target = reader.takes(_MOVE)
    moved_to = None if target is None else _checked_path(target, reader.number - 1)
    hunks: list[Hunk] = []
    while reader.more and (reader.line == _END_OF_FILE or not reader.line.startswith("*** ")):
        if not reader.line and _only_blank_before_header(reader):
            reader.next()
            continue
        hunks.append(_searched_hunk(reader))
    if not hunks and moved_to is None:
        raise BadPatch(number, f"{path} is to be updated, but no change follows")
    return PatchedFile(kind="update", path=path, moved_to=moved_to, hunks=tuple(hunks))


def _only_blank_before_header(reader: _Reader) -> bool:
    line = reader.ahead(reader.past_blank())
    return line is None or line.startswith(("*** ", "@@"))


def _searched_hunk(reader: _Reader) -> Hunk:
    first = reader.number
    anchors: list[str] = []
    while reader.more and reader.line.startswith("@@"):
        if _RANGE.match(reader.line):  # numbers are no use here: this form is searched for
            reader.next()
            continue
        anchor = reader.next()[2:].strip().removesuffix("@@").strip()
        if anchor:
            anchors.append(anchor)
    lines: list[PatchLine] = []
    at_end = False
    unended: list[Mark] = []
    while reader.more and not reader.line.startswith(("@@", "*** ")):
        if not reader.line and _only_blank_before_header(reader):
            reader.next()
        elif reader.line.startswith(_NO_NEWLINE):
            reader.next()
            unended.extend(line.mark for line in lines[-1:])
        else:
            lines.append(_marked(reader))
    if reader.more and reader.line == _END_OF_FILE:
        reader.next()
        at_end = True
    if not any(line.mark != " " for line in lines):
        raise BadPatch(first, "a change has neither a line with - nor one with +")
    return _hunk(lines, unended, anchors=tuple(anchors), at_end=at_end)


# Unified diffs


class _Header(msgspec.Struct):
    """What stands before the hunks of a file."""

    old: str | None = None
    new: str | None = None
    renamed_from: str | None = None
    renamed_to: str | None = None
    is_new: bool = False
    is_deleted: bool = False
    changes_mode: bool = False

    def is_about(self, old: str) -> bool:
        """Whether a `---` line of this name goes with the header, and is not that of the next file."""
        known = self.old if self.renamed_from is None else self.renamed_from
        return known is None or old in {known, _NOWHERE} or old[2:] == known


def _unified(reader: _Reader) -> list[PatchedFile]:
    changes: list[PatchedFile] = []
    while reader.more:
        number = reader.number
        if reader.line.startswith("diff --git "):
            header = _git_header(reader)
        elif _begins_file(reader):
            header = _Header()
        elif _RANGE.match(reader.line):
            raise BadPatch(number, "a change without the --- and +++ lines of its file")
        elif reader.line.startswith(("+", "-", "*** ")) and reader.line not in _SIGNATURES:
            raise BadPatch(number, "a line that belongs to no change")
        else:
            reader.next()  # words between the changes and behind them are no part of them
            continue
        if _begins_file(reader) and header.is_about(_name(reader.line[4:])):
            header.old, header.new = _name(reader.next()[4:]), _name(reader.next()[4:])
        hunks: list[Hunk] = []
        while reader.more and reader.line.startswith("@@"):
            hunks.append(_counted_hunk(reader))
        changes.append(_file_change(header, hunks, number))
    return changes


def _begins_file(reader: _Reader) -> bool:
    return reader.more and reader.line.startswith("--- ") and reader.ahead_starts(1, "+++ ")


def _git_header(reader: _Reader) -> _Header:
    old, new = _git_names(reader.next().removeprefix("diff --git "))
    header = _Header(old=old, new=new)
    while reader.more and not _begins_file(reader) and not reader.line.startswith(("diff --git ", "@@")):
        number, line = reader.number, reader.next()
        if line.startswith("new file mode "):
            header.is_new = True
            header.changes_mode = line.endswith("755")
        elif line.startswith("deleted file mode "):
            header.is_deleted = True
        elif line.startswith("new mode "):
            header.changes_mode = True
        elif line.startswith("rename from "):
            header.renamed_from = _name(line.removeprefix("rename from "))
        elif line.startswith("rename to "):
            header.renamed_to = _name(line.removeprefix("rename to "))
        elif line.startswith("copy from "):
            raise BadPatch(number, "copies are not understood; write the copy as a new file")
        elif line.startswith(("GIT binary patch", "Binary files ")):
            raise BadPatch(number, "binary files cannot be patched")
    return header


def _git_names(rest: str) -> tuple[str | None, str | None]:
    """Both names where they are the same but for the prefix; otherwise other lines of the header have them."""
    if quoted := re.fullmatch(r'("(?:[^"\\]|\\.)*") ("(?:[^"\\]|\\.)*")', rest):
        return _name(quoted[1]), _name(quoted[2])
    middle = len(rest) // 2
    old, new = rest[:middle], rest[middle + 1 :]
    return (old, new) if old[2:] == new[2:] else (None, None)


def _file_change(header: _Header, hunks: list[Hunk], number: int) -> PatchedFile:
    old, new = _without_prefixes(header.old, header.new)
    if header.renamed_from is not None and header.renamed_to is not None:
        old, new = header.renamed_from, header.renamed_to
    is_new = header.is_new or old == _NOWHERE
    is_deleted = header.is_deleted or new == _NOWHERE
    if is_new and is_deleted:
        raise BadPatch(number, "a file that is neither there before nor after")
    path = _checked_path((new if is_new else old) or "", number)
    if is_new and any(line.mark != "+" for hunk in hunks for line in hunk.lines):
        raise BadPatch(number, f"{path} is new, but the change has lines that were there before")
    kind: Literal["add", "update", "delete"] = "add" if is_new else "delete" if is_deleted else "update"
    moved_to = None
    if kind == "update" and new is not None and new != path:
        moved_to = _checked_path(new, number)
    if kind == "update" and not hunks and moved_to is None:
        problem = "only its mode would change; use bash" if header.changes_mode else "no change follows"
        raise BadPatch(number, f"{path}: {problem}")
    return PatchedFile(
        kind=kind, path=path, moved_to=moved_to, hunks=tuple(hunks), changes_mode=header.changes_mode
    )


def _counted_hunk(reader: _Reader) -> Hunk:
    first = reader.number
    found = _RANGE.match(reader.next())
    start = int(found[1]) if found else None
    old_left, new_left = (int(found[2] or 1), int(found[4] or 1)) if found else (0, 0)
    lines: list[PatchLine] = []
    unended: list[Mark] = []
    while reader.more:
        if reader.line.startswith(_NO_NEWLINE):
            reader.next()
            unended.extend(line.mark for line in lines[-1:])
            continue
        expected = old_left > 0 or new_left > 0
        if _ends_hunk(reader, old_left, new_left, expected=expected):
            break
        line = _marked(reader)
        lines.append(line)
        old_left -= line.mark != "+"
        new_left -= line.mark != "-"
    if not any(line.mark != " " for line in lines):
        raise BadPatch(first, "a change has neither a line with - nor one with +")
    return _hunk(lines, unended, start=start)


def _ends_hunk(reader: _Reader, old_left: int, new_left: int, *, expected: bool) -> bool:
    """Whether the line belongs to something else; `expected`: by its counts the hunk has more lines."""
    line = reader.line
    if line.startswith(("@@", "diff --git ")):
        return True
    if _begins_file(reader) and reader.ahead_starts(2, "@@"):
        # A line that goes and reads `-- x` looks like a header too; then the counts come out even.
        return not (old_left == 1 and new_left == 1)
    if expected:
        return False
    if not line:
        return not _goes_on_past_blank(reader)
    return line in _SIGNATURES or line[0] not in {" ", "-", "+"}


def _goes_on_past_blank(reader: _Reader) -> bool:
    """Whether the blank lines here are context that lost its mark: more of the change follows them."""
    count = reader.past_blank()
    line = reader.ahead(count)
    if line is None or line in _SIGNATURES or line[0] not in {" ", "-", "+"}:
        return False
    return not (line.startswith("--- ") and reader.ahead_starts(count + 1, "+++ "))


def _marked(reader: _Reader) -> PatchLine:
    number, line = reader.number, reader.next()
    match line[:1]:
        case " " | "-" | "+" as mark:
            return PatchLine(mark, line[1:])
        case "":  # a blank line whose leading space got lost
            return PatchLine(" ", "")
        case _:
            raise BadPatch(number, "a line of a change begins with a space, - or +")


def _hunk(
    lines: Sequence[PatchLine],
    unended: Sequence[Mark],
    *,
    start: int | None = None,
    anchors: tuple[str, ...] = (),
    at_end: bool = False,
) -> Hunk:
    return Hunk(
        lines=tuple(lines),
        start=start,
        anchors=anchors,
        at_end=at_end or bool(unended),
        old_unended=any(mark != "+" for mark in unended),
        new_unended=any(mark != "-" for mark in unended),
    )


# Names


def _without_prefixes(old: str | None, new: str | None) -> tuple[str | None, str | None]:
    """Git's `a/` and `b/` go; a folder that happens to be called so stays."""
    if old is None or new is None:
        return old, new
    if old == _NOWHERE:
        return old, new.removeprefix("b/")
    if new == _NOWHERE:
        return old.removeprefix("a/"), new
    if old[:2] in _PREFIXES and new[:2] in _PREFIXES and old[:2] != new[:2]:
        return old[2:], new[2:]
    return old, new


def _name(text: str) -> str:
    """A file name as diffs write it: maybe with a time behind a tab, maybe quoted as in C."""
    if not text.startswith('"'):
        return text.partition("\t")[0].rstrip("\r")
    end = re.match(r'"((?:[^"\\]|\\.)*)"', text)
    if end is None:
        return text
    return _unquoted(end[1])


def _unquoted(text: str) -> str:
    out = bytearray()
    for octal, escaped, plain in re.findall(r"\\([0-7]{3})|\\(.)|([^\\]+)", text):
        if octal:
            out.append(int(octal, 8) & 0xFF)
        else:
            out += (_ESCAPES.get(escaped, escaped) or plain).encode("utf-8", "surrogatepass")
    return out.decode("utf-8", "replace")


def _checked_path(path: str, number: int) -> str:
    path = path.strip()
    if not path or "\0" in path:
        raise BadPatch(number, "the name of a file is missing")
    return path
