"""The addresses of what an outer agent reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.mcp_server.agent_door import (
    KINDS,
    NAMED,
    PAGE,
    Kind,
    ResourceAddress,
    page_of,
    read_uri,
    uri_of,
)
from bridle.protocol.errors import CommandRefused
from tables import table

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=40)


@pytest.mark.requirement("P4")
@given(kind=st.sampled_from(KINDS), name=NAMES, since=st.integers(0, 10**14))
def test_an_address_that_was_written_means_what_it_was_written_for(kind: Kind, name: str, since: int) -> None:
    name = name if kind in NAMED else ""
    uri = uri_of(kind, name, since=since)
    assert read_uri(uri) == ResourceAddress(kind=kind, name=name, since=since)
    assert uri.isascii()
    assert uri.startswith("bridle-v1://")


@pytest.mark.requirement("P4")
@table("opening", ["harness-v1://", "harness/v1://", "bridle/v1://"])
def test_older_spellings_are_read(opening: str) -> None:
    read = read_uri(f"{opening}session/sess_1/events")
    assert read == ResourceAddress(kind="session/events", name="sess_1")


@table(
    "uri",
    [
        "", "bridle-v1://", "bridle-v1://session", "bridle-v1://sessions/x", "bridle-v1://session/a/b/c",
        "bridle-v1://session/a/events?since=-1", "bridle-v1://session/a/events?since=x", "file:///etc/passwd",
        "bridle-v1://session/" + "a" * 300, "bridle-v2://sessions", "bridle-v1://skill/",
    ],
)  # fmt: skip
def test_nothing_stands_anywhere_else(uri: str) -> None:
    with pytest.raises(CommandRefused) as refused:
        read_uri(uri)
    assert refused.value.reason == "UnknownResource"


@given(st.text(max_size=80))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        read_uri(text)
    except CommandRefused as refused:
        assert refused.reason == "UnknownResource"


@given(st.integers(0, 5 * PAGE))
def test_pages_together_are_the_list(count: int) -> None:
    items, cursor, found = list(range(count)), "", list[int]()
    while True:
        page, following = page_of(items, cursor)
        found += page
        if following is None:
            break
        cursor = following
    assert found == items


def test_a_cursor_that_nobody_gave_out_is_refused() -> None:
    with pytest.raises(CommandRefused):
        page_of([1], "next")
