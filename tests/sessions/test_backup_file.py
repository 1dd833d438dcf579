"""A backup that somebody else made: nothing in it is obeyed, and what is no backup is one sentence."""

from contextlib import aclosing
from pathlib import Path

import apsw
import pytest

from bridle.conformance.store_checks import _told as told
from bridle.protocol.errors import UsageError
from bridle.sessions.archive.backup import is_backup
from bridle.sessions.memory_store import MemoryStore
from bridle.sessions.sqlite_store import SqliteStore
from sessions.session_kit import opened

SECRET = "ghp" + "_" + "a1B2" * 9
HOSTILE = f"a\n\x1b[2J {SECRET} " + "b" * 10_000


async def backed_up(folder: Path, *changes: str) -> str:
    """A backup of another store, changed by somebody who has its key and undid what its tables hold to."""
    path = folder / "kept"
    with opened(folder / "elsewhere") as store:
        await told(SqliteStore(store), "first words")
        await SqliteStore(store).back_up(str(path))
    key = Path(f"{path}.key").read_text()
    for statements in (("pragma writable_schema = 1", UNSTRICT), changes):
        connection = apsw.Connection(str(path))
        connection.pragma("cipher", "aegis")
        connection.pragma("key", f"raw:{key.strip()}")
        for statement in statements:
            connection.execute(statement, {"title": HOSTILE} if ":title" in statement else ())
        connection.close()
    return str(path)


UNSTRICT = "update sqlite_schema set sql = replace(replace(sql, ') strict,', ') '), ') strict', ')')"


async def test_a_backup_is_known_whatever_its_first_byte_is(tmp_path: Path) -> None:
    """It is random: one backup in 256 began as an export does."""
    path = Path(await backed_up(tmp_path))
    data = path.read_bytes()
    assert is_backup(str(path))
    path.write_bytes(b"{" + data[1:])
    assert is_backup(str(path))
    path.write_bytes(b'{"kind":"SessionCreated","id":1}\n')
    assert not is_backup(str(path))


async def test_the_title_of_a_session_from_elsewhere_is_one_line_without_secrets(tmp_path: Path) -> None:
    path = await backed_up(tmp_path, "update sessions set title = :title")
    with opened(tmp_path / "here") as store:
        (made,) = (await SqliteStore(store).restore(path, cwd="/new")).sessions
        title = store.find(made).title
    assert SECRET not in title
    assert "\n" not in title
    assert len(title) <= 200


@pytest.mark.parametrize(
    "change", ["update sessions set title = x'ff00'", "update events set payload = 'text'"]
)
async def test_a_backup_with_other_values_than_ours_is_refused_whole(tmp_path: Path, change: str) -> None:
    path = await backed_up(tmp_path, change)
    with opened(tmp_path / "here") as store:
        with pytest.raises(UsageError, match="is no backup of ours"):
            await SqliteStore(store).restore(path, cwd="/new")
        assert store.list() == []


async def test_a_backup_of_a_store_in_memory_opens_after_that_store_is_gone(tmp_path: Path) -> None:
    path = str(tmp_path / "kept")
    async with aclosing(MemoryStore()) as elsewhere:
        session = await told(elsewhere, "first words")
        await elsewhere.back_up(path)
    async with aclosing(MemoryStore()) as here:
        (made,) = (await here.restore(path, cwd="/new")).sessions
        assert (await here.find(session)).id == made
        assert len([event async for event in here.events(made)]) == 9
