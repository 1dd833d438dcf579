"""What is told by times must be what a look would tell."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.file_times import FolderNames, is_settled, is_telling

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


def test_a_time_in_whole_seconds_does_not_tell_who_set_it() -> None:
    whole, fine = 1_700_000_000_000_000_000, 1_700_000_000_000_000_001
    assert not is_telling(whole, whole + _LATER_NS)
    assert not is_telling(0, whole)
    assert not is_telling(fine, fine + 20_000_000)
    assert is_telling(fine, fine + 20_000_001)


def test_names_are_those_of_the_folder_whose_time_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who moves the folders above it changes no time of its own."""
    for around, name in (("here", "AGENTS.md"), ("other", "harmless")):
        (tmp_path / around / "in").mkdir(parents=True)
        (tmp_path / around / "in" / name).touch()

    def swap() -> None:
        (tmp_path / "here").rename(tmp_path / "aside")
        (tmp_path / "other").rename(tmp_path / "here")
        (tmp_path / "aside").rename(tmp_path / "other")

    listdir = os.listdir

    def listed_meanwhile(folder: str | int) -> list[str]:
        swap()
        try:
            return listdir(folder)
        finally:
            swap()

    names = FolderNames(now_ns=lambda: time.time_ns() + _LATER_NS)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(os, "listdir", listed_meanwhile)
        names.of(str(tmp_path / "here/in"))
    assert names.of(str(tmp_path / "here/in")) == ["AGENTS.md"]
