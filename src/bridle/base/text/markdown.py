"""Parse streamed Markdown into styled spans.

Owns the reading of a practical subset: headings, bullets, quotes, fenced code, tables, links, bold, italic and code.
Colours, wrapping and highlighting belong to whoever draws the spans; there are no terminal codes here.

The characters and their styles depend on the text alone, never on where chunks are cut. What cannot be
decided yet is held back: an inline marker until its partner arrives, its line ends or `HELD_MAX_CHARS` have
passed; in the last two cases it was plain text after all. Only markers that took effect are dropped.
"""

import functools
import re
from typing import Final, Literal, NamedTuple, TypeAlias

Style: TypeAlias = Literal[
    "plain",
    "bold",
    "italic",
    "bold_italic",
    "code",
    "heading",
    "bullet",
    "quote",
    "link",
    "code_block",
    "table",
]

HELD_MAX_CHARS: Final = 400
TABLE_MAX_CHARS: Final = 16_000
"""A table is held until it ends; what is longer goes on as lines."""

_EMPHASIS: Final[dict[int, Style]] = {1: "italic", 2: "bold", 3: "bold_italic"}
_ADDRESSES: Final = ("https://", "http://")
_TARGET: Final = r"(?:[^\s<>()]|\([^\s<>()]*\))"
_RULE: Final = "|:- \t\r"
_ESCAPABLE: Final = "\\`*_{}[]()<>#+-.!|~\"'"
_BLANKS: Final = " \t"
_MAX_NESTING: Final = 2

_WAIT: Final = -1  # more text is needed to decide
_NO: Final = -2  # decided: nothing of that kind is here


class StyledSpan(NamedTuple):
    """Text in one style. `language` is the first word after the fence of a code block, or "".

    `target` is where a link leads, as it was written; nobody has looked at it. The text of a `table` is its lines.
    """

    text: str
    style: Style
    language: str = ""
    target: str = ""


class MarkdownStream:
    """Renders one message. A code block is one span, delivered when its fence closes or at `flush`; so is a table."""

    def __init__(self) -> None:
        self._text = ""  # what is held, and while rendering also the new chunk
        self._at = 0
        self._at_line_start = True
        self._line_style: Style = "plain"
        self._previous: str = ""  # the character shown before, on the same line
        self._fence: _Fence | None = None
        self._table: list[str] = []  # the lines of an open table
        self._spans: list[StyledSpan] = []

    def render_chunk(self, text: str) -> list[StyledSpan]:
        """Take more text; return the spans it settles."""
        if self._fence and "\n" not in text:
            self._fence.parts.append(text)
            return []
        self._text += text
        self._read(final=False)
        return self._taken()

    def flush(self) -> list[StyledSpan]:
        """Settle everything held, as if the text ended here; the stream then starts anew."""
        self._read(final=True)
        if self._fence:
            self._spans.append(self._fence.ended())
        self._end_table()
        self._fence = None
        self._at_line_start = True
        return self._taken()

    def _taken(self) -> list[StyledSpan]:
        self._text = self._text[self._at :]
        self._at = 0
        spans, self._spans = _merged(self._spans), []
        return spans

    def _read(self, *, final: bool) -> None:
        while self._at < len(self._text):
            if self._fence:
                self._read_fence(self._fence)
            elif self._table:
                if not self._read_row(final=final):
                    return
            elif self._at_line_start:
                if not self._read_line_start(final=final):
                    return
            elif not self._read_line(final=final):
                return

    def _read_fence(self, fence: "_Fence") -> None:
        end = self._text.find("\n", self._at)
        fence.parts.append(self._text[self._at : end if end >= 0 else len(self._text)])
        self._at = end + 1 if end >= 0 else len(self._text)
        if end >= 0 and fence.line_ended():
            self._spans.append(fence.ended())
            self._fence = None

    def _read_row(self, *, final: bool) -> bool:
        """Read one more line of the table, or find that it has ended; False if more text is needed."""
        text, at = self._text, self._at
        start = _past(text, at, _BLANKS, 4)
        if start == len(text) and not final and start - at < 4:
            return False
        end = text.find("\n", at, at + TABLE_MAX_CHARS)
        if not text.startswith("|", start) or sum(map(len, self._table)) > TABLE_MAX_CHARS:
            self._end_table()
        elif end >= 0:
            self._table.append(text[at : end + 1])
            self._at = end + 1
        elif len(text) - at >= TABLE_MAX_CHARS:
            self._end_table()
        elif final:
            self._table.append(text[at:])
            self._at = len(text)
        else:
            return False
        return True

    def _end_table(self) -> None:
        if self._table:
            self._spans.append(StyledSpan("".join(self._table), "table"))
            self._at_line_start = self._table[-1].endswith("\n")
            self._table = []

    def _read_line(self, *, final: bool) -> bool:
        """Read on in the line; False if more text is needed."""
        inline = _Inline(self._text, self._at, self._previous, final=final)
        inline.read(self._line_style)
        self._spans += inline.spans
        self._at, self._previous = inline.at, inline.previous
        if self._at < len(self._text) and self._text[self._at] == "\n":
            self._spans.append(StyledSpan("\n", "plain"))
            self._at += 1
            self._at_line_start = True
            return True
        return False

    def _read_line_start(self, *, final: bool) -> bool:
        """Decide what kind of line this is and pass its marker; False if more text is needed."""
        text, at = self._text, self._at
        start = _past(text, at, _BLANKS, HELD_MAX_CHARS)
        if start == len(text) and not final and start - at < HELD_MAX_CHARS:
            return False
        char = text[start : start + 1] if start - at < HELD_MAX_CHARS else ""
        end, style = start, "plain"
        if char in ("`", "~"):
            end = self._open_fence(start, char, final=final)
        elif char == "|":
            end = self._open_table(start, final=final)
        elif char == "#":
            end, style = _marker_end(text, _past(text, start, "#", 7), 7 + start, final=final), "heading"
        elif char == ">":
            end, style = _quote_end(text, start + 1, final=final), "quote"
        elif char and char in "-+*":
            end, style = _marker_end(text, start + 1, start + 2, final=final), "bullet"
        elif char.isascii() and char.isdigit():
            end, style = _number_end(text, start, final=final), "bullet"
        if end == _WAIT:
            return False
        if not self._table:
            self._begin_line(start, end, style)
        return True

    def _begin_line(self, start: int, end: int, style: Style) -> None:
        self._at_line_start = self._fence is not None
        self._previous = ""
        self._line_style = "plain"
        if self._fence:
            self._at = end
            return
        indent = self._text[self._at : start]
        self._at = start
        if end <= start or style == "plain":
            self._spans.append(StyledSpan(indent, "plain"))
            return
        if style == "heading":
            self._line_style = "heading"
        else:
            self._spans += [StyledSpan(indent, "plain"), StyledSpan(self._text[start:end], style)]
            self._line_style = "quote" if style == "quote" else "plain"
        self._at = end

    def _open_fence(self, start: int, char: str, *, final: bool) -> int:
        """Open a fence and return where its first line begins, if its whole opening line is here."""
        text = self._text
        after = _past(text, start, char)
        if after == len(text) and not final and after - start < HELD_MAX_CHARS:
            return _WAIT
        if after - start < 3:
            return _NO
        end = text.find("\n", after, start + HELD_MAX_CHARS)
        info = text[after : end if end >= 0 else start + HELD_MAX_CHARS]
        if char == "`" and "`" in info:
            return _NO
        if end < 0 and len(text) >= start + HELD_MAX_CHARS:
            return _NO
        if end < 0 and not final:
            return _WAIT
        language = (info.split() or [""])[0]
        self._fence = _Fence(text[start:after], start - self._at, language)
        return end + 1 if end >= 0 else len(text)

    def _open_table(self, start: int, *, final: bool) -> int:
        """Open a table and pass its first two lines, if the second is a rule between head and rows."""
        text, limit = self._text, self._at + TABLE_MAX_CHARS
        head = text.find("\n", start, limit)
        if head < 0:
            return _WAIT if not final and len(text) < limit else _NO
        rule = _past(text, head + 1, _RULE, TABLE_MAX_CHARS)
        if rule == len(text) and not final and rule < limit:
            return _WAIT
        line = text[head + 1 : rule]
        if not line.lstrip(_BLANKS).startswith("|") or "-" not in line:
            return _NO
        if rule < len(text) and text[rule] != "\n":
            return _NO
        self._table = [text[self._at : head + 1], text[head + 1 : rule + 1]]
        self._at = min(rule + 1, len(text))
        return self._at


class _Fence:
    def __init__(self, marker: str, indent: int, language: str) -> None:
        self.parts: list[str] = []  # of the unfinished line
        self._marker = marker
        self._indent = indent
        self._language = language
        self._lines: list[str] = []

    def line_ended(self) -> bool:
        """Take the unfinished line as a whole; True if it closes the fence."""
        line = "".join(self.parts)
        self.parts.clear()
        if self._is_closed_by(line):
            return True
        self._lines.append(self._dedented(line) + "\n")
        return False

    def ended(self) -> StyledSpan:
        """The whole block, with an unfinished last line unless that closes the fence."""
        line = "".join(self.parts)
        if line and not self._is_closed_by(line):
            self._lines.append(self._dedented(line))
        return StyledSpan("".join(self._lines), "code_block", self._language)

    def _dedented(self, line: str) -> str:
        return line[_past(line, 0, _BLANKS, self._indent) :]

    def _is_closed_by(self, line: str) -> bool:
        closing = self._dedented(line).rstrip()
        marker = closing.lstrip(" ")
        indent = len(closing) - len(marker)
        return indent <= 3 and marker.startswith(self._marker) and not marker.strip(self._marker[0])


class _Inline:
    """Reads the inside of a line from `at` until its end, or until what cannot be decided yet."""

    def __init__(self, text: str, at: int, previous: str, *, final: bool, nesting: int = 0) -> None:
        self.text = text
        self.at = at
        self.previous: str = previous
        self.spans: list[StyledSpan] = []
        self._final = final
        self._nesting = nesting

    def read(self, style: Style) -> None:
        text = self.text
        while self.at < len(text):
            found = _special().search(text, self.at)
            self._show(len(text) if found is None else found.start(), style)
            if found is None or found[0] == "\n" or not self._read_special(found[0], style):
                return

    def _read_special(self, char: str, style: Style) -> bool:
        match char:
            case "\\":
                return self._read_escape(style)
            case "[":
                return self._read_link(style)
            case "h":
                return self._read_address(style)
            case _:
                return self._read_marker(style)

    def _show(self, end: int, style: Style) -> None:
        """Show the text up to `end` as it is."""
        if end > self.at:
            self.spans.append(StyledSpan(self.text[self.at : end], style))
            self.previous = self.text[end - 1]
            self.at = end

    def _read_escape(self, style: Style) -> bool:
        following = self.text[self.at + 1 : self.at + 2]
        if not following and not self._final:
            return False
        if following and following in _ESCAPABLE:
            self.at += 1
        self._show(self.at + 1, style)
        return True

    def _read_address(self, style: Style) -> bool:
        """Read an address that stands in the text by itself, or the letter it seemed to begin with."""
        text, at = self.text, self.at
        rest = text[at : at + len(_ADDRESSES[0])]
        begins = any(rest.startswith(one) or (not self._final and one.startswith(rest)) for one in _ADDRESSES)
        if self.previous.isalnum() or not begins:
            self._show(at + 1, style)
            return True
        found = _ends_address().search(text, at, at + HELD_MAX_CHARS)
        if found is None and not self._final and len(text) - at < HELD_MAX_CHARS:
            return False
        end = found.start() if found else min(len(text), at + HELD_MAX_CHARS)
        address = _without_stop(text[at:end])
        if address.endswith("//") or end - at >= HELD_MAX_CHARS:
            self._show(at + 1, style)
            return True
        self._show_link(address, address, at + len(address))
        return True

    def _read_link(self, style: Style) -> bool:
        """Read `[text](target)`, or the bracket it seemed to begin with."""
        text, at = self.text, self.at
        limit = at + HELD_MAX_CHARS
        inside = at + 1
        while inside < min(len(text), limit) and text[inside] not in "[]\n":
            inside += 2 if text[inside] == "\\" and not text.startswith("\n", inside + 1) else 1
        known = text[inside : inside + 2]
        may_wait = not self._final and len(text) < limit
        if known in ("", "]") and may_wait:
            return False
        found = _link().match(text, inside, limit) if known == "](" and inside > at + 1 else None
        if known == "](" and found is None and may_wait and _link_begun().fullmatch(text, inside):
            return False
        if found is None:
            self._show(at + 1, style)
            return True
        nested = _Inline(text[at + 1 : inside], 0, "", final=True, nesting=self._nesting + 1)
        nested.read(style)
        self._show_link("".join(span.text for span in nested.spans), found[1], found.end())
        return True

    def _show_link(self, shown: str, target: str, end: int) -> None:
        self.spans.append(StyledSpan(shown, "link", target=target))
        self.previous = self.text[end - 1]
        self.at = end

    def _read_marker(self, style: Style) -> bool:
        """Read a run of one marker character and, if it has a partner, all between them."""
        char = self.text[self.at]
        longest = 9 if char == "`" else 3
        inside = _past(self.text, self.at, char, longest + 1)
        length = inside - self.at
        if inside == len(self.text) and length <= longest and not self._final:
            return False
        closer = _NO
        if length <= longest and self._may_open(char, inside):
            closer = self._closer(char, inside, length)
        if closer == _WAIT:
            return False
        if closer == _NO:
            self._show(inside, style)
            return True
        self._show_styled(char, self.text[inside:closer], length, style)
        self.previous = char
        self.at = closer + length
        return True

    def _may_open(self, char: str, inside: int) -> bool:
        if self.previous == char:
            return False  # the rest of a run that was too long
        if char == "`":
            return True
        following = self.text[inside : inside + 1]
        in_word = char == "_" and self.previous.isalnum()
        return bool(following.strip()) and not in_word and self._nesting < _MAX_NESTING

    def _closer(self, char: str, inside: int, length: int) -> int:
        """Where the partner of a marker begins, `_NO`, or `_WAIT`."""
        text, at = self.text, inside
        while at < inside + HELD_MAX_CHARS:
            if at >= len(text):
                return _NO if self._final else _WAIT
            if text[at] == "\n":
                return _NO
            if text[at] == "\\" and char != "`":
                if at + 1 == len(text) and not self._final:
                    return _WAIT
                at += 2 if text[at + 1 : at + 2] in _ESCAPABLE else 1
                continue
            if text[at] != char:
                at += 1
                continue
            end = _past(text, at, char, length + 1)
            if end == len(text) and end - at <= length and not self._final:
                return _WAIT
            if end - at == length and self._may_close(char, at, end):
                return at
            at = _past(text, end, char, HELD_MAX_CHARS)
        return _NO

    def _may_close(self, char: str, at: int, end: int) -> bool:
        if char == "`":
            return True
        in_word = char == "_" and self.text[end : end + 1].isalnum()
        return not self.text[at - 1].isspace() and not in_word

    def _show_styled(self, char: str, inner: str, length: int, style: Style) -> None:
        if char == "`":
            if inner.strip() and inner[0] == inner[-1] == " ":
                inner = inner[1:-1]
            self.spans.append(StyledSpan(inner, "code"))
            return
        nested = _Inline(inner, 0, "", final=True, nesting=self._nesting + 1)
        nested.read(_combined(style, _EMPHASIS[length]))
        self.spans += nested.spans


def _without_stop(address: str) -> str:
    """The address without what ends the sentence it stands in."""
    while address and (address[-1] in ".,;:!?'*_]}" or (address[-1] == ")" and "(" not in address)):
        address = address[:-1]
    return address


def inline_spans(text: str) -> list[StyledSpan]:
    """One line, which begins with no marker: a cell of a table."""
    inline = _Inline(text.replace("\n", " "), 0, "", final=True)
    inline.read("plain")
    return _merged(inline.spans)


def _combined(outer: Style, inner: Style) -> Style:
    if outer == "plain":
        return inner
    if outer in ("heading", "quote") or outer == inner:
        return outer
    return "bold_italic"


def _past(text: str, at: int, chars: str, most: int | None = None) -> int:
    """The first position from `at` on that holds none of these characters, at most `most` further."""
    limit = len(text) if most is None else min(len(text), at + most)
    while at < limit and text[at] in chars:
        at += 1
    return at


def _marker_end(text: str, after: int, limit: int, *, final: bool) -> int:
    """The position after the blank that must follow a line's marker, which ends before `limit`."""
    if after >= limit:
        return _NO
    if after == len(text):
        return _NO if final else _WAIT
    return after + 1 if text[after] in _BLANKS else _NO


def _quote_end(text: str, after: int, *, final: bool) -> int:
    if after == len(text) and not final:
        return _WAIT
    return after + 1 if text[after : after + 1] == " " else after


def _number_end(text: str, start: int, *, final: bool) -> int:
    after = _past(text, start, "0123456789", 9)
    if after < len(text):
        return _marker_end(text, after + 1, after + 2, final=final) if text[after] in ".)" else _NO
    return _NO if final else _WAIT


def _merged(spans: list[StyledSpan]) -> list[StyledSpan]:
    """The spans without empty ones, neighbours of one style as one."""
    merged: list[StyledSpan] = []
    parts: list[str] = []
    style: Style = "plain"
    for span in [*spans, StyledSpan("", "code_block")]:
        if parts and span.style != style:
            merged.append(StyledSpan("".join(parts), style))
            parts.clear()
        if span.style in ("code_block", "table", "link"):
            merged.append(span)
        elif span.text:
            parts.append(span.text)
            style = span.style
    return merged[:-1]


@functools.cache
def _special() -> re.Pattern[str]:
    """What may begin something inside a line, or end it. Compiled when something is first said, like the others."""
    return re.compile(r"[\\`*_\[\n]|(?<![A-Za-z0-9])h(?=t|\Z)")


@functools.cache
def _ends_address() -> re.Pattern[str]:
    return re.compile(r"[\s<>\"`|]")


@functools.cache
def _link() -> re.Pattern[str]:
    """A link, from the end of its text on."""
    return re.compile(rf"\]\(<?({_TARGET}+)>?(?:[ \t]+\"[^\"\n]*\")?\)")


@functools.cache
def _link_begun() -> re.Pattern[str]:
    """What may still become one."""
    return re.compile(rf"\]\(<?{_TARGET}*(?:\([^\s<>()]*)?>?(?:[ \t]+(?:\"[^\"\n]*\"?)?)?")
