"""A disk without room: a real one, small and full, in a mount namespace of its own."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli_kit import BRIDLE, Place, Ran

NO_SPACE = (
    "No space left: Bridle cannot write its log in {folder}, so nothing more was run. "
    "What is stored is whole; go on when there is room."
)
FILL = 'head -c 4000000 /dev/zero > "$HOME/filling" 2>/dev/null; cat /dev/zero 2>/dev/null >> "$HOME/filling"; true'
ROOM = 'rm "$HOME/filling"'
TIMEOUT_S = 120


def namespace(folder: Path) -> list[str]:
    """The words that give a command mounts of its own; skips the test where the system does not."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("needs mount namespaces")
    for words in (["unshare", "-m"], ["unshare", "-rm"]):
        mount = f"mount -t tmpfs -o size=64k none {shlex.quote(str(folder))}"
        if subprocess.run([*words, "/bin/sh", "-c", mount], capture_output=True, check=False).returncode == 0:
            return words
    pytest.skip("this system lets nobody mount a small disk")


class SmallDisk:
    """A home of one megabyte. Commands are collected, then run in a row, each with what it came to."""

    def __init__(self, place: Place, tmp_path: Path) -> None:
        self._place = place
        self._words = namespace(place.home)
        self._results = tmp_path / "results"
        self._results.mkdir()
        self._steps = [f"mount -t tmpfs -o size=1m none {shlex.quote(str(place.home))}"]
        self._count = 0

    def does(self, script: str) -> SmallDisk:
        self._steps.append(script)
        return self

    def bridle(self, *words: str) -> SmallDisk:
        name = shlex.quote(str(self._results / str(self._count)))
        self._count += 1
        self._steps.append(
            f"{shlex.join([*BRIDLE, *words])} </dev/null >{name}.out 2>{name}.err; echo $? >{name}.code"
        )
        return self

    def results(self) -> list[Ran]:
        subprocess.run(
            [*self._words, "/bin/sh", "-c", "\n".join(self._steps)],
            cwd=self._place.work,
            env=self._place.environment(),
            check=True,
            timeout=TIMEOUT_S,
            capture_output=True,
        )
        return [
            Ran(int(self._read(n, "code")), self._read(n, "out"), self._read(n, "err"))
            for n in range(self._count)
        ]

    def _read(self, number: int, kind: str) -> str:
        return (self._results / f"{number}.{kind}").read_text(encoding="utf-8")


@pytest.fixture
def disk(place: Place, tmp_path: Path) -> SmallDisk:
    return SmallDisk(place, tmp_path)


@pytest.mark.requirement("C22")
def test_a_run_without_room_is_one_sentence_and_the_session_goes_on_when_there_is(
    place: Place, disk: SmallDisk
) -> None:
    model = place.script("say one\n---\nsay two\n")
    disk.bridle("run", "-m", model, "first").does(FILL)
    disk.bridle("run", "-m", model, "second").bridle("run", "--json", "-m", model, "second").bridle(
        "sessions"
    )
    disk.does(ROOM).bridle("run", "-c", "third").bridle("sessions").bridle("doctor", "--offline")
    first, second, as_json, listed, third, after, doctor = disk.results()
    sentence = NO_SPACE.format(folder=place.data)
    assert first.code == 0
    assert (second.code, second.out, second.story) == (1, "", [sentence])
    assert (as_json.code, as_json.result["exit_code"], as_json.result["reason"]) == (1, 1, "NoSpace")
    assert (listed.code, listed.story) == (1, [sentence])
    assert (third.code, third.out) == (0, "[scripted] two\n")
    assert (after.code, len(after.out.splitlines())) == (0, 1)
    assert "2 turns" in after.out
    assert "integrity of the newest session good" in doctor.out


def test_without_room_from_the_start_nothing_is_left_half_made(place: Place, disk: SmallDisk) -> None:
    disk.does(FILL).bridle("run", "-m", "demo", "x").bridle("config", "set", "mode", "plan")
    disk.bridle("doctor", "--offline", "--json").does(ROOM).bridle("run", "-m", "demo", "x")
    run, setting, doctor, again = disk.results()
    assert (run.code, run.story) == (1, [NO_SPACE.format(folder=place.data)])
    assert (setting.code, len(setting.story)) == (1, 1)
    assert "No space left on device" in setting.err
    assert (doctor.code, [row["part"] for row in doctor.result["rows"] if row["status"] == "fail"]) == (
        1,
        ["store", "disk"],
    )
    assert again.code == 0


def test_a_disk_that_fills_up_during_a_turn_ends_it_and_no_call_is_lost(
    place: Place, disk: SmallDisk
) -> None:
    filling = json.dumps({"command": FILL.replace('"$HOME/filling"', str(place.home / "filling"))})
    model = place.script(
        f'call bash {filling}\n---\ncall bash {{"command": "echo ran > after"}}\n---\nsay done\n'
    )
    disk.bridle("run", "-y", "-s", "off", "-m", model, "x").does(ROOM).bridle("run", "-c", "go on")
    disk.bridle("run", "-y", "-c", "--on-orphan", "mark-unknown", "go on").bridle("doctor", "--offline")
    during, refused, after, doctor = disk.results()
    assert (during.code, during.story[-1]) == (1, NO_SPACE.format(folder=place.data))
    assert during.err.count("No space left") == 1
    assert "Traceback" not in during.err
    assert (refused.code, after.code) == (3, 0)
    assert "integrity of the newest session good" in doctor.out
    assert os.listdir(place.home) == [], "the real home was never touched"
