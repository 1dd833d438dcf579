"""Bridle and its guardian are killed at once, and nothing enclosed the processes: the next start ends them."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from bridle.base.escapees import MARK
from cli_kit import Place, Running, SignOfLife, guardians

GONE_S = 5
NEXT = "say I am back.\n"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def kill_together(running: Running) -> None:
    engine = running.process.pid
    os.kill(engine, signal.SIGSTOP)
    (guardian,) = guardians(engine)
    os.kill(guardian, signal.SIGKILL)
    running.signal(signal.SIGKILL)


def test_a_command_without_a_sandbox_is_ended_by_the_next_start_and_that_is_said(
    place: Place, life: SignOfLife
) -> None:
    command = f"{life.hold}; echo begun; sleep 60"
    model = place.script(f"call bash\n    command: {command}\n---\nsay done\n")
    with place.started("run", "--stream-json", "-y", "--sandbox", "off", "-m", model, "begin") as running:
        running.until("ToolCallProgress")
        kill_together(running)
        assert not life.ends_within(0), "nothing could see to it"
        again = place.bridle("run", "-m", place.script(NEXT, "next.script"), "hello")
        assert (again.code, life.ends_within(GONE_S)) == (0, True)
        assert "had outlived a Bridle that was killed; they were ended now: " in again.err
    third = place.bridle("run", "-m", place.script(NEXT, "next.script"), "hello")
    assert "outlived" not in third.err


def test_what_belongs_to_a_living_engine_or_to_nobody_is_spared(place: Place, life: SignOfLife) -> None:
    command = f"{life.hold}; echo begun; sleep 60"
    model = place.script(f"call bash\n    command: {command}\n---\nsay done\n")
    with place.started("run", "--stream-json", "-y", "--sandbox", "off", "-m", model, "begin") as running:
        running.until("ToolCallProgress")
        stranger = os.posix_spawn("/bin/sleep", ["sleep", "60"], {MARK: f"{'0' * 24}.1"})
        try:
            (record,) = (place.home / ".local/state/bridle/running").iterdir()
            Path(record.parent, "1" * 24).touch()
            again = place.bridle("run", "-m", place.script(NEXT, "next.script"), "hello")
            assert "outlived" not in again.err
            assert (record.exists(), life.ends_within(0)) == (True, False)
            assert os.waitpid(stranger, os.WNOHANG) == (0, 0)
        finally:
            os.kill(stranger, signal.SIGKILL)
            os.waitpid(stranger, 0)
    assert life.ends_within(GONE_S), "the guardian of the first engine sees to it"
