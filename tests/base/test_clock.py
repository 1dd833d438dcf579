"""The machine's clock, and timestamps as text."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.clock import Clock, SystemClock, from_iso_ms, iso_ms
from bridle.conformance.fake_clock import check_clock
from tables import table

FIRST_MS = -62_135_596_800_000
LAST_MS = 253_402_300_799_999


async def test_the_system_clock_keeps_the_contract():
    clock: Clock = SystemClock()
    await check_clock(clock, clock.sleep)


def test_the_system_clock_shows_the_time_of_the_machine():
    before = datetime.now(UTC)
    now = datetime.fromisoformat(iso_ms(SystemClock().now_ms()))
    assert before - timedelta(seconds=1) < now < before + timedelta(minutes=1)


def test_a_timestamp_reads_as_expected():
    assert iso_ms(1_779_562_800_123) == "2026-05-23T19:00:00.123Z"
    assert iso_ms(0) == "1970-01-01T00:00:00.000Z"
    assert iso_ms(-1) == "1969-12-31T23:59:59.999Z"
    assert iso_ms(951_782_400_000) == "2000-02-29T00:00:00.000Z"
    assert iso_ms(FIRST_MS) == "0001-01-01T00:00:00.000Z"
    assert iso_ms(LAST_MS) == "9999-12-31T23:59:59.999Z"


@given(st.integers(FIRST_MS, LAST_MS))
def test_a_timestamp_agrees_with_the_calendar_and_comes_back(now_ms: int):
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now_ms)
    text = iso_ms(now_ms)
    assert text == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert from_iso_ms(text) == now_ms


@table("now_ms", [FIRST_MS - 1, LAST_MS + 1, 10**30, -(10**30)])
def test_a_time_outside_the_four_digit_years_is_refused(now_ms: int):
    with pytest.raises(ValueError, match="outside"):
        iso_ms(now_ms)


@table(
    "text",
    [
        "",
        "now",
        "2026-05-23",
        "2026-05-23T19:00:00Z",
        "2026-05-23T19:00:00.1Z",
        "2026-05-23T19:00:00.123456Z",
        "2026-05-23T19:00:00.123",
        "2026-05-23T19:00:00.123+00:00",
        "2026-05-23T21:00:00.123+02:00",
        "2026-05-23 19:00:00.123Z",
        "2026-02-29T00:00:00.000Z",
        "2026-05-23T24:00:00.000Z",
        "2026-05-23T19:00:60.000Z",
        "20260523T190000.123Z",
        "2026-05-23T19:00:00.123Z\n",
        "٢٠٢٦-05-23T19:00:00.123Z",
    ],
)
def test_any_other_spelling_of_a_time_is_refused(text: str):
    with pytest.raises(ValueError, match="not a timestamp"):
        from_iso_ms(text)
