"""A process that stays while people work: nothing stands in their way, and what it must not make is put aside."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bare_machine import has_landlock
from bridle.base.duplex import DuplexProcess, open_duplex
from bridle.base.processes import Processes
from bridle.base.stand_ins import CLOCK_TICK_NS
from bridle.config.folders import folders, home_of
from bridle.engine.ports import SpawnPolicy
from bridle.protocol.events import Notice
from bridle.sandbox.bubblewrap import Bubblewrap
from bridle.sandbox.plain_spawn import find_program
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from bridle.sandbox.session_border import left_behind, this_place
from bridle.sandbox.unshare import programs
from bridle.sandbox.write_listener import can_listen
from sandbox import resident_scene
from sandbox.killed_scenes import adapter_named

OBEYS = 'while read -r line; do eval "$line"; echo done; done'
"""A server that does what it is told, line by line."""
SANDBOXES = [
    pytest.param(
        "bubblewrap",
        marks=pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    ),
    pytest.param("unshare", marks=pytest.mark.skipif(programs() is None, reason="no unshare and setpriv")),
    pytest.param("landlock", marks=pytest.mark.skipif(not has_landlock(), reason="no Landlock")),
]
pytestmark = pytest.mark.skipif(not can_listen(), reason="this kernel does not tell who writes")


class Resident:
    """A process that stays, what was said of it, and the look at what it made."""

    def __init__(self, process: DuplexProcess, look: Callable[[], None], notices: list[Notice]) -> None:
        self.process = process
        self.look = look
        self.notices = notices

    async def do(self, line: str) -> None:
        """Returns once it has done that, and before anybody looked."""
        await self.process.write(f"{line}\n".encode())
        assert await self.process.read() == b"done\n"

    async def called(self, line: str) -> None:
        """As a call of a server: it is looked after before and after."""
        self.look()
        await self.do(line)
        self.look()


class World:
    def __init__(self, root: Path, adapter: str) -> None:
        self.home, self.work = root / "home", root / "work"
        for folder in (self.home, self.work):
            folder.mkdir()
        self.env = {"PATH": os.defpath, "HOME": str(self.home)}
        self.where = folders(self.env)
        self.notes = f"{self.where.state}/cut-off"
        self.processes = Processes()
        self.adapter = adapter_named(adapter)

        async def choose():
            return self.adapter

        self.spawn = SandboxSpawn(
            self.processes,
            place=lambda: this_place(self.where, self.env, home=home_of(self.env)),
            choose=choose,
            notes=self.notes,
        )

    def policy(self, **more) -> SpawnPolicy:
        return SpawnPolicy(mode="workspace-write", workspace=str(self.work), **more)

    @asynccontextmanager
    async def resident(self, **more) -> AsyncGenerator[Resident]:
        notices: list[Notice] = []
        looks: list[Callable[[], None]] = []

        async def start(inlet, outlet):
            process = await self.spawn(
                ["/bin/sh", "-c", OBEYS],
                cwd=str(self.work),
                env=self.env,
                policy=self.policy(resident=True, **more),
                call_id="mcp:one",
                on_output=outlet,
                on_error=lambda _complaint: None,
                stdin=inlet,
            )
            looks.append(process.follow_put_aside(notices.append))
            return process

        process = await open_duplex(start)
        try:
            yield Resident(process, looks[0], notices)
        finally:
            await process.stop()

    async def command(self, line: str, **more) -> str:
        said: list[bytes] = []
        process = await self.spawn(
            ["/bin/sh", "-c", line],
            cwd=str(self.work),
            env=self.env,
            policy=self.policy(**more),
            call_id="call_1",
            on_output=said.append,  # type: ignore[arg-type]
        )
        await process.wait()
        await process.stop()
        return process.blocked(b"".join(said).decode())

    def names(self) -> set[str]:
        return set(os.listdir(self.work))


@pytest.fixture(params=SANDBOXES)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[World]:
    made = World(tmp_path, request.param)
    yield made
    await made.processes.close()


@pytest.fixture
async def bubble(tmp_path: Path) -> AsyncGenerator[World]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    made = World(tmp_path, "bubblewrap")
    yield made
    await made.processes.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


async def test_nothing_stands_in_the_workspace_while_it_runs(world: World) -> None:
    async with world.resident() as one:
        await one.do("true")
        assert world.names() == set()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("echo x > AGENTS.md", "AGENTS.md"),
        ("echo x > new; mv new AGENTS.md", "AGENTS.md"),
        ("mkdir .vscode; echo x > .vscode/tasks.json", ".vscode"),
        ("ln -s /etc/passwd .mcp.json", ".mcp.json"),
        ("mkdir -p src; echo x > src/AGENTS.md", "src/AGENTS.md"),
        ("git init -q .; git config core.fsmonitor ./x", ".git"),
        ("mkdir sub; git init -q sub; git -C sub config core.fsmonitor ./x", "sub/.git"),
    ],
)
async def test_what_it_makes_that_later_runs_obey_is_put_aside_after_the_call(
    world: World, line: str, name: str
) -> None:
    async with world.resident() as one:
        await one.called(line)
        assert not os.path.lexists(world.work / name), (one.notices, world.names())
        assert os.path.lexists(world.work / f"{name}.put-aside-1")
        assert len(one.notices) == 1, one.notices
        (notice,) = one.notices
    assert notice.reason == "PutAside"
    assert f"bridle sandbox give-back {name}.put-aside-1" in notice.message


async def test_what_it_makes_between_calls_is_put_aside_by_itself(world: World) -> None:
    async with world.resident() as one:
        await one.do("echo x > AGENTS.md")
        await until(lambda: bool(one.notices))
        assert world.names() == {"AGENTS.md.put-aside-1"}
        await one.do("mkdir -p a/b; echo x > a/b/CLAUDE.md")
        await until(lambda: len(one.notices) == 2)
        assert os.listdir(world.work / "a/b") == ["CLAUDE.md.put-aside-1"]


async def test_what_it_makes_just_before_its_end_is_put_aside(world: World) -> None:
    async with world.resident() as one:
        await one.process.write(b"echo x > AGENTS.md; exit\n")
        await one.process.wait()
    assert world.names() == {"AGENTS.md.put-aside-1"}


async def settled(world: World) -> None:
    """Nothing that was written is left to be looked for."""
    await until(lambda: not os.listdir(world.notes))


async def is_past(path: Path) -> None:
    """The clock of the kernel's files has moved on since it was written."""
    await until(lambda: time.time_ns() > path.lstat().st_ctime_ns + 2 * CLOCK_TICK_NS)


async def test_what_a_person_makes_while_it_runs_stays(world: World) -> None:
    (world.work / "src").mkdir()
    async with world.resident() as one:
        await one.called("echo x > plain")
        await settled(world)
        (world.work / "AGENTS.md").write_text("by hand")
        (world.work / "src/AGENTS.md").write_text("by hand")
        (world.work / ".vscode").mkdir()
        (world.work / ".vscode/tasks.json").write_text("{}")
        subprocess.run(["git", "init", "-q", str(world.work)], check=True, env=world.env)
        await is_past(world.work / ".git")
        await one.called("echo y > plain")
        await settled(world)
        await one.called("echo z > plain")
    assert one.notices == []
    assert world.names() == {"plain", "src", "AGENTS.md", ".vscode", ".git"}
    assert (world.work / "AGENTS.md").read_text() == "by hand"


async def test_what_it_makes_of_a_persons_new_file_is_put_aside_and_the_persons_text_is_back(
    world: World,
) -> None:
    async with world.resident() as one:
        await settled(world)
        (world.work / "AGENTS.md").write_text("by hand")
        await is_past(world.work / "AGENTS.md")
        await one.called("echo obey me > AGENTS.md")
    assert (world.work / "AGENTS.md").read_text() == "by hand"
    assert (world.work / "AGENTS.md.put-aside-1").read_text() == "obey me\n"


async def test_a_file_that_was_there_is_held_and_once_replaced_is_looked_after(bubble: World) -> None:
    agents = bubble.work / "AGENTS.md"
    agents.write_text("first")
    async with bubble.resident() as one:
        await one.called("echo obey me > AGENTS.md")
        assert agents.read_text() == "first", "it cannot be written"
        await settled(bubble)
        (bubble.work / "new").write_text("second")
        (bubble.work / "new").rename(agents)
        await is_past(agents)
        await one.called("echo obey me > AGENTS.md")
        assert agents.read_text() == "second"
        assert len(one.notices) == 1


async def test_what_our_own_tools_write_meanwhile_stays(world: World) -> None:
    paths = [str(world.work / "AGENTS.md"), str(world.work / ".vscode/tasks.json")]
    async with world.resident() as one:
        with world.spawn.changing(paths):
            (world.work / "AGENTS.md").write_text("by a tool")
            (world.work / ".vscode").mkdir()
            (world.work / ".vscode/tasks.json").write_text("{}")
            await one.called("echo x > plain")
        await one.called("echo y > plain")
    assert one.notices == []
    assert world.names() == {"AGENTS.md", ".vscode", "plain"}


async def test_a_command_beside_it_does_not_make_its_files_count_as_they_are(world: World) -> None:
    async with world.resident() as one:
        await one.do("mkdir src; echo x > src/AGENTS.md")
        await world.command("true")
        assert os.listdir(world.work / "src") == ["AGENTS.md.put-aside-1"]
        assert len(one.notices) == 1


async def test_a_look_at_it_does_not_make_a_commands_files_count_as_they_are(world: World) -> None:
    os.mkfifo(world.work / "go")
    async with world.resident() as one:
        await settled(world)
        running = asyncio.ensure_future(world.command("echo x > CLAUDE.md; echo > made; cat go"))
        await until((world.work / "made").exists)
        await is_past(world.work / "made")
        one.look()
        (world.work / "go").write_text("go")
        said = await running
    assert world.names() == {"CLAUDE.md.put-aside-1", "made", "go"}
    assert "CLAUDE.md was put aside" in said


async def test_two_of_them_are_told_apart_from_a_person_and_each_is_looked_after(world: World) -> None:
    async with world.resident() as one, world.resident() as two:
        await settled(world)
        (world.work / "AGENTS.md").write_text("by hand")
        await is_past(world.work / "AGENTS.md")
        one.look()
        await two.called("echo x > .mcp.json")
        assert (world.work / "AGENTS.md").read_text() == "by hand"
        assert world.names() == {"AGENTS.md", ".mcp.json.put-aside-1"}
        assert (len(one.notices), len(two.notices)) == (0, 1)


async def test_what_a_person_agreed_that_a_command_may_bring_stays(bubble: World) -> None:
    (bubble.work / "src").mkdir()
    agreed = str(bubble.work / "src/AGENTS.md")
    async with bubble.resident() as one:
        await one.do("echo x > plain")
        await bubble.command("echo agreed > src/AGENTS.md", agreed=(agreed,))
        await one.called("echo y > plain")
    assert one.notices == []
    assert (bubble.work / "src/AGENTS.md").read_text() == "agreed\n"


async def test_a_hook_cannot_be_made_in_a_repository_that_was_there(bubble: World) -> None:
    subprocess.run(["git", "init", "-q", str(bubble.work)], check=True, env=bubble.env)
    shutil.rmtree(bubble.work / ".git/hooks")
    async with bubble.resident() as one:
        await one.called(
            "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; echo ../other > .git/commondir"
        )
        assert os.listdir(bubble.work / ".git/hooks") == []
        assert bubble.names() == {".git"}
        assert one.notices == []
    assert not (bubble.work / ".git/hooks").exists()
    assert not (bubble.work / ".git/commondir").exists()


class Unheard(Bubblewrap):
    """As if it were root's own: the kernel tells nobody who writes."""

    def confined(self, *given, **named):
        return super().confined(*given, **named)._replace(privileged=True)


async def test_where_nobody_hears_it_write_everything_that_came_is_put_aside(bubble: World) -> None:
    bubble.adapter = Unheard(find_program("bwrap") or "")
    async with bubble.resident() as one:
        await one.called("echo x > .mcp.json")
        (bubble.work / "AGENTS.md").write_text("by hand")
        await one.called("true")
    assert bubble.names() == {".mcp.json.put-aside-1", "AGENTS.md.put-aside-1"}
    assert len(one.notices) == 2


@pytest.mark.parametrize("adapter", SANDBOXES)
def test_what_one_left_whose_engine_was_killed_is_put_aside_at_the_next_start(
    adapter: str, tmp_path: Path
) -> None:
    """The engine is a process of its own. It is killed once its server has written, and before it has looked."""
    world = World(tmp_path, adapter)
    (world.work / "src").mkdir()
    (world.work / "src/AGENTS.md").write_text("there before")
    scene = [sys.executable, resident_scene.__file__, adapter, str(world.home), str(world.work)]
    env = {**world.env, "PYTHONPATH": os.pathsep.join(sys.path)}
    engine = subprocess.Popen(scene, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert engine.stdout is not None
    try:
        assert engine.stdout.readline() == b"written\n"
    finally:
        engine.kill()
        engine.wait()
        engine.stdout.close()
    assert world.names() == {"AGENTS.md", "src"}, "nothing stands there for it either"
    found = left_behind(world.policy(), world.where)
    assert [notice.reason for notice in found] == ["PutAside", "PutAside"]
    assert world.names() == {"AGENTS.md.put-aside-1", "src"}
    assert set(os.listdir(world.work / "src")) == {"AGENTS.md", "CLAUDE.md.put-aside-1"}
    assert left_behind(world.policy(), world.where) == []


async def test_the_note_of_an_engine_that_lives_is_left_alone(world: World) -> None:
    async with world.resident() as one:
        await one.do("mkdir src; echo x > src/CLAUDE.md")
        assert len(os.listdir(world.notes)) == 1
        (world.work / "AGENTS.md").write_text("by hand")
        assert left_behind(world.policy(), world.where) == []
        assert (world.work / "AGENTS.md").exists()
