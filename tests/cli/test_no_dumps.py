"""Nothing of the memory is left lying about, and nobody but root looks into it: the engine and its commands."""

import json
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_kit import BRIDLE, TIMEOUT_S, Place
from confining_kit import REPOSITORY, User, users

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
NO_RIGHTS = ("setpriv", "--inh-caps=-all", "--bounding-set=-all") if os.getuid() == 0 else ()
"""Root may look into everything, unless it gives that up."""
PYTHON = {
    "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), sysconfig.get_path("platlib")]),
    "PYTHONDONTWRITEBYTECODE": "1",
}
LOOKING = "sed -n 's/Max core file size *//p' /proc/{who}/limits"


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A folder that is not below one of root's."""
    with tempfile.TemporaryDirectory(prefix="bridle-test-") as folder:
        yield Path(folder)


def raised() -> None:
    """As a system does whose people want cores."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def ran(place: Place, *options: str, command: str) -> None:
    """A session of somebody who is not almighty, on a system whose people want cores."""
    model = place.script(f"call bash {json.dumps({'command': command})}\n---\nsay Done.\n")
    done = subprocess.run(
        [*NO_RIGHTS, *BRIDLE, "run", "-y", *options, "-m", model, "go"],
        cwd=place.work,
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
        preexec_fn=raised,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"1 call" not in done.stderr, done.stderr.decode()


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_CORE)[1] == 0, reason="nothing here may leave one anyway"
)
def test_neither_the_engine_nor_its_commands_leave_a_core(place: Place) -> None:
    command = f"{LOOKING.format(who='self')} > command; {LOOKING.format(who='$PPID')} > engine"
    ran(place, "--sandbox", "off", command=command)
    found = {name: (place.work / name).read_text().split()[:2] for name in ("command", "engine")}
    assert found == {"command": ["0", "0"], "engine": ["0", "0"]}


def test_a_command_of_the_same_person_cannot_look_into_the_engine(place: Place) -> None:
    ran(
        place,
        "--sandbox",
        "off",
        command="cat /proc/self/environ > own; cat /proc/$PPID/environ > other; exit 0",
    )
    assert (place.work / "own").read_bytes() != b""
    assert (place.work / "other").read_bytes() == b""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize("user", users(), ids=lambda user: user.name)
@pytest.mark.parametrize("network", ["inherit", "deny"])
def test_the_sandbox_holds_commands_of_an_engine_that_nobody_can_look_into(
    everybodys: Path, user: User, network: str
) -> None:
    place = Place(everybodys)
    (place.work / "outside").mkdir()
    inside = place.work / "inside"
    inside.mkdir()
    for path in (place.home.parent, place.home, *place.work.rglob("*"), place.work):
        os.chown(path, user.uid, -1)
    words, script = f"sandbox run --network {network} -- sh -c", "echo x > it; echo x > ../outside/it; exit 0"
    done = subprocess.run(
        [*user.prefix, user.python, "-m", "bridle", *words.split(), script],
        cwd=inside,
        env={**place.environment(), **PYTHON},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"not sandboxed" not in done.stderr
    assert [path.name for path in place.work.rglob("it")] == ["it"]
    kept = json.loads((place.home / ".local/state/bridle/sandbox.json").read_text())
    assert kept["name"] == "bubblewrap"
