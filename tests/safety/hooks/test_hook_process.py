"""A hook's program, whatever it does: fed, limited, and gone when it is over."""

import asyncio
import json
import os

import pytest

from bridle.conformance.fake_clock import FakeClock
from bridle.safety.hooks.definitions import VARIABLE_BYTES, Actor, Hook, as_stdin, as_variables, context_of
from bridle.safety.hooks.hook_process import (
    CUT,
    KILL_AFTER_S,
    LIMIT_BYTES,
    HookAnswer,
    HookRun,
    UnusableAnswer,
    run_command,
)
from cli_kit import SignOfLife

from .conftest import Bench, Ready

ACTOR = Actor(
    session="sess_2", root_session="sess_1", cwd="/w", agent="tester", agent_path=("a", "b"), invocation="i"
)
INPUT = {"path": "dist/app.js", "content": "ü\n"}


def context(bench: Bench, **more: object):
    actor = Actor(session="sess_1", cwd=str(bench.workspace))
    facts = {"call_id": "call_7", "tool_name": "write_file", "tool_input": INPUT, **more}
    return context_of("PreToolUse", actor, 3, **facts)


async def run(bench: Bench, hook: Hook, **more: float) -> HookRun:
    return await run_command(hook, context(bench), start=bench.start, clock=bench.clock, **more)


@pytest.mark.requirement("D10.7", "T14.3")
def test_stdin_names_session_turn_agent_and_call() -> None:
    before = context_of(
        "PreToolUse", ACTOR, 3, call_id="call_7", tool_name="write_file", tool_input=INPUT, decision="allow"
    )
    assert json.loads(as_stdin(before)) == {
        "event": "PreToolUse",
        "rootSessionId": "sess_1",
        "sessionId": "sess_2",
        "turnId": 3,
        "invocationId": "i",
        "agentPath": ["a", "b"],
        "agent": "tester",
        "cwd": "/w",
        "callId": "call_7",
        "toolName": "write_file",
        "toolInput": INPUT,
        "decision": "allow",
    }
    after = context_of("PostToolUse", ACTOR, 3, tool_output="done", outcome="ok", reason=None)
    assert {"toolOutput": "done", "outcome": "ok", "reason": None}.items() <= json.loads(
        as_stdin(after)
    ).items()


@pytest.mark.requirement("H9.6")
async def test_the_program_finds_the_call_in_its_environment_and_on_stdin(bench: Bench) -> None:
    hook = bench.hook("cat; env; pwd")
    ran = await run_command(
        hook, context(bench, tool_output="it says hi"), start=bench.start, clock=bench.clock
    )
    first, *variables = ran.stdout.text.splitlines()
    assert json.loads(first)["toolInput"] == INPUT
    assert {
        "BRIDLE_TOOL_NAME=write_file",
        'BRIDLE_TOOL_INPUT={"path":"dist/app.js","content":"ü\\n"}',
        "BRIDLE_SESSION_ID=sess_1",
        "BRIDLE_TOOL_OUTPUT=it says hi",
        "BRIDLE_HOOK_EVENT=PreToolUse",
        f"HOME={bench.env['HOME']}",
        str(bench.workspace),
    } <= set(variables)
    assert not [line for line in variables if line.startswith("SOME_API_KEY")]


def test_a_variable_no_environment_can_hold_is_left_out_and_stdin_has_it() -> None:
    long = {"content": "x" * VARIABLE_BYTES}
    told = context_of("PostToolUse", ACTOR, 1, tool_name="write_file", tool_input=long, tool_output="a\0b")
    assert sorted(as_variables(told)) == ["BRIDLE_HOOK_EVENT", "BRIDLE_SESSION_ID", "BRIDLE_TOOL_NAME"]
    assert json.loads(as_stdin(told))["toolInput"] == long
    surrogate = context_of("PostToolUse", ACTOR, 1, tool_output="\ud800")
    assert "BRIDLE_TOOL_OUTPUT" not in as_variables(surrogate)


async def test_the_longest_variable_still_starts(bench: Bench) -> None:
    hook = bench.hook('echo "${#BRIDLE_TOOL_OUTPUT}"')
    told = context(bench, tool_output="x" * VARIABLE_BYTES)
    ran = await run_command(hook, told, start=bench.start, clock=bench.clock)
    assert ran.stdout.text == f"{VARIABLE_BYTES}\n"


async def test_a_program_that_reads_nothing_does_no_harm(bench: Bench) -> None:
    told = context(bench, tool_output="x" * 4_000_000)
    for body in ("exit 0", "exec <&-; exit 0"):
        ran = await run_command(bench.hook(body), told, start=bench.start, clock=bench.clock)
        assert ran.answer == HookAnswer()


@pytest.mark.requirement("G44.3")
async def test_a_flood_is_kept_to_its_beginning(bench: Bench) -> None:
    hook = bench.hook(
        "head -c 30000000 /dev/zero | tr '\\0' x; head -c 200000 /dev/zero | tr '\\0' y >&2; exit 2"
    )
    ran = await run(bench, hook)
    assert ran.stdout.text == "x" * LIMIT_BYTES + CUT
    assert ran.stderr.text == "y" * LIMIT_BYTES + CUT
    assert isinstance(ran.answer, HookAnswer)
    assert len(ran.answer.message) < 5_000


async def test_bytes_that_are_no_text_do_no_harm(bench: Bench) -> None:
    ran = await run(bench, bench.hook("printf '\\377\\376{'; printf '\\377' >&2; exit 2"))
    assert ran.answer == HookAnswer(decision="block", message="\ufffd")


async def test_a_program_that_cannot_be_started_is_a_failure(bench: Bench) -> None:
    missing = bench.hook("exit 0")
    os.unlink(missing.argv[0])
    ran = await run(bench, missing)
    assert (ran.exit_code, ran.answer) == (127, UnusableAnswer("it could not be started: not found"))
    locked = bench.hook("exit 0")
    os.chmod(locked.argv[0], 0o644)
    assert (await run(bench, locked)).exit_code == 126


@pytest.mark.requirement("G44.2")
async def test_a_late_program_gets_a_chance_to_end_and_is_then_killed(bench: Bench) -> None:
    clock = bench.clock = FakeClock()
    life, ready = SignOfLife(bench.workspace), Ready(bench.workspace)
    loop = f"{ready.tell}; while :; do sleep 0.05; done"
    polite = asyncio.create_task(run(bench, bench.hook(f"{life.hold}; trap 'echo bye; exit 0' TERM; {loop}")))
    await ready.told()
    await clock.advance(29.9)
    assert not polite.done()
    await clock.advance(0.2)
    ran = await polite
    assert (ran.timed_out, ran.stdout.text) == (True, "bye\n")
    assert ran.answer == UnusableAnswer("no answer within 30 s")
    deaf = asyncio.create_task(
        run(bench, bench.hook(f"{life.hold}; trap '' TERM; {loop}", timeout_ms=200), kill_after_s=0.1)
    )
    await ready.told()
    await clock.advance(0.2)
    ran = await deaf
    assert (ran.timed_out, ran.exit_code, KILL_AFTER_S) == (True, -9, 5)
    assert life.ends_within(1)
    life.close()


async def test_what_a_program_leaves_running_ends_with_it(bench: Bench) -> None:
    life = SignOfLife(bench.workspace)
    ran = await run(bench, bench.hook(f"{life.hold}; (trap '' HUP TERM; sleep 600) & exit 0"))
    assert ran.answer == HookAnswer()
    assert life.ends_within(1)
    life.close()


async def test_cancelling_ends_the_program_and_its_children(bench: Bench) -> None:
    life, ready = SignOfLife(bench.workspace), Ready(bench.workspace)
    running = asyncio.create_task(run(bench, bench.hook(f"{life.hold}; sleep 600 & {ready.tell}; wait")))
    await ready.told()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert life.ends_within(1)
    life.close()
