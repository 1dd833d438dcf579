"""Lines of an outer agent, however long they are and however they come."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.mcp_server.stdio_streams import LONGEST_LINE, lines_of


async def lines(chunks: list[bytes]) -> list[tuple[bytes, bool]]:
    reader = asyncio.StreamReader()
    for chunk in chunks:
        reader.feed_data(chunk)
    reader.feed_eof()
    return [(line.text, line.is_too_long) async for line in lines_of(reader)]


@given(st.lists(st.binary(max_size=12)))
def test_lines_do_not_depend_on_how_they_came(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    assert asyncio.run(lines(chunks)) == [(line, False) for line in whole.split(b"\n")]


async def test_of_a_line_that_is_too_long_only_its_ends_are_kept() -> None:
    long = b'{"id": 7, ' + b"x" * (LONGEST_LINE + 200_000)
    (first, is_long), (second, _), _ = await lines([long, b"\n", b"next\n"])
    assert is_long
    assert first.startswith(b'{"id": 7')
    assert len(first) < 200_000
    assert second == b"next"
