"""Numbers, amounts and ages as people read them."""

from hypothesis import given
from hypothesis import strategies as st

from bridle.base.text.phrases import age, counted, dollars, spelled_age
from tables import table

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def test_one_of_a_thing_is_not_several() -> None:
    assert [counted(number, "file") for number in (0, 1, 2)] == ["0 files", "1 file", "2 files"]


@table(
    ("usd", "words"),
    [
        (0, "$0.00"),
        (0.0004, "$0.0004"),
        (0.007, "$0.0070"),
        (0.0099, "$0.0099"),
        (0.01, "$0.01"),
        (4.979, "$4.98"),
    ],
)
def test_less_than_a_cent_keeps_the_digits_that_matter(usd: float, words: str) -> None:
    assert dollars(usd) == words


@given(st.floats(min_value=0.0001, max_value=1e6))
def test_what_was_paid_never_reads_as_nothing(usd: float) -> None:
    assert float(dollars(usd)[1:]) > 0


@table(
    ("ms", "short", "spelled"),
    [
        (-5, "just now", "just now"),
        (MINUTE_MS - 1, "just now", "just now"),
        (MINUTE_MS, "1 min ago", "1 minute ago"),
        (HOUR_MS, "1 h ago", "1 hour ago"),
        (47 * HOUR_MS, "47 h ago", "1 day ago"),
        (48 * HOUR_MS, "2 days ago", "2 days ago"),
    ],
)
def test_how_long_ago_something_was(ms: int, short: str, spelled: str) -> None:
    assert (age(ms), spelled_age(ms)) == (short, spelled)
