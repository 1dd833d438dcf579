"""A file that is cut short, or that SQLite cannot open: nothing proven is lost where it opens, and it is kept aside."""

import os
import shutil

import pytest

from bridle.protocol.errors import StoreError
from bridle.sessions.log.log_key import proves_key
from bridle.sessions.repair import repair
from sessions.session_kit import filled, opened, words
from sessions.test_repair import LARGE, contents, database, spoil, three_sessions

PAGE = 4096
OLD_HEAD = b'{"roots":{"events":5,"logs":3},"proof":"4StMyyrDFIfH8ncBXsSxL7xeGmzTyS45u6bSE1dOess="}'
"""As an older version wrote it for a key of zeros."""


def refusal(folder) -> StoreError:
    with pytest.raises(StoreError) as refused, opened(folder) as store:
        store.list()
    return refused.value


def test_of_a_file_cut_short_every_log_is_saved_up_to_the_cut(tmp_path):
    three_sessions(tmp_path)
    session = filled(tmp_path, [*words(1500), LARGE, *words(500)])
    before = contents(tmp_path)
    path = tmp_path / "sessions.db"
    os.truncate(path, path.stat().st_size - PAGE)
    assert refusal(tmp_path).reason == "StoreDamaged"
    assert not repair.examine(database(tmp_path)).whole
    (found,) = repair.repair(database(tmp_path)).damaged
    assert found.session == session
    assert found.events > 1600, "every event before the cut, not only whole reads of 500"
    before[session] = before[session][: found.events]
    assert contents(tmp_path) == before
    assert repair.examine(database(tmp_path)).whole


def test_a_file_that_says_it_cannot_be_written_is_damaged_and_repaired(tmp_path):
    before = three_sessions(tmp_path)
    spoil(tmp_path / "sessions.db", 18)
    with pytest.raises(StoreError) as refused:
        filled(tmp_path, words(3))
    assert refused.value.reason == "StoreDamaged"
    assert repair.repair(database(tmp_path)).damaged == ()
    assert contents(tmp_path) == before
    filled(tmp_path, words(3))


def test_a_file_that_does_not_open_is_kept_aside_and_new_sessions_work_at_once(tmp_path):
    stored = tmp_path / "stored"
    three_sessions(stored)
    changed = bytearray((stored / "sessions.db").read_bytes())
    changed[2000] ^= 1
    failures = []
    for name, left in {
        "first page": bytes(changed),
        "text": b"no database at all",
        "zeros": b"\x00" * (20 * PAGE + 5),
        "ones": b"\xff" * PAGE,
    }.items():
        folder = tmp_path / name
        shutil.copytree(stored, folder)
        (folder / "sessions.db").write_bytes(left)
        refused = refusal(folder)
        report = repair.repair(database(folder))
        with open(os.path.join(report.aside, "sessions.db"), "rb") as file:
            kept = file.read() == left
        said = repair.words(report)[-1]
        filled(folder, words(3))
        found = (
            refused.reason,
            sum(one.lost for one in report.damaged),
            kept,
            "Restore a backup: bridle sessions import FILE." in said,
            repair.examine(database(folder)).whole,
        )
        if found != ("StoreDamaged", 609, True, True, True):
            failures.append((name, found))
    assert failures == []


def test_an_empty_file_is_one_whose_sessions_are_lost(tmp_path):
    three_sessions(tmp_path)
    (tmp_path / "sessions.db").write_bytes(b"")
    assert sum(found.lost for found in repair.repair(database(tmp_path)).damaged) == 609
    assert repair.examine(database(tmp_path)).whole
    filled(tmp_path, words(3))


def test_the_first_page_of_a_file_is_told_from_a_wrong_key_by_a_proof_of_any_version(tmp_path):
    three_sessions(tmp_path)
    key = (tmp_path / "sessions.key").read_text().strip()
    head = tmp_path / "sessions.head"
    assert proves_key(str(head), key)
    assert not proves_key(str(head), "0" * 64)
    head.write_bytes(OLD_HEAD)
    assert proves_key(str(head), "0" * 64)
    assert not proves_key(str(head), key)
    head.unlink()
    spoil(tmp_path / "sessions.db", 2000)
    assert refusal(tmp_path).reason == "StoreWrongKey"
    with pytest.raises(StoreError) as refused:
        repair.repair(database(tmp_path))
    assert refused.value.reason == "StoreWrongKey", "nothing is made anew in its place"
