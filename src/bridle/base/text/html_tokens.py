"""Split HTML into tags and text in linear time. Malformed HTML never fails.

The parser of the standard library takes time that grows with the square of what some pages hold, in the versions of
Python we support; these pages come from strangers. What is read here is what a reader of text needs, not the whole
specification.
"""

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Final, NamedTuple, TypeAlias

_TAG: Final = re.compile(r"<(?=[A-Za-z/!?])")
_TAG_NAME: Final = re.compile(r"[A-Za-z][^\s/>]*")
_ATTRIBUTE: Final = re.compile(r"""[\s/]*([^\s/>][^\s/>=]*)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]*)))?""")
_LONG_NUMBER: Final = re.compile(r"&#(?:[0-9]{8,}|[xX][0-9A-Fa-f]{7,});?")
"""No character has such a number, and turning it into one takes its time."""

RAW: Final = frozenset(
    {"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "noscript", "template"}
)
"""What is inside these is text, up to their own end and no other."""
_RAW_END: Final = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in RAW}
_NO_ATTRIBUTES: Final[Mapping[str, str]] = {}


class OpenTag(NamedTuple):
    """A tag that opens. Names are in small letters; of an attribute that stands twice, the first counts."""

    name: str
    attributes: Mapping[str, str]


class CloseTag(NamedTuple):
    name: str


class HtmlText(NamedTuple):
    """Characters, with references like `&amp;` resolved."""

    text: str


Token: TypeAlias = OpenTag | CloseTag | HtmlText


def tokens(html: str) -> Iterator[Token]:
    """The tags and the text of a document, in order. Comments and declarations are left out."""
    at = 0
    while found := _TAG.search(html, at):
        tag = found.start()
        if tag > at:
            yield HtmlText(_plain(html[at:tag]))
        if html[tag + 1] not in "/!?":
            start, at = _start(html, tag + 1)
            if start is None:
                return
            yield start
            if start.name in RAW:
                content, at = _raw(html, at, start.name)
                yield HtmlText(_plain(content) if start.name in ("title", "textarea") else content)
                yield CloseTag(start.name)
        else:
            end, at = _end(html, tag)
            if end is not None:
                yield end
        if at < 0:
            return
    if at < len(html):
        yield HtmlText(_plain(html[at:]))


def _start(html: str, at: int) -> tuple[OpenTag | None, int]:
    """The tag whose name begins at `at`, and where it ends; None when the document ends first."""
    name = _TAG_NAME.match(html, at)
    assert name is not None
    at = name.end()
    attributes: dict[str, str] = {}
    while found := _ATTRIBUTE.match(html, at):
        key, double, single, bare = found.groups()
        attributes.setdefault(key.lower(), double or single or bare or "")
        at = found.end()
    close = html.find(">", at)
    if close < 0:
        return None, -1
    resolved = {key: _plain(value) for key, value in attributes.items()}
    return OpenTag(name[0].lower(), resolved or _NO_ATTRIBUTES), close + 1


def _end(html: str, tag: int) -> tuple[CloseTag | None, int]:
    """What begins with `</`, `<!` or `<?` at `tag`, and where it ends; -1 when the document ends first."""
    if html.startswith("<!--", tag):
        close = html.find("-->", tag + 2)  # `<!-->` is whole
        return None, close + 3 if close >= 0 else -1
    close = html.find(">", tag)
    name = _TAG_NAME.match(html, tag + 2) if html.startswith("/", tag + 1) else None
    end = CloseTag(name[0].lower()) if name is not None and close >= 0 else None
    return end, close + 1 if close >= 0 else -1


def _raw(html: str, at: int, name: str) -> tuple[str, int]:
    """The text up to the end of the element, and where what follows begins; -1 when it is never closed."""
    end = _RAW_END[name].search(html, at)
    if end is None:
        return "", -1
    close = html.find(">", end.end())
    return html[at : end.start()], close + 1 if close >= 0 else -1


def _plain(text: str) -> str:
    if "&" not in text:
        return text
    return unescape(_LONG_NUMBER.sub("\N{REPLACEMENT CHARACTER}", text))
