"""What is told by times must be what a look would tell."""

import os
import time

from hypothesis import given
from hypothesis import strategies as st

from bridle.base.file_times import FolderNames, is_settled

_LATER_NS = 10_000_000_000
"""As if all files had been changed long ago."""


@given(
    changes=st.lists(
        st.tuples(st.sampled_from(["make", "remove", "rename", "swap"]), st.sampled_from("abc")), max_size=20
    )
)
def test_names_are_those_a_listing_gives_whatever_happens(tmp_path_factory, changes) -> None:
    folder, other = tmp_path_factory.mktemp("names"), tmp_path_factory.mktemp("other")
    names = FolderNames()
    for what, name in changes:
        path, beside = folder / name, folder / f"{name}-moved"
        if what == "make":
            path.touch()
        elif what == "swap":
            (other / name).touch()
            os.rename(other, f"{other}-aside")
            os.rename(folder, other)
            os.rename(f"{other}-aside", folder)
        elif path.exists():
            path.unlink() if what == "remove" else path.rename(beside)
        assert sorted(names.of(str(folder))) == sorted(os.listdir(folder))


def test_a_folder_that_has_settled_is_listed_once_until_it_changes(tmp_path) -> None:
    (tmp_path / "a").touch()
    names = FolderNames(now_ns=lambda: time.time_ns() + _LATER_NS)
    first = names.of(str(tmp_path))
    assert names.of(str(tmp_path)) is first
    (tmp_path / "b").touch()
    assert sorted(names.of(str(tmp_path))) == ["a", "b"]


def test_a_folder_that_changed_just_now_is_not_believed(tmp_path) -> None:
    changed_ns = os.stat(tmp_path).st_ctime_ns
    names = FolderNames(now_ns=lambda: changed_ns + 1_000_000)
    assert names.of(str(tmp_path)) is not names.of(str(tmp_path))


def test_a_time_in_whole_seconds_settles_later() -> None:
    whole, fine = 1_700_000_000_000_000_000, 1_700_000_000_000_000_001
    assert not is_settled(whole, whole + 1_000_000_000)
    assert is_settled(whole, whole + 2_000_000_001)
    assert not is_settled(fine, fine + 20_000_000)
    assert is_settled(fine, fine + 20_000_001)
