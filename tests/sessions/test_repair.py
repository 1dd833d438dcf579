"""Damage: found wherever it is, and what is whole is saved; a file is never mended in place."""

import asyncio
import contextlib
import os
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridle.base.clock import SystemClock
from bridle.protocol import events as e
from bridle.protocol.errors import BridleError, CommandRefused, StoreError, UsageError
from bridle.sessions.archive.stored_archive import branch
from bridle.sessions.log.database import Database
from bridle.sessions.log.migrations import MIGRATIONS
from bridle.sessions.repair import rekey, repair
from sessions.session_kit import filled, new_store, opened, put, python, raw, words
from undo.undo_kit import workshop

LARGE = e.ToolResult(call_id="call_1", tool="bash", outcome="ok", content="x" * 9_000)


def database(folder, **more):
    return Database(str(folder), now_ms=SystemClock().now_ms, notice=lambda _text: None, **more)


def three_sessions(folder):
    """Three closed sessions in one file without a write-ahead log; what each holds."""
    with opened(folder) as store:
        for number in range(3):
            log = store.create(f"/projects/{number}", profile="default")
            created = e.SessionCreated(log=log.log, cwd=f"/projects/{number}")
            said = e.InputAccepted(content=(e.TextBlock(text=f"title {number}"),))
            put(log, created, said, *words(100), LARGE, *words(100))
            log.close()
    return contents(folder)


def contents(folder):
    with opened(folder) as store:
        return {row.id: [record.payload for record in store.records(row.id)] for row in store.list()}


def spoil(path, place, flip=1):
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= flip
    path.write_bytes(data)


def test_a_whole_database_is_left_alone(tmp_path):
    before = three_sessions(tmp_path)
    bytes_before = (tmp_path / "sessions.db").read_bytes()
    report = repair.repair(database(tmp_path))
    assert (report.whole, report.sessions, report.aside) == (True, 3, "")
    assert repair.words(report) == ["Everything is whole: 3 sessions, 609 events."]
    assert (tmp_path / "sessions.db").read_bytes() == bytes_before
    assert contents(tmp_path) == before


def test_nothing_there_is_nothing_damaged(tmp_path):
    assert repair.repair(database(tmp_path)).whole
    assert os.listdir(tmp_path) == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(min_value=0), flip=st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128]))
def test_of_a_spoiled_file_everything_proven_is_saved_and_nothing_else(tmp_path_factory, place, flip):
    folder = tmp_path_factory.mktemp("spoiled")
    before = three_sessions(folder)
    spoil(folder / "sessions.db", place, flip)
    damaged = (folder / "sessions.db").read_bytes()
    report = repair.repair(database(folder))
    if report.whole:  # the byte belongs to nobody
        assert contents(folder) == before
        return
    aside = os.path.join(report.aside, "sessions.db")
    with open(aside, "rb") as kept:
        assert kept.read() == damaged
    assert repair.examine(database(folder)).whole
    saved = contents(folder)
    with opened(folder) as store:
        for row in store.list():
            store.verify(row.id)
            store.open(row.id).close()
            assert saved[row.id] == before[row.id][: len(saved[row.id])]


def test_a_saved_session_keeps_its_title_folder_and_large_results(tmp_path):
    before = three_sessions(tmp_path)
    with contextlib.closing(raw(tmp_path)) as connection:
        connection.execute("update events set payload = x'7b7d' where log = 2 and id = 150")
        connection.pragma("wal_checkpoint", "truncate")
    report = repair.repair(database(tmp_path))
    (found,) = report.damaged
    assert (found.events, found.lost) == (149, 54)
    assert found.problem == "damaged at event 150: its content was changed"
    saved = contents(tmp_path)
    assert [len(saved[session]) for session in sorted(before)] == [203, 149, 203]
    assert all(saved[session] == before[session][: len(saved[session])] for session in before)
    with opened(tmp_path) as store:
        row = store.find(found.session)
        assert (row.title, row.cwd, row.turns) == ("title 1", "/projects/1", 0)
        assert store.find("title 2").cwd == "/projects/2"
    report_file = os.path.join(report.aside, "report.txt")
    with open(report_file, encoding="utf-8") as file:
        told = file.read()
    assert "149 events are whole; 54 known to be lost." in told


def pages_of(folder, table, kind="leaf"):
    """The numbers of a table's pages, in the order of its rows."""
    wanted = "select pageno from dbstat where name = ? and pagetype = ? order by path"
    with contextlib.closing(raw(folder)) as connection:
        return [page for (page,) in connection.execute(wanted, (table, kind))]


def spoil_pages(folder, pages):
    with contextlib.closing(raw(folder)) as connection:
        (size,) = connection.execute("pragma page_size").fetchone()
    for page in pages:
        spoil(folder / "sessions.db", (page - 1) * size + size // 2)


def test_a_damaged_page_costs_its_session_the_events_from_there_on_and_others_nothing(tmp_path):
    before = three_sessions(tmp_path)
    leaves = pages_of(tmp_path, "events")
    spoil_pages(tmp_path, [leaves[len(leaves) // 2]])
    (found,) = repair.repair(database(tmp_path)).damaged
    assert found.events > 50
    assert found.lost == 203 - found.events
    before[found.session] = before[found.session][: found.events]
    assert contents(tmp_path) == before
    assert repair.repair(database(tmp_path)).whole


def test_the_rest_that_an_older_version_saved_is_only_read(tmp_path):
    three_sessions(tmp_path)
    with contextlib.closing(raw(tmp_path)) as connection:
        connection.execute(
            "update sessions set rest_of = (select id from sessions where log = 1) where log = 2"
        )
    with opened(tmp_path) as store:
        (row,) = store.list(cwd="/projects/1")
        for change in (lambda: store.open(row.id), lambda: branch(store.shelf, row)):
            with pytest.raises(UsageError) as refused:
                change()
            assert f"bridle sessions show {row.id}" in refused.value.message
        with pytest.raises(CommandRefused):
            store.newest("/projects/1")
        assert len(list(store.events(row.id))) == 203


def test_a_log_that_is_not_listed_any_more_is_reported_as_lost(tmp_path):
    three_sessions(tmp_path)
    spoil_pages(tmp_path, pages_of(tmp_path, "logs"))
    report = repair.repair(database(tmp_path))
    assert [found.lost for found in report.damaged] == [203] * 3
    assert repair.examine(database(tmp_path)).whole


def test_names_and_what_undo_kept_before_a_damaged_row_are_saved(tmp_path):
    data = tmp_path / "data"
    with workshop(data, tmp_path / "work") as shop:
        for number in range(60):
            (shop.folder / f"{number}").write_text("before" * 100 + str(number))
        shop.call(lambda: (shop.folder / "7").write_text("after"))
        session = shop.log.session
    with contextlib.closing(raw(data)) as connection:
        connection.execute("insert into aliases values('nightly', ?)", (session,))
        stored = set(connection.execute("select sha256 from undo_contents"))
        connection.pragma("wal_checkpoint", "truncate")
    leaves = pages_of(data, "undo_contents")
    spoil_pages(data, [leaves[len(leaves) // 2]])
    report = repair.repair(database(data))
    assert (report.damaged, bool(report.problems)) == ((), True)
    assert repair.words(report)[0].endswith("is damaged; no event of any session is.")
    with contextlib.closing(raw(data)) as connection:
        saved = set(connection.execute("select sha256 from undo_contents"))
    assert set() < saved < stored
    with opened(data) as store, contextlib.closing(store.open(store.find("nightly").id)) as log:
        assert len(asyncio.run(log.undo_store().calls())) == 1


def test_a_session_whose_own_row_is_gone_comes_back_from_its_events(tmp_path):
    three_sessions(tmp_path)
    with contextlib.closing(raw(tmp_path)) as connection:
        connection.execute("pragma foreign_keys = off")
        connection.execute("delete from sessions where log = 2")
        connection.execute("update events set payload = x'7b7d' where log = 3 and id = 150")
    repair.repair(database(tmp_path))
    with opened(tmp_path) as store:
        assert {row.cwd for row in store.list()} == {"/projects/0", "/projects/1", "/projects/2"}


def test_a_lost_end_is_accepted_without_a_new_file(tmp_path):
    session = filled(tmp_path, words(50))
    with contextlib.closing(raw(tmp_path)) as connection:
        connection.execute("delete from events where id > 40")
    with opened(tmp_path) as store, pytest.raises(StoreError) as refused:
        store.open(session)
    assert refused.value.reason == "LogDamaged"
    assert "bridle sessions repair" in refused.value.message
    report = repair.repair(database(tmp_path))
    (found,) = report.damaged
    assert (found.events, found.lost, report.aside) == (40, 10, "")
    with opened(tmp_path) as store:
        log = store.open(session)
        put(log, *words(1))
        log.verify()
        log.close()


@pytest.mark.parametrize("change", [repair.repair, rekey.rekey])
def test_nothing_is_replaced_while_another_bridle_is_at_work(tmp_path, change):
    session = filled(tmp_path, words(5))
    with opened(tmp_path) as store:
        log = store.open(session)
        with pytest.raises(CommandRefused) as busy:
            change(database(tmp_path))
        assert (busy.value.reason, busy.value.data["session"]) == ("SessionBusy", session)
        log.close()
        store.list()
        with pytest.raises(StoreError) as used:  # a reader is enough
            change(database(tmp_path))
        assert used.value.reason == "StoreInUse"
    change(database(tmp_path))


PEEKS = """
import apsw
from pathlib import Path
from sessions.session_kit import raw

other = raw(Path(sys.argv[1]))
other.set_busy_timeout(0)
try:
    other.execute("select count(*) from sqlite_schema").fetchall()
    print("free")
except apsw.BusyError:
    print("in use")
"""

CHANGES = """
from pathlib import Path
from bridle.sessions.repair import rekey
from bridle.sessions.repair import repair
from sessions.session_kit import python
from sessions.test_repair import PEEKS, database

folder = Path(sys.argv[1])

def look(event, arguments):
    if event == "os.rename" and arguments[1] == str(folder / "sessions.db"):
        print(python(PEEKS, str(folder)).communicate(timeout=60)[0].strip())

sys.addaudithook(look)
{"repair": repair.repair, "rekey": rekey.rekey}[sys.argv[2]](database(folder))
"""


@pytest.mark.parametrize("change", ["repair", "rekey"])
def test_nobody_gets_at_a_database_that_is_about_to_be_replaced(tmp_path, change):
    filled(tmp_path, words(5))
    with contextlib.closing(raw(tmp_path)) as connection:
        connection.execute("update events set digest = x'00' where id = 3")
    told, _ = python(CHANGES, str(tmp_path), change).communicate(timeout=60)
    assert told.splitlines() == ["in use"]


# The key


def test_a_new_key_opens_everything_and_the_old_one_nothing(tmp_path):
    before = three_sessions(tmp_path)
    old = (tmp_path / "sessions.key").read_bytes()
    rekey.rekey(database(tmp_path))
    assert (tmp_path / "sessions.key").read_bytes() != old
    assert contents(tmp_path) == before
    assert sorted(os.listdir(tmp_path)) == ["locks", "sessions.db", "sessions.key", "sessions.lock", "tips"]
    assert oct((tmp_path / "sessions.db").stat().st_mode & 0o777) == "0o600"
    (tmp_path / "sessions.key").write_bytes(old)
    with opened(tmp_path) as store, pytest.raises(StoreError) as refused:
        store.list()
    assert refused.value.reason == "StoreWrongKey"


def test_a_change_of_key_that_was_cut_off_is_finished_or_forgotten(tmp_path):
    before = three_sessions(tmp_path)
    old = (tmp_path / "sessions.key").read_bytes()
    shutil.copytree(tmp_path, tmp_path / "copy")
    rekey.rekey(database(tmp_path))
    new = (tmp_path / "sessions.key").read_bytes()
    (tmp_path / "sessions.key").write_bytes(old)  # between the two files
    (tmp_path / "sessions.key.next").write_bytes(new)
    assert contents(tmp_path) == before
    assert (tmp_path / "sessions.key").read_bytes() == new
    (tmp_path / "copy" / "sessions.key.next").write_bytes(new)  # before either
    assert contents(tmp_path / "copy") == before
    assert (tmp_path / "copy" / "sessions.key").read_bytes() == old


def test_a_lost_key_is_said_and_nothing_is_changed(tmp_path):
    three_sessions(tmp_path)
    (tmp_path / "sessions.key").unlink()
    for work in (lambda: repair.repair(database(tmp_path)), lambda: new_store(tmp_path).list()):
        with pytest.raises(StoreError) as refused:
            work()
        assert refused.value.reason == "StoreBadKey"
        assert "Put the key back" in refused.value.message
    assert not (tmp_path / "sessions.key").exists()


# Older, newer, elsewhere


def test_a_newer_database_is_refused_by_every_door(tmp_path):
    filled(tmp_path, words(3))
    with contextlib.closing(raw(tmp_path)) as connection:
        connection.execute("insert into schema_migrations values(99, 0, 'x')")
    for work in (
        lambda: repair.repair(database(tmp_path)),
        lambda: rekey.rekey(database(tmp_path)),
        lambda: new_store(tmp_path).list(),
    ):
        with pytest.raises(BridleError) as refused:
            work()
        assert refused.value.reason == "StoreNewer"


def test_an_older_database_is_brought_up_to_date_before_it_is_repaired(tmp_path):
    old = database(tmp_path, migrations=MIGRATIONS[:1])
    old.connect().close()
    assert repair.repair(database(tmp_path)).whole


def test_a_file_that_is_gone_as_a_whole_is_noticed_and_let_go_once(tmp_path):
    lost = filled(tmp_path, words(7))
    (tmp_path / "sessions.db").unlink()
    with opened(tmp_path) as store:
        for look in (lambda: store.find(lost), lambda: store.newest("/work")):
            with pytest.raises(StoreError) as refused:
                look()
            assert refused.value.reason == "LogsLost"
    assert [found.lost for found in repair.examine(database(tmp_path)).damaged] == [7]
    assert [found.lost for found in repair.repair(database(tmp_path)).damaged] == [7]
    assert repair.examine(database(tmp_path)).whole


def test_a_log_that_is_gone_as_a_whole_is_noticed_and_let_go_once(tmp_path):
    filled(tmp_path, words(5))
    lost = filled(tmp_path, words(7))
    with contextlib.closing(raw(tmp_path)) as connection:  # as a cut write-ahead log leaves it
        connection.execute("delete from events where log = 2")
        connection.execute("delete from sessions where log = 2")
        connection.execute("delete from logs where key = 2")
    with opened(tmp_path) as store, pytest.raises(StoreError) as refused:
        store.find(lost)
    assert refused.value.reason == "LogsLost"
    report = repair.repair(database(tmp_path))
    assert [(found.events, found.lost) for found in report.damaged] == [(0, 7)]
    assert repair.examine(database(tmp_path)).whole
    with opened(tmp_path) as store, pytest.raises(CommandRefused) as unknown:
        store.find(lost)
    assert unknown.value.reason == "UnknownSession"
