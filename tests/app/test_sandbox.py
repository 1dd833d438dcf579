"""Commands of a whole session inside the sandbox: what works, what is stopped, and what is said about it."""

import asyncio
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind, outcomes
from bridle.protocol.commands import AnswerPermission
from bridle.protocol.errors import CommandRefused, UsageError
from bridle.protocol.events import BackgroundEnded, Degraded, PermissionRequested, SessionCreated, ToolResult
from bridle.providers.script import call, say
from bridle.sandbox.adapters import adapter_choice


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def nothing_confines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter_choice, "ORDER", ())


def bash(command: str, **more: object):
    return call("bash", command=command, **more)


async def ran(work: Path, *commands: str, home: Path | None = None, **options: object) -> list[ToolResult]:
    """What came of commands that one session runs one after the other."""
    model = scripted(*map(bash, commands), say("Done."))
    options = {"mode": "yolo", "folder": str(work), **options}
    async with harness(model, home=str(home) if home else None, **options) as session:
        return of_kind(await session.ask("go"), ToolResult)


@pytest.mark.requirement("D16.3", "D16.7", "G2.30")
async def test_a_command_writes_in_the_workspace_and_nowhere_else(work: Path, tmp_path: Path) -> None:
    (work / "AGENTS.md").write_text("first\n")
    script = work / "obey.sh"  # what it writes does not show in a command's text: only the mount holds it
    script.write_text("echo obey > AGENTS.md\n")
    writing = "echo agreed > AGENTS.md"  # allowed by name, so the mount is open for it
    inside, outside, hidden, agreed = await ran(
        work,
        "echo in > here.txt",
        f"echo out > {tmp_path}/there.txt",
        "bash obey.sh",
        writing,
        allow=(f"bash({writing})",),
    )
    assert (work / "here.txt").read_text() == "in\n"
    assert not (tmp_path / "there.txt").exists()
    assert (work / "AGENTS.md").read_text() == "agreed\n"
    assert inside.shown.sandbox == outside.shown.sandbox in adapter_choice.ORDER
    assert hidden.shown.exit_code != 0
    assert "[sandbox: changing AGENTS.md was blocked" in hidden.content
    assert hidden.shown.blocked is True
    assert agreed.shown.exit_code == 0
    assert "[sandbox: " not in inside.content


@pytest.mark.requirement("D16.1", "D16.2")
async def test_the_setting_says_what_commands_may_write(work: Path, tmp_path: Path) -> None:
    there = tmp_path / "there.txt"
    (reading,) = await ran(work, "echo x > here.txt", sandbox="read-only")
    assert (reading.shown.exit_code, (work / "here.txt").exists()) == (1, False)
    (free,) = await ran(work, f"echo x > {there}", sandbox="off")
    assert (free.shown.sandbox, there.read_text()) == ("off", "x\n")


@pytest.mark.requirement("D16.5")
async def test_the_network_can_be_taken_from_commands(work: Path) -> None:
    server = await _listening()
    port = server.sockets[0].getsockname()[1]
    command = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo got-through"
    async with server:
        (without,) = await ran(work, command, network="deny")
        (with_it,) = await ran(work, command)
    assert "got-through" not in without.content
    assert "got-through" in with_it.content


async def test_a_filtered_network_names_the_rule_for_what_was_not_reached(work: Path) -> None:
    command = "curl -sS http://example.com/"
    model = scripted(bash(command), say("Done."))
    async with harness(
        model, mode="yolo", folder=str(work), network="filtered", allow_hosts=["example.org"]
    ) as session:
        created = await session.until(SessionCreated)
        events = await session.ask("go")
    assert (created.network, created.hosts) == ("filtered", ("example.org",))
    (result,) = of_kind(events, ToolResult)
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    told = "example.com was not reached; allow it with --allow-host example.com or sandbox.hosts"
    assert result.content == f"{told}.\n[sandbox: {told}]\n"
    assert (result.shown.reached, result.shown.refused) == ((), ("example.com",))
    assert of_kind(events, PermissionRequested) == []


@pytest.mark.usefixtures("nothing_confines")
async def test_where_nothing_can_filter_the_network_no_command_runs_and_that_is_said(work: Path) -> None:
    model = scripted(bash("touch ran"), say("Done."))
    async with harness(model, mode="yolo", folder=str(work), network="filtered") as session:
        events = await session.ask("go")
        stored = [envelope.event for envelope in await session.stored()]
    assert [event.reason for event in of_kind(stored, Degraded)] == ["NoSandbox", "NoNetworkFilter"]
    (result,) = of_kind(events, ToolResult)
    assert (result.outcome, result.reason) == ("error", "CannotStart")
    assert result.content == "The command could not be started: no network filter."
    assert os.listdir(work) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"allow_hosts": ["example.org"]},
            '--allow-host is for --network filtered, and sandbox.network is "inherit"',
        ),
        (
            {"allow_hosts": ["10.0.0.1"], "network": "filtered"},
            "--allow-host 10.0.0.1: hosts are allowed by name, not by number",
        ),
    ],
)
async def test_a_host_that_cannot_be_allowed_is_refused_at_the_door(
    work: Path, options: dict, problem: str
) -> None:
    with pytest.raises(UsageError) as caught:
        async with harness(scripted(say("Done.")), folder=str(work), **options):
            pass
    assert problem in str(caught.value)


async def test_without_a_network_the_web_is_not_offered(work: Path) -> None:
    model = RecordingModel(scripted(say("Done.")))
    async with harness(model, folder=str(work), network="deny") as session:
        await session.ask("go")
    async with harness(model, folder=str(work)) as session:
        await session.ask("go")
    assert [b"web_fetch" in body for body in model.bodies] == [False, True]


async def test_more_folders_can_be_opened_by_the_person_only(work: Path, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True)
    (home / "config/config.toml").write_text(f'[sandbox]\nwritable = ["{more}"]\n')
    (result,) = await ran(work, f"echo x > {more}/file", home=home)
    assert (result.shown.exit_code, (more / "file").read_text()) == (0, "x\n")
    (home / "config/config.toml").unlink()
    (work / ".bridle").mkdir()
    (work / ".bridle/config.toml").write_text(f'[sandbox]\nwritable = ["{more}"]\n')
    (result,) = await ran(work, f"echo x > {more}/other", home=home)
    assert (result.shown.exit_code, (more / "other").exists()) == (1, False)


async def test_what_one_command_leaves_in_tmp_the_next_one_finds_and_nobody_else(work: Path) -> None:
    first, second = await ran(work, "echo kept > /tmp/bridle-test-file", "cat /tmp/bridle-test-file")
    assert (first.shown.exit_code, second.content) == (0, "kept\n")
    assert not os.path.exists("/tmp/bridle-test-file")
    (later,) = await ran(work, "cat /tmp/bridle-test-file")
    assert later.shown.exit_code == 1


async def test_the_temporary_files_of_a_session_go_with_it(work: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    await ran(work, "echo x > /tmp/file", home=home)
    assert list((home / "state/tmp").iterdir()) == []


async def test_what_escalates_asks_and_runs_outside_after_a_yes(work: Path, tmp_path: Path) -> None:
    there = tmp_path / "there.txt"
    model = scripted(bash(f"echo x > {there}", escalate="it belongs there"), say("Done."))
    async with harness(model, folder=str(work), mode="yolo", answers=True) as session:
        number = await session.send("go")
        asked = await session.until(PermissionRequested, since=number)
        await session.connection.send(
            AnswerPermission(session=session.id, call_id=asked.call_id, digest=asked.digest, answer="once")
        )
        (result,) = of_kind(await session.turn_of(number), ToolResult)
    assert (result.shown.sandbox, there.read_text()) == ("off", "x\n")


async def test_our_own_folders_are_out_of_sight(work: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (work / "peek.py").write_text(f"import os\nprint(os.listdir({str(home / 'data')!r}))\n")
    (result,) = await ran(work, "python3 peek.py", home=home)
    assert (home / "data/sessions.db").exists()
    assert result.shown.exit_code == 1
    assert "sessions.db" not in result.content


async def test_a_session_says_what_holds_its_commands(work: Path) -> None:
    async with harness(scripted(say("Hi.")), folder=str(work)) as session:
        created = await session.until(SessionCreated)
        stored = [envelope.event for envelope in await session.stored()]
    assert created.sandbox in adapter_choice.ORDER
    assert (created.confined, created.network) == ("workspace-write", "inherit")
    assert of_kind(stored, Degraded) == []


@pytest.mark.requirement("D16.6", "H10.5")
@pytest.mark.usefixtures("nothing_confines")
async def test_where_nothing_can_hold_commands_it_is_said_and_they_run(work: Path) -> None:
    async with harness(scripted(bash("echo x > file"), say("Hi.")), folder=str(work), mode="yolo") as session:
        (result,) = of_kind(await session.ask("go"), ToolResult)
        stored = [envelope.event for envelope in await session.stored()]
    (degraded,) = of_kind(stored, Degraded)
    assert "install bubblewrap" in degraded.message
    assert (result.shown.sandbox, outcomes([result])) == ("env-only", ["ok"])
    (outside,) = await ran_file_tool(work)
    assert outside.outcome == "blocked"


async def ran_file_tool(work: Path) -> list[ToolResult]:
    model = scripted(call("write_file", path="../there.txt", content="x"), say("Done."))
    async with harness(model, folder=str(work), mode="yolo") as session:
        return of_kind(await session.ask("go"), ToolResult)


@pytest.mark.usefixtures("nothing_confines")
async def test_where_a_sandbox_is_required_and_missing_no_session_begins(work: Path) -> None:
    with pytest.raises(CommandRefused) as refused:
        async with harness(scripted(say("Hi.")), folder=str(work), sets=["sandbox.required=true"]):
            pass
    assert (refused.value.reason, refused.value.exit_code) == ("SandboxRequired", 3)


# The first hour


@pytest.fixture
def repository(work: Path) -> Path:
    def git(*words: str) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(work.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", *words], cwd=work, env=env, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("config", "user.name", "Ann")
    git("config", "user.email", "ann@example.org")
    (work / "readme").write_text("hello\n")
    git("add", ".")
    git("commit", "-qm", "first")
    return work


async def test_the_first_hour_with_git(repository: Path) -> None:
    results = await ran(
        repository,
        "echo more >> readme && git add readme && git commit -qm second",
        "git branch topic && git switch -q topic",
        "git remote add origin https://example.org/shop.git",
        "git status --porcelain && git log --oneline | wc -l && git remote -v",
        "git worktree add -q tree main && cd tree && echo y > y && git add y && git commit -qm third",
    )
    assert [result.shown.exit_code for result in results] == [0] * 5, [r.content for r in results]
    assert results[3].content.startswith("2\norigin\thttps://example.org/shop.git")


async def test_a_session_in_a_linked_worktree_commits(repository: Path, tmp_path: Path) -> None:
    await ran(repository, "git branch topic")
    tree = tmp_path / "tree"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    subprocess.run(
        ["git", "worktree", "add", "-q", str(tree), "topic"],
        cwd=repository, env=env, check=True, capture_output=True,
    )  # fmt: skip
    (result,) = await ran(
        tree, "echo y > y && git add y && git commit -qm third && git log --oneline | wc -l"
    )
    assert (result.shown.exit_code, result.content) == (0, "2\n")


async def test_pip_installs_from_a_file_with_a_cache_of_its_own(work: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(work / "tiny-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "WORD = 'installed'\n")
        wheel.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        wheel.writestr(
            "tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("tiny-1.dist-info/RECORD", "")
    home = tmp_path / "home"
    made, installed, used = await ran(
        work,
        f"{sys.executable} -m venv env && echo $PIP_CACHE_DIR",
        "env/bin/pip install -q --no-index --disable-pip-version-check ./tiny-1-py3-none-any.whl",
        "env/bin/python -c 'import tiny; print(tiny.WORD)'",
        home=home,
    )
    assert made.content.startswith(f"{home}/cache/work-")
    assert (installed.shown.exit_code, used.content) == (0, "installed\n"), installed.content


async def test_a_test_suite_runs_and_a_server_is_reached_by_the_next_command(work: Path) -> None:
    (work / "test_sum.py").write_text(
        "import unittest\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(1 + 1, 2)\n"
    )
    serve = (
        "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler);"
        "open('port', 'w').write(str(s.server_port)); s.serve_forever()"
    )
    fetch = (
        "import urllib.request as u;"
        "print(u.urlopen('http://127.0.0.1:' + open('port').read() + '/port').read().decode())"
    )
    wait = f'until [ -s port ]; do :; done; python3 -c "{fetch}"'
    model = scripted(
        bash("python3 -m unittest -q"),
        bash(f'python3 -c "{serve}"', background=True),
        bash(wait),
        say("Done."),
    )
    async with harness(model, folder=str(work), mode="yolo") as session:
        tested, _started, reached = of_kind(await session.ask("go"), ToolResult)
    assert tested.shown.exit_code == 0
    assert reached.content.strip() == (work / "port").read_text()


async def test_a_command_in_the_background_says_at_its_end_what_was_blocked(work: Path) -> None:
    (work / "AGENTS.md").write_text("first\n")
    (work / "it.sh").write_text("echo hello > AGENTS.md\n")
    model = scripted(
        bash("sh it.sh", background=True), say("Started."), call("bash", job="job1"), say("Done.")
    )
    async with harness(model, folder=str(work), mode="yolo") as session:
        await session.ask("go")
        await session.until(BackgroundEnded)
        (looked,) = of_kind(await session.ask("look"), ToolResult)
    assert "[sandbox: changing AGENTS.md was blocked" in looked.content


async def _listening() -> asyncio.Server:
    return await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
