"""In a project with many folders a look takes long: a thread takes it, nobody else waits, and nothing gets by."""

import asyncio
import errno
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridle.base.processes import Processes
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox import lookout
from bridle.sandbox.bubblewrap import Bubblewrap
from bridle.sandbox.confinement import HostContext
from bridle.sandbox.lookout import FolderLook, Lookout
from bridle.sandbox.plain_spawn import ConfinedProcess
from bridle.sandbox.sandbox_spawn import SandboxSpawn

pytestmark = [
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(os.uname().sysname != "Linux", reason="bubblewrap needs Linux"),
]


class Box:
    def __init__(self, base: Path, processes: Processes) -> None:
        self.workspace = base / "ws"
        self._home = base / "home"
        for folder in (self.workspace / "pkg", self._home, base / "tmp"):
            folder.mkdir(parents=True)
        place = HostContext(home=str(self._home), temporary=(str(base / "tmp"),))
        self.spawn = SandboxSpawn(processes, place=lambda: place, choose=_bubblewrap)
        self.obeyed = self.workspace / "pkg" / "AGENTS.md"
        self.aside = self.workspace / "pkg" / "AGENTS.md.put-aside-1"

    async def start(self, script: str) -> ConfinedProcess:
        return await self.spawn(
            ["/bin/sh", "-c", script],
            cwd=str(self.workspace),
            env={"PATH": "/usr/bin:/bin", "HOME": str(self._home)},
            policy=SpawnPolicy(mode="workspace-write", workspace=str(self.workspace)),
            call_id="call_1",
            on_output=lambda _chunk: None,
        )

    async def run(self, script: str) -> int:
        return await (await self.start(script)).wait()


async def _bubblewrap() -> Bubblewrap:
    return Bubblewrap(shutil.which("bwrap") or "bwrap")


@pytest.fixture
async def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lookout, "LONG_LOOK", -1)
    processes = Processes()
    try:
        yield Box(Path(os.path.realpath(tmp_path)), processes)
    finally:
        await processes.close()


class Paused:
    """Looks of one kind that wait, in their thread, until they are let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        self._look: Callable[..., FolderLook] = getattr(Lookout, kind)
        self._loop = asyncio.get_running_loop()
        self.began = asyncio.Event()
        self.go_on = threading.Event()
        self.once = False
        monkeypatch.setattr(Lookout, kind, lambda seen, *held: self._pause(seen, *held))

    def _pause(self, seen: Lookout, *held: object) -> FolderLook:
        if not self.once:
            self.once = True
            self._loop.call_soon_threadsafe(self.began.set)
            assert self.go_on.wait(10)
        return self._look(seen, *held)


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Paused]]:
    made: list[Paused] = []

    def pause(kind: str) -> Paused:
        made.append(Paused(monkeypatch, kind))
        return made[-1]

    yield pause
    for one in made:
        one.go_on.set()


def _children() -> list[int]:
    listed = (file.read_text() for file in Path("/proc/self/task").glob("*/children"))
    return [int(pid) for text in listed for pid in text.split()]


@pytest.mark.parametrize("kind", ["before", "after"])
async def test_nobody_else_waits_for_it(box: Box, paused: Callable[[str], Paused], kind: str) -> None:
    look = paused(kind)
    running = asyncio.create_task(box.run("echo x > pkg/AGENTS.md; echo y > plain"))
    await look.began.wait()  # which is heard here while it looks
    assert (box.workspace / "plain").exists() == (kind == "after")
    look.go_on.set()
    assert await running == 0
    assert (box.obeyed.exists(), box.aside.exists()) == (False, True)


async def test_what_a_command_made_is_put_aside_though_nobody_can_wait_for_the_look(
    box: Box, paused: Callable[[str], Paused]
) -> None:
    look = paused("after")
    process = await box.start("echo x > pkg/AGENTS.md")
    await look.began.wait()
    assert box.obeyed.exists()
    box.spawn.close()
    assert (box.obeyed.exists(), box.aside.exists()) == (False, True)
    look.go_on.set()
    assert await process.wait() == 0
    assert len(list((box.workspace / "pkg").iterdir())) == 1


async def test_another_command_takes_nothing_for_granted_meanwhile(
    box: Box, paused: Callable[[str], Paused]
) -> None:
    look = paused("after")
    first = await box.start("echo x > pkg/AGENTS.md")
    await look.began.wait()
    assert await box.run("echo y > plain") == 0
    look.go_on.set()
    assert await first.wait() == 0
    assert (box.obeyed.exists(), box.aside.exists()) == (False, True)
    assert await box.run("echo x > pkg/AGENTS.md") == 0
    assert not box.obeyed.exists()


async def test_one_that_began_while_another_looked_takes_nothing_for_granted(
    box: Box, paused: Callable[[str], Paused]
) -> None:
    os.mkfifo(box.workspace / "pkg" / "pipe")
    look = paused("before")
    second = asyncio.create_task(box.run("echo y > plain"))
    await look.began.wait()
    first = await box.start("echo x > pkg/AGENTS.md; read forever < pkg/pipe")
    look.go_on.set()
    assert await second == 0
    await first.stop()
    assert not box.obeyed.exists()


async def test_a_start_that_is_cancelled_while_it_looks_is_forgotten(
    box: Box, paused: Callable[[str], Paused]
) -> None:
    look = paused("before")
    starting = asyncio.create_task(box.start("echo y > plain"))
    await look.began.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    look.go_on.set()
    box.obeyed.write_text("by a person")
    assert await box.run("echo y > other") == 0
    assert box.obeyed.read_text() == "by a person"
    assert not (box.workspace / "plain").exists()


async def test_a_sandbox_that_is_killed_while_it_looks_is_forgotten(
    box: Box, paused: Callable[[str], Paused]
) -> None:
    look = paused("before")
    starting = asyncio.create_task(box.run("echo y > plain"))
    await look.began.wait()
    (bubblewrap,) = [pid for pid in _children() if b"bwrap" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(bubblewrap, signal.SIGKILL)
    look.go_on.set()
    assert await starting in {0, -signal.SIGKILL}  # tried again, or killed by then
    box.obeyed.write_text("by a person")
    assert await box.run("echo y > other") == 0
    assert box.obeyed.read_text() == "by a person"


async def test_where_there_is_no_room_for_a_thread_it_is_done_all_the_same(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(box.workspace / "pkg" / "pipe")
    process = await box.start("read go < pkg/pipe; echo x > pkg/AGENTS.md")
    with monkeypatch.context() as full:
        full.setattr("bridle.base.threads.start_thread", _no_room)
        async with asyncio.timeout(10):
            await asyncio.to_thread(_write, box)
            assert await process.wait() == 0
    assert (box.obeyed.exists(), box.aside.exists()) == (False, True)


def _write(box: Box) -> None:
    (box.workspace / "pkg" / "pipe").write_text("go\n")


def _no_room(*_words: object) -> None:
    raise BlockingIOError(errno.EAGAIN, "no more threads")
