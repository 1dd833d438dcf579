"""Processes that outlived the Bridle that started them: found by their mark, their folder and their age."""

import os
import subprocess
import time

import pytest

from bridle.base.process.escapees import MARK, left_behind


@pytest.fixture
def sleeping(tmp_path):
    """Two processes in a folder: one with the mark and one without."""
    env = {"PATH": os.defpath}
    marked = subprocess.Popen(["sleep", "61"], cwd=tmp_path, env={**env, MARK: "x.1"})
    other = subprocess.Popen(["sleep", "62"], cwd=tmp_path, env=env)
    yield marked
    for process in (marked, other):
        process.kill()
        process.wait()


def test_a_marked_process_is_found_where_it_works_and_by_its_age(tmp_path, sleeping):
    now = time.time()
    (found,) = left_behind(str(tmp_path), since_s=now - 5)
    assert (found.pid, found.command) == (sleeping.pid, "sleep 61")
    assert left_behind(str(tmp_path.parent), since_s=now - 5) == [found]
    assert left_behind(str(tmp_path), since_s=now + 60) == []
    assert left_behind(f"{tmp_path}-other", since_s=0) == []
