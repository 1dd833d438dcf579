"""A file that SQLite would not even open: cut short, or spoiled in the page everything begins with."""

import os

import pytest

from bridle.protocol.errors import StoreError
from bridle.sessions import repair
from bridle.sessions.migrations import MIGRATIONS
from sessions.session_kit import filled, opened, put, words
from sessions.test_repair import LARGE, contents, database, spoil, three_sessions

PAGE = 4096


def cut(path, share=None, *, size=PAGE):
    whole = path.stat().st_size
    left = whole - size if share is None else int(whole * (1 - share))
    os.truncate(path, left)


def long_sessions(folder):
    """Enough that half of the file is not only the beginnings of tables."""
    three_sessions(folder)
    for _ in range(2):
        filled(folder, [*words(1500), LARGE, *words(500)])
    return contents(folder)


def begins_anew(folder):
    filled(folder, words(3))


@pytest.mark.parametrize(
    ("share", "least"), [(None, 0.98), (0.1, 0.8), (0.5, 0.35)], ids=["one page", "a tenth", "half"]
)
def test_of_a_file_cut_short_everything_that_is_still_there_is_saved(tmp_path, share, least):
    before = long_sessions(tmp_path)
    cut(tmp_path / "sessions.db", share)
    with pytest.raises(StoreError) as refused, opened(tmp_path) as store:
        store.list()
    assert refused.value.reason == "StoreDamaged"
    checked = repair.examine(database(tmp_path))
    assert not checked.whole
    report = repair.repair(database(tmp_path))
    assert {"sessions.db", "report.txt"} <= set(os.listdir(report.aside))
    saved = [one for payloads in contents(tmp_path).values() for one in payloads]
    kept = [one for one in saved if b"EventsLost" not in one]
    wanted = sum(map(len, before.values()))
    assert len(kept) >= least * wanted
    assert set(kept) <= {one for payloads in before.values() for one in payloads}
    assert repair.examine(database(tmp_path)).whole
    begins_anew(tmp_path)


@pytest.mark.parametrize("place", [18, 20])
def test_a_bit_that_only_changes_how_the_file_is_read_is_found_by_a_repair(tmp_path, place):
    before = three_sessions(tmp_path)
    spoil(tmp_path / "sessions.db", place)
    assert not repair.examine(database(tmp_path)).whole
    assert repair.repair(database(tmp_path)).damaged == ()
    assert contents(tmp_path) == before
    begins_anew(tmp_path)


def test_a_file_that_says_it_cannot_be_written_is_damaged(tmp_path):
    three_sessions(tmp_path)
    spoil(tmp_path / "sessions.db", 18)
    with pytest.raises(StoreError) as refused:
        begins_anew(tmp_path)
    assert refused.value.reason == "StoreDamaged"


@pytest.mark.parametrize("place", [17, 25, 100, 2000, 4090])
def test_one_bit_of_the_first_page_is_damage_and_costs_nothing(tmp_path, place):
    before = three_sessions(tmp_path)
    spoil(tmp_path / "sessions.db", place)
    with pytest.raises(StoreError) as refused, opened(tmp_path) as store:
        store.list()
    assert refused.value.reason == "StoreDamaged"
    assert "bridle sessions repair" in refused.value.message
    report = repair.repair(database(tmp_path))
    assert (report.sessions, report.damaged) == (3, ())
    assert contents(tmp_path) == before
    assert repair.examine(database(tmp_path)).whole
    begins_anew(tmp_path)


def test_the_first_page_of_a_file_that_was_brought_up_to_date_is_made_good_too(tmp_path):
    database(tmp_path, migrations=MIGRATIONS[:3]).connect().close()
    before = three_sessions(tmp_path)
    spoil(tmp_path / "sessions.db", 2000)
    repair.repair(database(tmp_path))
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "left",
    [b"", b"no database at all", b"\x00" * (20 * PAGE + 5), b"\xff" * PAGE],
    ids=["nothing", "words", "zeros", "ones"],
)
def test_whatever_stands_in_the_file_it_is_put_aside_and_new_sessions_work_at_once(tmp_path, left):
    three_sessions(tmp_path)
    (tmp_path / "sessions.db").write_bytes(left)
    report = repair.repair(database(tmp_path))
    assert not report.whole
    assert sum(found.lost for found in report.damaged) == 609
    assert repair.examine(database(tmp_path)).whole
    begins_anew(tmp_path)


def test_what_was_only_in_the_write_ahead_log_is_saved_with_the_first_page(tmp_path):
    with opened(tmp_path) as store:
        log = store.create("/work", profile="default")
        put(log, *words(50))
        store.shelf.writer.settle()
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("sessions.db", "sessions.db-wal", "sessions.key", "sessions.head"):
            if (tmp_path / name).exists():
                (copy / name).write_bytes((tmp_path / name).read_bytes())
        log.close()
    before = contents(tmp_path)
    spoil(copy / "sessions.db", 2000)
    repair.repair(database(copy))
    assert contents(copy) == before
