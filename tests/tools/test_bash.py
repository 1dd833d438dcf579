"""`bash`, with real processes through the layers a session puts around it."""

import asyncio
import os

import pytest

from bridle.protocol.display_values import ShownCommand

pytestmark = pytest.mark.requirement("D9.6")


async def test_output_streams_and_the_exit_code_is_recorded(bench) -> None:
    output = await bench.run("bash", command="echo out; echo err >&2; exit 3")
    assert (output.outcome, output.content) == ("ok", "out\nerr\n[exit code 3]\n")
    assert output.shown == ShownCommand(exit_code=3, lines=2, sandbox="env-only")
    assert "".join(bench.live) == "out\nerr\n"


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("true", "[no output]\n"),
        ("printf x; exit 1", "x\n[exit code 1]\n"),
        ("kill -9 $$", "[killed by SIGKILL]\n"),
        ("printf 'caf\\303'; printf '\\251\\377'", "café\N{REPLACEMENT CHARACTER}"),
        ("cat", "[no output]\n"),
        ('echo "[$-]" | grep -c i; shopt -q login_shell || echo not a login shell', "0\nnot a login shell\n"),
    ],
)
async def test_the_model_reads_what_it_must_know(bench, command: str, content: str) -> None:
    assert (await bench.run("bash", command=command)).content == content


@pytest.mark.requirement("D16.7", "D16.6")
async def test_every_result_says_what_really_enclosed_the_command(bench) -> None:
    assert (await bench.run("bash", command="true")).shown.sandbox == "env-only"


async def test_secrets_in_the_environment_do_not_reach_the_command(bench) -> None:
    bench.env |= {"WORK_API_KEY": "k-123", "BRIDLE_TOKEN": "t-456", "LANG": "C.UTF-8"}
    output = await bench.run("bash", command="env")
    assert "LANG=C.UTF-8\n" in output.content
    assert "k-123" not in output.content
    assert "t-456" not in output.content


async def test_the_command_starts_in_the_named_folder_of_the_workspace(bench) -> None:
    (bench.workspace / "sub").mkdir()
    assert (await bench.run("bash", command="pwd", workdir="sub")).content == f"{bench.workspace}/sub\n"
    assert (await bench.run("bash", command="pwd")).content == f"{bench.workspace}\n"


async def test_a_command_spelled_like_its_folder_is_not_taken_for_it(bench) -> None:
    output = await bench.run("bash", command=".", workdir=".")
    assert output.shown.exit_code == 2


async def test_a_missing_folder_is_an_error_not_a_crash(bench) -> None:
    output = await bench.run("bash", command="true", workdir="nowhere")
    assert (output.outcome, output.reason) == ("error", "CannotStart")


@pytest.mark.requirement("T3.1", "T3.3", "D9.6")
@pytest.mark.parametrize("workdir", ["..", "/", "/tmp", "sub/../..", ""])
async def test_a_folder_outside_the_workspace_is_blocked(bench, workdir: str) -> None:
    output = await bench.run("bash", command="touch ran", workdir=workdir)
    assert (output.outcome, output.reason) == ("blocked", "PathNotAllowed")
    assert os.listdir(bench.workspace) == []


@pytest.mark.parametrize("arguments", [{"timeout_ms": 600_001}, {"timeout_ms": 0}, {"command": ""}])
async def test_impossible_arguments_are_an_input_error(bench, arguments) -> None:
    output = await bench.run("bash", **{"command": "true", **arguments})
    assert (output.outcome, output.reason) == ("error", "InvalidInput")


async def test_a_timeout_above_the_limit_names_the_limit(bench) -> None:
    assert "600000" in (await bench.run("bash", command="true", timeout_ms=600_001)).content


async def test_what_takes_too_long_is_stopped_and_what_it_printed_is_kept(bench) -> None:
    output = await bench.run("bash", command="echo begun; exec sleep 60", timeout_ms=300)
    assert (output.outcome, output.reason) == ("timeout", "ToolTimeout")
    assert output.content.startswith("begun\n")


async def test_a_cancelled_command_dies_with_its_children_and_leaves_its_output(bench) -> None:
    running = asyncio.create_task(bench.run("bash", command="sleep 60 & echo $! $$; wait"))
    while not bench.live:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    for pid in map(int, "".join(bench.live).split()):
        await _gone(pid)
    assert bench.partial == bench.live


async def test_a_background_process_does_not_outlive_its_call(bench) -> None:
    output = await bench.run("bash", command="sleep 60 >/dev/null 2>&1 & echo $!")
    await _gone(int(output.content))


async def _gone(pid: int) -> None:
    """A kill is delivered when the kernel gets to it."""
    async with asyncio.timeout(5):
        while _is_running(pid):
            await asyncio.sleep(0)


def _is_running(pid: int) -> bool:
    """Neither gone nor only waiting to be reaped by whoever inherited it."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return not os.path.isdir("/proc/self")
