import json
import os
import stat
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.fs.files import (
    FileContents,
    FileLock,
    PathChanged,
    open_beneath,
    private_folder,
    read_limited,
    write_atomic,
)
from tables import table


@pytest.fixture
def folder(tmp_path):
    return os.path.realpath(tmp_path)


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_an_atomic_write_replaces_the_content_and_leaves_nothing_else_behind(folder):
    path = os.path.join(folder, "settings")
    write_atomic(path, b"old")
    write_atomic(path, b"new" * 100_000, durable=False)
    assert read_limited(path, 1 << 20) == FileContents(b"new" * 100_000, False)
    assert os.listdir(folder) == ["settings"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
def test_the_mode_of_an_atomic_write_does_not_depend_on_the_umask(folder, mode):
    path = os.path.join(folder, "file")
    before = os.umask(0o077)
    try:
        write_atomic(path, b"x", mode=mode)
    finally:
        os.umask(before)
    assert mode_of(path) == mode


def test_an_atomic_write_is_private_unless_asked_otherwise(folder):
    path = os.path.join(folder, "file")
    write_atomic(path, b"x")
    assert mode_of(path) == 0o600


def test_a_failed_atomic_write_keeps_the_old_file_and_removes_the_temporary_one(folder):
    path = os.path.join(folder, "taken")
    os.mkdir(path)
    with pytest.raises(OSError, match="taken"):
        write_atomic(path, b"x")
    assert os.listdir(folder) == ["taken"]
    assert os.path.isdir(path)


def test_an_atomic_write_replaces_a_symlink_and_spares_its_target(folder):
    target, link = os.path.join(folder, "target"), os.path.join(folder, "link")
    write_atomic(target, b"precious")
    os.symlink(target, link)
    write_atomic(link, b"new")
    assert read_limited(target, 100).data == b"precious"
    assert not os.path.islink(link)


def test_a_name_of_the_longest_allowed_length_can_be_written(folder):
    path = os.path.join(folder, "n" * 255)
    write_atomic(path, b"x")
    assert read_limited(path, 1).data == b"x"


def test_a_relative_name_without_a_folder_is_written_in_the_current_folder(folder):
    before = os.getcwd()
    os.chdir(folder)
    try:
        write_atomic("plain", b"x")
        assert os.listdir(folder) == ["plain"]
    finally:
        os.chdir(before)


def test_every_folder_that_private_folder_makes_is_for_the_owner_only(folder):
    os.mkdir(os.path.join(folder, "shared"), 0o755)
    made = private_folder(os.path.join(folder, "shared", "a", "b", "c"))
    assert made == os.path.join(folder, "shared", "a", "b", "c")
    assert mode_of(os.path.join(folder, "shared")) == 0o755
    assert [
        mode_of(os.path.join(folder, "shared", *parts)) for parts in (["a"], ["a", "b"], ["a", "b", "c"])
    ] == [0o700] * 3


def test_private_folder_is_content_with_a_folder_that_exists_and_refuses_a_file(folder):
    assert private_folder(folder) == folder
    write_atomic(os.path.join(folder, "file"), b"")
    with pytest.raises(FileExistsError):
        private_folder(os.path.join(folder, "file"))
    with pytest.raises(OSError, match="file"):
        private_folder(os.path.join(folder, "file", "deeper"))


def test_only_one_lock_on_a_path_is_held_and_the_loser_learns_who_has_it(folder):
    path = os.path.join(folder, "lock")
    first, second = FileLock(path), FileLock(path)
    assert first.acquire(note={"pid": 42, "started": "noon"})
    assert not second.acquire()
    assert second.holder() == {"pid": 42, "started": "noon"}
    first.release()
    assert second.acquire()
    assert first.holder() is None
    second.release()


def test_a_lock_leaves_with_its_block_and_releasing_twice_is_harmless(folder):
    path = os.path.join(folder, "lock")
    with FileLock(path) as lock:
        assert lock.acquire()
        assert lock.held
    assert not lock.held
    lock.release()
    with FileLock(path) as other:
        assert other.acquire()


def test_what_a_holder_left_that_ended_without_a_word_is_known_until_the_lock_is_taken(folder: str) -> None:
    lock = FileLock(os.path.join(folder, "lock"))
    assert lock.left_by() is None
    assert lock.acquire(note={"about": "x"})
    assert FileLock(lock.path).left_by() is None, "somebody holds it"
    lock.release(keep_note=True)
    assert FileLock(lock.path).left_by() == FileLock(lock.path).left_by() == {"about": "x"}
    assert lock.acquire()
    lock.release()
    assert lock.left_by() is None


def test_taking_a_held_lock_again_is_a_mistake(folder):
    with FileLock(os.path.join(folder, "lock")) as lock:
        lock.acquire()
        with pytest.raises(RuntimeError):
            lock.acquire()


def test_waiting_for_a_lock_ends_when_it_is_given_back(folder):
    path = os.path.join(folder, "lock")
    first, second = FileLock(path), FileLock(path)
    assert first.acquire()
    releaser = threading.Timer(0.05, first.release)
    releaser.start()
    assert second.acquire(timeout_s=10)
    releaser.join()
    second.release()


def test_waiting_for_a_lock_ends_at_the_deadline(folder):
    path = os.path.join(folder, "lock")
    with FileLock(path) as first:
        first.acquire()
        assert not FileLock(path).acquire(timeout_s=0.05)


HOLD_A_LOCK = """
import sys
from bridle.base.fs.files import FileLock
lock = FileLock(sys.argv[1])
assert lock.acquire(note={"pid": 7})
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_dies_with_its_process_and_the_stale_file_is_no_obstacle(folder):
    path = os.path.join(folder, "lock")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_A_LOCK, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        lock = FileLock(path)
        assert not lock.acquire()
        assert lock.holder() == {"pid": 7}
        child.kill()
        child.wait()
        assert lock.acquire(note={"pid": 8})
        assert FileLock(path).holder() == {"pid": 8}
        lock.release()


def test_a_lock_file_deleted_while_held_does_not_let_the_next_owner_share_a_dead_name(folder):
    path = os.path.join(folder, "lock")
    first, second, third = FileLock(path), FileLock(path), FileLock(path)
    assert first.acquire()
    os.unlink(path)
    assert second.acquire()
    first.release()
    assert not third.acquire()
    second.release()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"{}"])
def test_an_unreadable_note_names_no_holder(folder, content):
    path = os.path.join(folder, "lock")
    write_atomic(path, content)
    assert FileLock(path).holder() is None


def test_a_note_that_is_too_large_is_refused_and_the_lock_given_back(folder):
    path = os.path.join(folder, "lock")
    with pytest.raises(ValueError, match="note"):
        FileLock(path).acquire(note={"text": "x" * 5000})
    with FileLock(path) as lock:
        assert lock.acquire()


def test_the_note_is_json_that_people_can_read_in_the_file(folder):
    path = os.path.join(folder, "lock")
    with FileLock(path) as lock:
        lock.acquire(note={"pid": 1})
        with open(path, "rb") as file:
            assert json.load(file) == {"pid": 1}


def tree(folder):
    """`inside/deep/file` and a secret outside that nothing may reach."""
    os.makedirs(os.path.join(folder, "inside", "deep"))
    os.makedirs(os.path.join(folder, "outside"))
    write_atomic(os.path.join(folder, "inside", "deep", "file"), b"mine")
    write_atomic(os.path.join(folder, "outside", "file"), b"secret")


@pytest.mark.requirement("H10.6")
def test_a_resolved_path_opens_as_usual(folder):
    tree(folder)
    fd = open_beneath(os.path.join(folder, "inside", "deep", "file"), os.O_RDONLY)
    try:
        assert read_limited(fd, 100) == FileContents(b"mine", False)
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


@pytest.mark.requirement("H10.6")
@pytest.mark.parametrize("swapped", ["inside", "inside/deep"])
def test_a_folder_swapped_for_a_symlink_after_the_check_is_refused(folder, swapped):
    tree(folder)
    path = os.path.join(folder, "inside", "deep", "file")
    victim = os.path.join(folder, swapped)
    os.rename(victim, os.path.join(folder, "moved"))
    os.symlink(os.path.join(folder, "outside"), victim)
    with pytest.raises(PathChanged) as caught:
        open_beneath(path, os.O_RDONLY)
    assert caught.value.path == path
    assert caught.value.component == victim


@pytest.mark.requirement("H10.6")
@pytest.mark.parametrize(
    "flags", [os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_RDONLY | os.O_DIRECTORY]
)
def test_a_file_swapped_for_a_symlink_after_the_check_is_refused_and_its_target_untouched(folder, flags):
    tree(folder)
    path = os.path.join(folder, "inside", "deep", "file")
    os.unlink(path)
    os.symlink(os.path.join(folder, "outside", "file"), path)
    with pytest.raises(PathChanged):
        open_beneath(path, flags)
    assert read_limited(os.path.join(folder, "outside", "file"), 100).data == b"secret"


@pytest.mark.requirement("H10.6")
def test_creating_through_a_dangling_symlink_is_refused(folder):
    target, link = os.path.join(folder, "new"), os.path.join(folder, "link")
    os.symlink(target, link)
    with pytest.raises(PathChanged):
        open_beneath(link, os.O_WRONLY | os.O_CREAT)
    assert not os.path.exists(target)


def test_a_new_file_can_be_created_with_its_mode(folder):
    path = os.path.join(folder, "new")
    os.close(open_beneath(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640))
    assert mode_of(path) == 0o640


def test_what_is_missing_or_no_folder_is_an_ordinary_error_naming_the_whole_path(folder):
    tree(folder)
    with pytest.raises(FileNotFoundError) as missing:
        open_beneath(os.path.join(folder, "nowhere", "file"), os.O_RDONLY)
    assert missing.value.filename == os.path.join(folder, "nowhere", "file")
    with pytest.raises(NotADirectoryError):
        open_beneath(os.path.join(folder, "outside", "file", "deeper"), os.O_RDONLY)


@pytest.mark.requirement("H10.6")
@table("path", ["", "relative", "a/b", "/a/../b", "/a/./b", "//a", "/a//b", "/a/", "/.."])
def test_a_path_that_is_not_resolved_is_a_mistake(path):
    with pytest.raises(ValueError, match="resolved"):
        open_beneath(path, os.O_RDONLY)


def test_the_root_folder_can_be_opened():
    fd = open_beneath("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert os.path.samestat(os.fstat(fd), os.stat("/"))
    finally:
        os.close(fd)


def test_walking_a_path_leaks_no_descriptor(folder):
    tree(folder)
    path = os.path.join(folder, "inside", "deep", "file")
    before = len(os.listdir("/dev/fd"))
    for _ in range(50):
        os.close(open_beneath(path, os.O_RDONLY))
        with pytest.raises(FileNotFoundError):
            open_beneath(path + "x", os.O_RDONLY)
    assert len(os.listdir("/dev/fd")) == before


@given(data=st.binary(max_size=200), limit=st.integers(0, 250))
def test_a_limited_read_returns_the_head_and_says_whether_there_was_more(tmp_path_factory, data, limit):
    path = str(tmp_path_factory.getbasetemp() / "limited")
    write_atomic(path, data, durable=False)
    assert read_limited(path, limit) == FileContents(data[:limit], len(data) > limit)


def test_reading_a_fifo_or_a_folder_by_name_is_refused_without_waiting(folder):
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="regular"):
        read_limited(fifo, 10)
    with pytest.raises(IsADirectoryError):
        read_limited(folder, 10)
    with pytest.raises(OSError, match="regular"):
        read_limited("/dev/zero", 10)
