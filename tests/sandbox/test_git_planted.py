"""Git that is led to run something: while a command holds what it planted, and once it is over.

The program that would run only leaves a marker. Everything is made by the test, in a folder of its own.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bridle.base.process.processes import Processes
from bridle.engine.ports import Process, SpawnPolicy
from bridle.sandbox.adapters.adapter import Adapter
from bridle.sandbox.adapters.bubblewrap import Bubblewrap
from bridle.sandbox.adapters.unshare import Unshare, programs
from bridle.sandbox.confinement import HostContext
from bridle.sandbox.sandbox_spawn import SandboxSpawn

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="these sandboxes need Linux")

HELD = "; echo held; read -r _ < let-go"
"""A command says that it has done its work, and waits."""


def bubblewrap() -> Adapter:
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bubblewrap is not installed")
    return Bubblewrap(program)


def unshare() -> Adapter:
    found = programs()
    if found is None:
        pytest.skip("unshare is not installed")
    return Unshare(found)


class Box:
    """A workspace and a program that leaves a marker; `spawn` starts commands as an engine does."""

    def __init__(self, base: Path, processes: Processes, adapter: Adapter) -> None:
        self.workspace = base / "ws"
        self.home = base / "home"
        self.marker = base / "marker"
        self.program = base / "program"
        for folder in (self.workspace, self.home, base / "hosttmp"):
            folder.mkdir()
        self.program.write_text(f"#!/bin/sh\n: > '{self.marker}'\n")
        self.program.chmod(0o755)
        place = HostContext(home=str(self.home), temporary=(str(base / "hosttmp"),))

        async def choose() -> Adapter:
            return adapter

        self.spawn = SandboxSpawn(processes, place=lambda: place, choose=choose)
        self.scratch = str(base / "scratch")
        self.output = bytearray()
        self.spoke = asyncio.Event()

    async def start(self, script: str, **policy: object) -> Process:
        fields = {"mode": "workspace-write", "workspace": str(self.workspace), "scratch": self.scratch}
        self.output.clear()
        self.spoke.clear()

        def read(chunk: bytes) -> None:
            self.output.extend(chunk)
            self.spoke.set()

        return await self.spawn(
            ["/bin/bash", "-c", script],
            cwd=str(self.workspace),
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.home), "P": str(self.program)},
            policy=SpawnPolicy(**{**fields, **policy}),
            call_id="call_1",
            on_output=read,
        )

    async def run(self, script: str, **policy: object) -> tuple[int, str]:
        """The exit code, and what was printed together with what is said about it."""
        process = await self.start(f"P={self.program}; {script}", **policy)
        code = await process.wait()
        await process.stop()
        printed = self.output.decode()
        return code, printed + process.blocked(printed)

    async def run_watched(self, script: str, look: Callable[[], object], **policy: object) -> tuple[int, str]:
        """The same; `look` is called while the command holds on to what it did."""
        door = self.workspace / "let-go"
        os.mkfifo(door)
        process = await self.start(f"P={self.program}; ({script}) 2>&1; {HELD[2:]}", **policy)
        while b"held" not in self.output and process.returncode is None:
            self.spoke.clear()
            await self.spoke.wait()
        look()
        await asyncio.to_thread(door.write_text, "\n")
        code = await process.wait()
        await process.stop()
        printed = self.output.decode()
        return code, printed + process.blocked(printed)

    def git(self, *arguments: str, cwd: Path | None = None, check: bool = True) -> str:
        """Git as the person and their editor use it."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.workspace,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1", **IDENTITY},
            capture_output=True,
            text=True,
            check=check,
        )
        return done.stdout

    def editor_looks(self, *folders: str) -> None:
        for folder in (".", *folders):
            if (self.workspace / folder).is_dir():
                self.git("status", cwd=self.workspace / folder, check=False)

    def repository(self, folder: Path | None = None) -> None:
        where = folder or self.workspace
        where.mkdir(exist_ok=True)
        self.git("init", "-q", "-b", "main", cwd=where)
        self.git("config", "user.name", "t", cwd=where)
        self.git("config", "user.email", "t@example.org", cwd=where)
        self.git("commit", "-q", "--allow-empty", "-m", "first", cwd=where)


IDENTITY = {
    f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}
EVIL = "cp -r .git evil && git config -f evil/config core.fsmonitor $P"


@pytest.fixture(params=[bubblewrap, unshare], ids=lambda made: made.__name__)
async def box(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Box]:
    processes = Processes()
    try:
        yield Box(Path(os.path.realpath(tmp_path)), processes, request.param())
    finally:
        await processes.close()


# While it runs


@pytest.mark.parametrize(
    "plant",
    [
        f"{EVIL}; echo $PWD/evil > .git/commondir",
        f"{EVIL}; rm -f .git/commondir; echo $PWD/evil > .git/commondir",
        f"{EVIL}; echo $PWD/evil > .git/c; mv -f .git/c .git/commondir",
        f"{EVIL}; ln -sfn $PWD/evil/x .git/commondir; chmod u+w .git/commondir; echo $PWD/evil > evil/x",
    ],
    ids=["write", "remove", "rename", "link"],
)
async def test_git_cannot_be_led_to_another_repository_while_a_command_runs(box: Box, plant: str) -> None:
    box.repository()
    await box.run_watched(plant, box.editor_looks)
    assert not box.marker.exists()
    assert not (box.workspace / ".git/commondir").exists()


async def test_the_settings_of_a_working_tree_cannot_be_planted_while_a_command_runs(box: Box) -> None:
    box.repository()
    box.git("config", "extensions.worktreeConfig", "true")
    settings = ".git/config.worktree"
    plant = f"git config -f {settings} core.fsmonitor $P || printf '[core]\\nfsmonitor=%s\\n' $P > {settings}"
    await box.run_watched(plant, box.editor_looks)
    assert not box.marker.exists()
    assert not (box.workspace / ".git/config.worktree").exists()


async def test_a_folder_without_a_repository_does_not_become_one_while_a_command_runs(box: Box) -> None:
    plant = "git init -q . && git config core.fsmonitor $P; mkdir -p .git; echo x > .git/HEAD"
    await box.run_watched(plant, box.editor_looks)
    assert not box.marker.exists()
    assert not (box.workspace / ".git").exists()


async def test_git_works_while_it_cannot_be_led_elsewhere(box: Box) -> None:
    box.repository()
    other = box.home / "other"
    box.repository(other)
    seen: list[str] = []

    def look() -> None:
        seen.append(box.git("status", "--porcelain", "--untracked-files=no"))
        box.git("worktree", "add", "-q", str(box.home / "side"), "-b", "side")
        seen.append(box.git("rev-parse", "--is-bare-repository"))

    code, output = await box.run_watched(
        f"set -e; echo b > b.txt; git add b.txt; git commit -qm second; git fetch -q {other} main; git gc -q;"
        " git branch third; git checkout -q third; git merge -q main; git stash list; git rev-parse --show-toplevel",
        look,
    )
    assert (code, output) == (0, f"{box.workspace}\nheld\n")
    assert seen == ["", "false\n"]
    assert box.git("log", "--format=%s", "main").split() == ["second", "first"]
    assert "side" in box.git("worktree", "list")
    assert not (box.workspace / ".git/commondir").exists()


@pytest.mark.parametrize("setting", ["core.worktree", "core.bare"])
async def test_a_repository_whose_working_tree_is_elsewhere_stays_as_it_is(box: Box, setting: str) -> None:
    box.repository()
    box.git("config", setting, {"core.worktree": str(box.home), "core.bare": "true"}[setting])
    before = box.git("rev-parse", "--is-bare-repository", "--is-inside-work-tree")
    seen: list[str] = []
    await box.run_watched(
        "true", lambda: seen.append(box.git("rev-parse", "--is-bare-repository", "--is-inside-work-tree"))
    )
    assert seen == [before]


# Killed in between


async def test_what_a_killed_engine_leaves_is_harmless_and_goes_with_the_next_command(box: Box) -> None:
    box.repository()
    (box.workspace / ".git/commondir").write_text(".\n")
    (box.workspace / ".git/commondir").chmod(0o1444)
    assert box.git("status", "--porcelain") == ""
    assert await box.run("git status --porcelain") == (0, "")
    assert not (box.workspace / ".git/commondir").exists()


# Once it is over

LOOKED_AT = ("sub", "b.git", "node_modules/x", "evil", "src")
ODD = {
    "nested": "git init -q sub && git -C sub config core.fsmonitor $P",
    "bare": "git init -q --bare b.git; cd b.git; git config core.bare false; git config core.worktree ..;"
    " git config core.fsmonitor $P",
    "link": f"{EVIL}; mkdir sub; ln -s ../evil sub/.git",
    "file": f"{EVIL}; mkdir sub; echo gitdir: ../evil > sub/.git",
    "file without config": "mkdir sub; echo gitdir: ../later > sub/.git",
    "dependencies": "mkdir -p node_modules/x; cd node_modules/x; git init -q .; git config core.fsmonitor $P",
    "existing": "git -C src config core.fsmonitor $P",
    "redirected": f"{EVIL}; echo $PWD/evil > src/.git/commondir",
    "hook": "git init -q sub; cp $P sub/.git/hooks/post-index-change; echo x > sub/x; git -C sub add x; touch sub/x",
    "old times": "git init -q sub; git -C sub config core.fsmonitor $P;"
    " touch -d 2001-01-01 sub/.git/config sub/.git sub .",
}


@pytest.mark.parametrize("plant", ODD.values(), ids=ODD)
async def test_a_repository_that_came_to_name_programs_is_put_aside_and_said(box: Box, plant: str) -> None:
    box.repository()
    box.repository(box.workspace / "src")
    await box.run("true")
    _, output = await box.run(plant)
    box.editor_looks(*LOOKED_AT)
    assert not box.marker.exists()
    assert "quarantined" in output
    assert "give-back" in output
    assert box.git("log", "--format=%s") == "first\n"


async def test_a_folder_that_becomes_a_repository_with_programs_is_none_afterwards(box: Box) -> None:
    _, output = await box.run("git init -q . && git config core.fsmonitor $P", new_repository=True)
    box.editor_looks()
    assert not box.marker.exists()
    assert "quarantined" in output


async def test_plain_repositories_stay(box: Box) -> None:
    other = box.home / "other"
    box.repository(other)
    (other / "AGENTS.md").write_text("theirs\n")
    box.git("add", ".", cwd=other)
    box.git("commit", "-qm", "second", cwd=other)
    box.repository()
    script = (
        f"git init -q new; git clone -q {other} theirs; git clone -q --bare {other} b.git; mkdir x;"
        " git worktree add -q trees/side -b side"
    )
    assert await box.run(script, git_config=True) == (0, "")
    assert box.git("log", "--format=%s", cwd=box.workspace / "theirs").split() == ["second", "first"]
    assert (box.workspace / "theirs/AGENTS.md").exists()
    assert (box.workspace / "trees/side/.git").exists()
    assert (box.workspace / "new/.git/HEAD").exists()


async def test_a_repository_that_named_programs_before_stays(box: Box) -> None:
    box.repository()
    box.repository(box.workspace / "src")
    box.git("config", "core.fsmonitor", "false; true", cwd=box.workspace / "src")
    assert await box.run("git -C src config user.name other") == (0, "")
    assert (box.workspace / "src/.git").exists()


# Files that later runs obey, below the top and beside it


@pytest.mark.parametrize(
    ("plant", "path"),
    [
        ("echo evil > src/AGENTS.md", "src/AGENTS.md"),
        ("mkdir -p src/deep/.vscode; echo evil > src/deep/.vscode/tasks.json", "src/deep/.vscode"),
        ("echo evil > .envrc", ".envrc"),
        ("mkdir .claude; echo evil > .claude/settings.json", ".claude"),
        ("echo evil > CLAUDE.md", "CLAUDE.md"),
        ("echo evil > x; mv x src/CLAUDE.md; touch -d 2001-01-01 src/CLAUDE.md src", "src/CLAUDE.md"),
        ("echo evil > x; ln -s ../x src/GEMINI.md", "src/GEMINI.md"),
        ("mkdir x; echo evil > x/mcp.json; mv x src/.cursor", "src/.cursor"),
        ("mkdir -p src/.cargo; echo evil > src/.cargo/config.toml", "src/.cargo/config.toml"),
    ],
)
async def test_a_file_that_later_runs_obey_is_put_aside_where_it_appeared(
    box: Box, plant: str, path: str
) -> None:
    (box.workspace / "src").mkdir()
    await box.run("true")
    code, output = await box.run(plant)
    assert code == 0
    assert not os.path.lexists(box.workspace / path)
    assert os.path.lexists(box.workspace / f"{path}.put-aside-1")
    assert f"{path}.put-aside-1" in output


@pytest.mark.parametrize("path", ["src/AGENTS.md", "src/.vscode/tasks.json", "src/.claude/hooks/a.sh"])
async def test_a_file_that_later_runs_obey_is_put_back_where_it_was_changed(box: Box, path: str) -> None:
    file = box.workspace / path
    file.parent.mkdir(parents=True)
    file.write_text("mine\n")
    await box.run("true")
    file.write_text("mine, again\n")
    _, output = await box.run(f"echo evil >> {path}; touch -d 2001-01-01 {path}")
    assert file.read_text() == "mine, again\n"
    assert Path(f"{file}.put-aside-1").read_text() == "mine, again\nevil\n"
    assert "put-aside-1" in output


async def test_what_nobody_obeys_and_what_goes_is_left_alone(box: Box) -> None:
    (box.workspace / "src").mkdir()
    (box.workspace / "src/AGENTS.md").write_text("mine\n")
    (box.workspace / "old").mkdir()
    (box.workspace / "old/AGENTS.md").write_text("mine\n")
    await box.run("true")
    script = (
        "mkdir -p node_modules/x/.vscode .github/workflows; echo x > node_modules/x/AGENTS.md;"
        " echo x > node_modules/x/.vscode/a; echo x > .github/workflows/ci.yml; rm src/AGENTS.md; mv old new"
    )
    assert await box.run(script) == (0, "")
    assert (box.workspace / "new/AGENTS.md").read_text() == "mine\n"


async def test_what_came_with_a_new_repository_is_put_aside_where_it_is_moved(box: Box) -> None:
    (box.workspace / "src").mkdir()
    assert await box.run("git init -q new; echo evil > new/AGENTS.md") == (0, "")
    _, output = await box.run("rm -r src new/.git; mv new src")
    assert "src/AGENTS.md was quarantined" in output
    assert not (box.workspace / "src/AGENTS.md").exists()


async def test_what_a_person_made_between_two_commands_stays(box: Box) -> None:
    (box.workspace / "src").mkdir()
    await box.run("true")
    (box.workspace / "src/AGENTS.md").write_text("mine\n")
    assert await box.run("touch src/more") == (0, "")
    assert (box.workspace / "src/AGENTS.md").read_text() == "mine\n"


async def test_what_a_person_agreed_to_stays(box: Box) -> None:
    (box.workspace / "src").mkdir()
    file = box.workspace / "src/AGENTS.md"
    assert await box.run("echo new > src/AGENTS.md", agreed=(str(file),)) == (0, "")
    assert file.read_text() == "new\n"
    assert await box.run("echo new > AGENTS.md", agreed=(str(box.workspace / "AGENTS.md"),)) == (0, "")
    assert (box.workspace / "AGENTS.md").read_text() == "new\n"


async def test_what_a_person_agreed_to_opens_nothing_of_git_or_ours(box: Box) -> None:
    box.repository()
    hook = box.workspace / ".git/hooks/pre-commit"
    mine = box.workspace / ".bridle/config.toml"
    code, _ = await box.run(
        "echo x > .git/hooks/pre-commit || mkdir .bridle/x", agreed=(str(hook), str(mine))
    )
    assert code != 0
    assert not hook.exists()


async def test_two_commands_at_once_do_not_hide_what_one_of_them_made(box: Box) -> None:
    (box.workspace / "src").mkdir()
    os.mkfifo(box.workspace / "let-go")
    first = await box.start(f"echo evil > src/AGENTS.md{HELD}")
    while b"held" not in box.output:
        box.spoke.clear()
        await box.spoke.wait()
    _, output = await box.run("true")
    await asyncio.to_thread((box.workspace / "let-go").write_text, "\n")
    await first.wait()
    await first.stop()
    assert "quarantined" in first.blocked("") + output
    assert not (box.workspace / "src/AGENTS.md").exists()


async def test_what_cannot_be_renamed_as_usual_is_put_aside_all_the_same(box: Box) -> None:
    (box.workspace / "src/.cursor").mkdir(parents=True)
    await box.run("true")
    taken = "for n in {1..10000}; do : > src/AGENTS.md.put-aside-$n; done; echo evil > src/AGENTS.md"
    _, output = await box.run(taken)
    assert "src/AGENTS.md was quarantined" in output
    assert not os.path.lexists(box.workspace / "src/AGENTS.md")
    long = "r" * 251 + ".mdc"
    _, output = await box.run(f"echo evil > src/.cursor/{long}")
    assert f"{long} was quarantined" in output
    assert not os.path.lexists(box.workspace / "src/.cursor" / long)


async def test_what_came_with_a_repository_is_put_aside_when_that_is_gone(box: Box) -> None:
    await box.run("true")
    assert await box.run("git init -q new; echo evil > new/AGENTS.md") == (0, "")
    _, output = await box.run("rm -rf new/.git")
    assert "new/AGENTS.md was quarantined" in output
    assert not (box.workspace / "new/AGENTS.md").exists()


async def test_a_long_file_that_later_runs_obey_is_no_exception(box: Box) -> None:
    file = box.workspace / "src/AGENTS.md"
    file.parent.mkdir()
    file.write_text("mine\n" * 100_000)
    await box.run("true")
    _, output = await box.run("echo evil >> src/AGENTS.md")
    assert "src/AGENTS.md was quarantined" in output


async def test_a_file_that_could_not_be_read_before_is_no_exception(box: Box) -> None:
    (box.workspace / "src").mkdir()
    os.mkfifo(box.workspace / "src/CLAUDE.md")
    await box.run("true")
    _, output = await box.run("echo evil > x; mv -f x src/CLAUDE.md")
    assert "CLAUDE.md was quarantined" in output
    assert not (box.workspace / "src/CLAUDE.md").exists()
