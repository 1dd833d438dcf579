"""The engine and its guardian are killed at once: nothing of a command stays where the kernel can see to that."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bare_machine import has_landlock
from bridle.config.folders import folders
from bridle.sandbox.adapters.control_group import writable_parents
from bridle.sandbox.adapters.unshare import programs
from bridle.sandbox.policy_files.git_placeholders import Masks
from bridle.sandbox.session_border import left_behind
from cli_kit import SignOfLife, guardians, kill_together
from sandbox import killed_scenes

GONE_S = 5
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
SANDBOXES = [
    pytest.param(
        "bubblewrap",
        marks=pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    ),
    pytest.param("unshare", marks=pytest.mark.skipif(programs() is None, reason="no unshare and setpriv")),
    pytest.param(
        "landlock",
        marks=pytest.mark.skipif(
            not has_landlock() or writable_parents() is None, reason="no Landlock, or no control group"
        ),
    ),
]


@contextmanager
def engine_with(adapter: str, root: Path) -> Iterator[tuple[subprocess.Popen[bytes], SignOfLife]]:
    home, workspace = root / "home", root / "work"
    home.mkdir()
    workspace.mkdir(exist_ok=True)
    life = SignOfLife(workspace)
    os.mkfifo(workspace / "hold")
    hold = os.open(workspace / "hold", os.O_RDWR)
    engine = subprocess.Popen(
        [sys.executable, killed_scenes.__file__, adapter, str(home), str(workspace)],
        env={"PATH": os.defpath, "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert engine.stdout is not None
    try:
        assert engine.stdout.readline() == b"up\n"
        yield engine, life
    finally:
        engine.kill()
        engine.wait()
        engine.stdout.close()
        os.close(hold)
        life.close()


@pytest.mark.parametrize("adapter", SANDBOXES)
def test_nothing_of_a_command_stays_when_engine_and_guardian_are_killed_at_once(
    adapter: str, tmp_path: Path
) -> None:
    with engine_with(adapter, tmp_path) as (engine, life):
        kill_together(engine)
        assert life.ends_within(GONE_S)


@pytest.mark.parametrize("adapter", SANDBOXES)
def test_nothing_of_a_command_stays_when_the_engine_alone_is_killed(adapter: str, tmp_path: Path) -> None:
    with engine_with(adapter, tmp_path) as (engine, life):
        engine.kill()
        assert life.ends_within(GONE_S)


HELD = {".git"}


def kill_alone(engine: subprocess.Popen[bytes]) -> None:
    """Kills the engine and waits until its guardian has done its work."""
    (guardian,) = guardians(engine.pid)
    done = os.pidfd_open(guardian)
    try:
        engine.kill()
        assert select.select([done], [], [], GONE_S)[0]
    finally:
        os.close(done)


@pytest.mark.parametrize("adapter", ["bubblewrap", "unshare"])
def test_what_stood_in_the_way_of_a_command_does_not_stay_when_the_engine_is_killed(
    adapter: str, tmp_path: Path
) -> None:
    with engine_with(adapter, tmp_path) as (engine, _):
        work = tmp_path / "work"
        assert set(os.listdir(work)) == {*HELD, "alive", "hold"}
        kill_alone(engine)
        assert set(os.listdir(work)) == {"alive", "hold"}


def test_what_stood_in_the_way_goes_at_the_next_start_where_the_guardian_was_killed_too(
    tmp_path: Path,
) -> None:
    with engine_with("bubblewrap", tmp_path) as (engine, life):
        kill_together(engine)
        assert life.ends_within(GONE_S)
        work = tmp_path / "work"
        assert set(os.listdir(work)) == {*HELD, "alive", "hold"}
        where = folders({"PATH": os.defpath, "HOME": str(tmp_path / "home")})
        assert asyncio.run(left_behind(str(work), where)) == []
        assert set(os.listdir(work)) == {"alive", "hold"}


def test_what_stands_in_the_way_of_another_engines_command_stays(tmp_path: Path) -> None:
    with engine_with("bubblewrap", tmp_path) as (engine, _):
        masks = Masks([str(tmp_path / "work/.git")])
        try:
            kill_alone(engine)
            assert set(os.listdir(tmp_path / "work")) == {".git", "alive", "hold"}
        finally:
            masks.release()


def test_what_stood_there_before_stays(tmp_path: Path) -> None:
    """As a person would have it who likes empty folders with the sticky bit; an engine uses it, and leaves it."""
    (tmp_path / "work").mkdir()
    folder = tmp_path / "work/.git"
    folder.mkdir()
    folder.chmod(0o1755)
    with engine_with("bubblewrap", tmp_path) as (engine, _):
        kill_alone(engine)
        assert set(os.listdir(tmp_path / "work")) == {".git", "alive", "hold"}
