"""`bridle debug`: print the next request of a session without sending it."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import closing

from bridle.app.engine import running_engine
from bridle.app.request_preview import next_request
from bridle.app.user.stored_keys import session_store
from bridle.base.fs.files import real_folder
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import say_json, tell, unwritten
from bridle.cli.option_values import with_env_file
from bridle.cli.run.run import going_on, session_wanted, with_log_options
from bridle.cli.stdin import sessions_unlocked, unlocked
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import folders
from bridle.protocol.errors import CommandRefused, UsageError
from bridle.protocol.messages import TextBlock
from bridle.providers.raw_dump import read_dump
from bridle.sessions.archive.beside_store import dumps_of


def debug(parsed: Args, env: Env) -> int:
    if parsed.action == "raw":
        return _raw(parsed, sessions_unlocked(env))
    if parsed.fork:
        raise UsageError("--fork makes a session, and here nothing is made. Leave it out")
    env = with_env_file(env, parsed.env_file)
    try:
        return asyncio.run(_request(parsed, unlocked(with_log_options(env, parsed), model=parsed.model)))
    except CommandRefused as refusal:
        if refusal.reason == "NoModel" and not parsed.prompt:
            tell("request shows what a model would be sent: bridle debug request -m MODEL PROMPT")
            tell("raw shows what was kept of a session's requests: bridle debug raw ID")
        raise


async def _request(parsed: Args, env: Env) -> int:
    """The head goes to stderr, the body to stdout, byte for byte."""
    words = " ".join(parsed.prompt)
    content = (TextBlock(text=words),) if words else ()
    create = session_wanted(parsed, env, asks=sys.stdin.isatty() and sys.stderr.isatty())  # as a run would
    async with running_engine(env, notice=tell) as engine:
        connection = engine.connect(name="debug", answers=False)
        create = await going_on(create, parsed, connection)
        request = await next_request(engine.opening, create, content)
    if request.url:
        tell(f"POST {visible_line(request.url)}")
    else:
        tell(f"{request.provider}:{request.model} is asked over no network")
    for name, value in request.headers.items():
        tell(f"{visible_line(name)}: {visible_line(value)}")
    size = counted(len(request.body), "byte")
    tell(f"{size}, about {counted(request.tokens, 'token')}; not sent, nothing was stored")
    end = b"\n" if sys.stdout.isatty() else b""
    try:
        sys.stdout.buffer.write(request.body + end)
        sys.stdout.buffer.flush()
    except OSError as problem:
        return unwritten(problem)
    return os.EX_OK


def _raw(parsed: Args, env: Env) -> int:
    """One line of JSON for each exchange, in order; a terminal obeys nothing in them."""
    state = folders(env).state
    with closing(session_store(env)) as store:
        row = store.find(parsed.id) if parsed.id else store.newest(real_folder("."))
        key = store.outputs_key(row.id)
    is_any = False
    for exchange in read_dump(dumps_of(state, row.id), row.id, key) if key is not None else ():
        is_any = True
        if code := say_json(exchange):
            return code
    if not is_any:
        raise CommandRefused("NoDump", session=row.id)
    return os.EX_OK
