"""Which files belong to a check, and which of them are not as they were."""

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bridle.agents.check_files import CheckFiles, WatchBounds, is_of_tests


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)


def changed_by(root: Path, words: tuple[str, ...], *paths: str) -> tuple[str, ...]:
    """What is reported where each of these files gets another content."""
    files = CheckFiles(str(root), words)
    for path in paths:
        (root / path).write_text("other")
    return files.changed()


def test_tests_and_what_runners_obey_belong_to_a_check_that_names_nothing(tmp_path: Path) -> None:
    of_check = ("tests/data/a.json", "src/b.test.ts", "src/pyproject.toml", "package.json", "pkg/c_test.go")
    others = ("src/b.ts", "README.md", "node_modules/x/test_a.js", ".git/tests/a")
    write(tmp_path, *of_check, *others)
    assert changed_by(tmp_path, ("npm", "test"), *of_check, *others) == tuple(sorted(of_check))


def test_what_the_command_names_is_watched_whatever_it_is_called(tmp_path: Path) -> None:
    paths = (
        "checks/run",
        "checks/settings.ini",
        "tests/test_a.py",
        "tests/conftest.py",
        "tests/test_b.py",
        "setup.cfg",
    )
    write(tmp_path, *paths)
    words = ("bash", "checks/run", "--config=checks/settings.ini", "tests/test_a.py::test_one")
    watched = ("checks/run", "checks/settings.ini", "setup.cfg", "tests/conftest.py", "tests/test_a.py")
    assert changed_by(tmp_path, words, *paths) == watched


def test_below_a_folder_that_is_named_only_that_folder_counts(tmp_path: Path) -> None:
    write(tmp_path, "one/tests/test_a.py", "two/tests/test_b.py")
    assert changed_by(tmp_path, ("pytest", "one"), "one/tests/test_a.py", "two/tests/test_b.py") == (
        "one/tests/test_a.py",
    )


def test_new_files_and_files_that_are_gone_are_changes(tmp_path: Path) -> None:
    write(tmp_path, "tests/test_a.py")
    files = CheckFiles(str(tmp_path), ())
    os.unlink(tmp_path / "tests/test_a.py")
    write(tmp_path, "conftest.py")
    assert files.changed() == ("conftest.py", "tests/test_a.py")


def test_a_file_that_is_as_it_was_again_is_none(tmp_path: Path) -> None:
    write(tmp_path, "test_a.py")
    files = CheckFiles(str(tmp_path), ())
    (tmp_path / "test_a.py").write_text("other")
    assert files.changed() == ("test_a.py",)
    write(tmp_path, "test_a.py")
    assert files.changed() == ()


def test_a_change_with_the_old_time_and_size_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "test_a.py"
    path.write_text("assert one")
    files, status = CheckFiles(str(tmp_path), ()), path.stat()
    path.write_text("assert 111")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert files.changed() == ("test_a.py",)


def test_what_the_check_writes_itself_is_not_held_against_anybody(tmp_path: Path) -> None:
    write(tmp_path, "tests/snapshots.txt", "tests/test_a.py")
    files = CheckFiles(str(tmp_path), ())
    (tmp_path / "tests/test_a.py").write_text("changed before the check")
    assert files.changed() == ("tests/test_a.py",)
    (tmp_path / "tests/snapshots.txt").write_text("written by the check")
    (tmp_path / "tests/test_a.py").write_text("and by the check as well")
    write(tmp_path, "tests/new.txt")
    files.forgive_check()
    assert files.changed() == ("tests/test_a.py",)


def test_pipes_links_and_what_lies_outside_are_no_files_of_a_check(tmp_path: Path) -> None:
    work = tmp_path / "work"
    write(work, "tests/test_a.py")
    write(tmp_path, "outside/test_b.py")
    os.mkfifo(work / "tests" / "pipe")
    (work / "tests" / "loop").symlink_to(work)
    (work / "tests" / "away").symlink_to(tmp_path / "outside")
    words = ("sh", "../outside/test_b.py", "/", "\0", "x" * 5000)
    assert changed_by(work, words, "tests/test_a.py", "../outside/test_b.py") == ("tests/test_a.py",)


def test_the_bounds_are_said_and_what_is_named_comes_first(tmp_path: Path) -> None:
    write(tmp_path, "zz/run", *(f"tests/test_{number}.py" for number in range(5)))
    assert not CheckFiles(str(tmp_path), ("zz/run", "tests")).is_cut
    files = CheckFiles(str(tmp_path), ("zz/run", "tests"), WatchBounds(files=3))
    assert (len(files), files.is_cut) == (3, True)
    (tmp_path / "zz/run").write_text("other")
    assert files.changed() == ("zz/run",)
    assert CheckFiles(str(tmp_path), (), WatchBounds(entries=2)).is_cut


def test_a_file_too_large_to_read_is_known_by_its_size_and_time(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("more than four")
    files = CheckFiles(str(tmp_path), (), WatchBounds(read_bytes=4))
    assert files.changed() == ()
    (tmp_path / "test_a.py").write_text("much more than four")
    assert files.changed() == ("test_a.py",)


@given(st.lists(st.text(st.characters(exclude_characters="/\0")), min_size=1))
def test_any_path_has_an_answer(parts: list[str]) -> None:
    assert is_of_tests("/".join(["tests", *parts]))
    is_of_tests("/".join(parts))
