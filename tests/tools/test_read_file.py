"""`read_file`, through the layers a session puts around it."""

import os
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.protocol.display_values import ShownRead
from bridle.tools.read_file import MAX_BYTES, MAX_LINES, page_of
from secret_kit import private_key_lines

pytestmark = pytest.mark.requirement("D9.1", "T2.10")


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"one\ntwo\n", "1\tone\n2\ttwo\n"),
        (b"one\ntwo", "1\tone\n2\ttwo\n"),
        (b"\n\n", "1\t\n2\t\n"),
        (b"", "[the file is empty]\n"),
        (b"one\r\ntwo\r\n", "1\tone\n2\ttwo\n[lines end with CRLF]\n"),
        ("schön\x0c\u2028still one\n".encode(), "1\tschön\x0c\u2028still one\n"),
        (
            b"caf\xe9\n",
            (
                "1\tcaf\N{REPLACEMENT CHARACTER}\n"
                "[not valid UTF-8; what could not be read is shown as \N{REPLACEMENT CHARACTER}]\n"
            ),
        ),
    ],
)
async def test_lines_come_numbered(bench, content: bytes, shown: str) -> None:
    (bench.workspace / "a.txt").write_bytes(content)
    output = await bench.run("read_file", path="a.txt")
    assert (output.outcome, output.content) == ("ok", shown)


async def test_a_page_says_where_the_next_one_begins(bench) -> None:
    (bench.workspace / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    output = await bench.run("read_file", path="a.txt", offset=3, limit=2)
    assert output.content == "3\tline 3\n4\tline 4\n[more lines follow: offset=5]\n"
    assert [*output.metadata["seen"]] == [str(bench.workspace / "a.txt")]
    assert output.shown == ShownRead(first_line=3, last_line=4)


async def test_at_most_2000_lines_come_at_once_whatever_is_asked(bench) -> None:
    (bench.workspace / "a.txt").write_text("x\n" * 2500)
    output = await bench.run("read_file", path="a.txt", limit=9999)
    assert output.shown.last_line == MAX_LINES
    assert output.content.endswith("[more lines follow: offset=2001]\n")
    rest = await bench.run("read_file", path="a.txt", offset=2001)
    assert rest.metadata["seen"] == output.metadata["seen"]
    assert rest.shown == ShownRead(first_line=2001, last_line=2500)


@pytest.mark.parametrize("content", ["one\ntwo\n", "one\ntwo"])
async def test_reading_past_the_end_says_how_long_the_file_is(bench, content: str) -> None:
    (bench.workspace / "a.txt").write_text(content)
    output = await bench.run("read_file", path="a.txt", offset=3)
    assert (output.outcome, output.reason) == ("error", "InvalidInput")
    assert "past the end of a.txt, which has 2 lines" in output.content


async def test_what_is_no_text_file_is_refused_with_the_cause(bench) -> None:
    (bench.workspace / "folder").mkdir()
    (bench.workspace / "image").write_bytes(b"PNG\0\1")
    (bench.workspace / "big").write_bytes(b"x\n" * MAX_BYTES)
    os.mkfifo(bench.workspace / "pipe")
    problems = {}
    for name in ("folder", "image", "big", "pipe", "missing"):
        output = await bench.run("read_file", path=name)
        assert (output.outcome, output.reason) == ("error", "FileUnreadable")
        problems[name] = output.content
    assert "it is a folder" in problems["folder"]
    assert "it is a binary file" in problems["image"]
    assert "it has 2.0 MB and the limit is 1 MB" in problems["big"]
    assert "it is not a regular file" in problems["pipe"]
    assert "No such file" in problems["missing"]


async def test_a_file_of_exactly_one_megabyte_is_read(bench) -> None:
    (bench.workspace / "a.txt").write_bytes(b"x" * 1023 + b"\n" + b"y" * (MAX_BYTES - 1024))
    output = await bench.run("read_file", path="a.txt", limit=1)
    assert output.content == "1\t" + "x" * 1023 + "\n[more lines follow: offset=2]\n"


async def test_a_file_in_the_workspace_may_be_named_absolutely(bench) -> None:
    (bench.workspace / "a.txt").write_text("one\n")
    output = await bench.run("read_file", path=str(bench.workspace / "a.txt"))
    assert output.content == "1\tone\n"


@pytest.mark.requirement("D9.7")
async def test_a_spilled_output_is_read_by_its_call_even_beyond_one_megabyte(bench) -> None:
    first = await bench.run("bash", "call_9", command="seq 1 400000")
    assert first.metadata["output_bytes"] > MAX_BYTES
    page = await bench.run("read_file", "call_10", path="output:call_9", offset=399_999)
    assert page.content == "399999\t399999\n400000\t400000\n"
    middle = await bench.run("read_file", "call_11", path="output:call_9", offset=200_000, limit=1)
    assert middle.content == "200000\t200000\n[more lines follow: offset=200001]\n"


@pytest.mark.parametrize("call_id", ["call_404", "../../../etc/passwd", "", "a/b", "."])
async def test_an_output_that_was_not_kept_cannot_be_read(bench, call_id: str) -> None:
    output = await bench.run("read_file", path=f"output:{call_id}")
    assert (output.outcome, output.reason) == ("error", "FileUnreadable")


async def test_a_line_longer_than_the_page_is_cut_and_said_so(bench) -> None:
    await bench.run("bash", "call_9", command="head -c 3000000 /dev/zero | tr '\\0' x")
    page = await bench.run("read_file", "call_10", path="output:call_9")
    assert page.content.endswith("[line 1 is longer than what is shown]\n")


@given(
    lines=st.lists(st.binary(max_size=12).map(lambda raw: raw.replace(b"\n", b"")), max_size=12),
    ended=st.booleans(),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    offset=st.integers(1, 14),
    limit=st.integers(1, 14),
)
def test_a_page_is_the_same_however_the_bytes_arrive(lines, ended, cuts, offset, limit) -> None:
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    chunks = [data[a:b] for a, b in pairwise(edges) if a < b]
    page = page_of(iter(chunks), offset, limit)
    assert list(page.lines) == expected[offset - 1 : offset - 1 + limit]
    assert page.more == (len(expected) > offset - 1 + limit)
    if not page.lines:
        assert page.seen == len(expected)


@pytest.mark.requirement("G7.8")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_a_page_that_begins_in_the_middle_of_a_secret_shows_none_of_it(bench, end: str) -> None:
    key = private_key_lines()
    (bench.workspace / "notes").write_text(end.join(["before", *key, "after", ""]), newline="")
    output = await bench.run("read_file", path="notes", offset=8)
    assert not [line for line in key[1:-1] if line in output.content]
    assert "24\tafter" in output.content
