"""Without a home Bridle writes nowhere by guess. Tried in a namespace of its own, in which no real home is mounted."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bridle
from cli_kit import BRIDLE, TIMEOUT_S, Place, Ran

BWRAP = shutil.which("bwrap")
pytestmark = pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed")

NO_HOMES = [{}, {"HOME": ""}, {"HOME": "somewhere"}, {"HOME": "", "XDG_CONFIG_HOME": "relative"}]
FIX = "Set HOME or BRIDLE_HOME"


def homes() -> list[str]:
    """Every folder that could be somebody's home here, and is nobody's inside."""
    return [
        folder for folder in {"/root", "/home", pwd.getpwuid(os.getuid()).pw_dir} if Path(folder).is_dir()
    ]


def ran_without(place: Place, *words: str, **variables: str) -> tuple[Ran, list[str]]:
    """How it ended, and the files that stand in homes afterwards. Only the working folder can be written for good."""
    program = [str(BWRAP), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--die-with-parent"]
    for home in homes():
        program += ["--tmpfs", home]
    for needed in dict.fromkeys((sys.base_prefix, sys.prefix, str(Path(bridle.__file__).parent.parent))):
        program += ["--ro-bind", needed, needed]
    program += ["--bind", str(place.work), str(place.work), "--chdir", str(place.work)]
    kept = [sys.base_prefix, sys.prefix]
    pruned = " ".join(f"-path {path} -prune -o" for path in kept)
    listed = place.work / "listed"
    watched = f'"$@"; code=$?; find {" ".join(homes())} {pruned} -type f -print > {listed}; exit $code'
    env = {name: value for name, value in place.environment().items() if name != "HOME"} | variables
    done = subprocess.run(
        [*program, "sh", "-c", watched, "sh", *BRIDLE, *words],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    made = listed.read_text().split()
    listed.unlink()
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode()), made


@pytest.mark.parametrize("variables", NO_HOMES, ids=str)
def test_a_run_without_a_home_says_so_and_writes_nothing(place: Place, variables: dict[str, str]) -> None:
    place.script("say hello\n")
    ran, made = ran_without(place, "run", "-m", "demo:it.script", "hi", **variables)
    assert (ran.code, made) == (2, [])
    (line,) = ran.story
    assert line.endswith(FIX)
    assert sorted(path.name for path in place.work.iterdir()) == ["it.script"]


@pytest.mark.parametrize(
    "words",
    [
        ("sessions",), ("sessions", "prune"), ("undo",), ("cost",), ("login", "--list"), ("logout", "openai"),
        ("models",), ("config",), ("config", "path"), ("config", "set", "mode", "auto"), ("permissions",), ("trust",),
        ("sandbox",), ("sandbox", "run", "true"), ("hooks",), ("doctor", "--offline"), ("demo",), ("-r",),
        ("run", "-c", "x"), ("permissions", "explain", "bash", '{"command": "ls"}'),
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_verb_that_needs_a_folder_says_so(place: Place, words: tuple[str, ...]) -> None:
    ran, made = ran_without(place, *words)
    assert (ran.code, made, list(place.work.iterdir())) == (2, [], [])
    assert FIX in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "words", [("--version",), ("help",), ("help", "run"), ("run", "--help"), ("tools",)], ids=" ".join
)
def test_what_needs_no_folder_works_without_a_home(place: Place, words: tuple[str, ...]) -> None:
    ran, made = ran_without(place, *words)
    assert (ran.code, ran.err, made) == (0, "", [])


def test_bridle_home_is_enough(place: Place) -> None:
    place.script("say hello\n")
    ran, made = ran_without(
        place, "run", "-q", "-m", "demo:it.script", "hi", BRIDLE_HOME=str(place.work / "own")
    )
    assert (ran.code, ran.out, made) == (0, "[scripted] hello\n", [])
    assert (place.work / "own" / "data").is_dir()


def test_a_relative_folder_of_xdg_is_ignored(place: Place) -> None:
    ran = place.bridle("config", "path", env={"XDG_CONFIG_HOME": "relative", "XDG_DATA_HOME": ""})
    assert ran.out == f"{place.home}/.config/bridle/config.toml\n"
