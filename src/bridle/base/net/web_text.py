"""Decode the body of a response to text: media type, compression, charset.

Sizes are bounded here too: a few kilobytes can unpack to gigabytes.

NotText   the answer cannot be shown as text
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

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
    """A number of bytes as people read it."""
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
