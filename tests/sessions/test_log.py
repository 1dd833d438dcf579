"""One open session: what goes in comes out, in order, byte for byte, or the log says that it does not."""

import asyncio
import json
import shutil
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridle.engine.ports import SessionLog
from bridle.protocol.codec import DURABLE_KINDS, decode_envelope, encode_payload
from bridle.protocol.errors import StoreError
from bridle.protocol.events import (
    CustomEvent,
    Envelope,
    InputAccepted,
    ModelChanged,
    TextDelta,
    ToolCallStarted,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UnknownEvent,
)
from bridle.protocol.messages import TextBlock
from bridle.sessions.archive.export import jsonl
from bridle.sessions.log.write_ahead import FOLD_BACK_PAGES, WriteAheadLog
from effort import examples
from sessions.session_kit import (
    CLIENT,
    START_MS,
    envelope,
    filled,
    new_store,
    opened,
    put,
    python,
    raw,
    words,
)

LARGE = [TextDelta(text="x" * 3_000)] * 4
PAGE_BYTES = 4096


def wal_pages(folder: Path) -> int:
    return (folder / "sessions.db-wal").stat().st_size // PAGE_BYTES


@pytest.fixture
def store(tmp_path: Path):
    with closing(new_store(tmp_path)) as made:
        yield made


@pytest.fixture
def log(store):
    made = store.create("/work", profile="default")
    yield made
    made.close()


# Appending and reading


@pytest.mark.requirement("G31.1")
async def test_events_come_back_as_they_were_appended(log) -> None:
    port: SessionLog = log
    put_in = put(log, TextDelta(text="a"), turn=1, agent_path=("build", "search"), invocation="inv_1")
    put_in += put(log, UnknownEvent(kind="FromTheFuture", raw=b'{"x" :  1}'))
    put_in += put(log, TurnEnded(stop="end_turn"), turn=1)
    assert await port.since(0, limit=10) == put_in
    assert port.last_id == 3


@pytest.mark.requirement("G5.6", "G24.1")
async def test_reading_goes_on_after_an_id_and_stops_at_the_limit(log) -> None:
    put(log, *words(1205))
    assert [found.id for found in await log.since(3, limit=2)] == [4, 5]
    assert [found.id for found in await log.since(0, limit=5000)] == list(range(1, 1206))
    assert [found.id for found in await log.since(0, limit=1000)] == list(range(1, 1001))
    assert await log.since(1205, limit=10) == []


async def test_a_log_goes_on_where_it_ended(tmp_path) -> None:
    session = filled(tmp_path, words(3))
    with opened(tmp_path) as store, closing(store.open(session)) as log:
        assert log.last_id == 3
        put(log, TextDelta(text="more"))
        log.verify()
        assert [found.id for found in await log.since(0, limit=10)] == [1, 2, 3, 4]


def test_only_the_next_event_of_this_session_is_taken(log) -> None:
    put(log, TextDelta(text="a"))
    for wrong_id in (None, 1, 3):
        with pytest.raises(ValueError, match="cannot follow event 1"):
            log.append(envelope(log, TextDelta(text="b"), id=wrong_id), b"{}")
    stranger = msgspec.structs.replace(envelope(log, TextDelta(text="b")), session="sess_other")
    with pytest.raises(ValueError, match="does not belong"):
        log.append(stranger, b"{}")
    assert log.last_id == 1


async def test_a_closed_log_takes_nothing(log) -> None:
    log.close()
    log.close()
    with pytest.raises(ValueError, match="closed"):
        put(log, TextDelta(text="late"))


@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(
        st.tuples(
            st.text(min_size=1).filter(lambda kind: kind not in DURABLE_KINDS),
            st.binary(max_size=6000),
            st.text(),
            st.integers(-(2**63), 2**63 - 1),
            st.none() | st.integers(0, 2**63 - 1),
            st.lists(st.text()).map(tuple),
            st.none() | st.text(),
        ),
        max_size=8,
    )
)
def test_whatever_is_appended_is_read_back(store, rows) -> None:
    with closing(store.create("/work", profile="default")) as log:
        put_in = [
            envelope(
                log,
                UnknownEvent(kind=kind, raw=payload),
                id=number,
                originator=originator,
                ts_ms=ts_ms,
                turn=turn,
                agent_path=agent_path,
                invocation=invocation,
            )
            for number, (kind, payload, originator, ts_ms, turn, agent_path, invocation) in enumerate(rows, 1)
        ]
        for made in put_in:
            log.append(made, encode_payload(made.event))
        log.verify()
        assert [record.envelope for record in store.records(log.session)] == put_in
        assert [record.payload for record in store.records(log.session)] == [row[1] for row in rows]


@pytest.mark.requirement("G31.2")
async def test_an_export_is_one_envelope_per_line_with_its_bytes_kept(store, log) -> None:
    payload = b'{"text":"a","added_later":true}'
    log.append(envelope(log, TextDelta(text="a"), turn=2), payload)
    put(log, UnknownEvent(kind="FromTheFuture", raw=b'{"x":1}'))
    await log.committed()
    lines = b"".join(jsonl(store.records(log.session))).splitlines(keepends=True)
    assert all(line.endswith(b"\n") for line in lines)
    assert json.loads(lines[0]) == {
        "id": 1,
        "kind": "TextDelta",
        "session": log.session,
        "originator": CLIENT,
        "ts": "2023-11-14T22:13:20.001Z",
        "payload": {"text": "a", "added_later": True},
        "turn": 2,
    }
    assert [decode_envelope(line) for line in lines] == list(store.events(log.session))


# Committed, durable, failed


async def test_committed_events_are_seen_by_another_connection(log, tmp_path) -> None:
    put(log, *words(10))
    await log.committed()
    assert raw(tmp_path).execute("select count(*) from events").fetchall() == [(10,)]
    await log.committed()
    await log.durable()


async def test_events_are_committed_without_anybody_waiting(log, tmp_path) -> None:
    put(log, *words(1))
    with closing(raw(tmp_path)) as connection:
        async with asyncio.timeout(10):
            while connection.execute("select count(*) from events").fetchall() != [(1,)]:
                await asyncio.sleep(0)


async def test_the_write_ahead_log_is_written_over_and_does_not_grow(log, tmp_path) -> None:
    longest = 0
    for _ in range(150):
        put(log, *LARGE)
        await log.durable()
        longest = max(longest, wal_pages(tmp_path))
    assert longest < 2 * FOLD_BACK_PAGES
    log.verify()


async def test_while_somebody_reads_the_write_ahead_log_waits_to_be_folded_back(log, tmp_path) -> None:
    put(log, *LARGE)
    await log.durable()
    with closing(raw(tmp_path)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from events").fetchall()
        for _ in range(150):
            put(log, *LARGE)
            await log.durable()
        assert wal_pages(tmp_path) > 2 * FOLD_BACK_PAGES, "what a reader sees stays where it is"
        assert reader.execute("select count(*) from events").fetchone() == (len(LARGE),)
    grown = wal_pages(tmp_path)
    for _ in range(150):
        put(log, *LARGE)
        await log.durable()
    assert wal_pages(tmp_path) < grown + 2 * FOLD_BACK_PAGES
    log.verify()


def test_a_write_ahead_log_that_somebody_reads_is_folded_back_again_only_when_it_has_grown(store) -> None:
    log, tried_at = WriteAheadLog(store.shelf.database), []

    class Read:
        """A connection beside a reader who needs every page."""

        def wal_checkpoint(self) -> tuple[int, int]:
            tried_at.append(pages)
            return pages, 0

    for pages in range(50, 3 * FOLD_BACK_PAGES + 1, 50):
        log.committed(Read(), "main", pages)
        log.fold_back(Read())
    assert tried_at == [FOLD_BACK_PAGES, 2 * FOLD_BACK_PAGES, 3 * FOLD_BACK_PAGES]


async def test_many_waiters_and_logs_share_the_writer(store) -> None:
    logs = [store.create("/work", profile="default") for _ in range(5)]

    async def fill(log) -> None:
        for number in range(40):
            put(log, *words(3))
            await (log.durable() if number % 10 == 0 else log.committed())

    await asyncio.gather(*(fill(log) for log in logs))
    for log in logs:
        assert [found.id for found in store.events(log.session)] == list(range(1, 121))
        log.verify()
        log.close()


async def test_a_cancelled_wait_harms_nobody(log) -> None:
    put(log, *words(5))
    waiting = asyncio.create_task(log.durable())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    put(log, *words(5))
    await log.committed()
    log.verify()


FILL_THE_DISK = """
import asyncio, resource
from pathlib import Path
from sessions.session_kit import *
from bridle.protocol.errors import StoreError

async def main():
    store = new_store(Path(sys.argv[1]))
    log = store.create("/work", profile="default")
    put(log, *words(10))
    await log.durable()
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    reasons = []
    try:
        while True:
            put(log, *words(100))
            await log.committed()
    except StoreError as error:
        reasons.append(error.reason)
    for later in (log.committed, log.durable, lambda: log.since(0, limit=1)):
        try:
            await later()
        except StoreError as error:
            reasons.append(error.reason)
    for later in (lambda: put(log, *words(1)), log.verify, log.close):
        try:
            later()
        except StoreError as error:
            reasons.append(error.reason)
    store.close()
    print(log.session, *reasons)

asyncio.run(main())
"""


def test_after_a_failed_write_every_call_says_so_and_what_was_committed_stays(tmp_path) -> None:
    out, err = python(FILL_THE_DISK, str(tmp_path)).communicate(timeout=50)
    assert err == ""
    session, *reasons = out.split()
    assert reasons == ["StoreFailed"] * 7
    with opened(tmp_path) as store, closing(store.open(session)) as log:
        assert log.last_id >= 10
        assert (log.last_id - 10) % 100 == 0
        log.verify()


# Large payloads


async def test_a_large_payload_is_stored_once_and_read_like_any_other(log, tmp_path) -> None:
    large = TextDelta(text="x" * 5000)
    put_in = put(log, large, TextDelta(text="small"), large)
    assert list(await log.since(0, limit=10)) == put_in
    log.verify()
    key = sha256(encode_payload(large)).digest()
    with closing(raw(tmp_path)) as connection:
        assert connection.execute("select sha256, bytes from blobs").fetchall() == [
            (key, encode_payload(large))
        ]
        assert connection.execute("select payload is null, blob from events").fetchall() == [
            (1, key),
            (0, None),
            (1, key),
        ]


# What is derived from events


@pytest.mark.requirement("G32.1", "G32.2")
async def test_the_ledger_holds_intent_and_outcome_of_a_call(log, tmp_path) -> None:
    call_id = "call_01JV0000000000000000000000"
    put(log, ToolCallStarted(call_id=call_id, tool="bash", input={}, mutating=True, input_sha256="ab"))
    await log.durable()
    with closing(raw(tmp_path)) as connection:
        intent = (call_id, log.log, "bash", "ab", 1, START_MS + 1)
        assert connection.execute("select * from tool_call_intents").fetchall() == [intent]
        assert connection.execute("select * from tool_call_outcomes").fetchall() == []
        put(log, ToolResult(call_id=call_id, tool="bash", outcome="ok", content="done"))
        put(log, ToolResult(call_id=call_id, tool="bash", outcome="error", content="again"))
        await log.committed()
        outcome = (call_id, "ok", START_MS + 2, f"{log.log}:2")
        assert connection.execute("select * from tool_call_outcomes").fetchall() == [outcome]


async def test_turns_are_listed_with_their_first_event_and_end(log, tmp_path) -> None:
    put(log, TurnStarted(input=1), TurnEnded(stop="end_turn"), turn=1)
    put(log, TurnStarted(input=2), turn=2)
    put(log, TurnStarted(input=2), turn=7, agent_path=("child",))
    await log.committed()
    with closing(raw(tmp_path)) as connection:
        turns = connection.execute("select turn, first_id, started_ms, ended_ms, stop from turns").fetchall()
    assert turns == [(1, 1, START_MS + 1, START_MS + 2, "end_turn"), (2, 3, START_MS + 3, None, None)]


async def test_the_session_row_follows_the_events(store, log) -> None:
    put(log, InputAccepted(content=(TextBlock(text="  fix the\n tests "),)), TurnStarted(input=1))
    put(log, ModelChanged(provider="work", model="large"))
    put(log, InputAccepted(content=(TextBlock(text="and then"),)))
    put(log, ModelChanged(provider="work", model="small"), agent_path=("child",))
    await log.committed()
    [row] = store.list()
    assert (row.title, row.turns, row.model, row.stop) == ("fix the tests", 1, "work:large", None)
    put(log, TurnEnded(stop="cancelled"))
    await log.committed()
    assert store.list()[0].stop == "cancelled"


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("word " * 30, "word word word word word word word word word word word word…"),
        ("x" * 100, "x" * 60 + "…"),
        ("", ""),
    ],
)
async def test_a_title_is_the_first_words_on_one_line(store, log, typed, title) -> None:
    put(log, InputAccepted(content=(TextBlock(text=typed),)))
    await log.committed()
    assert store.list()[0].title == title


# Damage

TAMPERINGS = {
    "content": ("update events set payload = x'7b7d' where id = 4", 4, "its content was changed"),
    "time": ("update events set ts_ms = ts_ms + 1 where id = 4", 4, "does not follow"),
    "kind": ("update events set kind = 'Notice' where id = 4", 4, "does not follow"),
    "originator": ("update events set originator = 'cli_other' where id = 4", 4, "does not follow"),
    "agent": ("update events set agent_path = '[\"x\"]' where id = 4", 4, "does not follow"),
    "row gone": ("delete from events where id = 4", 4, "it is missing"),
    "first row gone": ("delete from events where id = 1", 1, "it is missing"),
    "order": (
        """update events set id = 100 where id = 4; update events set id = 4 where id = 5;
        update events set id = 5 where id = 100""",
        4,
        "does not follow",
    ),
    "blob gone": ("delete from blobs", 9, "its content is missing"),
    "blob changed": ("update blobs set bytes = x'7b7d'", 9, "its content was changed"),
}


@pytest.mark.parametrize("how", TAMPERINGS)
def test_tampering_is_found_and_the_event_is_named(tmp_path, how) -> None:
    statement, event_id, problem = TAMPERINGS[how]
    session = filled(tmp_path, [*words(8), TextDelta(text="x" * 5000), TextDelta(text="end")])
    with closing(raw(tmp_path)) as connection:
        connection.execute(statement)
    with opened(tmp_path) as store, closing(store.open(session)) as log:
        with pytest.raises(StoreError, match=problem) as caught:
            log.verify()
        assert (caught.value.reason, caught.value.data["event"]) == ("LogDamaged", event_id)


def test_a_window_is_verified_without_the_rest(tmp_path) -> None:
    session = filled(tmp_path, words(1200))
    with closing(raw(tmp_path)) as connection:
        connection.execute("update events set payload = x'7b7d' where id = 100")
    with opened(tmp_path) as store, closing(store.open(session)) as log:
        log.verify(last=1100)
        with pytest.raises(StoreError, match="event 100: its content was changed"):
            log.verify(last=1101)
        with pytest.raises(StoreError, match="event 100: its content was changed"):
            log.verify(last=5000)


def test_rows_lost_at_the_end_are_counted_when_the_log_is_opened(tmp_path) -> None:
    session = filled(tmp_path, words(9))
    with closing(raw(tmp_path)) as connection:
        connection.execute("delete from events where id > 6")
    with opened(tmp_path) as store:
        with pytest.raises(StoreError, match="damaged at event 7: 3 events are missing at the end"):
            store.open(session)
        assert [found.id for found in store.events(session)] == [1, 2, 3, 4, 5, 6]
        log = store.open(session, accept_loss=True)
        put(log, TextDelta(text="onwards"))
        log.verify()
        log.close()
        store.open(session).close()


def test_a_tip_that_a_power_cut_left_half_written_proves_nothing(tmp_path) -> None:
    session = filled(tmp_path, words(3))
    (tip,) = (tmp_path / "tips").iterdir()
    tip.write_bytes((7).to_bytes(8, "big") + tip.read_bytes()[8:])
    with opened(tmp_path) as store:
        log = store.open(session)
        put(log, TextDelta(text="onwards"))
        log.verify()
        log.close()


def test_a_rewritten_end_is_found_when_the_log_is_opened(tmp_path) -> None:
    session = filled(tmp_path, words(3))
    with closing(raw(tmp_path)) as connection:
        connection.execute("update events set chain = zeroblob(32) where id = 3")
    with opened(tmp_path) as store, pytest.raises(StoreError, match="not the event that was written"):
        store.open(session)


def test_a_tip_that_is_missing_or_torn_or_behind_is_no_damage(tmp_path) -> None:
    session = filled(tmp_path, words(3))
    [tip] = (tmp_path / "tips").iterdir()
    for content in (b"", b"\0" * 48, b"short"):
        tip.write_bytes(content)
        with opened(tmp_path) as store:
            store.open(session).close()
    behind = tip.read_bytes()
    with opened(tmp_path) as store, closing(store.open(session)) as log:
        put(log, *words(2))
    tip.write_bytes(behind)
    with opened(tmp_path) as store, closing(store.open(session)) as log:
        assert log.last_id == 5
        log.verify()


async def test_a_truncated_write_ahead_log_is_detected(tmp_path) -> None:
    """SQLite itself shows the rows before the cut and reports nothing."""
    crashed, restored = tmp_path / "crashed", tmp_path / "restored"
    with opened(crashed) as store, closing(store.create("/work", profile="default")) as log:
        for _ in range(20):
            put(log, *words(10))
            await log.committed()
        session = log.session
        shutil.copytree(crashed, restored)  # what a crash at this moment would leave
    (restored / "sessions.db-shm").unlink()
    with opened(restored) as store:
        store.open(session).close()
    shutil.rmtree(restored)

    with opened(crashed) as store, closing(store.open(session)) as log:
        for _ in range(20):
            put(log, *words(10))
            await log.committed()
        shutil.copytree(crashed, restored)
    (restored / "sessions.db-shm").unlink()
    wal = restored / "sessions.db-wal"
    with wal.open("r+b") as file:
        file.truncate(wal.stat().st_size // 2)
    with (
        opened(restored) as store,
        pytest.raises(StoreError, match="events are missing at the end") as caught,
    ):
        store.open(session)
    assert caught.value.reason == "LogDamaged"


@pytest.mark.parametrize("page", [35, 40, 45])  # all of them hold events
def test_a_flipped_byte_on_disk_is_an_error_and_never_a_wrong_event(tmp_path, page) -> None:
    session = filled(tmp_path, words(500))
    path = tmp_path / "sessions.db"
    content = bytearray(path.read_bytes())
    content[4096 * page + 2000] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError), opened(tmp_path) as store, closing(store.open(session)) as log:
        log.verify()


def test_an_event_whose_content_cannot_be_decoded_is_named(tmp_path) -> None:
    session = filled(tmp_path, words(3))
    with closing(raw(tmp_path)) as connection:
        connection.execute("update events set payload = x'31' where id = 2")
    with opened(tmp_path) as store, pytest.raises(StoreError, match="event 2: its content cannot be read"):
        list(store.events(session))


def test_custom_events_keep_their_payload(store, log) -> None:
    put(log, CustomEvent(namespace="acme", name="ping", payload={"n": 1}))
    log.verify()
    [found] = store.events(log.session)
    assert found == Envelope(
        id=1,
        kind="CustomEvent",
        session=log.session,
        originator=CLIENT,
        ts_ms=START_MS + 1,
        event=CustomEvent(namespace="acme", name="ping", payload={"n": 1}),
    )
