"""The folder of a `MemoryStore`: private, without its key, and gone with the store."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

from bridle.conformance.store_checks import _told as told
from bridle.sessions.memory_store import MemoryStore

HELD = """
import asyncio, time
from bridle.conformance.store_checks import _told
from bridle.sessions.memory_store import MemoryStore
store = MemoryStore()
asyncio.run(_told(store, "first words"))
print(store.database.shelf.folder, flush=True)
time.sleep(60)
"""


def folder_of(store: MemoryStore) -> Path:
    return Path(store.database.shelf.folder)


async def test_the_folder_is_private_has_no_key_and_goes_with_the_store() -> None:
    async with aclosing(MemoryStore()) as store:
        folder, secret = folder_of(store), "first words"
        assert folder.stat().st_mode & 0o777 == 0o700
        await told(store, secret)
        key = store.database.shelf.database.data_key()
        found = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        assert len(key) == 64
        for text in (key.encode(), bytes.fromhex(key), secret.encode()):
            assert text not in found
    assert not folder.exists()


async def test_closing_a_store_beside_it_leaves_the_sessions() -> None:
    async with aclosing(MemoryStore()) as store:
        async with aclosing(store.beside()) as beside:
            session = await told(beside, "first words")
        assert (await store.find("first words")).id == session


def test_the_folder_goes_where_an_exception_skips_the_close() -> None:
    def failing() -> Path:
        store = MemoryStore()
        return folder_of(store)

    folder = failing()
    gc.collect()
    assert not folder.exists()


async def test_a_forked_child_leaves_the_folder_to_its_parent() -> None:
    async with aclosing(MemoryStore()) as store:
        if (child := os.fork()) == 0:
            store._scratch.remove()  # as at the end of a process
            os._exit(0)
        os.waitpid(child, 0)
        assert folder_of(store).exists()
        await told(store, "first words")


def test_the_next_store_removes_the_folder_of_a_killed_process_and_no_other() -> None:
    with subprocess.Popen([sys.executable, "-c", HELD], stdout=subprocess.PIPE, text=True) as held:
        assert held.stdout is not None
        folder = Path(held.stdout.readline().strip())
        try:
            asyncio.run(MemoryStore().aclose())
            assert folder.exists(), "its owner lives"
        finally:
            os.kill(held.pid, signal.SIGKILL)
    assert folder.exists()
    asyncio.run(MemoryStore().aclose())
    assert not folder.exists()
