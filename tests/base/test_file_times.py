"""What is told by times must be what a look would tell."""

from bridle.base.fs.walker import is_settled, is_telling

_LATER_NS = 10_000_000_000
"""As if all files had been changed long ago."""


def test_a_time_in_whole_seconds_settles_later() -> None:
    whole, fine = 1_700_000_000_000_000_000, 1_700_000_000_000_000_001
    assert not is_settled(whole, whole + 1_000_000_000)
    assert is_settled(whole, whole + 2_000_000_001)
    assert not is_settled(fine, fine + 20_000_000)
    assert is_settled(fine, fine + 20_000_001)


def test_a_time_in_whole_seconds_does_not_tell_who_set_it() -> None:
    whole, fine = 1_700_000_000_000_000_000, 1_700_000_000_000_000_001
    assert not is_telling(whole, whole + _LATER_NS)
    assert not is_telling(0, whole)
    assert not is_telling(fine, fine + 20_000_000)
    assert is_telling(fine, fine + 20_000_001)
