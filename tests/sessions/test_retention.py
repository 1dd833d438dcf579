"""Content expires; that it was there, and the proof of it, stay. What is pinned or in use is left alone."""

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest
from hypothesis import HealthCheck, given, settings

from bridle.base.ids import Ids
from bridle.conformance.fake_clock import FakeClock
from bridle.engine.bus import Bus
from bridle.engine.conversation import Conversation
from bridle.protocol import events as e
from bridle.protocol.codec import is_expired
from bridle.protocol.errors import CommandRefused, StoreError
from bridle.protocol.messages import TextBlock
from bridle.sessions.archive.export import jsonl
from bridle.sessions.archive.import_session import import_lines
from bridle.sessions.archive.retention import (
    DAY_MS,
    KEPT_KINDS,
    Expired,
    delete,
    expire,
    expiring,
    make_smaller,
)
from bridle.sessions.archive.stored_archive import branch, search
from bridle.sessions.log.database import LOG_BYTES
from bridle.sessions.store import SessionStore
from effort import examples
from sessions.session_kit import START_MS, put, raw
from sessions.telling import stories, tell

MANY = settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
WORD = "zirconium"
STORY = [(f"about {WORD}", [([f"{WORD} it is."], [("bash", f"echo {WORD}", "ok", 3)])], "end_turn")]


@contextmanager
def on_day(folder, day: float):
    clock = FakeClock(START_MS + int(day * DAY_MS))
    with closing(SessionStore(str(folder), ids=Ids(clock.now_ms, os.urandom), clock=clock)) as store:
        yield store


def told(folder, story=STORY, *, day: float = 0, **fields) -> str:
    with on_day(folder, day) as store:
        log = store.create("/work", **{"profile": "default", **fields})
        tell(log, story)
        log.keep_fold(log.last_id, f"fold {story[0][0]}".encode())
        log.close()
        search(store.shelf, WORD, limit=1)
        return log.session


def swept(folder, day: float, days: int | None = 30) -> Expired:
    with on_day(folder, day) as store:
        return expire(store.shelf, lambda _profile: days)


def pages(folder) -> bytes:
    """Every page of the database without its encryption, the unused ones too."""
    copy = folder / "copy"
    copy.mkdir()
    for name in ("sessions.db", "sessions.db-wal", "sessions.key"):
        if (folder / name).exists():
            shutil.copy(folder / name, copy / name)
    with closing(raw(copy)) as connection:
        connection.pragma("journal_mode", "delete")
        connection.pragma("rekey", "")
    found = (copy / "sessions.db").read_bytes()
    shutil.rmtree(copy)
    assert found.startswith(b"SQLite format 3")
    return found


@MANY
@given(story=stories)
def test_the_chain_of_an_expired_session_still_holds(tmp_path_factory, story) -> None:
    folder = tmp_path_factory.mktemp("s")
    session = told(folder, story)
    with on_day(folder, 1) as store:
        before = [(one.id, one.kind, one.ts_ms, one.originator, one.turn) for one in store.events(session)]
        end = store.digest(session)
    assert swept(folder, 31).sessions == (session,)
    with on_day(folder, 32) as store:
        store.verify(session)
        after = list(store.events(session))
        assert [(one.id, one.kind, one.ts_ms, one.originator, one.turn) for one in after] == before
        assert all(is_expired(one.event) == (one.kind not in KEPT_KINDS) for one in after)
        assert store.digest(session) == end
        assert Conversation.of(after).messages == []


@pytest.mark.requirement("G33.3")
def test_after_thirty_days_no_word_is_left_anywhere_and_the_metadata_is(tmp_path) -> None:
    session = told(tmp_path)
    with on_day(tmp_path, 0) as store:
        store.rename(session, "a title")
    assert WORD.encode() in pages(tmp_path)
    assert swept(tmp_path, 29.9) == Expired()
    assert swept(tmp_path, 30.1) == Expired(sessions=(session,))
    assert WORD.encode() not in pages(tmp_path)
    with on_day(tmp_path, 31) as store:
        row = store.find("a title")
        assert (row.id, row.turns, row.stop, row.model, row.usd) == (
            session,
            1,
            "end_turn",
            "work:small",
            0.25,
        )
        assert row.expired_ms == START_MS + int(30.1 * DAY_MS)
        assert store.fold(session) is None
        assert search(store.shelf, WORD, limit=5) == []
        lines = b"".join(jsonl(store.records(session))).decode()
        assert lines.count('"payload":"«ttl-expired»"') == len(list(store.events(session))) - 4
    with closing(raw(tmp_path)) as connection:
        assert connection.execute("select count(*) from blobs").fetchone() == (0,)
        assert connection.execute("select tool_name, args_hash from tool_call_intents").fetchall() == [
            ("bash", "")
        ]
        assert connection.execute(
            "select count(*) from events where salt is null and payload is not null"
        ).fetchone() == (0,)


def test_each_profile_has_its_own_days(tmp_path) -> None:
    short, long, forever = (told(tmp_path, profile=name) for name in ("short", "long", "forever"))
    days = {"short": 2, "long": 90, "forever": None}
    with on_day(tmp_path, 30) as store:
        assert expire(store.shelf, days.__getitem__).sessions == (short,)
        assert [
            due.id for due in expiring(store.shelf, days.__getitem__, until_ms=START_MS + 95 * DAY_MS)
        ] == [long]
        assert store.find(forever).expired_ms is None


@pytest.mark.requirement("G33.4")
def test_a_pinned_session_keeps_its_content_until_it_is_not_pinned_any_more(tmp_path) -> None:
    session = told(tmp_path)
    with on_day(tmp_path, 0) as store:
        store.pin(session, pinned=True)
    assert swept(tmp_path, 400) == Expired()
    with on_day(tmp_path, 400) as store:
        assert expiring(store.shelf, lambda _profile: 30, until_ms=START_MS + 900 * DAY_MS) == []
        store.pin(session, pinned=False)
    assert swept(tmp_path, 400).sessions == (session,)


def test_a_session_in_use_is_left_alone(tmp_path) -> None:
    session = told(tmp_path)
    with on_day(tmp_path, 40) as store, closing(store.open(session)) as log:
        assert swept(tmp_path, 40) == Expired(busy=(session,))
        put(log, e.InputAccepted(content=(TextBlock(text="on it again"),)), ts_ms=START_MS + 40 * DAY_MS)
    assert swept(tmp_path, 41) == Expired()


def test_a_sweep_that_was_cut_off_is_finished_by_the_next(tmp_path) -> None:
    session = told(tmp_path)
    with closing(raw(tmp_path)) as connection:
        connection.execute("update sessions set expired_ms = 1, title = ''")
    assert swept(tmp_path, 0.5, days=None).sessions == (session,)
    assert WORD.encode() not in pages(tmp_path)
    assert swept(tmp_path, 0.6) == Expired()


def test_a_blob_another_session_refers_to_stays(tmp_path) -> None:
    old = told(tmp_path)
    new = told(tmp_path, day=20)
    assert swept(tmp_path, 31).sessions == (old,)
    with on_day(tmp_path, 31) as store:
        store.verify(new)
        assert any(isinstance(one.event, e.PrefixSet) for one in store.events(new))


def test_what_expires_soon_is_known_before(tmp_path) -> None:
    told(tmp_path, day=10)
    first = told(tmp_path)
    with on_day(tmp_path, 24) as store:
        (due,) = expiring(store.shelf, lambda _profile: 30, until_ms=START_MS + 31 * DAY_MS)
    assert (due.id, due.title, due.at_ms) == (first, f"about {WORD}", START_MS + 30 * DAY_MS + 14)


def test_a_search_that_is_late_brings_nothing_back(tmp_path) -> None:
    told(tmp_path)
    with on_day(tmp_path, 31) as store:
        with closing(raw(tmp_path)) as connection:
            connection.execute("update logs set searched_to = 0")
            connection.execute("delete from said")
        expire(store.shelf, lambda _profile: 30)
        search(store.shelf, WORD, limit=1)
    with closing(raw(tmp_path)) as connection:
        assert connection.execute("select count(*) from said").fetchone() == (0,)


def test_a_deleted_session_leaves_nothing_behind(tmp_path) -> None:
    keep = told(tmp_path, [("keep this", [(["kept"], [])], "end_turn")])
    with on_day(tmp_path, 0) as store:
        before = _counts(tmp_path)
        session = told(tmp_path, aliases=["nightly"])
        row = store.find(session)
        assert delete(store.shelf, row.id, row.log_key, row.log)
        assert [one.id for one in store.list()] == [keep]
        assert store.by_alias("nightly") is None
        store.verify(keep)
    assert _counts(tmp_path) == before
    assert WORD.encode() not in pages(tmp_path)
    assert not (tmp_path / "tips" / row.log).exists()


def test_a_session_somebody_works_with_is_not_deleted(tmp_path) -> None:
    session = told(tmp_path)
    with on_day(tmp_path, 0) as store, closing(store.open(session)):
        row = store.find(session)
        assert not delete(store.shelf, row.id, row.log_key, row.log)
        assert store.find(session).turns == 1


def test_what_a_copy_left_behind_that_was_cut_off_goes(tmp_path) -> None:
    session = told(tmp_path)
    with on_day(tmp_path, 0) as store:
        made = branch(store.shelf, store.find(session))
    with closing(raw(tmp_path)) as connection:
        connection.execute("delete from sessions where id = ?", (made,))
    swept(tmp_path, 2)
    with closing(raw(tmp_path)) as connection:
        assert connection.execute("select count(*) from logs").fetchone() == (1,)
        assert connection.execute("select count(distinct log) from events").fetchone() == (1,)


def test_an_export_of_what_expired_can_be_imported_as_far_as_it_goes(tmp_path) -> None:
    session = told(tmp_path / "here")
    swept(tmp_path / "here", 31)
    with on_day(tmp_path / "here", 31) as store:
        lines = list(jsonl(store.records(session)))
    with on_day(tmp_path / "there", 31) as store:
        made = import_lines(store.shelf, lines, cwd="/work", profile="default")
        store.verify(made)
        assert sum(is_expired(one.event) for one in store.events(made)) == len(lines) - 4


def test_room_that_is_not_used_any_more_goes_back_to_the_disk(tmp_path) -> None:
    large = [
        (
            "read it",
            [(["x"], [("read_file", f"{number:05}" * 2_000, "ok", 3) for number in range(8)])],
            "end_turn",
        )
    ] * 4
    told(tmp_path, large)
    told(tmp_path, day=20)
    full = os.path.getsize(tmp_path / "sessions.db")
    assert full > 12 << 20
    swept(tmp_path, 31)
    with closing(raw(tmp_path)) as connection:
        make_smaller(connection)
    assert os.path.getsize(tmp_path / "sessions.db") < full / 2


def test_while_somebody_reads_others_can_write_and_deleting_does_not_wait(tmp_path) -> None:
    told(tmp_path)
    last, stop = told(tmp_path), threading.Event()

    def write() -> None:
        with closing(raw(tmp_path)) as connection:
            connection.set_busy_timeout(2_000)
            while not stop.is_set():
                connection.execute("begin immediate; update sessions set title = 'x'; commit")

    with closing(raw(tmp_path)) as reader, ThreadPoolExecutor() as threads:
        reader.execute("begin; select count(*) from events")
        writing = threads.submit(write)
        try:
            with on_day(tmp_path, 1) as store:
                row = store.find(last)
                assert delete(store.shelf, row.id, row.log_key, row.log)
        finally:
            stop.set()
        writing.result()


def test_what_was_deleted_beside_a_reader_leaves_the_write_ahead_log_when_it_begins_anew(tmp_path) -> None:
    large = told(tmp_path, [("about much", [([os.urandom(2 << 20).hex()], [])], "end_turn")])
    wal = tmp_path / "sessions.db-wal"
    with on_day(tmp_path, 1) as store:
        other = store.create("/work", profile="default")
        with closing(raw(tmp_path)) as reader:
            reader.execute("begin; select count(*) from events")
            row = store.find(large)
            assert delete(store.shelf, row.id, row.log_key, row.log)
        assert wal.stat().st_size > 4 * LOG_BYTES
        for _ in range(5):
            put(other, *[e.TextDelta(text="x" * 3_000)] * 100)
            store.shelf.writer.settle()
        assert wal.stat().st_size < 2 * LOG_BYTES
        other.close()


def test_a_session_that_is_deleted_while_somebody_opens_it_is_unknown_and_leaves_nothing(tmp_path) -> None:
    session = told(tmp_path)
    clock = FakeClock(START_MS)

    def meanwhile() -> int:
        with on_day(tmp_path, 1) as other:
            row = other.find(session)
            assert delete(other.shelf, row.id, row.log_key, row.log)
            tell(other.create("/other", profile="default"), STORY)
        return clock.now_ms()

    with closing(SessionStore(str(tmp_path), ids=Ids(meanwhile, os.urandom), clock=clock)) as store:
        with pytest.raises(CommandRefused) as refused:
            store.open(session)
        assert refused.value.reason == "UnknownSession"
        (other,) = store.list()
        store.verify(other.id)
    assert os.listdir(tmp_path / "tips") == [other.log]


def _counts(folder) -> dict[str, int]:
    with closing(raw(folder)) as connection:
        tables = [
            name for (name,) in connection.execute("select name from sqlite_schema where type = 'table'")
        ]
        return {
            name: connection.execute(f"select count(*) from {name}").fetchone()[0]
            for name in tables
            if not name.startswith(("said_words", "sqlite_"))
        }


@pytest.mark.requirement("G26.3")
async def test_a_reader_is_told_of_expired_events_before_what_follows_them(tmp_path) -> None:
    session = told(tmp_path)
    swept(tmp_path, 31)
    with on_day(tmp_path, 31) as store, closing(store.open(session)) as log:
        last = log.last_id
        put(log, e.Notice(reason="x", message="after"))
        bus = Bus(log.last_id + 1)
        bus.close()
        read = [envelope.event async for envelope in bus.follow(log, 0)]
    gaps = [event for event in read if isinstance(event, e.StreamGap)]
    assert {gap.reason for gap in gaps} == {"ttl"}
    assert sum(gap.last - gap.first + 1 for gap in gaps) == last - 4
    assert [type(event).__name__ for event in read] == [
        "SessionCreated",
        "ModelChanged",
        "StreamGap",
        "CostIncremented",
        "StreamGap",
        "TurnTiming",
        "StreamGap",
        "Notice",
    ]


@pytest.mark.parametrize(
    "change",
    [
        'salt = null, payload = cast(\'{"text":"other"}\' as blob)',
        "payload = null",
        "digest = zeroblob(32), payload = null, salt = null",
    ],
)
def test_nobody_can_pass_a_change_off_as_expiry(tmp_path, change) -> None:
    session = told(tmp_path)
    with closing(raw(tmp_path)) as connection:
        connection.execute(f"update events set {change} where kind = 'TextDelta'")
    with on_day(tmp_path, 0) as store, pytest.raises(StoreError):
        store.verify(session)
