"""What an edit keeps of a file beside its mode: owner, group, extended attributes and access lists, or it says so."""

import errno
import os
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.requirement("D9.4")

ACL = "system.posix_acl_access"
EDITS: Mapping[str, Mapping[str, Any]] = {
    "write_file": {"path": "a.txt", "content": "new\n"},
    "edit_file": {"path": "a.txt", "old_string": "old", "new_string": "new"},
    "apply_patch": {"patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n"},
}


def acl(*entries: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NO_ID = 0xFFFFFFFF
FOR_USER_1234 = acl((1, 6, NO_ID), (2, 6, 1234), (4, 4, NO_ID), (0x10, 6, NO_ID), (0x20, 0, NO_ID))
FOR_NEW_FILES = acl((1, 7, NO_ID), (2, 7, 1234), (4, 5, NO_ID), (0x10, 7, NO_ID), (0x20, 0, NO_ID))


def with_attributes(set_them: Callable[[], None]) -> None:
    try:
        set_them()
    except OSError as problem:
        if problem.errno not in (errno.ENOTSUP, errno.EPERM):
            raise
        pytest.skip("this filesystem or account cannot have them")


@pytest.fixture
def file(bench) -> Path:
    file = bench.workspace / "a.txt"
    file.write_text("old\n")
    file.chmod(0o640)
    return file


@pytest.mark.parametrize("tool", EDITS)
async def test_an_edit_keeps_owner_and_group(bench, file: Path, tool: str) -> None:
    with_attributes(lambda: os.chown(file, 1234, 2345))
    os.chmod(file, 0o4750)
    assert (await bench.run(tool, **EDITS[tool])).ok
    status = file.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 2345, 0o4750)
    assert file.read_text() == "new\n"


@pytest.mark.parametrize("tool", EDITS)
async def test_an_edit_keeps_extended_attributes(bench, file: Path, tool: str) -> None:
    with_attributes(lambda: os.setxattr(file, "user.origin", b"elsewhere"))
    assert (await bench.run(tool, **EDITS[tool])).ok
    assert os.getxattr(file, "user.origin") == b"elsewhere"
    assert file.read_text() == "new\n"


@pytest.mark.parametrize("tool", EDITS)
async def test_an_edit_keeps_the_access_list(bench, file: Path, tool: str) -> None:
    with_attributes(lambda: os.setxattr(file, ACL, FOR_USER_1234))
    assert (await bench.run(tool, **EDITS[tool])).ok
    assert os.getxattr(file, ACL) == FOR_USER_1234


async def test_an_edit_gives_no_access_that_the_folder_gives_to_new_files(bench, file: Path) -> None:
    with_attributes(lambda: os.setxattr(bench.workspace, "system.posix_acl_default", FOR_NEW_FILES))
    assert (await bench.run("write_file", **EDITS["write_file"])).ok
    assert ACL not in os.listxattr(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


AS_SOMEBODY_ELSE = """
import os, sys
from bridle.tools.patches.atomic_writes import replace_beneath
os.setgroups([]), os.setgid(1234), os.setuid(1234)
try:
    replace_beneath(sys.argv[1], b"new")
except OSError as problem:
    print(problem.strerror)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away and be somebody else")
def test_an_edit_that_cannot_keep_the_owner_says_so_and_changes_nothing() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        file = Path(folder, "shared.txt")
        file.write_text("old")
        os.chown(file, 2345, 1234)
        file.chmod(0o660)
        ran = subprocess.run(
            [sys.executable, "-c", AS_SOMEBODY_ELSE, str(file)], capture_output=True, text=True, check=True
        )
        assert "it belongs to user 2345 and group 1234" in ran.stdout
        assert file.read_text() == "old"
        assert os.listdir(folder) == ["shared.txt"]
