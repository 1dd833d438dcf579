"""Sessions with MCP servers for tests: real processes of `mcp_server.py`, settings in a scratch home."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from io import FileIO
from pathlib import Path

from bridle.conformance.harness import harness
from bridle.protocol.commands import AnswerQuestion, RunSlash
from bridle.protocol.events import Notice, QuestionAsked
from bridle.protocol.queries import CustomQuery
from bridle.protocol.questions import TrustAnswer, TrustQuestion

PROGRAM = str(Path(__file__).with_name("mcp_server.py"))


def server(told=None, *, sandbox="off", **settings) -> dict:
    """The settings of a test server that does what it is told. A border takes time, so it has none unless that is
    what is looked at."""
    command = [sys.executable, "-S", "-E", PROGRAM, json.dumps(told or {})]
    return {"command": command, "sandbox": sandbox, **settings}


def write_settings(home, servers: dict, **more) -> None:
    """Settings of the person with these servers."""
    os.makedirs(os.path.join(home, "config"), exist_ok=True)
    path = os.path.join(home, "config", "settings.json")
    Path(path).write_text(json.dumps({"mcp_servers": servers, **more}))


@asynccontextmanager
async def session_with(model, home, servers: dict, *, settings=None, **options):
    """A session whose settings name these servers."""
    write_settings(str(home), servers, **(settings or {}))
    async with harness(model, home=str(home), sandbox="off", **options) as session:
        yield session


def starts(path: Path) -> FileIO:
    """What a server whose `started` is this path writes when it starts, a line each: whoever reads one waits for it."""
    os.mkfifo(path)
    return open(path, "r+b", buffering=0)


async def until(condition) -> None:
    """Returns when the condition holds; a test that waits in vain is ended by its own limit."""
    while not condition():
        await asyncio.sleep(0.005)


async def until_phase(session, name: str, phase: str) -> dict:
    """Returns how a server is, once it is so."""
    while (state := (await states(session))[name])["phase"] != phase:
        await asyncio.sleep(0.005)
    return state


async def states(session) -> dict:
    """How the servers of a session are, by name."""
    answer = await session.connection.ask(CustomQuery(session=session.id, namespace="mcp", verb="servers"))
    return {one["name"]: {"phase": "waiting", **one} for one in answer.payload["servers"]}


async def asked_trust(session, *, use: bool, since: int = 0) -> TrustQuestion:
    """The next question about what a server is, answered by a person."""
    asked = await session.until(QuestionAsked, since=since)
    assert isinstance(asked.question, TrustQuestion)
    answer = AnswerQuestion(session=session.id, question_id=asked.question_id, answer=TrustAnswer(use=use))
    await session.connection.send(answer)
    return asked.question


async def slash(session, name: str, arguments: str = "", *, reason: str = "") -> Notice:
    """What a slash command says: the next notice, or the next for this reason where servers may say something too."""
    since = session.conversation.last_id
    await session.connection.send(RunSlash(session=session.id, name=name, arguments=arguments))
    async for envelope in session.connection.events(session.id, since=since):
        if isinstance(envelope.event, Notice) and reason in ("", envelope.event.reason):
            return envelope.event
    raise AssertionError("the session ended")


def is_running(pid: int) -> bool:
    """Whether it is there and no corpse."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
