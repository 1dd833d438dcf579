"""What commands and servers make of policy files is quarantined, whatever they try; what may be the user's stays."""

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from bare_machine import has_landlock
from bridle.base.fs import walker
from bridle.base.fs.walker import is_telling
from bridle.base.process.duplex import DuplexProcess, open_duplex
from bridle.base.process.processes import Processes
from bridle.config.folders import folders, home_of
from bridle.engine.ports import BeginCall, SpawnPolicy
from bridle.protocol.events import Notice
from bridle.sandbox.adapters.unshare import programs
from bridle.sandbox.plain_spawn import ConfinedProcess
from bridle.sandbox.policy_files import policy_check
from bridle.sandbox.policy_files.policy_check import PolicyCheck
from bridle.sandbox.policy_files.policy_snapshot import NOTHING, compare, read_policy_file, take_snapshot
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from bridle.sandbox.session_border import left_behind, this_place
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


class Server:
    """A server that runs, and the notices about it."""

    def __init__(self, process: DuplexProcess, begin: BeginCall, notices: list[Notice]) -> None:
        self.process = process
        self._begin = begin
        self.notices = notices

    async def do(self, line: str) -> None:
        """Let it work between calls."""
        await self.process.write(f"{line}\n".encode())
        assert await self.process.read() == b"done\n"

    async def call(self, line: str) -> None:
        end = await self._begin()
        await self.do(line)
        await end()

    def reasons(self) -> list[str]:
        return [notice.reason for notice in self.notices]


class World:
    """A workspace, and commands and servers in it."""

    def __init__(self, root: Path, adapter: str) -> None:
        self.home, self.work = root / "home", root / "work"
        for folder in (self.home, self.work):
            folder.mkdir()
        self.env = {"PATH": os.defpath, "HOME": str(self.home)}
        self.where = folders(self.env)
        self.lists = Path(self.where.state) / "policy-lists"
        self.processes = Processes()
        self._adapter = adapter
        self.spawn = self.new_spawn()

    def new_spawn(self) -> SandboxSpawn:
        """How another engine starts commands in the same folder."""

        async def choose():
            return adapter_named(self._adapter)

        return SandboxSpawn(
            self.processes,
            place=lambda: this_place(self.where, self.env, home=home_of(self.env)),
            choose=choose,
            lists=str(self.lists),
        )

    def policy(self, **more) -> SpawnPolicy:
        return SpawnPolicy(mode="workspace-write", workspace=str(self.work), **more)

    @asynccontextmanager
    async def server(self) -> AsyncGenerator[Server]:
        notices: list[Notice] = []
        begins: list[BeginCall] = []

        async def start(inlet, outlet):
            process = await self.spawn(
                ["/bin/sh", "-c", OBEYS],
                cwd=str(self.work),
                env=self.env,
                policy=self.policy(resident=True),
                call_id="mcp:one",
                on_output=outlet,
                on_error=lambda _complaint: None,
                stdin=inlet,
            )
            begins.append(process.follow_put_aside(notices.append))
            return process

        process = await open_duplex(start)
        try:
            yield Server(process, begins[0], notices)
        finally:
            await process.stop()

    async def start(
        self, line: str, *, spawn: SandboxSpawn | None = None, cwd: Path | None = None, **more
    ) -> ConfinedProcess:
        return await (spawn or self.spawn)(
            ["/bin/sh", "-c", line],
            cwd=str(cwd or self.work),
            env=self.env,
            policy=self.policy(**more),
            call_id="call_1",
            on_output=lambda _chunk: None,
        )

    async def run(self, line: str, **more) -> list[str]:
        """The reasons of what is said about a command."""
        process = await self.start(line, **more)
        await process.wait()
        await process.stop()
        return [notice.reason for notice in process.put_aside]

    def names(self) -> set[str]:
        return set(os.listdir(self.work))


@pytest.fixture(params=SANDBOXES)
async def each(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[World]:
    made = World(Path(os.path.realpath(tmp_path)), request.param)
    yield made
    await made.processes.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    made = World(Path(os.path.realpath(tmp_path)), "bubblewrap")
    yield made
    await made.processes.close()


# Three attacks that got past an earlier check


async def test_a_process_that_a_command_leaves_behind_writes_nothing_after_the_check(world: World) -> None:
    os.mkfifo(world.work / "alive")
    alive = os.open(world.work / "alive", os.O_RDONLY | os.O_NONBLOCK)
    late = "exec 9>alive; trap '' HUP TERM; until [ -e go ]; do :; done; echo evil > src/AGENTS.md"
    await world.run(f"mkdir src; setsid sh -c {late!r} >/dev/null 2>&1 & until [ -d src ]; do :; done")
    (world.work / "go").touch()
    os.set_blocking(alive, True)
    assert os.read(alive, 1) == b"", "it is gone"
    os.close(alive)
    assert os.listdir(world.work / "src") == []


@pytest.fixture
def many_folders() -> Iterator[str]:
    """In memory, where folders are made quickly."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as made:
        yield made


def test_a_policy_file_behind_31_000_folders_is_quarantined(
    many_folders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk is given time: what is tested is how many folders it takes."""
    unhurried = partial(walker.walk_folders, max_s=600.0)
    monkeypatch.setattr("bridle.sandbox.policy_files.policy_snapshot.walk_folders", unhurried)
    work = Path(os.path.realpath(many_folders))
    for number in range(31):
        os.mkdir(f"{work}/{number}")
        for inner in range(1_000):
            os.mkdir(f"{work}/{number}/{inner}")
    check, token = PolicyCheck([str(work)]), object()
    check.begin(token, SpawnPolicy(mode="workspace-write", workspace=str(work)), ())
    (work / "30/999/deep").mkdir()
    (work / "30/999/deep/AGENTS.md").write_text("evil")
    checked = check.end(token)
    assert checked is not None
    assert (checked.cut, [one.change.path for one in checked.quarantined]) == (
        False,
        [str(work / "30/999/deep/AGENTS.md")],
    )


async def test_a_link_into_an_excluded_folder_makes_what_it_leads_to_count(world: World) -> None:
    (world.work / ".venv/lib/x").mkdir(parents=True)
    (world.work / "src").mkdir()
    assert await world.run("echo fine > .venv/lib/x/AGENTS.md") == []
    assert await world.run("ln -s ../.venv/lib src/lib") == ["PutAside"]
    assert os.listdir(world.work / ".venv/lib/x") == ["AGENTS.md.put-aside-1"]
    assert await world.run("mkdir .venv/lib/y; echo evil > .venv/lib/y/CLAUDE.md") == ["PutAside"]


async def test_the_file_that_a_policy_link_leads_to_counts(world: World) -> None:
    (world.work / "docs").mkdir()
    (world.work / "src").mkdir()
    (world.work / "docs/rules.md").write_text("Be kind.\n")
    (world.work / "src/AGENTS.md").symlink_to("../docs/rules.md")
    (world.work / "src/CLAUDE.md").symlink_to("AGENTS.md")
    (world.work / "src/GEMINI.md").symlink_to("../docs/none.md")
    assert await world.run("echo evil >> docs/rules.md") == ["PutAside"]
    assert (world.work / "docs/rules.md").read_text() == "Be kind.\n"
    assert await world.run("echo evil > docs/none.md") == ["PutAside"]
    assert not (world.work / "docs/none.md").exists()
    with world.spawn.changing([str(world.work / "docs/rules.md")]):
        (world.work / "docs/rules.md").write_text("Be quick.\n")
    assert await world.run("true > plain") == []


async def test_a_folder_that_a_policy_link_leads_to_counts_and_is_left_alone_otherwise(world: World) -> None:
    for name in ("shared", "lib", "src", "src/.claude"):
        (world.work / name).mkdir()
        (world.work / name / "x.json").write_text("mine")
    (world.work / "src/.vscode").symlink_to("../shared")
    assert await world.run("true > plain") == []
    assert await world.run("echo evil > shared/x.json; echo evil > shared/new.json") == ["PutAside"] * 2
    assert (world.work / "shared/x.json").read_text() == "mine"
    assert await world.run("ln -sfn ../lib src/.vscode; ln -s ../lib src/.idea") == ["PutAside"] * 2
    assert await world.run("ln -s ../../lib src/.claude/skills") == ["PutAside"]
    (world.work / "src/.zed").symlink_to("../lib")
    (world.work / "lib/.zed").symlink_to("../../work")
    assert await world.run("true > plain") == []
    assert os.readlink(world.work / "src/.vscode") == "../shared"
    assert (world.work / "lib/x.json").read_text() == "mine"


async def test_a_policy_folder_that_a_command_closes_is_opened_and_compared(world: World) -> None:
    """A program that knows the name of a file needs no right to list its folder."""
    (world.work / "src/.vscode/more").mkdir(parents=True)
    line = "cd src/.vscode; echo x > tasks.json; echo x > more/tasks.json; chmod 311 . more"
    assert await world.run(line) == ["PutAside"] * 2
    assert [path.stat().st_mode & 0o777 for path in world.work.glob("src/.vscode/**/")] == [0o711] * 2


async def test_a_policy_folder_with_more_files_than_are_read_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.work / "src/.claude").mkdir(parents=True)
    monkeypatch.setattr("bridle.sandbox.policy_files.policy_snapshot._MAX_FILES", 2)
    told = await world.run("cd src/.claude; touch 1 2 3", scratch=str(world.home / "one"))
    assert told == ["PutAside", "PutAside", "PolicyCheckCut"]


async def test_policy_places_are_found_in_any_case(world: World) -> None:
    line = "mkdir -p src/Library/LaunchAgents src/.GitHub; echo x > src/.GitHub/hooks"
    assert await world.run(line) == ["PutAside"] * 2


def test_a_file_that_was_read_right_after_a_change_is_read_again(tmp_path: Path) -> None:
    """A change within the same tick of the clock may have the same time."""
    path = tmp_path / "AGENTS.md"
    path.write_text("new")
    seen = read_policy_file(str(path), [str(tmp_path)])
    assert seen is not None
    while not is_telling(path.stat().st_ctime_ns, time.time_ns()):
        pass
    before_the_tick = msgspec.structs.replace(seen, digest=b"old", content=b"old")
    assert read_policy_file(str(path), [str(tmp_path)], before_the_tick) == msgspec.structs.replace(
        seen, settled=True
    )


MANY = 1_500
LINKS = f"python3 -c 'import os; [os.symlink(str(n + 1), str(n)) for n in range({MANY})]'"
FOLDERS = f"python3 -c 'import os; [(os.mkdir(str(0)), os.chdir(str(0))) for _ in range({MANY})]'"


@pytest.mark.parametrize(
    "line",
    [
        f"mkdir many; cd many; {LINKS}",
        f"cd src; {LINKS}; ln -s 0 .claude/x; echo gitdir: 0 > .claude/.git",
        f"cd src/.claude; {FOLDERS}",
        f"cd src; {FOLDERS}",
    ],
    ids=["links", "policy links", "policy folders", "folders"],
)
async def test_no_number_of_links_and_folders_ends_the_check(world: World, line: str) -> None:
    (world.work / "src/.claude").mkdir(parents=True)
    try:
        told = await world.run(f"echo x > src/AGENTS.md; {line}")
        assert not (world.work / "src/AGENTS.md").exists()
        assert set(told) == {"PutAside"}
        assert await world.run("true > plain") == []
    finally:  # pytest could not remove that many folders in one another
        subprocess.run(["rm", "-rf", str(world.work / "src")], check=True)


async def test_a_check_that_fails_is_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    process = await world.start("read -r _ < /dev/null", scratch=str(world.home / "one"))
    monkeypatch.setattr(PolicyCheck, "end", lambda _check, _token: 1 / 0)
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    await process.wait()
    await process.stop()
    assert [notice.reason for notice in process.put_aside] == ["PolicyCheckCut"]


# Repositories


async def test_a_policy_file_in_a_folder_of_the_user_that_became_a_repository_is_quarantined(
    world: World,
) -> None:
    for name in ("src", "empty"):
        (world.work / name).mkdir()
    (world.work / "src/a.py").write_text("mine")
    line = "for name in src empty new; do git init -q $name; echo x > $name/AGENTS.md; done"
    assert await world.run(line) == ["PutAside"]
    assert sorted(path.name for path in world.work.glob("src/AGENTS*")) == ["AGENTS.md.put-aside-1"]


async def test_a_folder_that_git_takes_for_a_repository_by_its_commondir_is_quarantined(world: World) -> None:
    led = "mkdir x; mv y/HEAD x; echo ../y > x/commondir"
    assert await world.run(f"git init -q --bare y; {led}; git config -f y/config core.fsmonitor ./x") == [
        "PutAside"
    ]
    assert (world.work / "x/HEAD.put-aside-1").exists()


async def test_a_repository_that_another_command_could_not_change_is_checked_after_this_one(
    world: World,
) -> None:
    (world.work / "one").mkdir()
    for line in (
        "init -q .",
        "-c user.name=x -c user.email=x commit -q --allow-empty -m x",
        "worktree add -q ../two",
    ):
        subprocess.run(["git", *line.split()], check=True, env=world.env, cwd=world.work / "one")
    assert await world.run("true > plain", cwd=world.work / "two") == []
    assert await world.run("rm two/.git; git init -q two; git -C two config core.fsmonitor ./x") == [
        "PutAside"
    ]


# Servers


CALLS = {
    "echo x > AGENTS.md": "AGENTS.md",
    "echo x > new; mv new CLAUDE.md": "CLAUDE.md",
    "mkdir .vscode; echo x > .vscode/tasks.json": ".vscode",
    "ln -s /etc/passwd .mcp.json": ".mcp.json",
    "mkdir -p src; echo x > src/AGENTS.md": "src/AGENTS.md",
    "git init -q .; git config core.fsmonitor ./x": ".git",
    "mkdir sub; git init -q sub; git -C sub config core.fsmonitor ./x": "sub/.git",
}


async def test_what_a_server_makes_in_a_call_is_quarantined_when_the_call_ends(each: World) -> None:
    wrong: list[str] = []
    async with each.server() as server:
        assert each.names() == set(), "nothing stands in the user's way"
        for line, name in CALLS.items():
            await server.call(line)
            told = [notice for notice in server.notices if notice.reason == "PutAside"]
            if os.path.lexists(each.work / name) or f"give-back {name}.put-aside-1" not in told[-1].message:
                wrong.append(line)
    assert wrong == []
    assert server.reasons() == ["PutAside"] * len(CALLS)


async def test_what_appears_between_the_calls_of_a_server_is_reported_once_and_stays(each: World) -> None:
    async with each.server() as server:
        await server.do("echo x > AGENTS.md")  # as a system call does that comes late
        (each.work / "CLAUDE.md").write_text("by hand")
        await server.call("true")
        assert server.reasons() == ["PolicyFileAppeared"] * 2
        await server.call("true")
        assert await each.run("true > plain") == []
        await server.do("mkdir src; echo x > src/AGENTS.md")
        assert await each.run("true > plain") == ["PolicyFileAppeared"]
    assert server.reasons() == ["PolicyFileAppeared"] * 2
    assert each.names() == {"AGENTS.md", "CLAUDE.md", "plain", "src"}


async def test_a_server_hides_nothing_between_its_calls_in_a_folder_that_it_closes(world: World) -> None:
    async with world.server() as server:
        await server.do("mkdir src; echo x > src/AGENTS.md; chmod 311 src")
        while not is_telling((world.work / "src").stat().st_ctime_ns, time.time_ns()):
            pass
        await server.call("true")
    assert server.reasons() == ["PolicyFileAppeared"]
    assert (world.work / "src").stat().st_mode & 0o777 == 0o711


async def test_what_a_server_makes_before_its_end_is_reported(world: World) -> None:
    async with world.server() as server:
        await server.process.write(b"echo x > AGENTS.md; exit\n")
        await server.process.wait()
    assert server.reasons() == ["PolicyFileAppeared"]
    assert world.names() == {"AGENTS.md"}


async def test_a_call_that_changes_the_users_new_file_has_the_users_text_back(world: World) -> None:
    async with world.server() as server:
        (world.work / "AGENTS.md").write_text("by hand")
        await server.call("echo obey me > AGENTS.md")
    assert (world.work / "AGENTS.md").read_text() == "by hand"
    assert (world.work / "AGENTS.md.put-aside-1").read_text() == "obey me\n"


async def test_what_our_own_tools_write_while_a_server_runs_stays_and_is_not_reported(world: World) -> None:
    paths = [str(world.work / "AGENTS.md"), str(world.work / ".vscode/tasks.json")]
    async with world.server() as server:
        with world.spawn.changing(paths):
            (world.work / "AGENTS.md").write_text("by a tool")
            (world.work / ".vscode").mkdir()
            (world.work / ".vscode/tasks.json").write_text("{}")
            await server.call("echo x > plain")
        await server.call("echo y > plain")
    assert server.notices == []
    assert world.names() == {"AGENTS.md", ".vscode", "plain"}


async def test_what_was_agreed_for_a_command_stays_while_a_server_runs(world: World) -> None:
    (world.work / "src").mkdir()
    async with world.server() as server:
        await world.run("echo agreed > src/AGENTS.md", agreed=(str(world.work / "src/AGENTS.md"),))
        await server.call("echo y > plain")
    assert server.notices == []
    assert (world.work / "src/AGENTS.md").read_text() == "agreed\n"


async def test_a_server_makes_no_hook_in_a_repository_that_was_there(world: World) -> None:
    subprocess.run(["git", "init", "-q", str(world.work)], check=True, env=world.env)
    shutil.rmtree(world.work / ".git/hooks")
    async with world.server() as server:
        await server.call("mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; echo ../x > .git/commondir")
        assert os.listdir(world.work / ".git/hooks") == []
        assert server.notices == []
    assert not (world.work / ".git/hooks").exists()
    assert not (world.work / ".git/commondir").exists()


# A walk that ends at its limits


async def test_a_walk_that_was_cut_short_is_reported_once_and_takes_no_old_file_for_new(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (world.work / name).mkdir()
        (world.work / name / "AGENTS.md").write_text("mine")
    limited = partial(walker.walk_folders, max_folders=2)
    with monkeypatch.context() as short:
        short.setattr("bridle.sandbox.policy_files.policy_snapshot.walk_folders", limited)
        assert await world.run("true > plain", scratch=str(world.home / "one")) == ["PolicyCheckCut"]
        assert await world.run("true > plain", scratch=str(world.home / "one")) == []
        process = await world.start("read -r _ < go", scratch=str(world.home / "two"), agreed=())
        await process.stop()
        assert [notice.reason for notice in process.put_aside] == ["PolicyCheckCut"]
        os.mkfifo(world.work / "go")
        process = await world.start("read -r _ < go; echo x > c/CLAUDE.md")
    (world.work / "go").write_text("go\n")
    await process.wait()
    assert sorted(path.name for path in world.work.glob("*/*")) == ["AGENTS.md"] * 3 + [
        "CLAUDE.md.put-aside-1"
    ]


def test_a_policy_file_beyond_the_limit_of_a_later_walk_is_compared_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/AGENTS.md").write_text("mine")
    before = take_snapshot([str(tmp_path)], NOTHING)
    (tmp_path / "a/AGENTS.md").write_text("theirs")
    monkeypatch.setattr(
        "bridle.sandbox.policy_files.policy_snapshot.walk_folders",
        partial(walker.walk_folders, max_folders=1),
    )
    after = take_snapshot([str(tmp_path)], before)
    changes = compare(before, after, [str(tmp_path)]).changes
    assert (after.cut, [change.path for change in changes]) == (True, [str(tmp_path / "a/AGENTS.md")])


# Threads


class Paused:
    """A step of the check that waits, in its thread, until it is let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
        self._step: Callable[..., object] = getattr(PolicyCheck, step)
        self._loop = asyncio.get_running_loop()
        self.began = asyncio.Event()
        self.go_on = threading.Event()
        self._once = False
        monkeypatch.setattr(PolicyCheck, step, lambda check, *given: self._pause(check, *given))

    def _pause(self, check: PolicyCheck, *given: object) -> object:
        if not self._once:
            self._once = True
            self._loop.call_soon_threadsafe(self.began.set)
            assert self.go_on.wait(10)
        return self._step(check, *given)


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Paused]]:
    made: list[Paused] = []

    def pause(step: str) -> Paused:
        made.append(Paused(monkeypatch, step))
        return made[-1]

    yield pause
    for one in made:
        one.go_on.set()


@pytest.mark.parametrize("step", ["begin", "end"])
async def test_the_loop_does_not_wait_for_the_check(
    world: World, paused: Callable[[str], Paused], step: str
) -> None:
    check = paused(step)
    running = asyncio.create_task(world.run("echo x > AGENTS.md; echo y > plain"))
    await check.began.wait()  # which is heard here while it waits
    assert (world.work / "plain").exists() == (step == "end")
    check.go_on.set()
    assert await running == ["PutAside"]


async def test_a_command_is_checked_though_the_loop_ends(
    world: World, paused: Callable[[str], Paused]
) -> None:
    check = paused("end")
    process = await world.start("echo x > AGENTS.md")
    await check.began.wait()
    assert world.names() == {"AGENTS.md"}
    world.spawn.close()
    assert world.names() == {"AGENTS.md.put-aside-1"}
    check.go_on.set()
    assert await process.wait() == 0
    assert world.names() == {"AGENTS.md.put-aside-1"}


async def test_another_command_takes_nothing_for_granted_while_one_is_checked(
    world: World, paused: Callable[[str], Paused]
) -> None:
    check = paused("end")
    first = await world.start("echo x > AGENTS.md")
    await check.began.wait()
    assert await world.run("echo y > plain") == ["PutAside"]
    check.go_on.set()
    assert await first.wait() == 0
    assert world.names() == {"AGENTS.md.put-aside-1", "plain"}


async def test_a_start_that_is_cancelled_or_killed_while_it_is_checked_is_forgotten(
    world: World, paused: Callable[[str], Paused]
) -> None:
    check = paused("begin")
    starting = asyncio.create_task(world.start("echo y > plain"))
    await check.began.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    check.go_on.set()
    (world.work / "AGENTS.md").write_text("by hand")
    assert await world.run("echo y > other") == []
    assert (world.work / "AGENTS.md").read_text() == "by hand"
    assert not (world.work / "plain").exists()


async def test_where_there_is_no_room_for_a_thread_it_is_checked_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(world.work / "pipe")
    process = await world.start("read go < pipe; echo x > AGENTS.md")

    def no_room(*_words: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "no more threads")

    with monkeypatch.context() as full:
        full.setattr("bridle.base.threads.start_thread", no_room)
        async with asyncio.timeout(10):
            await asyncio.to_thread((world.work / "pipe").write_text, "go\n")
            assert await process.wait() == 0
    assert world.names() == {"AGENTS.md.put-aside-1", "pipe"}


# Several commands


async def test_a_session_puts_nothing_back_that_the_command_of_another_one_wrote(world: World) -> None:
    (world.work / "src").mkdir()
    (world.work / "src/AGENTS.md").write_text("good\n")
    lines = {"evil": "echo > written; read -r _ < evil", "harmless": "read -r _ < harmless"}
    lines["worse"] = "read -r _ < worse; echo worse > src/AGENTS.md"
    for name in ("written", *lines):
        os.mkfifo(world.work / name)
    processes = {"evil": await world.start(f"echo evil > src/AGENTS.md; {lines.pop('evil')}")}
    await asyncio.to_thread((world.work / "written").read_text)
    for name, line in lines.items():
        processes[name] = await world.start(line, spawn=world.new_spawn())
    reasons: dict[str, list[str]] = {}
    for name in ("evil", "worse", "late", "harmless"):
        if name == "late":
            processes[name] = await world.start(lines["worse"], spawn=world.new_spawn())
        pipe = "worse" if name == "late" else name
        await asyncio.to_thread((world.work / pipe).write_text, "go\n")
        assert await processes[name].wait() == 0
        reasons[name] = [notice.reason for notice in processes[name].put_aside]
        assert (world.work / "src/AGENTS.md").read_text() == "good\n"
    changed = ["PutAside"]
    assert reasons == {"evil": changed, "worse": changed, "late": changed, "harmless": []}


async def test_a_session_puts_no_link_back_that_the_command_of_another_one_made(world: World) -> None:
    for name in ("good.md", "evil.md"):
        (world.work / name).write_text(name)
    (world.work / "AGENTS.md").symlink_to("good.md")
    for name in ("written", "evil", "harmless"):
        os.mkfifo(world.work / name)
    first = await world.start("ln -sfn evil.md AGENTS.md; echo > written; read -r _ < evil")
    await asyncio.to_thread((world.work / "written").read_text)
    second = await world.start("read -r _ < harmless", spawn=world.new_spawn())
    for name, process in {"evil": first, "harmless": second}.items():
        await asyncio.to_thread((world.work / name).write_text, "go\n")
        assert await process.wait() == 0
        assert os.readlink(world.work / "AGENTS.md") == "good.md"


async def test_what_a_command_writes_again_and_again_is_put_back_in_the_end(world: World) -> None:
    (world.work / "src").mkdir()
    (world.work / "src/AGENTS.md").write_text("good\n")
    writing = await world.start("until [ -e stop ]; do echo evil > src/AGENTS.md; done")
    told = [reason for _ in range(5) for reason in await world.run("true > plain")]
    (world.work / "stop").touch()
    await writing.wait()
    assert set(told) <= {"PutAside"}
    assert (world.work / "src/AGENTS.md").read_text() == "good\n"


async def test_what_a_command_adds_to_the_index_beside_a_git_command_is_quarantined(world: World) -> None:
    subprocess.run(["git", "init", "-q", str(world.work)], check=True, env=world.env)
    (world.work / "src").mkdir()
    os.mkfifo(world.work / "written")
    line = "echo x > src/AGENTS.md; git add -f src/AGENTS.md; echo > written; read -r _ < written"
    beside = await world.start(line)
    await asyncio.to_thread((world.work / "written").read_text)
    assert await world.run("true > plain", git_tree=True) == ["PutAside"]
    await beside.stop()
    assert not (world.work / "src/AGENTS.md").exists()


# After a kill


async def test_the_next_session_compares_with_the_list_of_a_killed_engine(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list without its lock is what a killed engine leaves."""
    (world.work / "old").mkdir()
    (world.work / "old/AGENTS.md").write_text("Be kind.\n")
    token_file = world.work / "old/.npmrc"
    token_file.write_text("token")
    check = PolicyCheck([str(world.work)], str(world.lists))
    check.begin(object(), world.policy(), ())
    (list_file,) = world.lists.iterdir()
    assert b"Be kind." in list_file.read_bytes()
    assert b"token" not in list_file.read_bytes()
    (world.work / "old/AGENTS.md").write_text("evil\n")
    (world.work / "new").mkdir()
    (world.work / "new/CLAUDE.md").write_text("evil\n")
    assert await left_behind(str(world.work), world.where) == [], "its engine lives"
    monkeypatch.setattr(policy_check, "_is_locked", lambda _path: False)
    left = await left_behind(str(world.work), world.where)
    assert sorted(notice.data["path"] for notice in left) == ["new/CLAUDE.md", "old/AGENTS.md"]
    assert (world.work / "old/AGENTS.md").read_text() == "Be kind.\n"
    assert token_file.read_text() == "token"
    assert list(world.lists.iterdir()) == []


async def test_a_name_that_is_no_text_is_reported_after_a_kill(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = PolicyCheck([str(world.work)], str(world.lists))
    check.begin(object(), world.policy(), ())
    folder = os.fsencode(world.work) + b"/\xff\x1b"
    os.mkdir(folder)
    os.mkfifo(folder + b"/AGENTS.md")
    monkeypatch.setattr(policy_check, "_is_locked", lambda _path: False)
    (notice,) = await left_behind(str(world.work), world.where)
    assert msgspec.json.decode(msgspec.json.encode(notice.data))["path"] == "⟨U+DCFF⟩⟨ESC⟩/AGENTS.md"


async def test_a_list_is_there_while_a_command_runs_and_no_longer(world: World) -> None:
    os.mkfifo(world.work / "go")
    process = await world.start("read -r _ < go")
    assert len(list(world.lists.iterdir())) == 1
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    assert list(world.lists.iterdir()) == []
