"""Files of a project that have the names of modules: none of them runs inside Bridle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_kit import TIMEOUT_S, Place

NAMES = (
    "json",
    "asyncio",
    "argparse",
    "signal",
    "socket",
    "random",
    "msgspec",
    "tomllib",
    "typing",
    "bisect",
)
SCRIPT = os.path.join(os.path.dirname(sys.executable), "bridle")


@pytest.mark.parametrize(
    ("argv", "also"),
    [((sys.executable, "-m", "bridle"), {}), ((SCRIPT,), {"PYTHONPATH": os.pathsep})],
    ids=["python -m bridle", "an empty entry in PYTHONPATH"],
)
def test_a_projects_file_with_the_name_of_a_module_is_not_run(
    place: Place, argv: tuple[str, ...], also: dict[str, str]
) -> None:
    marker = place.home / "was_here"
    for name in NAMES:
        (place.work / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write({name!r} + ' ')\n")
    done = subprocess.run(
        [*argv, "run", "-m", "demo", "hi"],
        capture_output=True,
        cwd=place.work,
        env=place.environment(**also),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, marker.exists()) == (0, False), done.stderr


def test_where_bridle_itself_lies_in_the_working_folder_it_runs(place: Place) -> None:
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-m", "bridle", "run", "-m", "demo", "hi"],
        capture_output=True,
        cwd=source,
        env=place.environment(),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
