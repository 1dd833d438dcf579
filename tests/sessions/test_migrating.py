"""A database that an older Bridle made: opened, brought up to date, and everything in it is still there."""

import shutil
import subprocess
import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from bridle.protocol import events as e
from bridle.protocol.errors import StoreError
from bridle.protocol.messages import TextBlock
from bridle.sessions.archive.stored_archive import branch, search
from bridle.sessions.log.migrations import MIGRATIONS
from sessions.session_kit import new_store, opened, put, raw

OLD = Path(__file__).parent / "old" / "schema-1.db"


@pytest.fixture
def old(tmp_path) -> Path:
    """A folder with the file as the first schema had it: two sessions, one with two turns, a title and an alias."""
    shutil.copy(OLD, tmp_path / "sessions.db")
    key = tmp_path / "sessions.key"
    key.write_text(sha256(b"the key of an old database").hexdigest() + "\n")
    key.chmod(0o600)
    return tmp_path


def test_an_old_database_is_brought_up_to_date_with_everything_in_it(old) -> None:
    notices: list[str] = []
    with closing(new_store(old, notices)) as store:
        row = store.find("nightly")
        assert (row.title, row.renamed, row.turns, row.stop, row.model) == (
            "cent rounding",
            True,
            2,
            "end_turn",
            "work:small",
        )
        assert (row.usd, row.branch_of, row.imported_ms, row.expired_ms, row.headless) == (
            0.75,
            None,
            None,
            None,
            False,
        )
        assert len(list(store.events(row.id))) == 18
        store.verify(row.id)
        assert notices == ["Database is upgrading…"]
    with closing(raw(old)) as connection:
        versions = [version for (version,) in connection.execute("select version from schema_migrations")]
        assert versions == list(range(1, len(MIGRATIONS) + 1))


def test_what_came_later_works_on_old_sessions(old) -> None:
    with opened(old) as store:
        assert [hit.turn for hit in search(store.shelf, "whole cents", limit=5)] == [1]
        made = store.find(branch(store.shelf, store.find("nightly"), turn=1))
        store.verify(made.id)
        assert (made.usd, made.turns) == (0.25, 1)
        log = store.open(store.find("nightly").id)
        put(log, e.InputAccepted(content=(TextBlock(text="and on it goes"),)))
        log.close()
        store.verify(log.session)


def test_a_database_is_only_upgraded_once(old) -> None:
    for expected in (["Database is upgrading…"], []):
        notices: list[str] = []
        with closing(new_store(old, notices)) as store:
            assert len(store.list()) == 2
        assert notices == expected


def test_a_database_that_an_engine_holds_is_not_upgraded(old) -> None:
    """It is one of another version: one of this version would have upgraded it itself."""
    holding = "import fcntl, json, os, sys\nfile = open(sys.argv[1], 'w')\nfcntl.flock(file, fcntl.LOCK_EX)\n"
    holding += "print(json.dumps({'pid': os.getpid()}), file=file, flush=True)\nprint(flush=True)\nsys.stdin.read()\n"
    words = [sys.executable, "-c", holding, str(old / "engine.lock")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        engine.stdout.readline()
        notices: list[str] = []
        with closing(new_store(old, notices)) as store, pytest.raises(StoreError) as refused:
            store.list()
        engine.kill()
    assert (refused.value.reason, refused.value.data["pid"]) == ("StoreHeld", engine.pid)
    assert notices == []
    with closing(raw(old)) as connection:
        assert connection.execute("select max(version) from schema_migrations").fetchall() == [(1,)]
    with closing(new_store(old, notices)) as store:
        assert len(store.list()) == 2


RELEASED = (
    "059107d780072574",
    "2d6f915e8228a16f",
    "9bea0eb356172253",
    "b78befba7069569b",
    "3adacd00c5c1501f",
    "10af34a06c612095",
)
"""How the digests of the steps begin that databases in the world were made with."""


def test_no_released_step_is_edited_not_even_its_comments_for_then_no_database_would_open() -> None:
    digests = [sha256(step.encode()).hexdigest()[:16] for step in MIGRATIONS[: len(RELEASED)]]
    assert digests == list(RELEASED)
