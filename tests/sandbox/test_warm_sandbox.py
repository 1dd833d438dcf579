"""A sandbox that waited for its command holds it as any other does, or is not used."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bridle.base.processes import Processes
from bridle.conformance.fake_clock import FakeClock
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.bubblewrap import Bubblewrap
from bridle.sandbox.confinement import HostContext
from bridle.sandbox.sandbox_spawn import SandboxSpawn
from bridle.sandbox.warm_sandbox import DELAY_S, CommandPlace, WarmSandboxes

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
        place = HostContext(home=str(self.home), temporary=(str(base / "hosttmp"),))
        self.adapter = Bubblewrap(shutil.which("bwrap") or "bwrap")
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(self.home)}
        self.spawn = SandboxSpawn(processes, place=lambda: place, choose=self._choose, away=str(self.away))
        self.started = 0
        self.used = 0
        self.warm = WarmSandboxes(self._start, self.clock)
        self.policy = SpawnPolicy(
            mode="workspace-write", workspace=str(self.workspace), scratch=str(base / "scratch")
        )

    async def _choose(self) -> Bubblewrap:
        return self.adapter

    async def _start(self, at: CommandPlace) -> Any:
        sandbox = await self.spawn.wait_for_command(at)
        self.started += sandbox is not None
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
