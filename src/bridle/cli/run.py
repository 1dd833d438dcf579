"""`bridle run`: one task through a connection, with signals and exit codes a script can rely on."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Mapping

from bridle.app import Engine, running_engine, session_environment, session_store
from bridle.cli import silence_stdout, tolerate_characters
from bridle.clients.print import EXIT_INTERRUPTED, EXIT_READER_GONE, Format, Printer
from bridle.clients.story import Story
from bridle.protocol.commands import CancelTurn, CreateSession
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused, UsageError

PROMPT_BYTES = 2 * 1024 * 1024


def run(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    if parsed.json and parsed.stream_json:
        raise UsageError("--json and --stream-json exclude each other. Choose one")
    form: Format = "json" if parsed.json else "stream-json" if parsed.stream_json else "text"
    printer = Printer(form=form, out=sys.stdout, story=_quiet if parsed.quiet else tell, telling=Story())
    try:
        prompt = _prompt(parsed.prompt)
        create = _session_wanted(parsed, env)
    except BridleError as failure:
        return printer.fail(failure)
    tolerate_characters()
    code = asyncio.run(_run(printer, create, prompt, env))
    if code == EXIT_READER_GONE:
        silence_stdout()
    return code


async def _run(printer: Printer, create: CreateSession, prompt: str, env: Mapping[str, str]) -> int:
    try:
        async with running_engine(env, notice=tell) as engine:
            return await run_prompt(engine, printer, create, prompt)
    except BridleError as failure:
        return printer.fail(failure)


async def run_prompt(engine: Engine, printer: Printer, create: CreateSession, prompt: str) -> int:
    """One prompt on an engine; the first Ctrl-C or SIGTERM stops the turn, the second leaves at once."""
    connection = engine.connect(name="print", answers=False)
    loop = asyncio.get_running_loop()
    run = asyncio.ensure_future(printer.run(connection, create, prompt))
    interrupts = 0

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            os._exit(EXIT_INTERRUPTED)
        tell("stopping… again to leave at once")
        stopping.append(loop.create_task(_stop(connection, printer, run)))

    stopping: list[asyncio.Task[None]] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        return await run
    except asyncio.CancelledError:
        return EXIT_INTERRUPTED
    finally:
        await connection.close()


async def _stop(connection: Connection, printer: Printer, run: asyncio.Task[int]) -> None:
    """Cancels the turn; where none has begun yet, the run itself."""
    try:
        if printer.session is None:
            run.cancel()
        else:
            await connection.send(CancelTurn(session=printer.session))
    except BridleError:
        run.cancel()


def _session_wanted(parsed: argparse.Namespace, env: Mapping[str, str]) -> CreateSession:
    cwd = os.path.abspath(parsed.cwd)
    resume = _resumed(parsed, cwd, env)
    model = parsed.model or env.get("BRIDLE_MODEL") or None
    if resume is None and model is None:
        raise CommandRefused("NoModel")
    return CreateSession(
        cwd=cwd,
        env=session_environment(env),
        model=model,
        mode=parsed.mode,
        resume=resume,
        config={
            "yes": parsed.yes,
            "allow": parsed.allow,
            "deny": parsed.deny,
            "max_steps": parsed.max_steps,
            "on_orphan": parsed.on_orphan,
        },
    )


def _resumed(parsed: argparse.Namespace, cwd: str, env: Mapping[str, str]) -> str | None:
    if not parsed.resume and not parsed.resume_newest:
        return None
    store = session_store(env)
    try:
        if parsed.resume:
            return store.find(parsed.resume).id
        return store.newest(os.path.realpath(cwd)).id
    finally:
        store.close()


def _prompt(words: list[str]) -> str:
    """The words given, or stdin. Never waits at a terminal."""
    prompt = " ".join(words) if words and words != ["-"] else _prompt_on_stdin()
    if not prompt.strip():
        raise UsageError("The prompt is empty")
    return prompt


def _prompt_on_stdin() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError('A run needs a prompt: bridle run "what to do", or text on stdin')
    text = sys.stdin.buffer.read(PROMPT_BYTES + 1)
    if len(text) > PROMPT_BYTES:
        raise UsageError("The prompt on stdin is longer than 2 MiB")
    return text.decode("utf-8", "replace").strip()


def tell(line: str) -> None:
    """One line of the story on stderr; nobody reading it is no reason to stop."""
    try:
        print(f"bridle: {line}", file=sys.stderr, flush=True)
    except OSError:
        return


def _quiet(_line: str) -> None:
    """--quiet: the answer is all there is."""
