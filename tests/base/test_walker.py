"""A walk finds what a listing of every folder would find, and lists only folders that changed."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.base.fs.walker import FolderEntry, FolderWalk, walk_folders

Names = tuple[str, ...]


class Walker:
    """Keeps the names in each folder, and counts the folders that were listed."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.walk = FolderWalk[Names]({}, cut=False)
        self.listed: list[str] = []

    def note(self, path: str, listed: Sequence[FolderEntry], excluded: bool) -> tuple[Names, Iterator[str]]:
        self.listed.append(os.path.relpath(path, self.root))
        mark = ("(excluded)",) if excluded else ()
        return (*mark, *sorted(one.name for one in listed)), (one.name for one in listed if one.is_folder)

    def again(self, **limits) -> dict[str, Names]:
        self.listed.clear()
        self.walk = walk_folders([self.root], self.walk.folders, self.note, **limits)
        return {os.path.relpath(path, self.root): seen.entries for path, seen in self.walk.folders.items()}


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """As if all had long been as it is."""
    now_ns = time.time_ns
    return lambda: monkeypatch.setattr(time, "time_ns", lambda: now_ns() + 10_000_000_000)


def test_only_folders_that_changed_are_listed_again(tmp_path: Path, later: Callable[[], None]) -> None:
    for name in ("a/b", "c"):
        (tmp_path / name).mkdir(parents=True)
    later()
    walker = Walker(tmp_path)
    assert walker.again() == {".": ("a", "c"), "a": ("b",), "c": (), "a/b": ()}
    walker.again()
    assert walker.listed == []
    (tmp_path / "a/b/new").touch()
    assert walker.again()["a/b"] == ("new",)
    assert walker.listed == ["a/b"]


def test_a_folder_that_changed_just_now_is_listed_again(tmp_path: Path) -> None:
    walker = Walker(tmp_path)
    walker.again()
    (tmp_path / "x").touch()
    walker.again()
    assert walker.again() == {".": ("x",)}
    assert walker.listed == ["."]


def test_a_folder_whose_times_a_command_can_set_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over SFTP: one time in whole seconds, and it is the one that programs set."""
    lstat = os.lstat

    def of_sftp(path: str, **how: int) -> SimpleNamespace:
        status = lstat(path, **how)
        fields = {name: getattr(status, name) for name in dir(status) if name.startswith("st_")}
        return SimpleNamespace(**fields | {"st_ctime_ns": status.st_mtime_ns // 10**9 * 10**9})

    os.utime(tmp_path, (10**9, 10**9))
    monkeypatch.setattr(os, "lstat", of_sftp)
    walker = Walker(tmp_path)
    walker.again()
    (tmp_path / "x").touch()
    os.utime(tmp_path, (10**9, 10**9))
    assert walker.again() == {".": ("x",)}


def test_an_excluded_folder_is_one_until_a_link_from_outside_leads_in(
    tmp_path: Path, later: Callable[[], None]
) -> None:
    for name in (".venv/lib/x", "src"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".venv/inside").symlink_to("lib")
    later()
    walker = Walker(tmp_path)
    assert walker.again()[".venv/lib/x"] == ("(excluded)",)
    (tmp_path / "src/link").symlink_to("../.venv/lib")
    found = walker.again()
    assert (found[".venv/lib/x"], found[".venv"]) == ((), ("(excluded)", "inside", "lib"))
    (tmp_path / "src/link").unlink()
    assert walker.again()[".venv/lib/x"] == ("(excluded)",)


def test_a_walk_that_is_cut_short_says_so_and_calls_nothing_listed_that_was_not(tmp_path: Path) -> None:
    for name in ("a", "b", "node_modules/c"):
        (tmp_path / name).mkdir(parents=True)
    walker = Walker(tmp_path)
    walker.again()
    (tmp_path / "x").touch()
    assert walker.again(max_folders=1) == {".": ("a", "b", "node_modules", "x")}
    assert walker.walk.cut
    assert set(Walker(tmp_path).again(max_folders=3)) == {".", "a", "b"}, "excluded folders come last"


def test_a_folder_with_too_many_names_is_left_out_and_the_walk_continues(tmp_path: Path) -> None:
    for name in ("few/1", "many/1", "many/2", "many/3", "node_modules/1", "node_modules/2", "node_modules/3"):
        (tmp_path / name).mkdir(parents=True)
    walker = Walker(tmp_path)
    for _ in range(2):
        assert set(walker.again(max_entries=5)) - {"node_modules/1", "node_modules/2", "node_modules/3"} == {
            ".",
            "few",
            "few/1",
            "node_modules",
        }
        assert walker.walk.cut
    assert set(walker.again(max_entries=7)) >= {"many", "many/3"}


@settings(max_examples=40)
@given(
    changes=st.lists(
        st.tuples(st.sampled_from(["make", "remove", "rename", "swap"]), st.sampled_from("abc")), max_size=15
    )
)
def test_a_walk_finds_what_a_listing_gives_whatever_happens(tmp_path_factory, changes) -> None:
    base = tmp_path_factory.mktemp("walk")
    for name in "abc":
        (base / name / name).mkdir(parents=True)
    walker = Walker(base)
    for what, name in changes:
        path = base / name / "file"
        if what == "make":
            path.touch()
        elif what == "swap":
            os.rename(base / "a", base / "aside")
            os.rename(base / name if name != "a" else base / "b", base / "a")
            os.rename(base / "aside", base / name if name != "a" else base / "b")
        elif path.exists():
            path.unlink() if what == "remove" else path.rename(base / name / "moved")
        expected = {
            os.path.relpath(above, base): tuple(sorted((*folders, *files)))
            for above, folders, files in os.walk(base)
        }
        assert walker.again() == expected
