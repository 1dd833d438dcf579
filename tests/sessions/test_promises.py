"""What `docs/durability.md` promises of the disk, seen from outside: in system calls, and in a log that was changed."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from bridle.app.session_past import VERIFIED_ON_RESUME
from bridle.app.user.stored_keys import session_store
from bridle.protocol.events import Notice
from bridle.sessions.log.writer import LINGER_S
from cli_kit import BRIDLE, TIMEOUT_S, Place
from sessions.session_kit import opened, put, words
from strace_kit import Asked, traced, unsynced

WRITES_TWICE = """call write_file {"path": "a.txt", "content": "new"}
---
call write_file {"path": "b.txt", "content": "new"}
---
say Done.
"""
OTHER = b'{"reason":"Note","message":"other"}'
MANY = VERIFIED_ON_RESUME + 200


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# Synced


@pytest.mark.requirement("G24.1")
def test_the_write_ahead_log_is_on_the_disk_before_a_call_changes_anything(
    place: Place, tmp_path: Path
) -> None:
    model = place.script(WRITES_TWICE)
    words_given = ("run", "--mode", "auto", "-m", model, "x")
    done, asked = traced([*BRIDLE, *words_given], cwd=place.work, env=place.environment(), scratch=tmp_path)
    assert done.returncode == 0, done.stderr
    synced = Asked("sync", str(place.data / "sessions.db-wal"))
    first, second = (asked.index(Asked("rename", str(place.work / name))) for name in ("a.txt", "b.txt"))
    assert synced in asked[:first]
    assert synced in asked[first:second], "SQLite syncs by itself when a log begins, and not here"
    assert synced in asked[second:]


COMMITTED_FIRST = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from sessions.session_kit import opened, put, words

async def main(folder):
    with opened(folder) as store:
        log = store.create("/work", profile="default")
        for name in ("first", "second"):
            put(log, *words(1))
            await log.committed()
            (folder / "x").touch()
            os.rename(folder / "x", folder / f"{name} committed")
            await log.durable()
            (folder / "x").touch()
            os.rename(folder / "x", folder / f"{name} durable")
        await log.durable()
        log.close()

asyncio.run(main(Path(sys.argv[1])))
"""
TESTS = str(Path(__file__).parent.parent)


@pytest.mark.requirement("G24.1")
def test_what_is_committed_already_is_synced_all_the_same_before_it_is_durable(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    done, asked = traced(
        [sys.executable, "-c", COMMITTED_FIRST, str(folder), TESTS],
        cwd=tmp_path,
        env={"HOME": str(tmp_path)},
        scratch=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    for name in ("first", "second"):
        committed, durable = (
            asked.index(Asked("rename", str(folder / f"{name} {what}"))) for what in ("committed", "durable")
        )
        between = [one for one in asked[committed:durable] if one.what == "sync"]
        assert between == [Asked("sync", str(folder / "sessions.db-wal"))]


FOLDED_BACK = """
import asyncio, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from bridle.protocol.errors import StoreError
from bridle.protocol.events import TextDelta
from sessions.session_kit import opened, put

async def main(folder):
    with opened(folder) as store:
        log = store.create("/work", profile="default")
        put(log, *(TextDelta(text="x" * 3000) for _ in range(400)))
        try:
            await log.committed()
            store.shelf.writer.settle()
            put(log, TextDelta(text="y"))
            await log.durable()
        except StoreError as failure:
            print(failure.reason, flush=True)
        try:
            log.close()
        except StoreError:
            print("not closed")

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.parametrize("spoiled", ["sessions.db-wal", "sessions.db"])
def test_a_sync_that_fails_while_the_log_is_folded_back_is_the_end_of_writing(
    tmp_path: Path, spoiled: str
) -> None:
    """What it failed to sync the system forgets: a later sync succeeds, and means nothing."""
    folder = tmp_path / "it"
    with opened(folder) as store:
        filled_once = store.create("/work", profile="default")
        put(filled_once, *words(3))
        filled_once.close()
    done, behind = unsynced(
        [sys.executable, "-c", FOLDED_BACK, str(folder), TESTS],
        failing=folder / spoiled,
        nth=2 if spoiled.endswith("-wal") else 1,  # the first one of a log is of its beginning
        cwd=tmp_path,
        env={"HOME": str(tmp_path)},
        scratch=tmp_path,
    )
    assert done.stdout.decode().splitlines() == ["StoreFailed", "not closed"], done.stderr
    assert behind == []


@pytest.mark.parametrize("durable", [True, False])
def test_an_atomic_write_is_on_the_disk_before_it_has_its_name_and_its_name_behind_it(
    tmp_path: Path, durable: bool
) -> None:
    path = tmp_path / "there" / "it.txt"
    path.parent.mkdir()
    code = (
        f"from bridle.base.fs.files import write_atomic; write_atomic({str(path)!r}, b'x', durable={durable})"
    )
    _done, asked = traced(
        [sys.executable, "-c", code], cwd=tmp_path, env={"HOME": str(tmp_path)}, scratch=tmp_path
    )
    own = [one for one in asked if one.path.startswith(str(path.parent))]
    named = Asked("rename", str(path))
    if durable:
        assert [one.what for one in own] == ["sync", "rename", "sync"]
        assert own[0].path.endswith(".tmp")
        assert own[1:] == [named, Asked("sync", str(path.parent))]
    else:
        assert own == [named]


# Committed


async def test_what_nobody_waits_for_is_committed_and_told_in_a_moment(tmp_path: Path) -> None:
    """The fastest of a few counts: a busy machine makes some slow, a long gathering all of them."""
    took_s: list[float] = []
    with opened(tmp_path) as store, closing(store.create("/work", profile="default")) as log:
        heard: asyncio.Queue[int] = asyncio.Queue()
        log.listen(lambda last_id, _failure: heard.put_nowait(last_id), lambda _failure: None)
        for _ in range(8):
            begun = time.perf_counter()
            (put_in,) = put(log, *words(1))
            while await heard.get() != put_in.id:
                pass
            took_s.append(time.perf_counter() - begun)
    assert min(took_s) < 0.02


async def test_who_waits_does_not_wait_for_others_to_come_along(tmp_path: Path) -> None:
    """The fastest of many counts, as above."""
    took_s: list[float] = []
    with opened(tmp_path) as store, closing(store.create("/work", profile="default")) as log:
        for _ in range(50):
            put(log, *words(1))
            begun = time.perf_counter()
            await log.committed()
            took_s.append(time.perf_counter() - begun)
    assert min(took_s) < LINGER_S


# Checked when it is taken up again


def _a_session_of_many_events(place: Place) -> int:
    """More events than are checked at a resume; returns how many."""
    assert place.bridle("run", "-m", place.script("say Hi.\n"), "x").code == 0
    with closing(session_store(place.environment())) as store:
        log = store.open(place.only_session())
        put(log, *(Notice(reason="Note", message=f"{number}") for number in range(MANY)))
        log.close()
        return log.last_id


@pytest.mark.parametrize(
    ("from_end", "refused"),
    [(0, True), (500, True), (VERIFIED_ON_RESUME - 1, True), (VERIFIED_ON_RESUME, False)],
)
def test_each_of_the_last_thousand_events_is_checked_at_a_resume(
    place: Place, from_end: int, refused: bool
) -> None:
    count = _a_session_of_many_events(place)
    changed = count - from_end
    with closing(place.database().connect()) as connection:
        connection.execute("update events set payload = ? where id = ?", (OTHER, changed))
    ran = place.bridle("run", "--json", "-c", "-m", place.script("say Back.\n", "back.script"), "y")
    if refused:
        assert ran.result["reason"] == "LogDamaged", ran.err
        assert f"event {changed}:" in ran.err
        with closing(place.database().connect()) as connection:
            assert connection.execute("select count(*) from events").fetchone() == (count,), "nothing ran"
    else:
        assert ran.code == 0, ran.err


# Where it may be


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="gives the program another list of mounts")
@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "ext4"])
def test_a_log_on_a_network_filesystem_is_refused(place: Place, tmp_path: Path, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"1 0 8:1 / / rw - ext4 /dev/x rw\n2 1 0:9 / {place.home} rw - {kind} server:/home rw\n"
    )
    own_list = ("--dev-bind", "/", "/", "--tmpfs", "/proc", "--ro-bind", str(mounts), "/proc/self/mountinfo")
    done = subprocess.run(
        ["bwrap", *own_list, "--die-with-parent", *BRIDLE, "run", "-m", place.script("say Hi.\n"), "x"],
        cwd=place.work,
        env=place.environment(),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    refused = kind != "ext4"
    assert (done.returncode, (place.data / "sessions.db").exists()) == ((2, False) if refused else (0, True))
    assert (f"is on a network filesystem ({kind})" in done.stderr.decode()) == refused
