"""`bridle demo`: a real turn in a scratch repository with a scripted model."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile

from bridle.app.engine import running_engine
from bridle.base.git.git_calls import clean_environment, first_commit
from bridle.base.process.processes import CannotStart, Processes
from bridle.cli.console import safe
from bridle.cli.run.run import run_prompt
from bridle.cli.stdin import sessions_unlocked
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.print import Printer
from bridle.config.folders import folders
from bridle.protocol.commands import CreateSession
from bridle.protocol.errors import BridleError
from bridle.protocol.messages import TextBlock
from bridle.providers.script import shipped_folder
from bridle.sandbox.plain_spawn import allowed_environment

PROMPT = "The cart total is wrong when an item is bought twice. Find out why and fix it."


def demo(_parsed: Args, env: Env) -> int:
    return asyncio.run(run_demo(sessions_unlocked(env)))


async def run_demo(env: Env) -> int:
    """The demo on a running loop; returns the exit code."""
    own = folders(env)  # before anything is made
    scratch = tempfile.mkdtemp(prefix="bridle-demo-")
    _write_project(scratch)
    await _make_repository(scratch, env)
    _say("Bridle demo: a scripted model works in a scratch folder. No key, no network.")
    _say(f"folder   {scratch}")
    _say(f"you      {PROMPT}")
    _say("")
    printer = Printer(form="text", out=sys.stdout, write_line=_say, detail=True)
    create = CreateSession(
        cwd=scratch, env=allowed_environment(env), model="demo:fix-test", mode="auto", aliases=()
    )
    parts = "engine, tools and log"
    try:
        async with running_engine(env, notice=_say) as engine:
            connection = engine.connect(name="print", answers=False)
            await run_prompt(connection, printer, create, (TextBlock(text=PROMPT),))
            parts = "engine, tools, sandbox and log" if printer.outcome.is_sandboxed else parts
            await connection.close()
    except BridleError as failure:
        printer.fail(failure)
    code = printer.finish()
    if printer.session is not None:
        _say("")
        _say(f"That was the real {parts}; only the model was a script.")
        _say(f"The log, encrypted     {os.path.join(own.data, 'sessions.db')}")
        program = "bridle" if shutil.which("bridle") else sys.argv[0]
        _say(f"What just happened     {program} sessions show {printer.session}")
        _say(f"Remove the folder      rm -rf {shlex.quote(scratch)}")
        _say(f"Play your own script   {program} help scripts")
        _say(f"Connect a real model   {program} login   or put its key into the environment")
        _say(f"                       {program} models  lists providers, key variables and local servers")
    return code


def _write_project(folder: str) -> None:
    """A small project with a failing test."""
    shipped = os.path.join(shipped_folder(), "fix-test")
    for name in ("cart.py", "test_cart.py"):
        shutil.copyfile(os.path.join(shipped, f"{name}.txt"), os.path.join(folder, name))


async def _make_repository(folder: str, env: Env) -> None:
    """The project as a git repository, where git is installed."""
    processes = Processes()
    own = clean_environment(allowed_environment(env))
    try:
        for call in first_commit("A cart with a bug"):
            await processes.run(
                call.argv, cwd=folder, env={**own, **call.variables}, timeout_s=20, max_output_bytes=10_000
            )
    except CannotStart:
        _say("git is not installed; the scratch folder is a plain one.")
    finally:
        await processes.close()


def _say(line: str) -> None:
    print(safe(line), flush=True)
