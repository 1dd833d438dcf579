"""What a command makes that later runs obey is seen, however it is brought to where it counts."""

import os
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from bridle.sandbox.lookout import Lookout


def twins(base: Path) -> tuple[Path, Path]:
    """A folder with nothing in it and one with a file that is obeyed, each in a folder of its own, and each changed
    last in the same tick of the clock."""
    for number in count():
        empty, full = base / f"empty{number}/in", base / f"full{number}/in"
        for folder in (empty, full):
            folder.mkdir(parents=True)
        (full / "AGENTS.md").write_text("obey")
        (empty / "x").touch()
        (empty / "x").unlink()
        (full / "x").touch()
        (full / "x").unlink()
        if empty.stat().st_ctime_ns == full.stat().st_ctime_ns:
            return empty.parent, full.parent
    raise AssertionError


def test_a_folder_that_takes_the_place_of_another_of_the_same_time_is_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = time.time_ns
    monkeypatch.setattr(
        time, "time_ns", lambda: now_ns() + 10_000_000_000
    )  # as if all had long been as it is
    (tmp_path / "ws/node_modules").mkdir(parents=True)
    lookout = Lookout([str(tmp_path / "ws")])
    began = lookout.begin(lookout.before())
    empty, full = twins(tmp_path)
    here, hidden = tmp_path / "ws/here", tmp_path / "ws/node_modules/there"
    empty.rename(here)
    full.rename(hidden)  # nobody obeys a file in there
    assert lookout.end(began, lookout.after()) == []
    began = lookout.begin(lookout.before())
    here.rename(tmp_path / "ws/node_modules/away")
    hidden.rename(here)
    assert os.listdir(here / "in") == ["AGENTS.md"]
    assert [made.path for made in lookout.end(began, lookout.after())] == [str(here / "in/AGENTS.md")]


def test_a_folder_whose_times_a_command_can_set_is_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over SFTP: one time in whole seconds, and it is the one that programs set."""
    lstat = os.lstat

    def of_sftp(path: str, **how: int) -> SimpleNamespace:
        status = lstat(path, **how)
        fields = {name: getattr(status, name) for name in dir(status) if name.startswith("st_")}
        return SimpleNamespace(**fields | {"st_ctime_ns": status.st_mtime_ns // 10**9 * 10**9})

    sub = tmp_path / "sub"
    sub.mkdir()
    os.utime(sub, (10**9, 10**9))
    monkeypatch.setattr(os, "lstat", of_sftp)
    lookout = Lookout([str(tmp_path)])
    began = lookout.begin(lookout.before())
    (sub / "AGENTS.md").write_text("obey")
    for path in (sub / "AGENTS.md", sub):
        os.utime(path, (10**9, 10**9))
    assert [made.path for made in lookout.end(began, lookout.after())] == [str(sub / "AGENTS.md")]
