"""Render changes of files as rows with line numbers, changed words and coloured code.

Only languages people often read are told apart, and only texts and lines of ordinary length: what a model wrote must
not keep a screen busy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible_line
from bridle.clients.interaction.questions.question_card import Row, RowStyle
from bridle.protocol.display_values import EditedFile

TokenStyle: TypeAlias = Literal["keyword", "string", "comment", "number", "name"]
MAX_CHARACTERS: Final = 40_000
MAX_LINE_CHARACTERS: Final = 400

CodePiece: TypeAlias = "tuple[str, TokenStyle | None]"

_LANGUAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("sh", "bash", "zsh", "shell"),
    "c": ("c", "h"),
    "cpp": ("cpp", "c++", "cc", "hpp"),
    "csharp": ("cs", "csharp", "c#"),
    "css": ("css",),
    "docker": ("dockerfile", "docker"),
    "go": ("go",),
    "html": ("html", "htm"),
    "ini": ("ini", "cfg"),
    "java": ("java",),
    "javascript": ("js", "javascript", "jsx", "mjs", "cjs"),
    "json": ("json", "jsonc"),
    "kotlin": ("kt", "kotlin"),
    "lua": ("lua",),
    "make": ("makefile", "make", "mk"),
    "php": ("php",),
    "python": ("py", "python", "pyi", "python3"),
    "ruby": ("rb", "ruby"),
    "rust": ("rs", "rust"),
    "sql": ("sql",),
    "swift": ("swift",),
    "toml": ("toml",),
    "typescript": ("ts", "typescript", "tsx"),
    "yaml": ("yaml", "yml"),
}
_NAMES: Final = {name: language for language, names in _LANGUAGES.items() for name in names}


def language_of(path: str) -> str:
    """The language of a file, by its name; empty where nobody can tell."""
    name = path.rpartition("/")[2].lower()
    return _NAMES.get(name) or _NAMES.get(name.rpartition(".")[2] if "." in name else "", "")


def coloured_lines(code: str, language: str) -> list[list[CodePiece]] | None:
    """The lines of a text, as many as it has, each in pieces; None where its language is not told apart."""
    known = _NAMES.get(language.lower())
    if known is None or len(code) > MAX_CHARACTERS or max(map(len, code.split("\n"))) > MAX_LINE_CHARACTERS:
        return None
    lines: list[list[CodePiece]] = [[]]
    for text, style in _pieces(code, known):
        first, *rest = text.split("\n")
        for number, part in enumerate((first, *rest)):
            if number:
                lines.append([])
            if part and lines[-1] and lines[-1][-1][1] == style:
                lines[-1][-1] = (lines[-1][-1][0] + part, style)
            elif part:
                lines[-1].append((part, style))
    wanted = code.count("\n") + 1
    return [*lines, *([] for _ in range(wanted - len(lines)))][:wanted]


def _pieces(code: str, language: str) -> Iterator[CodePiece]:
    lexers: Any = import_module("pygments.lexers")  # tens of milliseconds, for those who see code
    style_of = _styles()
    for _, kind, text in lexers.get_lexer_by_name(language).get_tokens_unprocessed(code):
        known = kind
        while known not in style_of:
            known = known.parent
        yield text, style_of[known]


def _styles() -> dict[Any, TokenStyle | None]:
    from pygments.token import Token

    return {
        Token: None,
        Token.Keyword: "keyword",
        Token.Operator.Word: "keyword",
        Token.Literal.String: "string",
        Token.Literal.Number: "number",
        Token.Comment: "comment",
        Token.Name.Function: "name",
        Token.Name.Class: "name",
        Token.Name.Decorator: "name",
        Token.Name.Tag: "name",
        Token.Name.Attribute: "name",
    }


SHORT_ROWS: Final = 12
"""More of a change is folded where it stands beside the conversation."""
SHORT_NAMES: Final = 8
"""So many of its files are named there."""

_SHORT_AROUND: Final = 1
_COMPARED_CHARACTERS: Final = 400
_ALIKE: Final = 0.5
_HUNK: Final = re.compile(r"@@ -([0-9]+)(?:,([0-9]+))? \+([0-9]+)(?:,([0-9]+))? @@")
_WORDS: Final = re.compile(r"\w+|\s+|.")
_STYLES: Final[dict[str, RowStyle]] = {"+": "added", "-": "removed", "\\": "faint", "…": "faint"}

_Mark: TypeAlias = Literal["+", "-", " ", "\\", "…"]


class EditPiece(NamedTuple):
    """Text of one look; `marked` where these words are what changed in their line."""

    text: str
    style: RowStyle | TokenStyle
    marked: bool = False


EditRow: TypeAlias = tuple[EditPiece, ...]


class _Line(NamedTuple):
    """A line of a hunk. Without a number it is about the diff itself."""

    mark: _Mark
    number: int
    text: str


def edit_rows(files: Sequence[EditedFile], *, names: bool = True, colours: bool = False) -> list[EditRow]:
    """All of it, a title for each file where `names` says so. `colours`: code is told apart."""
    rows: list[EditRow] = []
    for file in files:
        rows += [(EditPiece(file_words(file), "title"),)] if names else []
        for at, hunk in enumerate(_hunks(file.diff)):
            rows += [(EditPiece("    …", "faint"),)] if at else []
            rows += _drawn(hunk, language_of(file.path) if colours else "")
    return [*rows, *_cut(files)]


def short_edit_rows(
    files: Sequence[EditedFile], *, names: bool = False, colours: bool = False, more: str = ""
) -> list[EditRow]:
    """A little of it; what is left out is counted, and `more` says where it is."""
    rows: list[EditRow] = []
    left_out = 0
    for number, file in enumerate(files):
        rows += [(EditPiece(file_words(file), "title"),)] if names and number < SHORT_NAMES else []
        for at, hunk in enumerate(_hunks(file.diff)):
            near = _near(hunk, _SHORT_AROUND)
            room = SHORT_ROWS - len(rows) - (1 if at else 0)
            if len(near) > room and left_out == 0 and len(near) - room <= 1 and file is files[-1]:
                room = len(near)  # a row that says one is left out takes the place of that one
            rows += [(EditPiece("    …", "faint"),)] if at and room > 0 else []
            rows += _drawn(near[: max(room, 0)], language_of(file.path) if colours else "")
            left_out += sum(line.mark in "+-" for line in near[max(room, 0) :])
    unnamed = max(0, len(files) - SHORT_NAMES) if names else 0
    told = [counted(left_out, "more changed line")] if left_out else []
    told += [counted(unnamed, "more file")] if unnamed else []
    if told:
        rows.append((EditPiece(f"    … {', '.join(told)}{more}", "faint"),))
    return [*rows, *_cut(files)]


def file_words(file: EditedFile) -> str:
    """A file and what became of it, in one line."""
    path = _text(file.path)
    removed = "" if file.removed is None else f" -{file.removed}"
    counts = {"create": f"+{file.added}", "delete": removed.strip()}.get(file.kind, f"+{file.added}{removed}")
    if file.removed is None and not file.diff:
        counts = "no text, or too large to compare"
    deed = {"create": "new", "delete": "deleted", "move": f"was {_text(file.moved_from or '')}"}
    return "   ".join(filter(None, (path, counts, deed.get(file.kind, ""))))


def _cut(files: Sequence[EditedFile]) -> Iterator[EditRow]:
    if cut := sum(file.cut for file in files):
        yield (EditPiece(f"    … {counted(cut, 'more file')}, too long to keep", "faint"),)


def _hunks(diff: str) -> Iterator[list[_Line]]:
    """The hunks of a unified diff, its lines with their numbers: of what went in the old text, else in the new."""
    hunk: list[_Line] = []
    old = new = olds = news = 0
    for line in diff.split("\n"):
        if found := _HUNK.match(line):
            if hunk:
                yield hunk
            hunk, old, new = [], int(found[1]), int(found[3])
            olds, news = int(found[2] or 1), int(found[4] or 1)
        elif olds > 0 and line.startswith("-"):
            hunk.append(_Line("-", old, line[1:]))
            old, olds = old + 1, olds - 1
        elif news > 0 and line.startswith(("+", " ")):
            kept = line[0] == " "
            hunk.append(_Line(" " if kept else "+", new, line[1:]))
            old, olds = old + kept, olds - kept
            new, news = new + 1, news - 1
        elif not hunk:
            continue  # the names of the file, or no hunk at all
        elif line.startswith(("\\", "…")):
            hunk.append(
                _Line("…" if line[0] == "…" else "\\", 0, line.removeprefix("\\ ").removeprefix("… "))
            )
    if hunk:
        yield hunk


def _near(hunk: Sequence[_Line], around: int) -> list[_Line]:
    """Without the lines that stay and have no change near them."""
    changed = [at for at, line in enumerate(hunk) if line.mark in "+-"]
    wanted = {near for at in changed for near in range(at - around, at + around + 1)}
    return [line for at, line in enumerate(hunk) if at in wanted or line.mark in "\\…"]


def _drawn(hunk: Sequence[_Line], language: str) -> Iterator[EditRow]:
    marked = _changed_words(hunk)
    fresh = [at for at, line in enumerate(hunk) if line.mark in "+ "]
    told = coloured_lines("\n".join(hunk[at].text for at in fresh), language) if language and fresh else None
    parts = dict(zip(fresh, told or (), strict=False))
    for at, (mark, number, text) in enumerate(hunk):
        style = _STYLES.get(mark, "plain")
        if not number:
            yield (EditPiece(f"    {'… ' if mark == '…' else '       '}{_text(text)}", style),)
            continue
        pieces = parts.get(at) or [(text, None)]
        yield (EditPiece(f"{number:5}  {mark} ", style), *_split(pieces, marked.get(at, ()), style))


def _split(
    pieces: Sequence[tuple[str, TokenStyle | None]], marked: Sequence[tuple[int, int]], base: RowStyle
) -> Iterator[EditPiece]:
    """The pieces of a line, cut where what changed begins and ends."""
    edges = sorted({edge for span in marked for edge in span})
    start = 0
    for text, style in pieces:
        cuts = [0, *(edge - start for edge in edges if start < edge < start + len(text)), len(text)]
        for begin, end in pairwise(cuts):
            inside = any(first <= start + begin < last for first, last in marked)
            yield EditPiece(_text(text[begin:end]), style or base, inside)
        start += len(text)


def _changed_words(hunk: Sequence[_Line]) -> dict[int, list[tuple[int, int]]]:
    """What changed in lines that were replaced by ones much like them, as places in their text."""
    found: dict[int, list[tuple[int, int]]] = {}
    at = 0
    while at < len(hunk):
        gone = _run(hunk, at, "-")
        come = _run(hunk, at + gone, "+") if gone else 0
        for number in range(min(gone, come)):
            old, new = at + number, at + gone + number
            found |= zip((old, new), _compared(hunk[old].text, hunk[new].text), strict=False)
        at += max(gone + come, 1)
    return found


def _run(hunk: Sequence[_Line], at: int, mark: _Mark) -> int:
    count = 0
    while at + count < len(hunk) and hunk[at + count].mark == mark:
        count += 1
    return count


def _compared(old: str, new: str) -> Sequence[list[tuple[int, int]]]:
    """What differs in each of the two; nothing where they have little in common."""
    if max(len(old), len(new)) > _COMPARED_CHARACTERS:
        return ()
    from difflib import SequenceMatcher  # slow to import, and only for this

    words = _WORDS.findall(old), _WORDS.findall(new)
    matcher = SequenceMatcher(None, *words, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return ()
    places: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        for side, first, last in ((0, i1, i2), (1, j1, j2)):
            if last > first:
                begin = sum(map(len, words[side][:first]))
                places[side].append((begin, begin + sum(map(len, words[side][first:last]))))
    return places


def _text(text: str) -> str:
    return visible_line(text).replace("\t", "    ")


_HEADING: Final = "diff --git "
_DIFF_STYLES: Final[dict[str, RowStyle]] = {"+": "added", "-": "removed", "@": "faint"}
_FILE_MARKS: Final = (
    ("new file mode", "[new file]"),
    ("deleted file mode", "[deleted]"),
    ("rename from", "[renamed]"),
    ("copy from", "[copied]"),
    ("new mode", "[mode changed]"),
    ("Binary files", "[binary]"),
)


def diff_rows(text: str) -> list[Row]:
    """The rows of a git diff and of text around it. Trailing blanks of changed lines show as dots."""
    rows: list[Row] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        if not lines[at].startswith(_HEADING):
            rows.append(Row(_diff_line(lines[at])))
            at += 1
            continue
        end = next((n for n in range(at + 1, len(lines)) if _ends_file(lines[n])), len(lines))
        rows += _file_rows(lines[at:end])
        at = end
    return rows


def _ends_file(line: str) -> bool:
    return not line or line.startswith(_HEADING)


def _file_rows(lines: list[str]) -> Iterator[Row]:
    hunks = next((n for n, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    head, body = lines[:hunks], lines[hunks:]
    added = sum(line.startswith("+") for line in body)
    removed = sum(line.startswith("-") for line in body)
    counts = f"+{added} -{removed}" if body else ""
    marks = (mark for start, mark in _FILE_MARKS if any(line.startswith(start) for line in head))
    yield Row("   ".join(filter(None, (_diff_line(_file_name(head)), counts, *marks))), "title")
    for line in body:
        yield Row(_diff_line(line), _DIFF_STYLES.get(line[:1], "plain"))


def _file_name(head: list[str]) -> str:
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


def _diff_line(line: str) -> str:
    if line.startswith(("+", "-")):
        bare = line.rstrip(" \t")
        line = bare + "·" * (len(line) - len(bare))
    return visible_line(line).replace("\t", "    ")
