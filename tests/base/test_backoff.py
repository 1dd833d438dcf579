"""Waiting before trying again."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.backoff import RETRY_AFTER_MAX_MS, Backoff, retry_after_ms

NOW_MS = 1_779_562_800_000  # 2026-05-23 19:00:00 UTC
MS = st.integers(0, 2**53)


@pytest.mark.requirement("H16.3")
@given(MS, MS, st.integers(0, 10**30), st.floats(0, 1))
def test_a_wait_lies_between_zero_and_the_ceiling(base_ms: int, max_ms: int, attempt: int, random: float):
    backoff = Backoff(base_ms, max_ms, lambda: random)
    assert 0 <= backoff.delay_ms(attempt) <= backoff.ceiling_ms(attempt) <= max_ms


@pytest.mark.requirement("H16.3")
@given(MS, MS, st.integers(0, 200))
def test_the_ceiling_doubles_until_the_maximum(base_ms: int, max_ms: int, attempt: int):
    assert Backoff(base_ms, max_ms, lambda: 0).ceiling_ms(attempt) == min(max_ms, base_ms * 2**attempt)


@pytest.mark.requirement("C27", "D8.71")
def test_the_provider_ladder_is_one_to_sixteen_seconds():
    backoff = Backoff(1000, 16_000, lambda: 0)
    assert [backoff.ceiling_ms(n) for n in range(7)] == [1000, 2000, 4000, 8000, 16_000, 16_000, 16_000]


@pytest.mark.requirement("H16.3")
def test_both_ends_of_the_jitter_can_be_drawn():
    assert Backoff(10, 10, lambda: 0.0).delay_ms(0) == 0
    assert Backoff(10, 10, lambda: 1 - 2**-53).delay_ms(0) == 10


@pytest.mark.requirement("H16.3")
def test_next_climbs_and_reset_starts_again():
    backoff = Backoff(1000, 16_000, lambda: 1 - 2**-53)
    assert [backoff.next() for _ in range(6)] == [1000, 2000, 4000, 8000, 16_000, 16_000]
    backoff.reset()
    assert backoff.next() == 1000


@pytest.mark.parametrize(("base_ms", "max_ms"), [(-1, 10), (10, -1)])
def test_negative_waits_are_refused(base_ms: int, max_ms: int):
    with pytest.raises(ValueError, match="negative"):
        Backoff(base_ms, max_ms, lambda: 0)
    with pytest.raises(ValueError, match="count from 0"):
        Backoff(1, 1, lambda: 0).ceiling_ms(-1)


@pytest.mark.requirement("D8.71", "C27")
@pytest.mark.parametrize(
    ("header", "wait_ms"),
    [
        ("0", 0),
        ("7", 7000),
        (" 7 ", 7000),
        ("1.5", 1500),
        ("0.0004", 0),
        ("30", 30_000),
        ("31", RETRY_AFTER_MAX_MS),
        ("9" * 60, RETRY_AFTER_MAX_MS),
        ("Sat, 23 May 2026 19:00:12 GMT", 12_000),
        ("Saturday, 23-May-26 19:00:12 GMT", 12_000),
        ("Sat May 23 19:00:12 2026", 12_000),
        ("Sat, 23 May 2026 20:00:00 GMT", RETRY_AFTER_MAX_MS),
        ("Sat, 23 May 2026 18:59:59 GMT", 0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
    ],
)
def test_retry_after_is_read_and_capped(header: str, wait_ms: int):
    assert retry_after_ms(header, NOW_MS) == wait_ms


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        " ",
        "soon",
        "-1",
        "+1",
        "1e3",
        "1.",
        ".5",
        "1,5",
        "0x10",
        "١٢",
        "7 s",
        "9" * 5000,
        "Sat,",
        "Mon, 99",
        "Sat, 32 May 2026 19:00:12 GMT",
        "Sat, 23 May 99999999999 19:00:12 GMT",
        "Sat, 23 May 2026 25:00:00 GMT",
    ],
)
def test_an_unreadable_retry_after_is_none(header: str | None):
    assert retry_after_ms(header, NOW_MS) is None


@given(st.text(max_size=40))
def test_no_retry_after_header_makes_it_raise(header: str):
    wait_ms = retry_after_ms(header, NOW_MS)
    assert wait_ms is None or 0 <= wait_ms <= RETRY_AFTER_MAX_MS


@given(st.integers(0, 29))
def test_a_date_within_the_cap_is_exact(seconds: int):
    assert retry_after_ms(formatdate(NOW_MS / 1000 + seconds, usegmt=True), NOW_MS) == seconds * 1000
