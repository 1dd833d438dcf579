"""From bytes to text: types, packing, characters."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.tools.web_page import NotText, WebText, shown_size, web_text, why_not_text
from tables import table

LIMIT = 100_000


def read(body: bytes, kind: str = "text/plain", encoding: str = "", limit: int = LIMIT) -> WebText:
    return web_text({"content-type": kind, "content-encoding": encoding}, body, limit)


@table(
    "kind",
    ["", "text/html", "text/plain; charset=x", "application/json", "APPLICATION/XML", "application/ld+json",
     "image/svg+xml", "application/x-ndjson", "rubbish", "application/yaml"],
)  # fmt: skip
def test_what_may_be_text_is_read(kind) -> None:
    assert why_not_text({"content-type": kind}) is None


@table(
    ("kind", "length", "problem"),
    [
        ("image/png", "2048", "it is not text (image/png, 2.0 KB)"),
        ("application/pdf; x=y", "5000000", "it is not text (application/pdf, 5.0 MB)"),
        ("application/octet-stream", "", "it is not text (application/octet-stream)"),
        ("video/mp4", "12", "it is not text (video/mp4, 12 bytes)"),
        ("font/woff2", "9" * 5000, "it is not text (font/woff2)"),
    ],
)
def test_what_is_not_text_is_refused_with_its_type_and_size(kind, length, problem) -> None:
    assert why_not_text({"content-type": kind, "content-length": length}) == problem


@table(
    ("body", "kind", "text"),
    [
        ("größe".encode(), "text/plain", "größe"),
        ("größe".encode("latin-1"), "text/plain; charset=ISO-8859-1", "größe"),
        ("“q”".encode("cp1252"), 'text/plain; charset="latin1"', "“q”"),
        ("日本".encode("shift_jis"), "text/html; charset=Shift_JIS", "日本"),
        ("привет".encode("cp1251"), "text/plain;charset=windows-1251", "привет"),
        ("中文".encode("gbk"), "text/plain; charset=gb2312", "中文"),
        (b"\xef\xbb\xbfhi", "text/plain; charset=latin1", "hi"),
        ("hi".encode("utf-16"), "text/plain", "hi"),
        ("<meta charset=windows-1251>привет".encode("cp1251"), "text/html", "<meta charset=windows-1251>привет"),
        ('<?xml encoding="koi8-r"?>мир'.encode("koi8_r"), "text/xml", '<?xml encoding="koi8-r"?>мир'),
        (b"<meta charset=utf-16>hi", "text/html", "<meta charset=utf-16>hi"),
        ("größe".encode(), "text/plain; charset=punycode", "größe"),
        (b"cm90", "text/plain; charset=base64", "cm90"),
    ],
)  # fmt: skip
def test_characters_are_read_as_they_were_written(body, kind, text) -> None:
    assert (read(body, kind).text, read(body, kind).damaged) == (text, False)


def test_bytes_that_are_no_characters_are_shown_as_such() -> None:
    found = read(b"a\xff\xfeb")
    assert (found.text, found.damaged) == ("a\ufffd\ufffdb", True)
    cut = read("ä".encode() * 10, limit=5)
    assert (cut.text, cut.cut, cut.damaged) == ("ää\ufffd", True, False)


@table("kind", ["", "text/plain"])
def test_bytes_that_are_nothing_readable_are_refused(kind) -> None:
    with pytest.raises(NotText, match="not text"):
        read(b"\x7fELF\x02\x01\x01\0\0\0", kind)


@table(
    ("body", "kind", "html"),
    [
        (b"<!DOCTYPE html><p>", "", True),
        (b"  <html>", "", True),
        (b"plain", "", False),
        (b"<p>", "text/html", True),
        (b"<html>", "text/plain", False),
        (b"<html/>", "application/xhtml+xml", True),
    ],
)
def test_a_page_is_known_by_its_type_or_its_beginning(body, kind, html) -> None:
    assert read(body, kind).html is html


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("pack", "encoding"),
    [
        (gzip.compress, "gzip"),
        (gzip.compress, "X-GZip "),
        (zlib.compress, "deflate"),
        (raw_deflate, "deflate"),
    ],
)
@given(data=st.binary(max_size=2000).map(lambda data: data.hex().encode()))
def test_packed_text_is_unpacked(pack, encoding, data) -> None:
    assert read(pack(data), encoding=encoding).text == data.decode()


def test_a_bomb_unpacks_to_its_limit_and_no_further() -> None:
    bomb = gzip.compress(b"a" * 50_000_000)
    assert len(bomb) < 50_000
    tracemalloc.start()
    try:
        found = read(bomb, encoding="gzip")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(found.text), found.cut) == (LIMIT, True)
    assert peak_bytes < 20 * LIMIT


@table("encoding", ["br", "zstd", "gzip, gzip", "compress"])
def test_a_packing_nobody_asked_for_is_refused(encoding) -> None:
    with pytest.raises(NotText, match="not asked for"):
        read(b"x", encoding=encoding)


@table("body", [b"not packed", gzip.compress(b"hello" * 99, mtime=0)[:9], b""])
def test_a_damaged_packing_is_refused(body) -> None:
    with pytest.raises(NotText, match="damaged"):
        read(body, encoding="gzip")


def test_packed_text_that_was_cut_is_read_as_far_as_it_goes() -> None:
    packed = gzip.compress(bytes(range(32, 127)) * 50, compresslevel=0)
    found = read(packed[: len(packed) // 2], encoding="gzip")
    assert (found.text[:5], found.cut) == (' !"#$', True)


kinds = st.sampled_from(
    ["", "text/html", "text/xml", "text/plain; charset=utf-16", "text/html; charset=big5"]
)
packings = st.sampled_from(["", "gzip", "deflate", "br"])


@given(st.binary(max_size=500), kinds, packings)
def test_any_bytes_are_text_or_refused(body, kind, packing) -> None:
    try:
        found = read(body, kind, packing, limit=200)
    except NotText as refused:
        assert refused.problem
    else:
        assert len(found.text) <= 200


def test_sizes_are_shown_as_people_read_them() -> None:
    assert [shown_size(size) for size in (0, 999, 1000, 1_234_567)] == [
        "0 bytes",
        "999 bytes",
        "1.0 KB",
        "1.2 MB",
    ]
