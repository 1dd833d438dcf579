"""Bridle and its guardian are killed at once, and nothing enclosed the processes: the next start ends them."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from bridle.base.process.escapees import MARK
from cli_kit import Place, SignOfLife, kill_together

GONE_S = 5
NEXT = "say I am back.\n"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_a_command_without_a_sandbox_is_ended_by_the_next_start_and_that_is_said(
    place: Place, life: SignOfLife
) -> None:
    command = f"{life.hold}; echo begun; sleep 60"
    model = place.script(f"call bash\n    command: {command}\n---\nsay done\n")
    with place.started("run", "--stream-json", "-y", "--sandbox", "off", "-m", model, "begin") as running:
        running.until("ToolCallProgress")
        kill_together(running.process)
        assert not life.ends_within(0), "nothing could see to it"
        again = place.bridle("run", "-m", place.script(NEXT, "next.script"), "hello")
        assert (again.code, life.ends_within(GONE_S)) == (0, True)
        assert "had outlived a Bridle that was killed; they were ended now: " in again.err
    third = place.bridle("run", "-m", place.script(NEXT, "next.script"), "hello")
    assert "outlived" not in third.err


def test_a_hook_is_ended_by_the_next_start(place: Place, life: SignOfLife) -> None:
    hook = place.home / ".config/bridle/hooks/PreToolUse"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ncd {place.work}; {life.hold}; echo begun >begun; exec sleep 60\n")
    hook.chmod(0o755)
    os.mkfifo(place.work / "begun")
    model = place.script("call bash\n    command: echo hi\n---\nsay done\n")
    with place.started("run", "--stream-json", "-y", "-m", model, "begin") as running:
        assert (place.work / "begun").read_text() == "begun\n"
        kill_together(running.process)
        hook.unlink()
        again = place.bridle("run", "-m", place.script(NEXT, "next.script"), "hello")
        assert "were ended now" in again.err
        assert life.ends_within(GONE_S)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_sandboxed_command_in_the_background_ends_at_once(place: Place, life: SignOfLife) -> None:
    job = f"call bash\n    command: {life.hold}; echo begun; sleep 60\n    background: true\n"
    model = place.script(f"{job}---\ncall bash\n    command: echo on; sleep 60\n---\nsay done\n")
    with place.started("run", "--stream-json", "-y", "-m", model, "begin") as running:
        running.until("ToolResult")
        running.until("ToolCallProgress")
        kill_together(running.process)
        assert life.ends_within(GONE_S)


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
