"""What undo has stored and not yet named is not taken away by another Bridle that clears up meanwhile."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from pathlib import Path

import pytest

from bridle.engine.undo_records import NEVER_THE_SAME
from bridle.sessions.archive import retention
from bridle.sessions.log import undo_store
from bridle.undo.file_tree import BATCH_BYTES, Keeping, Look, WatchedFolders, signature_of
from bridle.undo.keeper import Keeper
from sessions.session_kit import new_store, python, raw
from undo.undo_kit import Workshop, any_cache, workshop

SWEEP = """
from pathlib import Path
from contextlib import closing
from bridle.sessions.archive.retention import collect
from sessions.session_kit import new_store
with closing(new_store(Path(sys.argv[1]))) as store:
    collect(store.shelf)
"""


def sweep_elsewhere(data: Path) -> None:
    """Another process drops the contents that nobody names."""
    process = python(SWEEP, str(data))
    out, problems = process.communicate(timeout=60)
    assert (process.returncode, out, problems) == (0, "", "")


def stored(data: Path) -> int:
    with closing(raw(data)) as connection:
        (count,) = connection.execute("select count(*) from undo_contents").fetchone()
        return count


def test_what_an_undo_will_overwrite_is_kept_while_a_person_thinks(tmp_path: Path):
    data = tmp_path / "data"
    with workshop(data, tmp_path / "work") as shop:
        file = shop.folder / "a"
        shop.call(lambda: file.write_text("the model's"))
        file.write_text("a person's")
        plan = shop.plan()
        assert plan is not None
        sweep_elsewhere(data)
        shop.apply(plan, overwrite=(str(file),))
        assert not file.exists()
        shop.redo_last()
        assert file.read_text() == "a person's"


def test_parts_of_a_large_workspace_are_kept_until_the_call_is_stored(tmp_path: Path):
    data = tmp_path / "data"
    with workshop(data, tmp_path / "work") as shop:
        for name in ("a", "b"):
            (shop.folder / name).write_text(name * (BATCH_BYTES // 2))

        async def look() -> dict[bytes, bytes]:
            keep = Keeping(shop.log.undo_store(), shop.keeper._clock.now_ms())
            await asyncio.to_thread(shop.ground.around, Look(), keep, first=True)
            return keep.rest()

        assert not asyncio.run(look())
        sweep_elsewhere(data)
        assert stored(data) == 2


class Interrupted(WatchedFolders, frozen=True, kw_only=True):
    """A look during which somebody deletes another session, once."""

    data: str
    session: str

    def around(self, known, keep, *, first=False):
        with closing(new_store(Path(self.data))) as store:
            if found := [row for row in store.list() if row.id == self.session]:
                assert retention.delete(store.shelf, found[0].id, found[0].log_key, found[0].log)
                assert stored(Path(self.data)) == 0
        return super().around(known, keep, first=first)


def test_a_tree_known_from_a_session_that_goes_meanwhile_is_read_again(tmp_path: Path):
    data, work = tmp_path / "data", tmp_path / "work"
    with workshop(data, work) as shop:
        (work / "a").write_text("before")
        while signature_of((work / "a").lstat(), time.time_ns()) == NEVER_THE_SAME:
            pass  # some milliseconds, until it is old enough to be known without being read
        shop.call(lambda: None)
        earlier = shop.log.session
    with workshop(data, work) as shop:
        ground = Interrupted(
            roots=(str(work),), kept_objects=str(data / "kept"), data=str(data), session=earlier
        )
        store = shop.log.undo_store()
        assert [Path(path).name for path in shop.known()] == ["a"]
        clock = shop.keeper._clock
        shop.keeper = Keeper(store, ground=ground, turn=lambda: 1, clock=clock, trees=any_cache())
        shop.call(lambda: (work / "a").write_text("after"))
        shop.undo_last()
        assert (work / "a").read_text() == "before"


@pytest.mark.parametrize("gone", ["a day", "the session"])
def test_a_content_nobody_came_to_name_goes_in_the_end(tmp_path: Path, gone: str):
    data = tmp_path / "data"
    with workshop(data, tmp_path / "work") as shop:
        _leave_unnamed(shop)
        session, key, log_id = shop.log.session, shop.log._name.key, shop.log.log
    assert stored(data) == 1
    with closing(new_store(data)) as store:
        if gone == "the session":
            assert retention.delete(store.shelf, session, key, log_id)
        else:
            later_ms = store.shelf.clock.now_ms() + retention.DAY_MS + 1
            store.shelf.writer.run(lambda connection: undo_store.sweep_contents(connection, later_ms))
    assert stored(data) == 0


def _leave_unnamed(shop: Workshop) -> None:
    now_ms = shop.keeper._clock.now_ms()
    asyncio.run(shop.log.undo_store().keep({b"\1" * 32: b"content"}, now_ms))
