"""Convert a web page to Markdown: title, headings, links, lists, code and simple tables.

What nobody sees on the page is left out: scripts, styles, comments, hidden elements. Pictures are their description,
never an address. Emphasis is dropped, and characters that mean something in Markdown are not escaped: this is for
reading, not for turning back into a page.

Any text is taken, and the work grows with its length, never faster: what is open is kept in a list, looked through
only so far, and indentation ends at a few levels.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urljoin

from bridle.base.text.html_tokens import CloseTag, HtmlText, OpenTag, tokens

MAX_TAGS: Final = 100_000
MAX_LINK_CHARACTERS: Final = 2_000
_MAX_INDENT: Final = 6
_LOOKED_THROUGH: Final = 16
"""How many open elements are looked at for one that a new tag ends."""

# fmt: off
_VOID: Final = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
})
_DROPPED: Final = frozenset({
    "script", "style", "template", "noscript", "iframe", "noembed", "noframes", "object", "svg", "math", "canvas",
    "audio", "video", "head", "textarea", "select", "datalist", "dialog",
})
_PARAGRAPHS: Final = frozenset({
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "html", "li",
    "legend", "main", "nav", "ol", "p", "pre", "section", "summary", "table", "ul", "hr",
})
_ENDED_BY: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    # a new tag of this name ends one of the first, unless one of the second is nearer
    "li": (frozenset({"li"}), frozenset({"ul", "ol"})),
    "dt": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "dd": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "tr": (frozenset({"tr"}), frozenset({"table"})),
    "td": (frozenset({"td", "th"}), frozenset({"tr", "table"})),
    "th": (frozenset({"td", "th"}), frozenset({"tr", "table"})),
    "a": (frozenset({"a"}), frozenset()),
}
# fmt: on
_HIDING: Final = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_LANGUAGE: Final = re.compile(r"(?:^|\s)lang(?:uage)?-([A-Za-z0-9+#_-]{1,20})")
_WEB: Final = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_SPACE: Final = re.compile(r"\s+")
_BREAK: Final = "\0"
"""Stands for `<br>` until a block is written; documents hold none of it any more."""
_UNSEEN: Final = re.compile("[\0-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f\u200b\u2060\ufeff\U000e0000-\U000e007f]")


class MarkdownPage(NamedTuple):
    """What a page says. `cut`: it has more tags than anybody would read, and the rest was left out."""

    title: str
    text: str
    cut: bool


def to_markdown(html: str, url: str) -> MarkdownPage:
    """The page as Markdown, its links made whole with the address it came from."""
    reader = _Reader(url)
    tags = 0
    for token in tokens(without_unseen(html)):
        match token:
            case HtmlText(text):
                reader.text(text)
            case OpenTag(name, attributes):
                reader.start(name, attributes)
                tags += 1
            case CloseTag(name):
                reader.end(name)
                tags += 1
        if tags > MAX_TAGS:
            break
    return reader.page(cut=tags > MAX_TAGS)


def without_unseen(text: str) -> str:
    """The text without control characters and the ones that carry words nobody sees."""
    return _UNSEEN.sub("", text)


class _Open(NamedTuple):
    """An element that is open, and what is to be done when it ends."""

    name: str
    leave: Callable[[], None] | None


class _Reader:
    """Collects blocks. `_line` is the paragraph that is being read, `_table` the rows of the innermost table."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._blocks: list[str] = []
        self._line: list[str] = []
        self._open: list[_Open] = []
        self._count: Counter[str] = Counter()
        self._hidden_from: int | None = None
        self._title: list[str] = []
        self._prefix: list[str] = []
        self._numbers: list[int | None] = []
        self._marker = ""
        self._list_begins = False
        self._heading = ""
        self._link: tuple[str, int] | None = None
        self._code: int | None = None
        self._pre: list[str] | None = None
        self._language = ""
        self._table: list[list[str]] | None = None

    # What the document says

    def text(self, text: str) -> None:
        if self._open and self._open[-1].name == "title" and not self._count["svg"]:
            self._title.append(text)
        elif self._hidden_from is not None:
            pass
        elif self._pre is not None:
            self._pre.append(text)
        else:
            self._line.append(text)

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in _PARAGRAPHS and self._open and self._open[-1].name == "p":
            self._close_last()
        if name in _ENDED_BY:
            self._end_what_it_ends(*_ENDED_BY[name])
        if name in _VOID:
            if self._hidden_from is None:
                self._void(name, attributes)
            elif name == "base":
                self._set_base(attributes)
            return
        if name in ("body", "main") and self._hidden_from is not None and self._count["head"]:
            self.end("head")  # the end of a head is often left out
        leave = None
        if self._hidden_from is None:
            if name in _DROPPED or _is_hidden(attributes):
                self._hidden_from = len(self._open)
            else:
                leave = self._enter(name, attributes)
        self._open.append(_Open(name, leave))
        self._count[name] += 1

    def end(self, name: str) -> None:
        """Ends the innermost element of this name and all that are open in it; one that is not open is no matter."""
        if not self._count[name]:
            if name == "br":
                self.start("br", {})
            return
        while self._close_last() != name:
            pass

    def page(self, *, cut: bool) -> MarkdownPage:
        while self._open:
            self._close_last()
        self._write()
        title = _one_line("".join(self._title))[:300]
        return MarkdownPage(title, "".join(self._blocks).strip("\n"), cut)

    # Elements

    def _void(self, name: str, attributes: Mapping[str, str]) -> None:
        match name:
            case "br" if self._pre is not None:
                self._pre.append("\n")
            case "br":
                self._line.append(_BREAK)
            case "hr":
                self._write()
                self._put(["---"])
            case "img":
                if alt := _one_line(attributes.get("alt", "")):
                    (self._line if self._pre is None else self._pre).append(f"[image: {alt}]")
            case "base":
                self._set_base(attributes)
            case _:
                pass

    def _set_base(self, attributes: Mapping[str, str]) -> None:
        self._url = _whole(self._url, attributes.get("href", "")) or self._url

    def _enter(self, name: str, attributes: Mapping[str, str]) -> Callable[[], None] | None:
        """Begins an element that is seen; what comes back ends it."""
        if self._pre is not None:
            return None
        if self._table and self._table[-1] and name in _PARAGRAPHS and name not in ("table", "pre"):
            self._line.append(" ")  # a cell is one line
            return None
        if name in _PARAGRAPHS:
            self._write()
        match name:
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                self._heading = "#" * int(name[1]) + " "
                return self._leave_heading
            case "a":
                self._link = (_whole(self._url, attributes.get("href", "")), len(self._line))
                return self._leave_link
            case "code" | "kbd" | "samp" | "tt" if self._code is None:
                self._code = len(self._line)
                return self._leave_code
            case "pre":
                self._leave_table()
                self._pre = []
                self._language = _language(attributes)
                return self._leave_pre
            case "blockquote":
                self._prefix.append("> ")
                return self._leave_indented
            case "ul" | "ol":
                self._list_begins = not self._numbers
                self._numbers.append(None if name == "ul" else _number(attributes.get("start", "")))
                self._prefix.append("  " if name == "ul" else "   ")
                return self._leave_list
            case "li":
                self._marker = self._next_marker()
                return self._leave_block
            case "table":
                self._leave_table()
                self._table = []
                return self._leave_table
            case "tr" | "td" | "th" if self._table is not None:
                return self._enter_table_part(name)
            case "tr" | "td" | "th":
                self._write()
                return self._leave_block
            case _:
                return self._leave_block if name in _PARAGRAPHS else None

    def _enter_table_part(self, name: str) -> Callable[[], None]:
        assert self._table is not None
        if name == "tr" or not self._table:
            self._write()
            self._table.append([])
        if name != "tr":
            self._line.clear()
            self._table[-1].append("")
            return self._leave_cell
        return _nothing

    def _leave_cell(self) -> None:
        if self._table and self._table[-1]:
            self._finish_spans()
            self._table[-1][-1] = _one_line("".join(self._line).replace(_BREAK, " ")).replace("|", "\\|")
            self._line.clear()

    def _leave_table(self) -> None:
        """Writes the rows. One with a single column was never meant as a table."""
        rows, self._table = self._table, None
        if rows is None:
            return
        rest, self._line = self._line, []
        filled = [row for row in rows if any(row)]
        if max(map(len, filled), default=0) > 1:
            lines = [f"| {' | '.join(row)} |" for row in filled]
            lines.insert(1, "|" + " --- |" * len(filled[0]))
            self._put(lines)
        else:
            for row in filled:
                self._put([row[0]])
        self._line = rest
        self._write()

    def _leave_heading(self) -> None:
        self._write()
        self._heading = ""

    def _leave_link(self) -> None:
        if self._link is None:
            return
        (address, start), self._link = self._link, None
        words = _one_line("".join(self._line[start:]).replace(_BREAK, " "))
        if words and address:
            before = "".join(self._line[start : start + 1])[:1]
            self._line[start:] = [" " if before.isspace() else "", f"[{words}]({address})"]

    def _leave_code(self) -> None:
        start, self._code = self._code, None
        if start is None:
            return
        words = _one_line("".join(self._line[start:]).replace(_BREAK, " "))
        if words and "`" not in words:
            self._line[start:] = [f"`{words}`"]

    def _leave_pre(self) -> None:
        code, self._pre = "".join(self._pre or ()), None
        lines = code.expandtabs(4).strip("\n").rstrip().split("\n")
        longest = max((len(run) for run in re.findall("`+", code)), default=0)
        fence = "`" * max(3, longest + 1)
        if any(lines):
            self._put([fence + self._language, *lines, fence])

    def _leave_indented(self) -> None:
        self._write()
        self._prefix.pop()

    def _leave_list(self) -> None:
        self._write()
        self._numbers.pop()
        self._prefix.pop()
        self._marker = ""

    def _leave_block(self) -> None:
        if not (self._table and self._table[-1]):
            self._write()

    def _next_marker(self) -> str:
        if not self._numbers or (number := self._numbers[-1]) is None:
            return "- "
        self._numbers[-1] = number + 1
        return f"{number}. "

    # Writing

    def _finish_spans(self) -> None:
        """A link or code does not go on into another block; one that has no words yet does."""
        if self._code is not None:
            self._leave_code()
        if self._link is not None:
            address, start = self._link
            if "".join(self._line[start:]).strip():
                self._leave_link()
            else:
                self._link = (address, 0)

    def _write(self) -> None:
        """The paragraph so far becomes a block."""
        if not self._line:
            return
        self._finish_spans()
        lines = [line for part in "".join(self._line).split(_BREAK) if (line := _one_line(part))]
        self._line.clear()
        if lines and self._heading:
            lines = [self._heading + " ".join(lines)]
            self._heading = ""
        if lines:
            self._put(lines)

    def _put(self, lines: list[str]) -> None:
        """Appends a block below the ones before it: close to them inside a list, apart elsewhere."""
        marker, self._marker = self._marker, ""
        prefix = "".join(self._prefix[-_MAX_INDENT:])
        first = prefix
        if self._numbers and marker:
            first = "".join(self._prefix[-_MAX_INDENT:-1]) + marker
        elif marker:
            first = prefix + marker
        gap = "\n" if marker and self._numbers and not self._list_begins else "\n\n"
        self._list_begins = False
        self._blocks.append(gap + "\n".join([first + lines[0], *(prefix + line for line in lines[1:])]))

    # What is open

    def _close_last(self) -> str:
        name, leave = self._open.pop()
        self._count[name] -= 1
        if self._hidden_from is not None and len(self._open) <= self._hidden_from:
            self._hidden_from = None
        if leave is not None:
            leave()
        return name

    def _end_what_it_ends(self, names: frozenset[str], kept_by: frozenset[str]) -> None:
        for back in range(1, min(_LOOKED_THROUGH, len(self._open)) + 1):
            name = self._open[-back].name
            if name in names:
                for _ in range(back):
                    self._close_last()
                return
            if name in kept_by:
                return


def _nothing() -> None:
    """A row ends with its last cell."""


def _is_hidden(attributes: Mapping[str, str]) -> bool:
    if not attributes:
        return False
    if "hidden" in attributes or attributes.get("aria-hidden", "").lower() == "true":
        return True
    return _HIDING.search(attributes.get("style", "")) is not None


def _whole(url: str, href: str) -> str:
    """An address that can be fetched or written to, made whole; empty for anything else."""
    href = _SPACE.sub("", href)
    if not href or href.startswith("#") or len(href) > MAX_LINK_CHARACTERS:
        return ""
    try:
        address = urljoin(url, href)
    except ValueError:
        return ""
    return address.replace("(", "%28").replace(")", "%29") if _WEB.match(address) else ""


def _language(attributes: Mapping[str, str]) -> str:
    found = _LANGUAGE.search(attributes.get("class", ""))
    return found[1] if found is not None else ""


def _number(text: str) -> int:
    return int(text) if len(text) <= 6 and text.isascii() and text.isdigit() else 1


def _one_line(text: str) -> str:
    return " ".join(text.split())
