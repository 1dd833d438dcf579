"""Hostile commands: none has an effect that nobody was asked about.

Each is decided as a session would in mode default. What is allowed is run for real, in a world that is thrown away:
nothing but its scratch folder is writable, no home of this machine is there, and no network.
"""

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from bridle.app.queries.explain import Explained, Unexplainable, explain, standing
from safety.corpus.loading import SYSTEM_PATH, Scene, hostile

CASES = hostile()
SECRETS = (".netrc", ".pgpass", ".bash_history", ".ssh/id_rsa", ".aws/credentials", "project/.env")
_HARMLESS_OPENS = re.compile(r'"/dev/(?:null|tty)"')
_EFFECT = re.compile(
    r"^\d+ +(?:open|openat|creat|unlink|unlinkat|rename\w*|mkdir\w*|rmdir|link\w*|symlink\w*|chmod|fchmod\w*|chown|"
    r"truncate|mknod\w*|mount|umount\w*|setxattr|utimensat)\((?!.* = -1 )"
    r"|^\d+ +(?:connect|sendto|sendmsg|bind)\(.*AF_INET"
)
_ONLY_READS = re.compile(r"^\d+ +(?:open|openat)\((?!.*O_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND))")


class World:
    """A home with secrets and a project in it, a program nobody should start, and a way to run things there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.scene = Scene.make_daily(root / "world")
        self.canary = "".join(Random(7).choices("abcdefghkmnpqrstuvwxyz", k=24))
        for name in SECRETS:
            path = Path(self.scene.home, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{self.canary}\n")
        evil = Path(self.scene.cwd, "evil")
        evil.write_text("#!/bin/sh\n: > marker\n")
        evil.chmod(0o755)
        self.env = {"PATH": SYSTEM_PATH, "HOME": self.scene.home, "LC_ALL": "C.UTF-8"}

    async def decide(self) -> dict[str, Explained | None]:
        own = str(self.root / "own")
        here = standing({**self.env, "BRIDLE_HOME": own}, cwd=self.scene.cwd, mode="default")
        found: dict[str, Explained | None] = {}
        for case in CASES:
            try:
                found[case.command] = await explain(here, "bash", {"command": case.command})
            except Unexplainable:
                found[case.command] = None
        return found

    def effects(self, command: str) -> list[str]:
        """What came of a command: files that changed, secrets that were printed, calls that would change or connect."""
        before, trace = self._state(), self.root / "trace"
        strace = shutil.which("strace", path=SYSTEM_PATH)
        watch = (
            [strace, "-f", "-qq", "-o", str(trace / "log"), "-e", "trace=%file,%network,%process"]
            if strace
            else []
        )
        trace.mkdir(exist_ok=True)
        ran = subprocess.run(
            [*self.confinement(), "--bind", str(trace), str(trace), *watch, "bash", "-c", command],
            cwd=self.scene.cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
        after = self._state()
        found = [path for path in {*before, *after} if before.get(path) != after.get(path)]
        if self.canary.encode() in ran.stdout + ran.stderr:
            found.append("a secret was printed")
        log = (trace / "log").read_text(errors="replace") if strace else ""
        return found + [line for line in log.splitlines() if _is_effect(line)]

    def confinement(self) -> list[str]:
        hidden = [
            f"--tmpfs={folder}" for folder in ("/root", "/home", "/work", "/tmp") if os.path.isdir(folder)
        ]
        world = str(self.root / "world")
        return [
            shutil.which("bwrap", path=SYSTEM_PATH) or "bwrap", "--die-with-parent", "--unshare-all",
            "--ro-bind", "/", "/",
            *(word for option in hidden for word in option.split("=")), "--dev", "/dev", "--proc", "/proc",
            "--bind", world, world,
        ]  # fmt: skip

    def _state(self) -> dict[str, tuple[int, int, bytes]]:
        found: dict[str, tuple[int, int, bytes]] = {}
        for folder, folders, files in os.walk(self.root / "world"):
            for name in (*folders, *files):
                path = Path(folder, name)
                status = path.lstat()
                content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                found[str(path)] = (status.st_mode, status.st_mtime_ns, content)
        return found


def _is_effect(line: str) -> bool:
    return bool(_EFFECT.match(line)) and not _ONLY_READS.match(line) and not _HARMLESS_OPENS.search(line)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(Path(os.path.realpath(tmp_path)))
    if subprocess.run([*made.confinement(), "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs bubblewrap that works: what is allowed is run for real")
    return made


@pytest.mark.timeout(120)
async def test_no_hostile_command_has_an_effect_that_nobody_was_asked_about(world: World) -> None:
    assert len(CASES) >= 300
    said = await world.decide()
    allowed = [
        command for command, answer in said.items() if answer is not None and answer.verdict == "allow"
    ]
    effects = {command: found for command in allowed if (found := world.effects(command))}
    print(Counter(answer.verdict if answer is not None else "no call" for answer in said.values()))
    assert effects == {}


def test_the_check_itself_sees_effects(world: World) -> None:
    for command in ("./evil", "cat ../.netrc", "mkdir x", "exec 3<>/dev/udp/127.0.0.1/9; echo x >&3"):
        assert world.effects(command), command
    assert world.effects("ls; cat README.md; grep -rn main src") == []
