"""`bridle run`: one task, with signals and exit codes for scripts."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import convert, structs

from bridle.app.records.operational_log import log_wanted
from bridle.base.clock import SystemClock
from bridle.base.fs.files import real_folder
from bridle.cli.console import silence_stdout, tell, tolerate_characters
from bridle.cli.option_values import added_folders, with_env_file
from bridle.cli.run.outlets import Outlets
from bridle.cli.run.run_words import run_input
from bridle.cli.stdin import unlocked
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.print import EXIT_READER_GONE, EXIT_TERMINAL_GONE, Format, Printer, RunInput
from bridle.clients.run_result import EXIT_INTERRUPTED, read_schema
from bridle.config.folders import folders
from bridle.protocol.commands import BranchSession, CancelTurn, CreateSession, SessionOptions
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused, UsageError, exit_code_of
from bridle.protocol.events import Mode
from bridle.protocol.queries import DescribeSession, FindSession, SessionInfo
from bridle.providers import DEMO
from bridle.providers.script import script_name
from bridle.sandbox.plain_spawn import allowed_environment

if TYPE_CHECKING:
    from bridle.cli.engine_attach import RunAtTerminal
    from bridle.clients.hub_stream import HubStream

MAX_OWN_WORDS = 64 * 1024
SOCKET_NAME = "engine.sock"
STOPPING = {
    signal.SIGINT: EXIT_INTERRUPTED,
    signal.SIGTERM: EXIT_INTERRUPTED,
    signal.SIGHUP: EXIT_TERMINAL_GONE,
}
"""The signals that end a run, each with its exit code."""
LAST_WORDS_S = 0.5
"""So long a run that was stopped waits for somebody to read what it said."""


def run(parsed: Args, env: Env) -> int:
    try:
        form = _form(parsed)
    except UsageError as failure:
        if not (parsed.json or parsed.stream_json):
            raise
        return fail_as(failure, "json" if parsed.json else "stream-json", env)
    tolerate_characters()
    outlets = Outlets()
    at_terminal = _at_terminal(parsed, form, env)
    tell_here = tell if at_terminal is None else at_terminal.tell
    say = _quiet if parsed.quiet else tell_here
    printer = Printer(
        form=form,
        out=sys.stdout,
        write_line=say,
        problem=tell_here,
        is_full=outlets.full,
        streams=_streams(parsed, form),
        onlooker=None if at_terminal is None else at_terminal.page,
        renders=at_terminal is not None and at_terminal.renders,
        hub=_hub_stream(form, env),
    )
    asks = at_terminal is not None and at_terminal.asks
    deadline_s = None
    try:
        env = with_env_file(env, parsed.env_file)
        schema = None if parsed.output_schema is None else read_schema(parsed.output_schema)
        printer.outcome.schema = schema
        content = run_input(parsed, schema, say, env)
        _refuse_unwritable(parsed.output)
        create = session_wanted(parsed, env, output_schema=schema, asks=asks)
        env = unlocked(with_log_options(env, parsed), model=parsed.model)
    except BridleError as failure:
        printer.fail(failure)
        code = printer.finish()
    else:
        if parsed.timeout is not None:
            deadline_s = time.monotonic() + parsed.timeout
        asyncio.run(_run(printer, create, parsed, content, env, at_terminal))
        code = printer.finish()
        fits = schema is None or bool(printer.outcome.answer)
        if parsed.output and fits and code not in {EXIT_READER_GONE, EXIT_TERMINAL_GONE}:
            _write_answer(parsed.output, printer.outcome.answer)
    return _delivered(outlets, printer, code, deadline_s)


def _at_terminal(parsed: Args, form: Format, env: Env) -> RunAtTerminal | None:
    """The terminal of somebody who can be asked, or who reads the answer; None where nobody sits."""
    asks = parsed.on_ask in (None, "wait") and sys.stdin.isatty() and sys.stderr.isatty()
    renders = form == "text" and sys.stdout.isatty()
    if not asks and not renders:
        return None
    from bridle.cli.engine_attach import RunAtTerminal  # most runs have none

    return RunAtTerminal(parsed, env, asks=asks, renders=renders)


def _streams(parsed: Args, form: Format) -> bool:
    """Whether words are printed as they come: where somebody reads them, unless they are to fit a schema first."""
    if parsed.stream is not None:
        return parsed.stream
    return form == "text" and parsed.output_schema is None and sys.stdout.isatty()


def _hub_stream(form: Format, env: Env) -> HubStream | None:
    """The stream of a run that a hub reads, which says in the environment what it calls it."""
    if form != "hub":
        return None
    from bridle.clients.hub_stream import HubStream, HubTask

    task = HubTask(
        task_id=env.get("BRIDLE_HUB_TASK", ""),
        edge_run_id=env.get("BRIDLE_HUB_RUN", ""),
        agent_instance_id=env.get("BRIDLE_HUB_AGENT", ""),
    )
    return HubStream(task, SystemClock().now_ms)


def fail_as(failure: BridleError, form: Format, env: Env) -> int:
    """What becomes of a run that never was, in a form for programs; returns the exit code."""
    hub = _hub_stream(form, env)
    printer = Printer(form=form, out=sys.stdout, write_line=tell, hub=hub)
    printer.fail(failure)
    return printer.finish()


def _delivered(outlets: Outlets, printer: Printer, code: int, deadline_s: float | None) -> int:
    """The exit code when everything is read, or nobody reads it in time; it is in the session all the same."""
    for number, signal_code in STOPPING.items():
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame, left=signal_code: os._exit(left))
    in_time = outlets.drained(
        time.monotonic() + LAST_WORDS_S if printer.outcome.stopped is not None else deadline_s
    )
    if outlets.stdout.failure is not None and not printer.unwritten:
        code = printer.without_output(outlets.stdout.failure)
    elif not in_time:
        code = code or printer.outcome.stopped or exit_code_of("DeadlineReached")
    if printer.unwritten or outlets.stdout.failure is not None:
        silence_stdout()
    return code


async def _run(
    printer: Printer,
    create: CreateSession,
    parsed: Args,
    content: RunInput,
    env: Env,
    at_terminal: RunAtTerminal | None,
) -> None:
    notice = tell if at_terminal is None else at_terminal.tell
    try:
        if engine_may_answer(parsed, env):
            from bridle.cli.engine_attach import connection_of_run  # most runs find no socket

            connection = await connection_of_run(parsed, create, content, env, at_terminal)
            if connection is not None:
                await _run_through(connection, printer, create, parsed, content, at_terminal)
                return
        from bridle.app.engine import running_engine  # an engine that runs already has all of it

        async with running_engine(env, notice=notice) as engine:
            asks = at_terminal is not None and at_terminal.asks
            connection = engine.connect(name="print", answers=asks)
            await _run_through(connection, printer, create, parsed, content, at_terminal)
    except BridleError as failure:
        printer.fail(failure)


async def _run_through(
    connection: Connection,
    printer: Printer,
    create: CreateSession,
    parsed: Args,
    content: RunInput,
    at_terminal: RunAtTerminal | None,
) -> None:
    try:
        create = await going_on(create, parsed, connection)
        await run_prompt(
            connection, printer, create, content, timeout_s=parsed.timeout, at_terminal=at_terminal
        )
    finally:
        await connection.close()


def engine_may_answer(parsed: Args, env: Env) -> bool:
    """Whether an engine left a socket, and nobody said that it shall not be asked."""
    if parsed.no_attach or env.get("BRIDLE_NO_ATTACH"):
        return False
    return os.path.exists(os.path.join(folders(env).runtime, SOCKET_NAME))


async def run_prompt(
    connection: Connection,
    printer: Printer,
    create: CreateSession,
    content: RunInput,
    *,
    timeout_s: float | None = None,
    at_terminal: RunAtTerminal | None = None,
) -> None:
    """One prompt through a connection; the first signal stops the turn, the second leaves at once."""
    loop = asyncio.get_running_loop()
    run = asyncio.ensure_future(printer.run(connection, create, content))
    stopping: list[asyncio.Task[None]] = []

    def stop() -> None:
        stopping.append(loop.create_task(_stop(connection, printer, run)))

    def interrupt(code: int) -> None:
        if stopping:
            if at_terminal is not None:
                at_terminal.page.restore()
            os._exit(code)
        printer.outcome.stopped = code
        (tell if at_terminal is None else at_terminal.tell)("stopping… again to leave at once")
        stop()

    if at_terminal is not None:
        at_terminal.page.stop = lambda: interrupt(EXIT_INTERRUPTED)

    def time_is_up() -> None:
        printer.outcome.reach_deadline(timeout_s or 0)
        stop()

    for number, code in STOPPING.items():
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup: a closed terminal is no reason to stop
            loop.add_signal_handler(number, interrupt, code)
    timer = None if timeout_s is None else loop.call_later(timeout_s, time_is_up)
    try:
        await run
    finally:
        if timer is not None:
            timer.cancel()


async def _stop(connection: Connection, printer: Printer, run: asyncio.Task[None]) -> None:
    """Cancels the turn; where none has begun yet, the run itself."""
    try:
        if printer.session is None:
            run.cancel()
        else:
            await connection.send(CancelTurn(session=printer.session))
    except BridleError:
        run.cancel()


def session_wanted(
    parsed: Args,
    env: Env,
    *,
    output_schema: dict[str, Any] | None = None,
    asks: bool = True,
) -> CreateSession:
    """Return the command for a new session with these options; `going_on` finds the one to go on with.

    An option that is named like a field of `SessionOptions` is its value. `asks`: a person can be asked.
    """
    cwd = os.path.abspath(parsed.cwd or ".")
    _refuse_two_ways(parsed)
    given = {name: value for name, value in vars(parsed).items() if name in SessionOptions.__struct_fields__}
    given |= {
        "append_system": _own_words(parsed.append_system_prompt),
        "on_orphan": _on_orphan(parsed, asks=asks),
        "lockfile": parsed.lockfile and os.path.abspath(parsed.lockfile),
        "on_ask": parsed.on_ask or "deny",
        "config_file": parsed.config,
        "sets": parsed.set,
        "allow_hosts": parsed.allow_host,
        "add_dirs": added_folders(parsed.add_dir),
        "title": parsed.name or None,
        "headless": not asks,
        "wide_folder": cwd if parsed.cwd is not None else None,
        "output_schema": output_schema,
    }
    return CreateSession(
        cwd=cwd,
        env=allowed_environment(env),
        profile=parsed.profile,
        agent=parsed.agent,
        model=_model_of(parsed.model),
        mode=_mode_of(parsed),
        aliases=(parsed.session,) if parsed.session else (),
        config=convert(given, SessionOptions),
    )


def _model_of(name: str | None) -> str | None:
    """The model as it was named; a script by a path that means the same in an engine elsewhere."""
    provider, _, script = (name or "").partition(":")
    if provider != DEMO or not script:
        return name
    return f"{DEMO}:{script_name(script)}"


def with_log_options(env: Env, parsed: Args) -> Mapping[str, str]:
    """The environment with what the options say about the operational log."""
    return log_wanted(env, level=parsed.log_level, verbose=parsed.verbose, to_stderr=parsed.log_to_stderr)


def _form(parsed: Args) -> Format:
    if (parsed.json and parsed.stream_json) or (parsed.output_format and (parsed.json or parsed.stream_json)):
        raise UsageError("--json and --stream-json exclude each other. Choose one")
    form = parsed.output_format or (
        "json" if parsed.json else "stream-json" if parsed.stream_json else "text"
    )
    if parsed.stream and form != "text":
        raise UsageError(
            f"--stream prints words as they come, --{form} one object. Events as they come: --stream-json"
        )
    if parsed.stream and parsed.output_schema is not None:
        raise UsageError(
            "--stream prints words as they come, --output-schema only an answer that fits. Choose one"
        )
    return form


def _own_words(given: str | None) -> str:
    """What a person adds to the system text for this run: words, or `@` and the file that holds them."""
    if given is None or not given.startswith("@"):
        return given or ""
    try:
        with open(given[1:], encoding="utf-8") as file:
            return file.read(MAX_OWN_WORDS)
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        raise UsageError(f"--append-system-prompt: {given[1:]} cannot be read: {why}") from None


def _mode_of(parsed: Args) -> Mode | None:
    """`--strict-permissions` is `--mode strict`; whoever asks for that and for another mode means neither."""
    if not parsed.strict_permissions:
        return parsed.mode
    if parsed.mode not in (None, "strict"):
        raise UsageError(f"--strict-permissions and --mode {parsed.mode} exclude each other. Choose one")
    return "strict"


def _on_orphan(parsed: Args, *, asks: bool) -> str:
    """Where nobody can be asked, a run refuses to go on, unless it waits for somebody who attaches."""
    nobody = not asks and parsed.on_ask != "wait"
    return "fail" if parsed.on_orphan == "ask" and nobody else parsed.on_orphan


def _refuse_two_ways(parsed: Args) -> list[str]:
    """The way to name the session to go on with, if there is one. Raises `UsageError` where they are two."""
    if parsed.verb == "run" and parsed.resume == "":
        raise UsageError("-r needs a session. List them: bridle sessions")
    ways = [name for name, given in _ways_back(parsed) if given]
    if len(ways) > 1:
        raise UsageError(f"{' and '.join(ways)} exclude each other. Choose one")
    if parsed.fork and ways not in (["-c"], ["-r"]):
        raise UsageError(
            "--fork goes on with a copy of a session: name it with -r, or take the newest with -c"
        )
    if parsed.session is not None and not parsed.session.strip():
        raise UsageError("--session needs a name")
    return ways


async def going_on(create: CreateSession, parsed: Args, connection: Connection) -> CreateSession:
    """The command with the session to go on with, or a branch of it, where the options name one that is there."""
    if not _refuse_two_ways(parsed):
        return create
    found = await _named_session(parsed, create.cwd, connection)
    if found is None:
        return create
    session = found.id
    if parsed.fork:
        session = (await connection.send(BranchSession(session=session))).session
    return structs.replace(create, resume=session, aliases=())


def _ways_back(parsed: Args) -> tuple[tuple[str, bool], ...]:
    return (
        ("-c", parsed.resume_newest),
        ("-r", bool(parsed.resume)),
        ("--session", parsed.session is not None),
    )


async def _named_session(parsed: Args, cwd: str, connection: Connection) -> SessionInfo | None:
    """The session the options name. A name of `--session` that nobody has yet, or whose session expired, is free."""
    if parsed.resume:
        return (await connection.ask(DescribeSession(session=parsed.resume))).session
    here = real_folder(cwd)
    if parsed.session is None:
        return (await connection.ask(FindSession(cwd=here))).session
    try:
        found = (await connection.ask(FindSession(cwd=here, alias=parsed.session))).session
    except CommandRefused as refused:
        if refused.reason != "UnknownSession":
            raise
        return None
    return found if found.expired_ms is None else None


def _refuse_unwritable(path: str | None) -> None:
    """Where the answer surely cannot go is said before anybody is paid for it."""
    if path is None:
        return
    folder, problem = os.path.dirname(path) or ".", ""
    try:
        os.lstat(path)
    except FileNotFoundError:
        problem = "" if os.path.isdir(folder) else "No such file or directory"
    except OSError as refused:
        problem = refused.strerror
    if os.path.isdir(path):
        problem = "Is a directory"
    elif not problem and not os.access(path if os.path.exists(path) else folder, os.W_OK):
        problem = "not yours to write"
    if problem:
        raise UsageError(f"The answer cannot be written to {path} ({problem}); nothing was run")


def _write_answer(path: str, answer: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(answer + "\n")
    except OSError as problem:
        raise UsageError(f"The answer cannot be written to {path} ({problem.strerror})") from None


def _quiet(_line: str) -> None:
    """--quiet: the answer is all there is, or why there is none."""
