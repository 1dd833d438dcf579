"""A page of the web as the model reads it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from bridle.base.net.http_dial import HttpFault
from bridle.base.net.web import MAX_BODY_BYTES, RefuseBody, WebAnswer, WebRefused
from bridle.base.text.html_markdown import to_markdown, without_unseen
from bridle.base.threads import in_thread
from bridle.engine.tools import ToolOutput
from bridle.protocol.errors import sentence
from bridle.protocol.events import Evidence
from bridle.tools.names import failed

_MEDIA_TYPE: Final = re.compile(r"\s*([A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+)\s*(?:;|$)")
_CHARSET: Final = re.compile(r";\s*charset\s*=\s*[\"']?([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
_DECLARED: Final = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,300}?(?:charset|encoding)\s*=\s*["']?([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE
)
_DECLARED_WITHIN: Final = 1024
_HTML_START: Final = re.compile(
    rb"\s*(?:<!--|<!doctype html|<html|<head|<body|<title|<h1|<div|<p[\s>])", re.IGNORECASE
)
_BINARY_PROBE: Final = 8192
# fmt: off
_TEXT_TYPES: Final = frozenset({
    "application/json", "application/xml", "application/javascript", "application/x-javascript",
    "application/ecmascript", "application/x-ndjson", "application/jsonl", "application/yaml", "application/x-yaml",
    "application/toml", "application/graphql", "application/x-sh", "application/sql", "application/rtf",
    "application/x-www-form-urlencoded", "application/x-tex", "application/xhtml+xml", "application/typescript",
    "message/rfc822",
})
_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_BOMS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_CODECS: Final = {
    # what pages call themselves, and how browsers read it
    "utf-8": "utf-8", "utf8": "utf-8", "unicode-1-1-utf-8": "utf-8",
    "utf-16": "utf-16-le", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be",
    "us-ascii": "cp1252", "ascii": "cp1252", "iso-8859-1": "cp1252", "latin1": "cp1252", "latin-1": "cp1252",
    "iso-8859-9": "cp1254", "iso-8859-11": "cp874", "tis-620": "cp874",
    "shift_jis": "cp932", "shift-jis": "cp932", "sjis": "cp932", "x-sjis": "cp932", "windows-31j": "cp932",
    "euc-jp": "euc_jp", "iso-2022-jp": "iso2022_jp", "euc-kr": "cp949", "ks_c_5601-1987": "cp949",
    "gb2312": "gb18030", "gbk": "gb18030", "gb18030": "gb18030", "big5": "big5hkscs",
    "koi8-r": "koi8_r", "koi8-u": "koi8_u", "macintosh": "mac_roman", "ibm866": "cp866",
    **{f"iso-8859-{part}": f"iso8859_{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **{f"windows-{page}": f"cp{page}" for page in (874, *range(1250, 1259))},
    **{f"cp{page}": f"cp{page}" for page in range(1250, 1259)},
}
# fmt: on


class NotText(Exception):
    """`problem` reads as the end of a sentence."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class WebText(NamedTuple):
    """The text of an answer. `cut`: it goes on. `damaged`: some bytes were no characters and are shown as such."""

    text: str
    html: bool
    cut: bool
    damaged: bool


def media_type(headers: Mapping[str, str]) -> str:
    """Like `text/html`; empty when the server does not say or says nothing readable."""
    found = _MEDIA_TYPE.match(headers.get("content-type", ""))
    return found[1].lower() if found is not None else ""


def why_not_text(headers: Mapping[str, str]) -> str | None:
    """Why an answer with these headers is not worth reading, as the end of a sentence; None when it may be text."""
    kind = media_type(headers)
    if not kind or kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml")):
        return None
    length = headers.get("content-length", "")
    size = (
        f", {shown_size(int(length))}" if length.isascii() and length.isdigit() and len(length) < 16 else ""
    )
    return f"it is not text ({kind}{size})"


def shown_size(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1000:.1f} KB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def web_text(headers: Mapping[str, str], body: bytes, limit_bytes: int) -> WebText:
    """The text of a body, at most `limit_bytes` of it once unpacked. Raises `NotText`."""
    data, cut = _unpacked(headers.get("content-encoding", ""), body, limit_bytes)
    kind = media_type(headers)
    html = kind in _HTML_TYPES or (not kind and _HTML_START.match(data) is not None)
    codec = _codec(headers, data, declares=html or "xml" in kind)
    if codec is None:
        if b"\0" in data[:_BINARY_PROBE]:
            raise NotText(f"it is not text ({kind or 'of an unknown type'}, {shown_size(len(data))})")
        codec = "utf-8"
    text = data.decode(codec, "replace").removeprefix("\ufeff")
    damaged = "\ufffd" in text and not _only_cut(text, cut=cut)
    return WebText(text, html, cut, damaged)


def _only_cut(text: str, *, cut: bool) -> bool:
    """Whether the only thing that is no character is what was cut in two at the end."""
    return cut and text.find("\ufffd") >= len(text) - 3


def _codec(headers: Mapping[str, str], data: bytes, *, declares: bool) -> str | None:
    """How the text is written: what its first bytes say, then the server, then the page; None when nobody does."""
    for mark, codec in _BOMS:
        if data.startswith(mark):
            return codec
    if (said := _CHARSET.search(headers.get("content-type", ""))) and said[1].lower() in _CODECS:
        return _CODECS[said[1].lower()]
    if declares and (declared := _DECLARED.search(data[:_DECLARED_WITHIN])):
        codec = _CODECS.get(declared[1].decode("ascii").lower())
        return (
            "utf-8" if codec is not None and codec.startswith("utf-16") else codec
        )  # it was read as single bytes
    return None


def _unpacked(encoding: str, body: bytes, limit_bytes: int) -> tuple[bytes, bool]:
    """The body unpacked, and whether it goes on. We ask for none of this; some servers do it all the same."""
    import zlib

    match encoding.strip().lower():
        case "" | "identity":
            return body[:limit_bytes], len(body) > limit_bytes
        case "gzip" | "x-gzip":
            window = 16 + zlib.MAX_WBITS
        case "deflate":
            window = zlib.MAX_WBITS if _has_zlib_head(body) else -zlib.MAX_WBITS
        case _:
            raise NotText("it is compressed in a way that was not asked for")
    unpacking = zlib.decompressobj(window)
    try:
        data = unpacking.decompress(body, limit_bytes + 1)
    except zlib.error:
        raise NotText("it is compressed, and damaged") from None
    if not data and not unpacking.eof:
        raise NotText("it is compressed, and damaged")
    return data[:limit_bytes], len(data) > limit_bytes or not unpacking.eof


def _has_zlib_head(body: bytes) -> bool:
    """Servers that say deflate mean either of two formats."""
    return len(body) > 1 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0


Fetch: TypeAlias = Callable[[str, RefuseBody], Awaitable[WebAnswer]]
"""Gets a page: see `bridle.base.net.web.Web.fetch`, which is the contract. Raises `WebRefused` and `HttpFault`."""

_SHOWN_CHARACTERS = 200


async def read_page(fetch: Fetch, url: str, *, limit: int, raw: bool) -> ToolOutput:
    """Fetch a page and return what the model reads of it: at most `limit` characters, Markdown unless `raw`."""
    try:
        answer = await fetch(url, why_not_text)
        if problem := _problem(answer):
            return _failed(url, problem)
        return await in_thread(partial(_shown, answer, limit, raw=raw))
    except WebRefused as refused:
        return _refused(refused.problem, refused.url)
    except (HttpFault, NotText) as fault:
        return _failed(url, fault.problem)


def _problem(answer: WebAnswer) -> str:
    """Why there is nothing to show, as the end of a sentence; empty when there is."""
    if answer.status // 100 == 3:
        return f"the server answered {answer.status} and no address to go on to"
    return answer.unwanted or ("" if answer.status // 100 == 2 else f"the server answered {answer.status}")


def _shown(answer: WebAnswer, limit: int, *, raw: bool) -> ToolOutput:
    """What the model reads. Not called in the event loop: a long page takes a while."""
    found = web_text(answer.headers, answer.body, MAX_BODY_BYTES)
    title, cut = "", answer.cut or found.cut
    if found.html and not raw:
        title, text, left_out = to_markdown(found.text, answer.url)
        cut = cut or left_out
    else:
        text = without_unseen(found.text)
    notes = [f"more follows: cut after {limit} of {len(text)} characters"] if len(text) > limit else []
    if cut:
        notes.append("the page is longer than what was read")
    if found.damaged:
        notes.append("some bytes were no characters and are shown as \N{REPLACEMENT CHARACTER}")
    kind = media_type(answer.headers) or "no type given"
    head = f"[{answer.url}, {kind}, {shown_size(len(answer.body))}]\n"
    if title and text.partition("\n")[0] != f"# {title}":
        head += f"# {title}\n\n"
    body = text[:limit] if text.strip() else "[the page has no text]"
    return ToolOutput(
        content="".join((head, body, "" if body.endswith("\n") else "\n", *(f"[{note}]\n" for note in notes)))
    )


def _failed(url: str, problem: str) -> ToolOutput:
    shown = url if len(url) <= _SHOWN_CHARACTERS else url[:_SHOWN_CHARACTERS] + "…"
    return failed("FetchFailed", url=shown, problem=problem)


def _refused(problem: str, url: str) -> ToolOutput:
    """The same words as where the address itself was enough to refuse."""
    return ToolOutput(
        outcome="blocked",
        reason="NeverAllowed",
        content=sentence("NeverAllowed", {"problem": problem}),
        evidence=Evidence(
            source="address_guard", rule="address", matched=problem, preview=url[:_SHOWN_CHARACTERS]
        ),
    )
