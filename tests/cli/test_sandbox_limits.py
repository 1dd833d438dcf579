"""What a command may use: a largest file, no copy of its memory after a crash, a number of open files."""

import json
import shutil
import signal
from pathlib import Path

import pytest

from bare_machine import has_landlock, needs_a_bare_machine, on_a_bare_machine
from bridle.protocol.events import ToolResult
from cli_kit import Place, Ran

MOST = 1_048_576
FEW = "sandbox.max_file_mib=1"
needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
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


def test_what_has_no_limit_is_said(place: Place) -> None:
    shown = place.bridle("sandbox").out
    assert "no file above 16 GiB" in shown
    assert "memory and the number of processes are not limited" in shown
    assert "memory and the number of processes are not limited" in place.bridle("doctor", "--offline").out
