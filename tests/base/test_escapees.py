"""Nothing outlives its call, whatever session it moved to; nothing that a call did not cause is touched."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

from base import escapee_scenes
from base.escapee_scenes import is_alive

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="orphans are adopted on Linux only"
)


def command(scene, folder):
    env = {"PATH": os.defpath, "HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    return {"args": [sys.executable, escapee_scenes.__file__, scene, str(folder)], "env": env}


def play(scene, folder):
    """What the scene saw, and how many children its engine had left at the end."""
    done = subprocess.run(**command(scene, folder), capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    seen, left = json.loads(done.stdout)
    return seen, left


@pytest.mark.parametrize("scene", ["own_session", "daemon", "job_control", "living_parent", "stopped"])
def test_what_left_the_group_of_its_call_ends_with_it_and_is_reaped(scene, tmp_path):
    assert play(scene, tmp_path) == ([False], 0)


def test_the_children_of_what_escaped_end_too_even_if_nothing_shows_where_they_came_from(tmp_path):
    assert play("family", tmp_path) == ([False, False], 0)


def test_what_belongs_to_a_job_lives_as_long_as_the_job(tmp_path):
    assert play("running_job", tmp_path) == ([True, False], 0)


def test_processes_of_the_program_itself_and_their_orphans_are_spared(tmp_path):
    seen, _ = play("strangers", tmp_path)
    assert seen == [True, True, True, 7]


def test_orphans_that_ended_by_themselves_do_not_pile_up(tmp_path):
    only_the_guardian = 1
    assert play("dead_orphans", tmp_path) == ([only_the_guardian], 0)


def test_what_escaped_does_not_survive_us_when_we_are_killed_outright(tmp_path):
    engine = subprocess.Popen(**command("killed", tmp_path), stdout=subprocess.PIPE)
    pids = json.loads(engine.stdout.readline())
    try:
        assert [is_alive(pid) for pid in pids] == [True, True]
        watched = [os.pidfd_open(pid) for pid in pids]
        engine.kill()
        assert [ends_within(pidfd, 5) for pidfd in watched] == [True, True]
    finally:
        engine.kill()
        engine.wait()
        engine.stdout.close()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def ends_within(pidfd, limit_s):
    import select

    try:
        return bool(select.select([pidfd], [], [], limit_s)[0])
    finally:
        os.close(pidfd)


def test_a_daemon_that_a_persons_own_program_started_stays(tmp_path):
    assert play("persons_own", tmp_path) == ([False, True], 0)
