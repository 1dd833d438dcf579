"""`make faults`, short: every point once, every kind of spoiled disk once, a few kills of the real program."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 300
TELLS_LATER = "            self._untold.append((envelope, payload))\n            if self._stuck"
TELLS_AT_ONCE = "            self._bus.publish(envelope, payload)\n            if self._stuck"


def faults(root: Path, scratch: Path, *options: str) -> subprocess.CompletedProcess[str]:
    scratch.mkdir()
    return subprocess.run(
        [sys.executable, "faults/run.py", *options],
        cwd=root,
        env={"PATH": os.environ["PATH"], "HOME": str(scratch), "TMPDIR": str(scratch), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.skipif(sys.platform != "linux", reason="waits for processes the way Linux can")
@pytest.mark.full
def test_nothing_seen_is_lost_and_nothing_is_done_twice(tmp_path: Path) -> None:
    done = faults(ROOT, tmp_path / "scratch", "--seeds", "1", "--kills", "4", "--no-long")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no run was killed there" not in done.stdout
    assert os.listdir(tmp_path / "scratch") == [], "scratch folders are gone"


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.skipif(sys.platform != "linux", reason="waits for processes the way Linux can")
def test_a_tree_that_tells_before_it_keeps_is_found_out(tmp_path: Path) -> None:
    """The tree beside it is tested and no other; and the witness sees what a client sees."""
    for name in ("src", "faults"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    journal = tmp_path / "src/bridle/engine/journal.py"
    before = journal.read_text()
    assert TELLS_LATER in before
    journal.write_text(before.replace(TELLS_LATER, TELLS_AT_ONCE))
    done = faults(
        tmp_path,
        tmp_path / "scratch",
        "--seeds",
        "4",
        "--kills",
        "0",
        "--no-long",
        "--only",
        "mid-transaction",
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "events that a client saw are lost" in done.stdout or "came back with other content" in done.stdout
