"""Background commands: they go on after their call, can be looked at and stopped, and end with the session."""

import asyncio
import os

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol.display_values import ShownCommand
from bridle.protocol.events import BackgroundEnded, BackgroundStarted, SessionEnded, ToolResult
from bridle.providers.script import call, say


async def test_a_background_command_goes_on_and_is_read_piece_by_piece(bench):
    os.mkfifo(bench.workspace / "go")
    started = await bench.run("bash", command="echo one; read x < go; echo two; exit 3", background=True)
    assert started.content.startswith("Running in the background as job1.")
    assert started.shown == ShownCommand(sandbox="env-only")
    seen = await _until(bench, "one")
    assert "[job1: running]" in seen
    await asyncio.to_thread((bench.workspace / "go").write_text, "go\n")
    assert "exit code 3" in await _until(bench, "exit code 3")
    assert (await bench.run("bash", job="job1")).content == "[job1: exit code 3]\n"
    ended = [event for event in bench.emitted if isinstance(event, BackgroundEnded)]
    assert [(event.outcome, event.exit_code) for event in ended] == [("error", 3)]


async def _until(bench, text):
    seen = ""
    async with asyncio.timeout(10):
        while text not in seen:
            seen += (await bench.run("bash", job="job1")).content
            await asyncio.sleep(0)
    return seen


async def test_a_job_can_be_listed_and_stopped(bench):
    await bench.run("bash", command="echo $$; sleep 600", background=True)
    assert "job1  running" in (await bench.run("bash", job="list")).content
    stopped = await bench.run("bash", job="job1", stop=True)
    assert "[job1: stopped]" in stopped.content
    assert bench.emitted[-1].outcome == "cancelled"


async def test_at_most_eight_run_at_once(bench):
    for _ in range(8):
        assert (await bench.run("bash", command="sleep 600", background=True)).ok
    refused = await bench.run("bash", command="sleep 600", background=True)
    assert "8 commands run in the background already" in refused.content
    await bench.jobs.close()
    assert (await bench.run("bash", command="true", background=True)).ok
    await bench.jobs.close()


@pytest.mark.parametrize("given", [{}, {"command": "true", "job": "job1"}, {"job": "nobody"}])
async def test_a_call_that_makes_no_sense_is_an_input_error(bench, given):
    output = await bench.run("bash", **given)
    assert (output.outcome, output.reason) == ("error", "InvalidInput")


async def test_what_it_prints_is_redacted_and_bounded(bench):
    secret = "AKIA" + "QWERTYUIOPASDFGH"
    command = f"echo {secret}; yes | head -c 200000; echo; echo end"
    await bench.run("bash", command=command, background=True)
    async with asyncio.timeout(10):
        while bench.jobs.find("job1").exit_code is None:
            await asyncio.sleep(0)
    output = (await bench.run("bash", job="job1")).content
    assert secret not in output
    assert "characters left out" in output
    assert output.endswith("end\n[job1: exit code 0]\n")
    assert len(output) < 40_000


async def test_looking_at_a_job_asks_nobody_and_the_end_of_the_session_ends_it():
    started = call("bash", command="echo $$ > pid; sleep 600", background=True)
    async with harness(scripted(started, call("bash", job="list"), say("Ok.")), mode="auto") as session:
        events = await session.ask("go")
        assert [result.outcome for result in of_kind(events, ToolResult)] == ["ok", "ok"]
        assert len(of_kind(events, BackgroundStarted)) == 1
        async with asyncio.timeout(10):
            while not (pid := _read(os.path.join(session.folder, "pid"))):
                await asyncio.sleep(0)
        ended = asyncio.ensure_future(session.until(SessionEnded))
        await session.engine.close()
        assert (await ended).cause == "binary-shutdown"
    with pytest.raises(ProcessLookupError):
        os.killpg(int(pid), 0)


def _read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""
