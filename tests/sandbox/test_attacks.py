"""Ways out of the sandbox that were found by looking for them: each was open once.

Everything attacked here is made by the test, in a folder of its own.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bridle.base.git.git_config import submodule_folders, unproven_settings
from bridle.base.process.processes import CannotStart, Processes
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.adapters import landlock
from bridle.sandbox.adapters.adapter import Adapter
from bridle.sandbox.adapters.adapter_start import HeldBack, start
from bridle.sandbox.adapters.bubblewrap import Bubblewrap
from bridle.sandbox.adapters.mount_check import arguments_of_check, mounted_now, mounts_of
from bridle.sandbox.adapters.unshare import Unshare, programs
from bridle.sandbox.confinement import HostContext, confinement_of
from bridle.sandbox.sandbox_spawn import SandboxSpawn

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="these sandboxes need Linux")

needs_landlock = pytest.mark.skipif(not landlock.available(), reason="this kernel has no Landlock")


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


@pytest.fixture(params=[bubblewrap, unshare], ids=lambda made: made.__name__)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    return request.param()


class Box:
    """A workspace, a home and an outside, and how commands are started in them."""

    def __init__(self, base: Path, processes: Processes) -> None:
        self.base = base
        self.processes = processes
        self.workspace = base / "ws"
        self.outside = base / "outside"
        self.home = base / "home"
        for folder in (self.workspace, self.outside, self.home, base / "hosttmp"):
            folder.mkdir()
        self.place = HostContext(home=str(self.home), temporary=(str(base / "hosttmp"),))

    def policy(self, **fields: object) -> SpawnPolicy:
        return SpawnPolicy(
            **{
                "mode": "workspace-write",
                "workspace": str(self.workspace),
                "network": "deny",
                "scratch": str(self.base / "scratch"),
                **fields,
            }
        )

    async def run(self, adapter: Adapter, script: str, **policy: object) -> tuple[int, str]:
        """The exit code, and what was printed together with what is said about it."""

        async def choose() -> Adapter:
            return adapter

        output = bytearray()
        spawn = SandboxSpawn(self.processes, place=lambda: self.place, choose=choose)
        process = await spawn(
            ["/bin/bash", "-c", script],
            cwd=str(self.workspace),
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.home)},
            policy=self.policy(**policy),
            call_id="call_1",
            on_output=output.extend,
        )
        code = await process.wait()
        printed = output.decode("utf-8", "replace")
        return code, printed + process.blocked(printed)

    async def run_disturbed(
        self, adapter: Adapter, script: str, disturb: Callable[[], None]
    ) -> tuple[int, str]:
        """The same, and something happens in the workspace between looking and starting."""
        confinement = confinement_of(self.policy(), self.place, str(self.workspace))
        launch = adapter.confined(
            ["/bin/bash", "-c", script], cwd=str(self.workspace), confinement=confinement
        )
        output = bytearray()
        disturb()
        try:
            process = await start(
                self.processes,
                launch,
                cwd=str(self.workspace),
                env={"PATH": "/usr/bin:/bin", "HOME": str(self.home)},
                on_output=output.extend,
                ended=launch.ended,
            )
            code = await process.wait()
        except HeldBack as held_back:
            return held_back.process.returncode or 0, held_back.said.decode("utf-8", "replace")
        return code, output.decode("utf-8", "replace")

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        """Git as the person uses it."""
        names = [f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.workspace,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(self.home),
                "GIT_CONFIG_NOSYSTEM": "1",
                **dict.fromkeys(names, "t@example.org"),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def repository(self, folder: Path | None = None) -> None:
        where = folder or self.workspace
        where.mkdir(exist_ok=True)
        self.git("init", "-q", "-b", "main", cwd=where)
        self.git("commit", "-q", "--allow-empty", "-m", "first", cwd=where)


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    processes = Processes()
    try:
        yield Box(Path(os.path.realpath(tmp_path)), processes)
    finally:
        await processes.close()


# While one command is being started, another one that runs already puts a link in the place of a folder


@pytest.mark.parametrize("absolute", [False, True], ids=["relative", "absolute"])
async def test_a_folder_swapped_for_a_link_opens_nothing_outside(
    box: Box, adapter: Adapter, absolute: bool
) -> None:
    github = box.workspace / ".github"
    (github / "agents").mkdir(parents=True)
    (box.outside / "agents").mkdir()

    def swap() -> None:
        github.rename(box.workspace / "moved")
        github.symlink_to(box.outside if absolute else "../outside")

    code, output = await box.run_disturbed(adapter, f"touch .github/in {box.outside}/in; echo ran", swap)
    assert code != 0
    assert "ran" not in output
    assert sorted(path.name for path in box.outside.iterdir()) == ["agents"]


async def test_a_file_swapped_for_a_link_shows_nothing_that_is_hidden(box: Box, adapter: Adapter) -> None:
    (box.home / ".ssh").mkdir()
    (box.home / ".ssh" / "id_test").write_text("what the test planted")
    instructions = box.workspace / "CLAUDE.md"
    instructions.write_text("be nice\n")

    def swap() -> None:
        instructions.unlink()
        instructions.symlink_to("../home/.ssh/id_test")

    script = f"chmod 700 {box.home}/.ssh; cat CLAUDE.md {box.home}/.ssh/id_test"
    _code, output = await box.run_disturbed(adapter, script, swap)
    assert "planted" not in output


async def test_what_keeps_a_name_free_is_not_swapped_for_a_link(box: Box, adapter: Adapter) -> None:
    mask = box.workspace / ".git"

    def swap() -> None:
        with contextlib.suppress(FileNotFoundError):
            mask.rmdir()
        mask.symlink_to("../outside")

    code, output = await box.run_disturbed(adapter, "echo ran; rm .git; echo evil > .git", swap)
    assert (code != 0, "ran" in output) == (True, False)
    assert os.readlink(mask) == "../outside"
    assert list(box.outside.iterdir()) == []


async def test_a_name_that_is_kept_free_takes_nothing_to_the_disk(box: Box, adapter: Adapter) -> None:
    script = "echo evil > .git; chmod 777 .git; rmdir .git; mv .git m; rm -r .git; mkdir .git/x; true"
    assert (await box.run(adapter, script))[0] == 0
    assert list(box.workspace.iterdir()) == []


async def test_what_vanishes_while_it_is_looked_at_is_no_crash(box: Box) -> None:
    class Restless(Bubblewrap):
        def confined(self, *_arguments: object, **_more: object) -> object:
            raise FileNotFoundError(2, "gone", "x")

    with pytest.raises(CannotStart) as refused:
        await box.run(Restless("bwrap"), "echo ran")  # pyright: ignore[reportArgumentType]
    assert refused.value.reason == "no sandbox"


@pytest.mark.parametrize("name", ["a b", "tab\there", "new\nline", "back\\slash", "ünï-日本", "#x", "\\040"])
async def test_the_mounts_are_known_whatever_the_folder_is_called(
    box: Box, adapter: Adapter, name: str
) -> None:
    box.workspace = box.base / name
    box.workspace.mkdir()
    code, output = await box.run(adapter, "echo x > made && echo x > .git || echo kept")
    assert (code, (box.workspace / "made").exists()) == (0, True)
    assert "kept" in output


async def test_a_command_does_not_find_in_its_environment_how_it_was_checked(
    box: Box, adapter: Adapter
) -> None:
    _code, output = await box.run(adapter, "env; tr '\\0' '\\n' < /proc/$$/environ")
    assert "MOUNT" not in output


def test_only_what_may_be_written_is_expected_to_be_writable(box: Box) -> None:
    confinement = confinement_of(box.policy(), box.place)
    writable, readable, devices = arguments_of_check(mounts_of(confinement), confinement, mounted_now())
    here = [name for name in writable.split() if name.endswith(str(box.workspace))]
    assert len(here) == 1
    assert here[0].rpartition(":")[0].rpartition(":")[0] in devices.split()
    assert not [name for name in (writable + readable).split() if name.endswith(str(box.outside))]


async def test_the_kernels_knobs_are_read_only_to_root_too(box: Box, adapter: Adapter) -> None:
    """Asked of the mounts alone: nothing is opened."""
    _code, output = await box.run(adapter, "cut -d' ' -f5,6 /proc/self/mountinfo | grep '^/sys'")
    assert output
    assert not [line for line in output.splitlines() if not line.split()[1].startswith("ro")]


# Folders that a setting opens, and links that a command made


@pytest.mark.parametrize("spelled", [".vscode", "{base}/ws/.vscode", "{base}/alias/.vscode", ".vscode/deep"])
def test_a_link_in_the_workspace_does_not_open_what_it_leads_to(box: Box, spelled: str) -> None:
    (box.outside / "deep").mkdir()
    (box.base / "alias").symlink_to("ws")
    (box.workspace / ".vscode").symlink_to("../outside")
    asked = spelled.format(base=box.base)
    confinement = confinement_of(box.policy(writable=(asked,)), box.place)
    assert not [path for path in confinement.writable if path.startswith(str(box.outside))]
    assert confinement.left_out == (os.path.normpath(box.workspace / asked),)


def test_a_link_of_the_person_opens_what_it_leads_to(box: Box) -> None:
    (box.home / "cache").symlink_to("../outside")
    confinement = confinement_of(box.policy(writable=(str(box.home / "cache"),)), box.place)
    assert str(box.outside) in confinement.writable


# Git's settings, where a command may write them


async def test_open_settings_come_to_name_no_program(box: Box, adapter: Adapter) -> None:
    box.repository()
    code, output = await box.run(
        adapter,
        "git remote add origin https://example.org/x && git config core.fsmonitor ./x",
        git_config=True,
    )
    assert code == 0
    assert "[sandbox: .git/config was restored" in output
    assert "fsmonitor" not in box.git("config", "--list", "--local")


async def test_open_settings_take_what_names_no_program(box: Box, adapter: Adapter) -> None:
    box.repository()
    box.git("config", "core.editor", "the person's own")
    code, output = await box.run(
        adapter,
        "git remote add origin https://example.org/x; git config user.name me; git sparse-checkout set a",
        git_config=True,
    )
    assert (code, "[sandbox" in output) == (0, False), output
    assert box.git("config", "remote.origin.url") == "https://example.org/x\n"
    assert box.git("config", "core.editor") == "the person's own\n"


async def test_a_program_of_the_persons_is_not_exchanged_for_another(box: Box, adapter: Adapter) -> None:
    box.repository()
    box.git("config", "core.editor", "mine")
    await box.run(adapter, "git config core.editor theirs", git_config=True)
    assert box.git("config", "core.editor") == "mine\n"


async def test_settings_of_a_working_tree_come_to_name_no_program(box: Box, adapter: Adapter) -> None:
    box.repository()
    script = "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor ./x"
    await box.run(adapter, script, git_config=True)
    assert not (box.workspace / ".git" / "config.worktree").exists()


@pytest.mark.parametrize(
    ("text", "unproven"),
    [
        ('[remote "o"]\n\turl = x\n', []),
        ("[core]\n\tfsmonitor = x\n", ["[core] fsmonitor = x"]),
        ("[core]\n\tbare = false\n[include]\n\tpath = x\n", ["[include] path = x"]),
        ("[alias] x = !y", ["[alias] x = !y"]),
        ("[core\n", ["[core\n"]),
        ("[user]\n\tname = a\\\nb\n", ["[user]\n\tname = a\\\nb\n"]),
    ],
)
def test_settings_that_may_name_a_program_are_told_from_others(text: str, unproven: list[str]) -> None:
    assert unproven_settings(text) == frozenset(unproven)


# A submodule has settings of its own, and `git status` in the whole obeys them

_HOSTILE = (
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b;"
    "git init -q sub && git -C sub commit -q --allow-empty -m x && git add sub 2>/dev/null;"
    'git -C sub config core.fsmonitor "touch {mark}; false"'
)


@pytest.mark.parametrize(
    "more", ["true", "git update-index --index-version 4", "git update-index --split-index"]
)
async def test_the_person_looks_at_the_repository_and_nothing_of_a_submodule_runs(
    box: Box, adapter: Adapter, more: str
) -> None:
    box.repository()
    mark = box.outside / "ran"
    _code, output = await box.run(adapter, f"touch a b c; git add .; {_HOSTILE.format(mark=mark)}; {more}")
    assert "[sandbox: sub/.git was quarantined" in output
    box.git("status")
    assert not mark.exists()
    assert (box.workspace / "sub" / ".git.put-aside-1" / "config").exists()


async def test_a_submodule_that_becomes_one_later_is_looked_at_too(box: Box, adapter: Adapter) -> None:
    box.repository()
    mark = box.outside / "ran"
    making, _, _ = _HOSTILE.format(mark=mark).partition("git add")
    await box.run(adapter, making + f'true; git -C sub config core.fsmonitor "touch {mark}; false"')
    await box.run(adapter, "git add sub 2>/dev/null")
    box.git("status")
    assert not mark.exists()


async def test_an_ordinary_submodule_stays(box: Box, adapter: Adapter) -> None:
    box.repository()
    box.repository(box.workspace / "lib")
    box.git("config", "core.editor", "the person's own", cwd=box.workspace / "lib")
    _code, output = await box.run(adapter, "git init -q new; echo x > y; git add y")
    assert "[sandbox" not in output
    box.git("add", "lib")
    code, output = await box.run(adapter, "git status --short && git -C lib log --oneline")
    assert (code, "[sandbox" in output) == (0, False)
    assert (box.workspace / "lib" / ".git" / "config").exists()


async def test_settings_of_a_submodule_that_is_there_are_protected(box: Box, adapter: Adapter) -> None:
    box.repository()
    box.repository(box.workspace / "lib")
    box.git("add", "lib")
    before = (box.workspace / "lib/.git/config").read_text()
    code, _output = await box.run(
        adapter,
        "echo '[core]fsmonitor=x' >> lib/.git/config; mkdir -p lib/.git/hooks; echo x > lib/.git/hooks/x",
    )
    assert code == 1
    assert (box.workspace / "lib/.git/config").read_text() == before
    assert not (box.workspace / "lib/.git/hooks/x").exists()


def test_an_index_that_names_folders_elsewhere_leads_nowhere(box: Box) -> None:
    box.repository()
    other = box.base / "other"
    box.repository(other)
    (box.workspace / "link").symlink_to("../other")
    head = b"DIRC" + (2).to_bytes(4, "big")
    names = [b"../other", b"a/../../other", b"link", str(other).encode(), b"sub"]
    (box.workspace / "sub").mkdir()
    entries = b""
    for name in names:
        entry = bytes(24) + b"\x00\x00\xe0\x00" + bytes(32) + len(name).to_bytes(2, "big") + name
        entries += entry + bytes(8 - len(entry) % 8)
    (box.workspace / ".git/index").write_bytes(head + len(names).to_bytes(4, "big") + entries)
    found = submodule_folders(str(box.workspace), str(box.workspace / ".git"))
    assert found == [str(box.workspace / "sub")]


# Landlock


@needs_landlock
async def test_no_file_is_made_to_run_as_its_owner(box: Box) -> None:
    victim = box.outside / "victim"
    victim.write_text("")
    victim.chmod(0o700)
    script = (
        f"chmod u+s {victim}; python3 -c 'import os; os.chmod(\"{victim}\", 0o4755)'; mkdir d; chmod g+s d"
    )
    code, output = await box.run(landlock.Landlock(temporary=str(box.base)), script)
    assert victim.stat().st_mode & 0o7000 == 0
    assert output.count("not permitted") == 2
    assert code == 0


async def test_eight_commands_at_once_leave_nothing_behind(box: Box, adapter: Adapter) -> None:
    before = len(os.listdir("/proc/self/fd"))
    results = await asyncio.gather(*(box.run(adapter, f"echo {index} > {index}") for index in range(8)))
    assert [code for code, _ in results] == [0] * 8
    assert sorted(path.name for path in box.workspace.iterdir()) == list(map(str, range(8)))
    assert len(os.listdir("/proc/self/fd")) <= before + 3  # the list and the pipes of the guardian


@pytest.mark.parametrize("make", [bubblewrap, unshare, landlock.Landlock], ids=lambda made: made.__name__)
async def test_programs_in_a_temporary_folder_are_visible_and_read_only(
    box: Box, make: Callable[[], Adapter]
) -> None:
    if make is landlock.Landlock and not landlock.available():
        pytest.skip("this kernel has no Landlock")
    server = box.base / "hosttmp" / "srv" / "app"
    server.mkdir(parents=True)
    (server / "run").write_text("#!/bin/sh\necho started\n")
    (server / "run").chmod(0o755)
    for other in ("hosttmp/other", "hosttmp/srv/other"):
        (box.base / other).write_text("of another program")
    script = f"""
    {server}/run
    (echo x >> {server}/run) 2>/dev/null && echo changed
    (echo x > {server}/new) 2>/dev/null && echo added
    cat {box.base}/hosttmp/other {box.base}/hosttmp/srv/other 2>/dev/null
    true
    """
    code, printed = await box.run(make(), script, programs=(str(server), str(box.base / "hosttmp")))
    assert (code, printed.splitlines()[0]) == (0, "started")
    assert not {"changed", "added", "of another program"} & set(printed.splitlines())
    assert os.listdir(server) == ["run"]
