"""A sandbox that waited for its command holds it as any other does, or is not used."""

import asyncio
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.base.processes import Processes
from bridle.conformance.fake_clock import FakeClock
from bridle.engine.ports import SpawnPolicy
from bridle.protocol.events import Notice
from bridle.sandbox.bubblewrap import Bubblewrap
from bridle.sandbox.confinement import HostContext
from bridle.sandbox.masks import HandedMasks, Masks, clear_away
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from bridle.sandbox.warm_sandbox import DELAY_S, CommandPlace, WarmSandboxes
from bridle.sandbox.write_listener import can_listen

pytestmark = [
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(os.uname().sysname != "Linux", reason="bubblewrap needs Linux"),
]


class Scene:
    """A workspace, and a session whose commands may find a sandbox that waits."""

    def __init__(self, base: Path, processes: Processes) -> None:
        self.base = base
        self.workspace = base / "ws"
        self.home = base / "home"
        self.away = base / "state" / "masks"
        for folder in (self.workspace, self.home / ".ssh", base / "hosttmp"):
            folder.mkdir(parents=True)
        (self.home / ".ssh" / "key").write_text("of this session alone")
        self.clock = FakeClock()
        self.processes = processes
        self.place = HostContext(home=str(self.home), temporary=(str(base / "hosttmp"),))
        self.adapter = Bubblewrap(shutil.which("bwrap") or "bwrap")
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(self.home)}
        self.spawn = SandboxSpawn(
            processes, place=lambda: self.place, choose=self.choose, away=str(self.away)
        )
        self.asked = self.started = 0
        self.used = 0
        self.stood = False
        self.warm = WarmSandboxes(self._start, self.clock)
        self.policy = SpawnPolicy(
            mode="workspace-write", workspace=str(self.workspace), scratch=str(base / "scratch")
        )

    async def choose(self) -> Bubblewrap:
        return self.adapter

    async def _start(self, at: CommandPlace) -> Any:
        self.asked += 1
        sandbox = await self.spawn.wait_for_command(at)
        self.started += sandbox is not None
        self.stood = sandbox is not None and sandbox.stood
        return sandbox

    async def wait(self, policy: SpawnPolicy | None = None) -> None:
        """One waits, as while a model is asked after a command."""
        await self.run("true", policy=policy)
        before = self.started
        self.warm.expect()
        await self.clock.advance(DELAY_S)
        async with asyncio.timeout(20):
            while self.started == before:
                await asyncio.sleep(0)

    async def stand(self, policy: SpawnPolicy | None = None) -> None:
        """One waits, and what its confinement follows from has not changed for so long that its mounts need not be
        compared again."""
        async with asyncio.timeout(60):
            while not self.stood:
                await self.wait(policy)
        self.used = 0

    async def run(
        self,
        command: str,
        *,
        policy: SpawnPolicy | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> tuple[int, str]:
        output = bytearray()
        waiting = _waiting()
        process = await self.spawn(
            ["/bin/bash", "-c", command],
            cwd=str(cwd or self.workspace),
            env=env or self.env,
            policy=policy or self.policy,
            call_id="call_1",
            on_output=output.extend,
            warm=self.warm,
            **more,
        )
        self.used += process.pid in waiting
        code = await process.wait()
        return code, output.decode() + process.blocked(output.decode())

    def is_clean(self) -> bool:
        return not [path for path in self.workspace.rglob("*") if path.lstat().st_mode & 0o1000]


def _waiting() -> set[int]:
    """The processes we started that wait for their command."""
    started = [
        int(pid) for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()
    ]
    return {pid for pid in started if b"bridle-waiting" in Path(f"/proc/{pid}/cmdline").read_bytes()}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    processes = Processes()
    made = Scene(Path(os.path.realpath(tmp_path)), processes)
    try:
        yield made
    finally:
        made.warm.discard()
        await processes.close()
        assert made.is_clean()
        assert not made.away.exists() or not list(made.away.iterdir())


async def test_a_command_finds_a_sandbox_that_waits(scene: Scene) -> None:
    await scene.wait()
    assert await scene.run("echo here; pwd") == (0, f"here\n{scene.workspace}\n")
    assert scene.used == 1


async def test_nothing_stands_in_the_workspace_while_one_waits(scene: Scene) -> None:
    await scene.wait()
    assert list(scene.workspace.iterdir()) == []


ATTEMPTS: dict[str, str] = {
    "make instructions": "echo evil > AGENTS.md",
    "make instructions over a mask": "rmdir AGENTS.md; echo evil > AGENTS.md",
    "move a mask": "mv .vscode other; mkdir .vscode && echo evil > .vscode/tasks.json",
    "write below a mask": "chmod 777 .vscode; echo evil > .vscode/tasks.json",
    "add a hook": "echo evil > .git/hooks/pre-commit",
    "change git's settings": "git config core.fsmonitor evil",
    "lead git elsewhere": "echo /elsewhere > .git/commondir",
    "read a key": 'cat "$HOME/.ssh/key"',
    "write into the home": 'echo x > "$HOME/x"',
    "mount": "mount -t tmpfs none /mnt",
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
async def test_the_border_of_one_that_waited_holds(scene: Scene, attempt: str) -> None:
    subprocess.run(["git", "init", "-q", scene.workspace], check=True, env=scene.env)
    config = (scene.workspace / ".git" / "config").read_bytes()
    await scene.wait()
    _, output = await scene.run(ATTEMPTS[attempt])
    assert scene.used == 1
    assert "of this session alone" not in output
    assert sorted(path.name for path in scene.workspace.iterdir()) == [".git"]
    assert (scene.workspace / ".git" / "config").read_bytes() == config
    assert not (scene.workspace / ".git" / "hooks" / "pre-commit").exists()
    assert not (scene.workspace / ".git" / "commondir").exists()
    assert sorted(path.name for path in scene.home.iterdir()) == [".ssh"]


def _replace_file(scene: Scene) -> None:
    """As editors do it: the same text in a new file."""
    (scene.workspace / "new").write_text("rules")
    (scene.workspace / "new").rename(scene.workspace / "CLAUDE.md")


def _move_folder(scene: Scene) -> None:
    (scene.workspace / ".github").rename(scene.workspace / "old")
    shutil.copytree(scene.workspace / "old", scene.workspace / ".github")


def _lead_elsewhere(scene: Scene) -> None:
    (scene.workspace / ".github").rename(scene.base / "elsewhere")
    (scene.workspace / ".github").symlink_to(scene.base / "elsewhere")


def _remove_mask(scene: Scene) -> None:
    for mask in [*scene.away.glob("*")]:
        if mask.is_dir():
            mask.rmdir()


def _replace_mask(scene: Scene) -> None:
    for mask in [*scene.away.glob("*")]:
        if mask.is_dir():
            mask.rmdir()
            mask.mkdir()


CHANGES: dict[str, Callable[[Scene], object]] = {
    "a file that is held is replaced": _replace_file,
    "a file that is held goes": lambda scene: (scene.workspace / "CLAUDE.md").unlink(),
    "a folder that is held is moved": _move_folder,
    "a folder that is held is led elsewhere": _lead_elsewhere,
    "a file that programs obey comes": lambda scene: (scene.workspace / ".cursorrules").write_text("x"),
    "a file that was masked comes": lambda scene: (scene.workspace / "AGENTS.md").write_text("x"),
    "a folder that was masked comes": lambda scene: (scene.workspace / ".vscode").mkdir(),
    "a repository comes": lambda scene: subprocess.run(["git", "init", "-q", scene.workspace], check=True),
    "a secret comes": lambda scene: (scene.home / ".netrc").write_text("x"),
    "the masks are removed": _remove_mask,
    "the masks are replaced": _replace_mask,
    "the workspace is moved": lambda scene: _move_away(scene.workspace),
    "the home is moved": lambda scene: _move_away(scene.home),
}


def _move_room(scene: Scene) -> None:
    """What lies in the temporary folder of the machine is mounted in a folder of the session's own."""
    (scene.base / "scratch" / "shown").rename(scene.base / "scratch" / "moved")
    (scene.base / "scratch" / "shown").mkdir()


CHANGES_OF_MOUNTS: dict[str, Callable[[Scene], object]] = {
    **CHANGES,
    "the temporary folder is moved": lambda scene: _move_away(scene.base / "scratch"),
    "a folder in the temporary folder is moved": _move_room,
    "a folder that is shown is moved": lambda scene: _move_away(scene.base / "hosttmp" / "shown"),
    "a folder with secrets is moved": lambda scene: _move_away(scene.home / ".ssh"),
}


def _entries(folder: Path) -> dict[str, int]:
    return {path.name: path.lstat().st_ino for path in folder.iterdir() if "put-aside" not in path.name}


def _move_away(folder: Path) -> None:
    folder.rename(f"{folder}.moved")
    shutil.copytree(f"{folder}.moved", folder)


@pytest.mark.parametrize("change", CHANGES)
async def test_one_that_waited_while_something_changed_is_not_used(scene: Scene, change: str) -> None:
    (scene.workspace / "CLAUDE.md").write_text("rules")
    (scene.workspace / ".github").mkdir()
    (scene.workspace / ".github" / "copilot-instructions.md").write_text("rules")
    await scene.wait()
    CHANGES[change](scene)
    before = _entries(scene.workspace)
    assert (await scene.run("echo evil > AGENTS.md; echo evil > CLAUDE.md; echo done"))[1].startswith(
        "/bin/bash"
    )
    assert scene.used == 0
    assert _entries(scene.workspace) == before


@pytest.mark.parametrize("change", CHANGES_OF_MOUNTS)
async def test_one_whose_mounts_need_not_be_compared_is_not_used_while_something_changed(
    scene: Scene, change: str
) -> None:
    """No table of mounts tells that something was renamed or replaced on which something is mounted."""
    (scene.workspace / "CLAUDE.md").write_text("rules")
    (scene.workspace / ".github").mkdir()
    (scene.workspace / ".github" / "copilot-instructions.md").write_text("rules")
    shown = scene.base / "hosttmp" / "shown"
    shown.mkdir()
    scene.policy = msgspec.structs.replace(scene.policy, readable=(str(shown),))
    await scene.stand()
    CHANGES_OF_MOUNTS[change](scene)
    before = _entries(scene.workspace)
    _, output = await scene.run('echo evil > AGENTS.md; echo evil > CLAUDE.md; cat "$HOME/.ssh/key"')
    assert scene.used == 0
    assert "of this session alone" not in output
    assert _entries(scene.workspace) == before


async def test_one_whose_mounts_need_not_be_compared_is_used_when_nothing_changed(scene: Scene) -> None:
    await scene.stand()
    (scene.workspace / "notes").write_text("x")
    assert await scene.run("cat notes; echo evil > AGENTS.md || echo held") == (
        0,
        "x/bin/bash: line 1: AGENTS.md: Is a directory\nheld\n",
    )
    assert scene.used == 1


@pytest.mark.parametrize("mode", ["workspace-write", "read-only"])
@pytest.mark.parametrize("stands", [False, True])
async def test_a_command_starts_in_the_folder_that_is_there_now(
    scene: Scene, mode: str, stands: bool
) -> None:
    policy = msgspec.structs.replace(scene.policy, mode=mode)
    await (scene.stand(policy) if stands else scene.wait(policy))
    scene.workspace.rename(f"{scene.workspace}.moved")
    scene.workspace.mkdir()
    (scene.workspace / "new").touch()
    assert await scene.run("ls new", policy=policy) == (0, "new\n")
    assert scene.used == 0


async def test_one_in_which_something_was_mounted_is_not_used(scene: Scene) -> None:
    await scene.stand()
    (outer,) = _waiting()
    (inner,) = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
    inside = ["nsenter", f"--target={inner}", "--mount"]
    mounted = subprocess.run(
        [*inside, "mount", "-t", "tmpfs", "none", "/mnt"], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("nobody can enter a sandbox here")
    assert await scene.run("true") == (0, "")
    assert scene.used == 0


async def test_one_that_waited_is_used_when_other_files_changed(scene: Scene) -> None:
    await scene.wait()
    (scene.workspace / "notes").write_text("x")
    assert await scene.run("cat notes") == (0, "x")
    assert scene.used == 1


async def test_no_sandbox_is_used_twice(scene: Scene) -> None:
    await scene.wait()
    await scene.run("true")
    await scene.run("true")
    assert (scene.used, scene.started) == (1, 1)


@pytest.mark.parametrize(
    "how",
    [
        {"cwd": "sub"},
        {"env": {"PATH": "/bin", "HOME": "/"}},
        {"stdin": b"x"},
        {"on_error": lambda _chunk: None},
        {"policy": {"mode": "read-only"}},
        {"policy": {"network": "deny"}},
        {"policy": {"max_file_mib": 1}},
        {"policy": {"variables": {"TOLD": "x"}}},
        {"policy": {"git_config": True}},
    ],
    ids=lambda how: "-".join(map(str, how.get("policy", how))),
)
async def test_a_command_that_runs_otherwise_gets_a_sandbox_of_its_own(
    scene: Scene, how: dict[str, Any]
) -> None:
    (scene.workspace / "sub").mkdir()
    await scene.wait()
    if "policy" in how:
        how = {"policy": msgspec.structs.replace(scene.policy, **how["policy"])}
    if "cwd" in how:
        how = {"cwd": scene.workspace / how["cwd"]}
    assert await scene.run("true", **how) == (0, "")
    assert scene.used == 0


async def test_a_command_has_its_words_as_they_are_and_nothing_else(scene: Scene) -> None:
    words = [bytes(range(1, 256)), "ä ' \" \\ $x `y`\n".encode(), b"", b"-n", b"a" * 20_000]
    show = 'printf "%s\\0" "$@"; ls -l /proc/self/fd | wc -l; readlink /proc/self/fd/0; env | sort; ulimit -a; umask'
    argv = ["/bin/bash", "-c", show, "name", *map(os.fsdecode, words)]
    outputs = list[bytes]()
    for waits in (False, True):
        if waits:
            await scene.wait()
        output = bytearray()
        waiting = _waiting()
        process = await scene.spawn(
            argv,
            cwd=str(scene.workspace),
            env=scene.env,
            policy=scene.policy,
            call_id="call_1",
            on_output=output.extend,
            warm=scene.warm,
        )
        assert (process.pid in waiting) is waits
        assert await process.wait() == 0
        outputs.append(bytes(output))
    assert outputs[0].split(b"\0")[: len(words)] == words
    assert outputs[1] == outputs[0]


async def test_how_a_command_ended_is_told(scene: Scene) -> None:
    for command, code in (("exit 7", 7), ("kill -9 $$", 137), ("exec /nowhere", 127)):
        await scene.wait()
        assert (await scene.run(command))[0] == code
    assert scene.used == 3


async def test_a_command_in_the_background_keeps_others_from_waiting(scene: Scene) -> None:
    """Its masks stand in the workspace, and it needs them where they are."""
    ready = asyncio.Event()
    process = await scene.spawn(
        ["/bin/bash", "-c", "echo; read -r _ < <(sleep 600)"],
        cwd=str(scene.workspace),
        env=scene.env,
        policy=scene.policy,
        call_id="call_1",
        on_output=lambda _chunk: ready.set(),
    )
    await ready.wait()
    assert (
        await scene.spawn.wait_for_command(CommandPlace(str(scene.workspace), scene.env, scene.policy))
        is None
    )
    await process.stop()
    assert scene.is_clean()


async def test_without_a_folder_on_the_same_file_system_none_waits(scene: Scene) -> None:
    scene.spawn = SandboxSpawn(
        scene.processes, place=lambda: scene.place, choose=scene.choose, away="/dev/shm/bridle-test-masks"
    )
    at = CommandPlace(str(scene.workspace), scene.env, scene.policy)
    assert await scene.spawn.wait_for_command(at) is None
    await scene.processes.close()
    assert scene.is_clean()
    shutil.rmtree("/dev/shm/bridle-test-masks")


async def test_what_a_killed_engine_left_is_removed_by_the_next(scene: Scene) -> None:
    left = scene.away / "left-0"
    left.mkdir(parents=True)
    left.chmod(0o1755)
    await scene.wait()
    assert not left.exists()


async def test_a_file_of_a_person_survives_one_that_is_thrown_away(scene: Scene) -> None:
    await scene.wait()
    (scene.workspace / "AGENTS.md").write_text("mine")
    scene.warm.discard()
    await scene.processes.close()
    assert (scene.workspace / "AGENTS.md").read_text() == "mine"


async def mounted_meanwhile(base: Path) -> None:
    processes = Processes()
    scene = Scene(base, processes)
    (scene.workspace / "disk").mkdir()
    await scene.wait()
    subprocess.run(["mount", "-t", "tmpfs", "none", scene.workspace / "disk"], check=True)
    assert await scene.run("true") == (0, "")
    assert scene.used == 0
    await processes.close()


def _in_process(function: str, base: Path, *prefix: str) -> subprocess.CompletedProcess[str]:
    """Runs one of the functions here in a process of its own."""
    code = f"import asyncio, pathlib, sys, {__name__.rpartition('.')[2]} as here; "
    code += f"asyncio.run(here.{function}(pathlib.Path(sys.argv[1])))"
    return subprocess.run(
        [*prefix, sys.executable, "-c", code, os.path.realpath(base)],
        cwd=os.path.dirname(__file__),
        capture_output=True,
        text=True,
        check=False,
    )


def test_one_that_waited_while_something_was_mounted_is_not_used(tmp_path: Path) -> None:
    unshare = ["unshare", *(["-r"] if os.getuid() else []), "--mount", "--propagation", "slave"]
    if subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("no namespaces of mounts here")
    done = _in_process("mounted_meanwhile", tmp_path, *unshare)
    assert done.returncode == 0, done.stderr


async def killed_meanwhile(base: Path) -> None:
    scene = Scene(base, Processes())
    await scene.wait()
    print(*_waiting(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def test_nothing_of_one_that_waited_is_left_when_its_engine_is_killed(tmp_path: Path) -> None:
    done = _in_process("killed_meanwhile", tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert list((tmp_path / "ws").iterdir()) == []
    for pid in map(int, done.stdout.split()):
        try:
            waiting = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        assert select.select([waiting], [], [], 20)[0], "it outlived its engine"
        os.close(waiting)
    assert done.stdout.split()


class Stays:
    """A process that stays beside the commands, and does each line it is given. Each of `late` is made while it
    is worked out what a command may touch, once the one before was put aside."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.notices: list[Notice] = []
        self.late: list[str] = []
        self._made = scene.base / "nothing"
        scene.place = msgspec.structs.replace(scene.place, others=self)

    def secrets(self, _own: object) -> tuple[str, ...]:
        if self.late and not self._made.exists():
            self.make(self.late.pop(0))
        return ()

    async def begin(self) -> None:
        up = asyncio.Event()
        pipe = self._scene.workspace / "lines"
        os.mkfifo(pipe)
        process = await self._scene.spawn(
            ["/bin/sh", "-c", 'echo up; exec < lines; while read -r line; do eval "$line"; done'],
            cwd=str(self._scene.workspace),
            env=self._scene.env,
            policy=msgspec.structs.replace(self._scene.policy, resident=True),
            call_id="mcp:one",
            on_output=lambda _chunk: up.set(),
            warm=self._scene.warm,
        )
        process.follow_put_aside(self.notices.append)
        await up.wait()
        self.lines = pipe.open("w", buffering=1)
        pipe.unlink()

    def make(self, path: str) -> None:
        """It is there when this returns, and nobody has looked: the loop does not run meanwhile."""
        self.lines.write(f"mkdir -p {os.path.dirname(path) or '.'}; echo x > {path}\n")
        self._made = self._scene.workspace / path
        while not self._made.exists():
            time.sleep(0.001)


@pytest.fixture
async def stays(scene: Scene) -> AsyncIterator[Stays]:
    if not can_listen():
        pytest.skip("this kernel does not tell who writes")
    made = Stays(scene)
    await made.begin()
    yield made
    made.lines.close()


async def test_a_process_that_stays_gets_a_sandbox_of_its_own_and_none_waits_for_another(
    scene: Scene, stays: Stays
) -> None:
    scene.warm.expect()
    await scene.clock.advance(DELAY_S)
    await asyncio.sleep(0)
    assert scene.asked == 0


async def test_what_one_that_stays_made_is_put_aside_and_a_sandbox_that_waited_holds(
    scene: Scene, stays: Stays
) -> None:
    await scene.wait()
    stays.make("AGENTS.md")
    code, _ = await scene.run("echo evil > AGENTS.md")
    assert code == 1
    assert scene.used == 1
    assert [path.name for path in scene.workspace.iterdir()] == ["AGENTS.md.put-aside-1"]
    assert [notice.reason for notice in stays.notices] == ["PutAside"]


async def test_a_sandbox_that_waited_is_not_used_when_something_is_put_aside_in_the_last_moment(
    scene: Scene, stays: Stays
) -> None:
    await scene.wait()
    stays.late = ["early/CLAUDE.md", "late/CLAUDE.md"]
    assert await scene.run("ls early late | sort -u | grep CLAUDE") == (0, "CLAUDE.md.put-aside-1\n")
    assert scene.used == 0


async def test_what_a_tool_writes_meanwhile_stays_and_is_held(scene: Scene, stays: Stays) -> None:
    await scene.wait()
    path = scene.workspace / "AGENTS.md"
    with scene.spawn.changing([str(path)]):
        path.write_text("by a tool")
        stays.make("plain")
    code, _ = await scene.run("echo evil > AGENTS.md")
    assert (code, scene.used) == (1, 0)
    assert path.read_text() == "by a tool"
    assert stays.notices == []


async def test_one_waits_beside_a_process_that_stays_in_a_repository(scene: Scene) -> None:
    subprocess.run(["git", "init", "-q", scene.workspace], check=True, env=scene.env)
    stays = Stays(scene)
    await stays.begin()
    before = sorted(path.name for path in (scene.workspace / ".git").iterdir())
    await scene.wait()
    assert [path.name for path in scene.workspace.iterdir()] == [".git"]
    attempts = ("echo evil > .git/commondir", "rm -f .git/commondir", "echo evil > AGENTS.md")
    assert (await scene.run("; ".join(f"({one}) && echo done" for one in attempts)))[1].count("done") == 0
    assert scene.used == 1
    assert [path.name for path in scene.workspace.iterdir()] == [".git"]
    assert sorted(path.name for path in (scene.workspace / ".git").iterdir()) == before
    stays.lines.close()


def test_a_mask_that_cannot_be_put_away_holds_up_nobody(tmp_path: Path) -> None:
    """As on a full disk: the next command takes a mask for the same place, and nobody is there to let it go."""
    place = str(tmp_path / "AGENTS.md")
    masks = Masks([place])
    with pytest.raises(FileNotFoundError):
        masks.put_away(str(tmp_path / "nowhere"))
    fd = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    finally:
        os.close(fd)
    masks.release()
    assert os.listdir(tmp_path) == []


@pytest.fixture
def handed(tmp_path: Path) -> Iterator[HandedMasks]:
    made = HandedMasks()
    made.folder = str(tmp_path / "away")
    (tmp_path / "away").mkdir()
    (tmp_path / "ws").mkdir()
    yield made
    made.close()


def _lying(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "away").iterdir())


def test_a_mask_is_handed_from_one_command_to_the_next(tmp_path: Path, handed: HandedMasks) -> None:
    folder, file = tmp_path / "ws" / "AGENTS.md", tmp_path / "ws" / "commondir"
    first = Masks([str(folder)], [(str(file), b".\n")], handed=handed)
    made = {path: path.stat().st_ino for path in (folder, file)}
    first.release()
    assert list((tmp_path / "ws").iterdir()) == []
    second = Masks([str(folder)], [(str(file), b".\n")], handed=handed)
    assert {path: path.stat().st_ino for path in (folder, file)} == made
    assert _lying(tmp_path) == []
    second.release()
    handed.close()
    assert [*_lying(tmp_path), *(tmp_path / "ws").iterdir()] == []


def test_masks_are_taken_away_where_nothing_is_handed_on_any_more(
    tmp_path: Path, handed: HandedMasks
) -> None:
    masks = Masks([str(tmp_path / "ws" / "AGENTS.md")], handed=handed)
    handed.close()
    masks.release()
    assert [*_lying(tmp_path), *(tmp_path / "ws").iterdir()] == []


def _fill(mask: Path) -> None:
    mask.chmod(0o1755)
    (mask / "of somebody").touch()


def _replace(mask: Path) -> None:
    mask.rmdir()
    mask.mkdir(0o755)
    mask.chmod(0o1755)


@pytest.mark.parametrize("spoil", [_fill, _replace, Path.rmdir])
def test_a_mask_that_is_not_what_it_was_is_not_used_again(
    tmp_path: Path, handed: HandedMasks, spoil: Callable[[Path], object]
) -> None:
    place = tmp_path / "ws" / "AGENTS.md"
    Masks([str(place)], handed=handed).release()
    (lying,) = _lying(tmp_path)
    spoil(lying)
    spoiled = [os.open(path, os.O_RDONLY) for path in _lying(tmp_path)]  # nobody gets its number meanwhile
    masks = Masks([str(place)], handed=handed)
    assert list(place.iterdir()) == []
    assert not any(os.path.samestat(place.stat(), os.fstat(fd)) for fd in spoiled)
    masks.release()
    assert list((tmp_path / "ws").iterdir()) == []
    for fd in spoiled:
        os.close(fd)


def test_a_mask_gives_way_to_what_stands_in_its_place(tmp_path: Path, handed: HandedMasks) -> None:
    place = tmp_path / "ws" / "AGENTS.md"
    Masks([str(place)], handed=handed).release()
    place.write_text("mine")
    Masks([str(place)], handed=handed).release()
    assert place.read_text() == "mine"
    assert _lying(tmp_path) == []


@pytest.mark.parametrize("times", [1, 2])
def test_what_somebody_put_into_a_mask_stays_where_it_is(
    tmp_path: Path, handed: HandedMasks, times: int
) -> None:
    place = tmp_path / "ws" / ".vscode"
    for _ in range(times - 1):
        Masks([str(place)], handed=handed).release()
    masks = Masks([str(place)], handed=handed)
    (place / "settings.json").write_text("mine")
    with pytest.raises(FileExistsError):
        masks.put_away(handed.folder)
    masks.release()
    assert (place / "settings.json").read_text() == "mine"
    assert _lying(tmp_path) == []


def test_a_folder_of_a_person_is_never_moved(tmp_path: Path, handed: HandedMasks) -> None:
    place = tmp_path / "ws" / ".vscode"
    place.mkdir()
    changed = (tmp_path / "ws").stat().st_ctime_ns
    Masks([str(place)], handed=handed).release()
    assert (tmp_path / "ws").stat().st_ctime_ns == changed
    assert (place.is_dir(), _lying(tmp_path)) == (True, [])


def test_a_mask_that_somebody_else_needs_is_not_handed_on(tmp_path: Path, handed: HandedMasks) -> None:
    place = tmp_path / "ws" / "AGENTS.md"
    masks, others = Masks([str(place)], handed=handed), Masks([str(place)])
    masks.release()
    assert (place.is_dir(), _lying(tmp_path)) == (True, [])
    others.release()
    assert not place.exists()


def test_masks_that_cannot_be_handed_on_are_taken_away_and_hold_up_nobody(
    tmp_path: Path, handed: HandedMasks
) -> None:
    """As on a full disk."""
    handed.folder = str(tmp_path / "nowhere")
    place = tmp_path / "ws" / "AGENTS.md"
    Masks([str(place)], handed=handed).release()
    assert list((tmp_path / "ws").iterdir()) == []


async def test_masks_of_a_command_lie_there_for_the_next_and_go_with_their_turn(scene: Scene) -> None:
    await scene.wait()
    await scene.run("true")
    lying = sorted(path.stat().st_ino for path in scene.away.iterdir())
    assert (scene.is_clean(), len(lying)) == (True, 5)
    await scene.run("true")
    assert sorted(path.stat().st_ino for path in scene.away.iterdir()) == lying
    scene.warm.discard()
    assert list(scene.away.iterdir()) == []


async def test_masks_of_a_command_that_outlives_its_turn_are_taken_away(scene: Scene) -> None:
    ready = asyncio.Event()
    process = await scene.spawn(
        ["/bin/bash", "-c", "echo; read -r _ < <(sleep 600)"],
        cwd=str(scene.workspace),
        env=scene.env,
        policy=scene.policy,
        call_id="call_1",
        on_output=lambda _chunk: ready.set(),
        warm=scene.warm,
    )
    await ready.wait()
    scene.warm.discard()
    await process.stop()
    assert scene.is_clean()
    assert list(scene.away.iterdir()) == []


async def killed_with_masks_handed_on(base: Path) -> None:
    scene = Scene(base, Processes())
    await scene.run("true")
    os.kill(os.getpid(), signal.SIGKILL)


def test_masks_that_a_killed_engine_had_handed_on_are_removed_by_the_next(tmp_path: Path) -> None:
    done = _in_process("killed_with_masks_handed_on", tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert list((tmp_path / "ws").iterdir()) == []
    masks = tmp_path / "state" / "masks"
    assert len(list(masks.iterdir())) == 5
    clear_away(str(masks))
    assert list(masks.iterdir()) == []


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
async def test_a_command_runs_where_masks_cannot_lie_anywhere(scene: Scene) -> None:
    scene.away.parent.mkdir(mode=0o500)
    assert await scene.run("true") == (0, "")
