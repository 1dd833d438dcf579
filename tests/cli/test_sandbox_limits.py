"""What a command may use: a largest file, no copy of its memory after a crash, a number of open files."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bare_machine import has_landlock, needs_a_bare_machine, on_a_bare_machine
from bridle.base.process.escapees import birth_of
from bridle.protocol.events import ToolResult
from bridle.sandbox.adapters.control_group import writable_parents
from cli_kit import Place, Ran

MOST = 1_048_576
FEW = "sandbox.max_file_mib=1"
needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
COUNTED = writable_parents() is not None
needs_a_group = pytest.mark.skipif(not COUNTED, reason="no control group is ours to write here")
needs_landlock = pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock")


def limits(text: str) -> dict[str, list[str]]:
    """The kernel's own table: soft and hard, by name."""
    return {line[:26].strip(): line[26:].split()[:2] for line in text.splitlines() if line.startswith("Max ")}


def held(place: Place, machine: str, *words: str) -> Ran:
    """Runs a command in the sandbox of a machine."""
    asked = ("sandbox", "run", *words)
    return (
        place.bridle(*asked) if machine == "bubblewrap" else on_a_bare_machine(place, *asked, landlock=True)
    )


MACHINES = [
    pytest.param("bubblewrap", marks=needs_bubblewrap),
    pytest.param("landlock", marks=[needs_landlock, needs_a_bare_machine]),
]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_command_has_limits_that_it_cannot_raise(place: Place, machine: str) -> None:
    found = limits(held(place, machine, "--", "cat", "/proc/self/limits").out)
    assert found["Max file size"] == [str(16 * 1024**3)] * 2
    assert found["Max core file size"] == ["0", "0"]
    soft, hard = map(int, found["Max open files"])
    assert 0 < soft <= hard <= 65_536
    ours = limits(Path("/proc/self/limits").read_text())
    for others in ("Max processes", "Max address space", "Max data size"):
        assert found[others] == ours[others]
    raising = held(place, machine, "--", "bash", "-c", "ulimit -f unlimited; ulimit -c unlimited")
    assert raising.code != 0


@pytest.mark.parametrize("machine", MACHINES)
def test_ten_bytes_too_many_end_the_command_and_the_limit_is_named(place: Place, machine: str) -> None:
    ran = held(
        place, machine, "--set", FEW, "--", "sh", "-c", f"head -c {MOST + 10} /dev/zero > large; exit $?"
    )
    assert ran.code == 128 + signal.SIGXFSZ
    assert (place.work / "large").stat().st_size == MOST
    assert ran.err.splitlines()[-1] == (
        "bridle: sandbox: a file of a command may have at most 1 MiB here (sandbox.max_file_mib)"
    )
    assert held(place, machine, "--set", FEW, "--", "sh", "-c", f"head -c {MOST} /dev/zero > large").code == 0


@needs_bubblewrap
def test_a_session_tells_the_model_which_limit_it_met(place: Place) -> None:
    command = json.dumps({"command": f"head -c {MOST + 10} /dev/zero > large"})
    model = place.script(f"call bash {command}\n---\nsay Done.\n")
    ran = place.bridle("run", "-y", "--set", FEW, "-m", model, "go")
    assert ran.code == 0, ran.err
    (result,) = (e.event for e in place.events(place.only_session()) if isinstance(e.event, ToolResult))
    assert (
        "[sandbox: a file of a command may have at most 1 MiB here (sandbox.max_file_mib)" in result.content
    )


def test_a_project_may_lower_the_limit_and_not_raise_it(place: Place) -> None:
    (place.work / ".bridle").mkdir()
    project = place.work / ".bridle/config.toml"

    def holds(asked: int) -> str:
        project.write_text(f"[sandbox]\nmax_file_mib = {asked}\n")
        return place.bridle("config", "get", "sandbox.max_file_mib").out

    assert (holds(4000), holds(99_999)) == ("4000\n", "16384\n")
    place.bridle("config", "set", "sandbox.max_file_mib", "5000")
    assert (holds(4000), holds(6000)) == ("4000\n", "5000\n")
    wrong = place.bridle("sandbox", "--set", "sandbox.max_file_mib=0")
    assert (wrong.code, "a whole number above 0" in wrong.err) == (2, True)


def test_what_is_limited_and_what_is_not_is_said(place: Place) -> None:
    shown = place.bridle("sandbox", "--set", "sandbox.max_processes=77").out
    assert "no file above 16 GiB" in shown
    none = "memory and the number of processes are not limited"
    assert ("of all commands together 77 processes" in shown) == (none not in shown) == COUNTED
    assert (none in place.bridle("doctor", "--offline").out) != COUNTED


@needs_bubblewrap
@needs_a_group
def test_ten_processes_too_many_cannot_be_started_and_the_limit_is_named(place: Place) -> None:
    script = "for n in $(seq 30); do sleep 30 & echo $n; done"  # bash would wait and try again
    ran = place.bridle("sandbox", "run", "--set", "sandbox.max_processes=20", "--", "dash", "-c", script)
    assert len(ran.out.split()) < 20
    assert "may have at most 20 processes together (sandbox.max_processes)" in ran.err


@needs_bubblewrap
@needs_a_group
def test_of_a_sandbox_only_what_is_inside_is_counted(place: Place) -> None:
    ran = place.bridle("sandbox", "run", "--set", "sandbox.max_processes=2", "--", "/bin/echo", "ran")
    assert (ran.code, ran.out) == (0, "ran\n")


@needs_bubblewrap
@needs_a_group
def test_a_command_that_takes_more_memory_than_it_may_is_ended_and_the_limit_is_named(place: Place) -> None:
    script = "print(len(bytearray(200 << 20)))"
    asked = ("sandbox", "run", "--set", "sandbox.max_memory_mib=100", "--", sys.executable, "-c", script)
    ran = place.bridle(*asked)
    assert (ran.code, ran.out) == (128 + signal.SIGKILL, "")
    assert "may use at most 100 MiB together (sandbox.max_memory_mib)" in ran.err


@needs_bubblewrap
@needs_a_group
def test_a_group_goes_with_its_engine_and_with_the_next_one_after_a_kill(place: Place) -> None:
    parents = writable_parents()
    assert parents is not None
    world, own = os.stat("/proc/self/ns/pid").st_ino, birth_of(os.getpid())
    left, reused, ours, elsewhere = made = [
        Path(parents.processes) / f"bridle-run.{whose}.{os.urandom(4).hex()}"
        for whose in (
            f"{world}.{2**22 + 1}.1",
            f"{world}.{os.getpid()}.1",
            f"{world}.{os.getpid()}.{own}",
            f"{world + 1}.{2**22 + 1}.1",
        )
    ]
    for folder in made:
        folder.mkdir()
    survivor = subprocess.Popen(["sleep", "60"])
    try:
        (left / "cgroup.procs").write_text(str(survivor.pid))
        place.bridle("sandbox", "run", "--", "true")
        assert survivor.wait(10) == -signal.SIGKILL
        place.bridle("sandbox", "run", "--", "true")
        assert not {left, reused} & groups(parents.processes)
        assert {ours, elsewhere} <= groups(parents.processes), "their engines may be there"
    finally:
        survivor.kill()
        ours.rmdir()
        elsewhere.rmdir()


def groups(parent: str) -> set[Path]:
    return set(Path(parent).glob("bridle-run.*"))
