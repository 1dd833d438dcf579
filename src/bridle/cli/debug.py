"""`bridle debug`: what happens inside, to look at. `request` prints the next request of a session and sends nothing."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping

from bridle.app.engine import running_engine
from bridle.app.request_preview import next_request
from bridle.base.phrases import counted
from bridle.base.visible import visible
from bridle.cli.console import tell, unwritten
from bridle.cli.path_options import with_env_file
from bridle.cli.run import going_on, session_wanted, with_log_options
from bridle.cli.unlock import unlocked
from bridle.protocol.errors import UsageError
from bridle.protocol.messages import TextBlock


def debug(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    if parsed.fork:
        raise UsageError("--fork makes a session, and here nothing is made. Leave it out")
    env = with_env_file(env, parsed.env_file)
    return asyncio.run(_request(parsed, unlocked(with_log_options(env, parsed), model=parsed.model)))


async def _request(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    """The head goes to stderr, the body to stdout, byte for byte."""
    words = " ".join(parsed.prompt)
    content = (TextBlock(text=words),) if words else ()
    create = session_wanted(parsed, env)
    async with running_engine(env, notice=tell) as engine:
        connection = engine.connect(name="debug", answers=False)
        create = await going_on(create, parsed, connection)
        request = await next_request(engine.opening, create, content)
    if request.url:
        tell(f"POST {visible(request.url, newlines=False)}")
    else:
        tell(f"{request.provider}:{request.model} is asked over no network")
    for name, value in request.headers.items():
        tell(f"{visible(name, newlines=False)}: {visible(value, newlines=False)}")
    size = counted(len(request.body), "byte")
    tell(f"{size}, about {counted(request.tokens, 'token')}; not sent, nothing was stored")
    end = b"\n" if sys.stdout.isatty() else b""
    try:
        sys.stdout.buffer.write(request.body + end)
        sys.stdout.buffer.flush()
    except OSError as problem:
        return unwritten(problem)
    return os.EX_OK
