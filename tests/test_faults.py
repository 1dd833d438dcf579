"""`make faults`, short: every point once, every kind of spoiled disk once, a few kills of the real program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 300


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.skipif(sys.platform != "linux", reason="waits for processes the way Linux can")
def test_nothing_acknowledged_is_lost_and_nothing_is_done_twice(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "faults/run.py", "--seeds", "1", "--kills", "4", "--no-long"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no run was killed there" not in done.stdout
    assert os.listdir(tmp_path) == [], "scratch folders are gone"
