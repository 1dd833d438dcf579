"""A store that was damaged, locked away, or lies on a disk nobody can write: one sentence, and a way on."""

import os
import shlex
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from bridle.protocol.errors import StoreError
from bridle.protocol.events import ToolResult
from bridle.sessions.repair import repair
from cli.test_full_disk import SmallDisk
from cli_kit import BRIDLE, Place, SignOfLife, kinds

READ_ONLY = 'mount -o remount,ro "$HOME"'
WRITABLE = 'mount -o remount,rw "$HOME"'


@pytest.fixture
def disk(place: Place, tmp_path) -> SmallDisk:
    return SmallDisk(place, tmp_path)


def test_what_is_stored_can_be_read_on_a_read_only_disk_and_nothing_runs(
    place: Place, disk: SmallDisk
) -> None:
    model = place.script("say one\n---\nsay two\n---\nsay three\n")
    disk.bridle("run", "-m", model, "first").does(READ_ONLY)
    disk.bridle("sessions", "list").bridle("sessions", "export", "first").bridle(
        "sessions", "repair", "--check"
    )
    disk.bridle("run", "-c", "-m", model, "second").does(WRITABLE).bridle("run", "-c", "-m", model, "third")
    first, listed, exported, checked, refused, third = disk.results()
    assert first.code == 0
    assert (listed.code, len(listed.out.splitlines())) == (0, 1)
    assert '"kind":"TurnEnded"' in exported.out
    assert (checked.code, checked.out.startswith("Everything is whole: 1 session,")) == (0, True)
    assert refused.code == 2
    assert "Read-only file system" in refused.err
    assert "Traceback" not in refused.err
    assert (third.code, third.out) == (0, "[scripted] two\n")


def test_what_a_killed_run_left_beside_the_database_is_read_too(place: Place, disk: SmallDisk) -> None:
    model = place.script("call bash\n    command: touch begun; sleep 60\n---\nsay done\n")
    run = shlex.join([*BRIDLE, "run", "-q", "-y", "-m", model, "begin"])
    disk.does(f"{run} </dev/null & running=$!; while [ ! -e begun ]; do sleep 0.05; done; kill -9 $running")
    disk.does(READ_ONLY).bridle("sessions", "export", "begin").bridle("sessions", "repair", "--check")
    exported, checked = disk.results()
    assert '"kind":"ToolCallStarted"' in exported.out
    assert checked.out.startswith("Everything is whole: 1 session,")


def test_words_are_found_and_an_undo_is_shown_on_a_read_only_disk(place: Place, disk: SmallDisk) -> None:
    model = place.script("call write_file\n    path: new.txt\n    content: words\n---\nsay whole cents\n")
    disk.bridle("run", "-y", "-s", "off", "-m", model, "count the cart").does(READ_ONLY)
    disk.bridle("sessions", "search", "whole cents").bridle("undo", "--dry-run").bridle("undo", "-y")
    ran, found, shown, refused = disk.results()
    assert ran.code == 0
    assert (found.code, "whole cents" in found.out) == (0, True), found.err
    assert shown.code == 0, shown.err
    assert "new.txt" in shown.out
    assert shown.out.endswith("Nothing was changed (--dry-run).\n")
    assert refused.code == 2
    assert "Read-only file system" in refused.err


def spoil_an_event(place: Place) -> None:
    """Spoil a page that holds events, and not the one that lists the logs."""
    database = place.database()
    path = Path(database.path)
    whole = path.read_bytes()
    for page in range(1, len(whole) // 4096):
        data = bytearray(whole)
        data[page * 4096 + 100] ^= 1
        path.write_bytes(data)
        with suppress(StoreError):
            if any(found.session != found.log for found in repair.examine(database).damaged):
                return
    raise AssertionError("no page holds events")


def test_a_damaged_store_is_one_sentence_and_repair_leads_on(place: Place) -> None:
    model = place.script("say one\n---\nsay two\n---\nsay three\n")
    place.bridle("run", "-m", model, "first")
    spoil_an_event(place)
    refused = place.bridle("run", "-c", "-m", model, "second")
    assert refused.code == 1
    assert "bridle sessions repair" in refused.story[-1]
    checked = place.bridle("sessions", "repair", "--check")
    assert (checked.code, checked.out.splitlines()[-1]) == (
        1,
        "Nothing was changed. Save what is whole: bridle sessions repair",
    )
    repaired = place.bridle("sessions", "repair", "--json")
    assert (repaired.code, repaired.result["whole"]) == (1, False)
    aside = repaired.result["report"]["aside"]
    assert {"report.txt", "sessions.db"} <= set(os.listdir(aside))
    again = place.bridle("sessions", "repair")
    assert (again.code, again.out.startswith("Everything is whole: 1 session,")) == (0, True)
    assert place.bridle("run", "-m", model, "anew").code == 0


def test_a_new_key_is_one_command(place: Place) -> None:
    assert place.bridle("sessions", "rekey").story == [
        "There is nothing stored here yet. It begins with the first session: bridle run PROMPT"
    ]
    model = place.script("say one\n---\nsay two\n")
    place.bridle("run", "-m", model, "first")
    before = (place.data / "sessions.key").read_bytes()
    ran = place.bridle("sessions", "rekey")
    assert (ran.code, ran.out) == (
        0,
        f"Everything is encrypted with a new key: {place.data / 'sessions.key'}\n",
    )
    assert (place.data / "sessions.key").read_bytes() != before
    assert place.bridle("run", "-c", "-m", model, "second").out == "[scripted] two\n"
    place.verify(place.only_session())


@pytest.mark.requirement("P16")
def test_a_lock_whose_holder_was_killed_is_taken_over_at_once(place: Place, life: SignOfLife) -> None:
    model = place.script(
        f"call bash\n    command: {life.hold}; touch begun; echo begun; sleep 600\n---\nsay done\n"
    )
    with place.started("run", "--stream-json", "-y", "-m", model, "x") as running:
        running.until("ToolCallProgress")
        busy = place.bridle("run", "-c", "--json", "me too")
        assert (busy.code, busy.result["error"]["code"]) == (2, "SESSION_RUN_IN_PROGRESS")
        assert busy.result["error"]["reason"] == "same_session_run_in_progress"
        assert busy.result["success"] is False
        assert kinds(place.events(place.only_session())).count("SessionCreated") == 1, "nothing was written"
        runs = {busy.result["error"]["run"], busy.result["error"]["other_run"]}
        assert len(runs) == 2
        assert all(run.startswith("run_") for run in runs)
        running.signal(signal.SIGKILL)
    back = place.script("say x\n---\nsay Back.\n---\nsay Back.\n", "back.script")
    assert place.bridle("run", "-c", "-m", back, "--on-orphan", "mark-unknown", "go on").code == 0
    results = [one.event for one in place.events(place.only_session()) if isinstance(one.event, ToolResult)]
    assert [result.outcome for result in results] == ["unknown"]
