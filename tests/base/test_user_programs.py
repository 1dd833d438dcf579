"""Programs of a person: an editor that has our terminal for a while, a browser that has nothing of ours."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from bridle.base.process.processes import CannotStart
from bridle.base.process.user_programs import run_in_foreground, start_detached
from cli_terminal import at_terminal
from tables import table

ENV = {"PATH": os.defpath, "LANG": "C.UTF-8"}
LENDER = """
import asyncio, os, sys
from bridle.base.process.user_programs import run_in_foreground
if sys.argv[1] == "nonblocking":
    os.set_blocking(0, False)
code = asyncio.run(run_in_foreground(sys.argv[2:], cwd="/", env=os.environ))
print("ended", code, "blocking", os.get_blocking(0), flush=True)
"""
"""Lends its terminal to the program it is given and says how that ended."""
ROUGH = "stty raw -echo; printf 'here\\n'; head -c 1 >/dev/null; exit 3"
"""Leaves the terminal in another state than it found it."""
CTRL_C = "\x03"


def lending(tmp_path: Path, script: str, *, how: str = "plain"):
    argv = (sys.executable, "-W", "error", "-c", LENDER, how, "/bin/sh", "-c", script)
    return at_terminal(*argv, cwd=tmp_path, env=ENV)


@table(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
async def test_its_exit_code_is_told_as_a_shell_would(script: str, code: int):
    assert await run_in_foreground(["/bin/sh", "-c", script], cwd="/", env=ENV) == code


async def test_what_cannot_be_started_is_said():
    with pytest.raises(CannotStart) as caught:
        await run_in_foreground(["no-such-editor"], cwd="/", env=ENV)
    assert (caught.value.argv0, caught.value.reason) == ("no-such-editor", "not found")


async def test_the_loop_goes_on_meanwhile(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def open_it():
        await asyncio.to_thread(pipe.write_text, "x")

    program = run_in_foreground(["/bin/sh", "-c", f"read -r x < {pipe}"], cwd="/", env=ENV)
    async with asyncio.timeout(10):
        _, code = await asyncio.gather(open_it(), program)
    assert code == 1  # the word had no end of line


async def test_cancelling_ends_it(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = f"trap 'exit 0' TERM; echo > {pipe}; while :; do sleep 0.05; done"
    program = asyncio.ensure_future(run_in_foreground(["/bin/sh", "-c", script], cwd="/", env=ENV))
    assert await asyncio.to_thread(pipe.read_text) == "\n"  # it runs
    program.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await program


def test_the_terminal_is_afterwards_as_it_was(tmp_path: Path):
    with lending(tmp_path, ROUGH) as person:
        person.sees("here")
        assert person.modes != person.modes_found
        person.types("x")
        person.sees("ended 3 blocking True")
        assert person.ends() == 0
        assert person.modes == person.modes_found


def test_a_terminal_that_was_read_without_waiting_waits_for_the_program(tmp_path: Path):
    with lending(tmp_path, "head -c 1 >/dev/null && echo read", how="nonblocking") as person:
        person.types("x\r")
        person.sees("read", "ended 0 blocking False")
        assert person.ends() == 0


def test_ctrl_c_is_for_the_program_alone(tmp_path: Path):
    with lending(
        tmp_path, "trap 'echo caught; exit 5' INT; echo here; while :; do sleep 0.05; done"
    ) as person:
        person.sees("here")
        person.types(CTRL_C)
        person.sees("caught", "ended 5 blocking True")
        assert person.ends() == 0


def test_a_program_without_a_wish_of_its_own_dies_of_ctrl_c(tmp_path: Path):
    with lending(tmp_path, "echo here; while :; do sleep 0.05; done") as person:
        person.sees("here")
        person.types(CTRL_C)
        person.sees("ended 130")
        assert person.ends() == 0


def test_a_termination_is_passed_on(tmp_path: Path):
    with lending(
        tmp_path, "trap 'echo caught; exit 6' TERM; echo here; while :; do sleep 0.05; done"
    ) as person:
        person.sees("here")
        person.process.terminate()
        person.sees("caught", "ended 6")
        assert person.ends() == 0


async def test_a_detached_program_gets_the_given_environment_and_nothing_of_ours(tmp_path):
    fifo = tmp_path / "told"
    os.mkfifo(fifo)
    script = f"env > {fifo}"
    start_detached(["/bin/sh", "-c", script], env={"ONLY": "this"})
    told = await asyncio.to_thread(fifo.read_text)
    assert {line.partition("=")[0] for line in told.splitlines()} <= {"ONLY", "PWD", "_", "SHLVL", "OLDPWD"}
    assert "ONLY=this" in told


async def test_a_detached_program_that_is_not_there_is_said():
    with pytest.raises(CannotStart):
        start_detached(["/nonexistent/browser", "x"], env={})
