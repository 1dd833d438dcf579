"""Waiting before trying again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.net.backoff import Backoff
from tables import table

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


@table(("base_ms", "max_ms"), [(-1, 10), (10, -1)])
def test_negative_waits_are_refused(base_ms: int, max_ms: int):
    with pytest.raises(ValueError, match="negative"):
        Backoff(base_ms, max_ms, lambda: 0)
    with pytest.raises(ValueError, match="count from 0"):
        Backoff(1, 1, lambda: 0).ceiling_ms(-1)
