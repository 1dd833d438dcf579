"""Making, finding and opening sessions; the database file, its key and its schema; rival processes."""

import os
import stat
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest

from bridle.base.ids import LOG, SESS, is_id
from bridle.protocol.errors import CommandRefused, StoreError
from bridle.protocol.events import InputAccepted, TextDelta
from bridle.protocol.messages import TextBlock
from bridle.sessions.log.database import Database
from bridle.sessions.log.migrations import MIGRATIONS
from sessions.session_kit import envelope, filled, new_store, opened, put, python, raw, words


@pytest.fixture
def store(tmp_path: Path):
    with closing(new_store(tmp_path / "home")) as made:
        yield made


def created(store, cwd="/code", said="", **options):
    log = store.create(cwd, profile="default", **options)
    if said:
        put(log, InputAccepted(content=(TextBlock(text=said),)))
    log.close()
    return log.session


# Making and listing


@pytest.mark.requirement("G5.1", "G5.2")
def test_a_new_session_is_listed_with_all_that_is_known(store) -> None:
    log = store.create("/code/part", profile="careful", root="/code")
    [row] = store.list()
    assert (row.id, row.log) == (log.session, log.log)
    assert is_id(row.id, SESS)
    assert is_id(row.log, LOG)
    assert (row.cwd, row.root, row.profile, row.title) == ("/code/part", "/code", "careful", "")
    assert (row.labels, row.pinned, row.model, row.turns, row.stop) == ((), False, None, 0, None)
    assert row.created_ms == row.updated_ms
    log.close()


def test_looking_where_nothing_is_makes_nothing(store, tmp_path) -> None:
    assert store.list() == []
    for look in (lambda: store.find("x"), lambda: store.open("sess_x"), lambda: store.newest("/code")):
        with pytest.raises(CommandRefused):
            look()
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_the_session_used_last_comes_first(store) -> None:
    first, second, third = (created(store, cwd) for cwd in ("/a", "/b", "/a"))
    assert [row.id for row in store.list()] == [third, second, first]
    assert [row.id for row in store.list(cwd="/a")] == [third, first]
    with closing(store.open(first)) as log:
        said = InputAccepted(content=(TextBlock(text="hi"),))
        log.append(envelope(log, said, ts_ms=store.list()[0].updated_ms + 1000), b'{"content":[]}')
    assert [row.id for row in store.list()] == [first, third, second]
    assert store.newest("/a").id == first
    with pytest.raises(CommandRefused, match="no session to continue in /c"):
        store.newest("/c")


def test_a_person_names_a_session_for_good(store) -> None:
    session = created(store, said="the first words")
    store.rename(session, "release work")
    with closing(store.open(session)) as log:
        put(log, InputAccepted(content=(TextBlock(text="more words"),)))
    assert store.find("release work").title == "release work"
    with pytest.raises(CommandRefused, match="no session"):
        store.rename("sess_nobody", "x")


# Finding


def test_a_session_is_found_by_id_prefix_alias_and_title(store) -> None:
    session = created(store, said="fix the tests", aliases=("acp:1", "nightly"))
    created(store, said="something else")
    other = store.list()[0].id
    same = next(
        index for index, (ours, theirs) in enumerate(zip(session, other, strict=True)) if ours != theirs
    )
    shared, unique = session[:same], session[: same + 1]
    for text in (
        session,
        unique,
        unique[len("sess_") :],
        unique.lower(),
        "acp:1",
        "nightly",
        "fix the tests",
    ):
        assert store.find(text).id == session
    for text in ("", "nobody", "sess_", "fix the", "sess_%"):
        with pytest.raises(CommandRefused) as refused:
            store.find(text)
        assert refused.value.reason == "UnknownSession"
    with pytest.raises(CommandRefused, match="fits more than one session") as refused:
        store.find(shared)
    assert refused.value.reason == "AmbiguousSession"
    assert session in refused.value.data["matches"]


def test_no_title_stands_for_the_beginning_of_another_sessions_id(store) -> None:
    """Whoever can say the first words of a session gives it its title."""
    meant = created(store, said="deploy")
    beginning = meant.removeprefix("sess_")[:-1]
    created(store, said=beginning)
    with pytest.raises(CommandRefused) as refused:
        store.find(beginning)
    assert refused.value.reason == "AmbiguousSession"
    assert meant in refused.value.data["matches"]


def test_the_folder_decides_between_equal_titles(store) -> None:
    here, there = created(store, "/here", "fix it"), created(store, "/there", "fix it")
    assert store.find("fix it", cwd="/here").id == here
    assert store.find("fix it", cwd="/there").id == there
    with pytest.raises(CommandRefused, match="fits more than one"):
        store.find("fix it", cwd="/elsewhere")


def test_an_alias_moves_to_the_session_that_takes_it(store) -> None:
    created(store, aliases=("job",))
    second = created(store, aliases=("job",))
    assert store.find("job").id == second


# The run lock


@pytest.mark.requirement("T18.12", "P16")
def test_a_session_has_one_writer(store) -> None:
    log = store.create("/code", profile="default")
    with pytest.raises(CommandRefused) as refused:
        store.open(log.session)
    assert refused.value.reason == "SessionBusy"
    assert refused.value.data["pid"] == os.getpid()
    log.close()
    store.open(log.session).close()


HOLD = """
from pathlib import Path
from sessions.session_kit import *
store = new_store(Path(sys.argv[1]))
log = store.open(sys.argv[2])
print("holding", flush=True)
sys.stdin.read()
"""


@pytest.mark.requirement("T18.12", "P16")
def test_a_session_open_in_another_process_is_busy_until_that_dies(tmp_path) -> None:
    session = filled(tmp_path, words(2))
    holder = python(HOLD, str(tmp_path), session)
    with opened(tmp_path) as store:
        assert holder.stdout.readline() == "holding\n"
        with pytest.raises(CommandRefused, match=f"process {holder.pid}, since 20") as refused:
            store.open(session)
        assert refused.value.reason == "SessionBusy"
        assert [found.id for found in store.events(session)] == [1, 2]
        holder.kill()
        holder.communicate()
        store.open(session).close()


# Rival and dying processes

APPEND = """
import asyncio
from pathlib import Path
from sessions.session_kit import *

async def main():
    store = new_store(Path(sys.argv[1]))
    sys.stdin.readline()
    for _ in range(3):
        log = store.create("/code", profile="default")
        for _ in range(10):
            put(log, *words(10), TextDelta(text="same " * 1000))
            await log.committed()
        log.verify()
        log.close()
        print(log.session, log.last_id)
    store.close()

asyncio.run(main())
"""


def test_ten_processes_that_start_at_once_lose_nothing(tmp_path) -> None:
    home = tmp_path / "home"
    rivals = [python(APPEND, str(home)) for _ in range(10)]
    for rival in rivals:
        rival.stdin.write("go\n")
        rival.stdin.flush()
    answers = [rival.communicate(timeout=50) for rival in rivals]
    assert [error for _, error in answers] == [""] * 10
    made = dict(line.split() for out, _ in answers for line in out.splitlines())
    assert len(made) == 30
    with opened(home) as store:
        assert {row.id for row in store.list()} == set(made)
        for session in made:
            with closing(store.open(session)) as log:
                assert log.last_id == 110
                log.verify()


APPEND_FOREVER = """
import asyncio
from pathlib import Path
from sessions.session_kit import *

async def main():
    store = new_store(Path(sys.argv[1]))
    log = store.create("/code", profile="default")
    print(log.session, flush=True)
    while True:
        put(log, *words(7))
        await log.committed()
        print(log.last_id, flush=True)
        put(log, *words(20))

asyncio.run(main())
"""


@pytest.mark.parametrize("lines", [2, 40, 300])
def test_what_was_reported_as_committed_survives_a_kill(tmp_path, lines) -> None:
    victim = python(APPEND_FOREVER, str(tmp_path))
    session = victim.stdout.readline().strip()
    for _ in range(lines):
        victim.stdout.readline()
    victim.kill()
    rest, _ = victim.communicate()
    reported = [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    with opened(tmp_path) as store, closing(store.open(session)) as log:
        assert log.last_id >= max(reported, default=7 + 27 * (lines - 1))
        log.verify()
        put(log, TextDelta(text="onwards"))
        log.verify()


# The file, its key, its schema


@pytest.mark.requirement("G33.1", "P7")
def test_no_word_of_a_session_can_be_read_from_the_disk(tmp_path) -> None:
    home = tmp_path / "home"
    with opened(home) as store:
        log = store.create("/secret-folder", profile="default", aliases=("secret-alias",))
        put(log, InputAccepted(content=(TextBlock(text="MARKER"),)), TextDelta(text="MARKER" * 2000))
        log.verify()
        files = [path for path in home.rglob("*") if path.is_file()]
        assert {"sessions.db", "sessions.db-wal", "sessions.key", log.log} <= {path.name for path in files}
        for path in files:
            content = path.read_bytes()
            assert not any(word in content for word in (b"MARKER", b"secret", b"TextDelta", b"SQLite format"))
        log.close()


def test_files_belong_to_their_owner_alone(tmp_path) -> None:
    home = tmp_path / "home"
    before = os.umask(0)
    try:
        with opened(home) as store, closing(store.create("/code", profile="default")) as log:
            put(log, *words(3))
            log.verify()
            found = {path: stat.S_IMODE(path.stat().st_mode) for path in [home, *home.rglob("*")]}
    finally:
        os.umask(before)
    assert {mode for path, mode in found.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in found.items() if path.is_file()} == {0o600}


def test_another_key_opens_nothing(tmp_path) -> None:
    filled(tmp_path, words(1))
    (tmp_path / "sessions.key").write_text("0" * 64)
    with opened(tmp_path) as store, pytest.raises(StoreError) as error:
        store.list()
    assert error.value.reason == "StoreWrongKey"


@pytest.mark.parametrize("content", [b"", b"short", b"Z" * 64, b"0" * 63, b"0" * 65, b"0" * 64 + b"\n\n"])
def test_a_malformed_key_is_refused_and_kept(tmp_path, content) -> None:
    filled(tmp_path, words(1))
    key = tmp_path / "sessions.key"
    key.write_bytes(content)
    with opened(tmp_path) as store:
        for use in (store.list, lambda: store.create("/code", profile="default")):
            with pytest.raises(StoreError) as error:
                use()
            assert error.value.reason == "StoreBadKey"
    assert key.read_bytes() == content


def test_a_database_without_its_key_gets_no_new_one(tmp_path) -> None:
    filled(tmp_path, words(1))
    (tmp_path / "sessions.key").unlink()
    with opened(tmp_path) as store, pytest.raises(StoreError) as error:
        store.create("/code", profile="default")
    assert error.value.reason == "StoreBadKey"
    assert not (tmp_path / "sessions.key").exists()


def test_a_key_others_can_read_is_mentioned(tmp_path) -> None:
    filled(tmp_path, words(1))
    (tmp_path / "sessions.key").chmod(0o644)
    notices: list[str] = []
    with closing(new_store(tmp_path, notices)) as store:
        store.list()
        store.create("/code", profile="default").close()
    assert [notice.split(". ")[1].split(":")[0] for notice in notices] == ["Make it yours alone"]


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path) -> None:
    filled(tmp_path, words(1))
    (tmp_path / "sessions.db").write_bytes(b"not a database " * 1000)
    with opened(tmp_path) as store, pytest.raises(StoreError):
        store.create("/code", profile="default")
    assert (tmp_path / "sessions.db").read_bytes() == b"not a database " * 1000


def test_a_place_that_cannot_be_written_is_named(tmp_path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with opened(blocked / "home") as store, pytest.raises(StoreError) as error:
        store.create("/code", profile="default")
    assert error.value.reason == "StoreUnwritable"
    assert str(blocked) in error.value.message


CREATE_AS_NOBODY = """
import os
from pathlib import Path
from sessions.session_kit import *
from bridle.protocol.errors import StoreError
import bridle.sessions.store
if os.geteuid() == 0:
    os.setuid(65534)  # root may write everywhere
try:
    new_store(Path(sys.argv[1])).create("/code", profile="default")
except StoreError as error:
    print(error.reason, error.message)
"""


def test_a_read_only_folder_is_named() -> None:
    with TemporaryDirectory() as home:  # not tmp_path, which only its owner can enter
        os.chmod(home, 0o555)
        out, err = python(CREATE_AS_NOBODY, home).communicate(timeout=50)
        assert os.listdir(home) == []
    assert err == ""
    assert out.startswith(f"StoreUnwritable Cannot write {home}")
    assert "Permission denied" in out


@pytest.mark.requirement("G31.3")
def test_a_newer_database_is_refused(tmp_path) -> None:
    session = filled(tmp_path, words(1))
    with closing(raw(tmp_path)) as connection:
        connection.execute("insert into schema_migrations values(99, 0, 'x')")
    with opened(tmp_path) as store:
        with pytest.raises(StoreError, match=f"schema 99, this one knows {len(MIGRATIONS)}") as error:
            store.open(session)
        assert error.value.reason == "StoreNewer"


@pytest.mark.requirement("G31.3", "G31.4")
def test_an_older_database_is_upgraded_once_and_says_so(tmp_path) -> None:
    filled(tmp_path, words(1))
    notices: list[str] = []
    step = "alter table sessions add column note text"
    newer = Database(str(tmp_path), now_ms=lambda: 42, notice=notices.append, migrations=(*MIGRATIONS, step))
    for _ in range(2):
        with closing(newer.connect()) as connection:
            applied = connection.execute("select * from schema_migrations order by version").fetchall()
            assert applied[-1] == (len(MIGRATIONS) + 1, 42, sha256(step.encode()).hexdigest())
            assert connection.execute("select note, title from sessions").fetchall() == [(None, "")]
    assert notices == ["Database is upgrading…"]


@pytest.mark.requirement("G31.3")
def test_a_failed_upgrade_leaves_the_database_as_it_was(tmp_path) -> None:
    filled(tmp_path, words(1))
    steps = (*MIGRATIONS, "create table extra(a); create table extra(a)")
    broken = Database(str(tmp_path), now_ms=lambda: 42, notice=lambda text: None, migrations=steps)
    with pytest.raises(StoreError):
        broken.connect()
    with opened(tmp_path) as store:
        assert len(store.list()) == 1


def test_a_schema_step_that_was_edited_after_release_is_refused(tmp_path) -> None:
    filled(tmp_path, words(1))
    edited = (MIGRATIONS[0] + " ", *MIGRATIONS[1:])
    database = Database(str(tmp_path), now_ms=lambda: 42, notice=lambda text: None, migrations=edited)
    with pytest.raises(StoreError, match="schema 1 is not the one"):
        database.connect()


def test_leftovers_of_an_interrupted_creation_are_no_obstacle(tmp_path) -> None:
    (tmp_path / "sessions.db.new").write_bytes(b"half")
    (tmp_path / "sessions.db-wal").write_bytes(b"of an older life")
    filled(tmp_path, words(3))
    assert not (tmp_path / "sessions.db.new").exists()


def test_reading_on_from_an_id_is_one_scan_of_the_clustered_key(tmp_path) -> None:
    filled(tmp_path, words(1))
    with closing(raw(tmp_path)) as connection:
        plan = connection.execute(
            "explain query plan select * from events where log = 1 and id > 5 order by id limit 10"
        ).fetchall()
    assert [step[-1] for step in plan] == ["SEARCH events USING PRIMARY KEY (log=? AND id>?)"]


def test_the_reader_of_a_store_cannot_write(store) -> None:
    created(store)
    with pytest.raises(apsw.ReadOnlyError):
        store._reader().execute("delete from sessions")
