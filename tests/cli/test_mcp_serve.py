"""`bridle mcp serve` as another agent starts it: a real process, the official client, both eras."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from bridle.app.user.parent_register import ParentRegister
from bridle.base.clock import SystemClock
from bridle.base.process.escapees import MARK
from bridle.base.process.peer_process import ParentProgram, parent_program
from bridle.clients.mcp_server.agent_tools import TOOLS
from cli_kit import BRIDLE, TIMEOUT_S, Place
from cli_terminal import sitting
from outer_agents_kit import ERAS
from serve_kit import serving

RUN = "run_agent_with_shell_access"
WORK = "call bash\n    command: env > env.txt\n---\nsay It is done.\n---\nsay Again.\n"


def register(place: Place) -> ParentRegister:
    return ParentRegister(str(place.home / ".config/bridle"), SystemClock())


def settings(place: Place, script: str = WORK) -> None:
    """The person's own: a model that plays a script, and no questions."""
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True, exist_ok=True)
    (place.home / "it.script").write_text(script)
    (folder / "config.toml").write_text(f'model = "demo:{place.home}/it.script"\nmode = "yolo"\n')


def allow_us(place: Place, *, auto_attach: bool = False) -> None:
    """A person has let this very program in, which is the tests'."""
    known = register(place)
    known.allow(known.ask(parent_program(os.getpid())), auto_attach=auto_attach)


@asynccontextmanager
async def outer_agent(place: Place, *words: str, era: str = "auto", **env: str) -> AsyncIterator[Client]:
    program, *rest = BRIDLE
    with open(place.home / "stderr.txt", "a", encoding="utf-8") as errors:
        server = StdioServerParameters(
            command=program,
            args=[*rest, *(words or ("mcp", "serve"))],
            env=place.environment(**env),
            cwd=str(place.work),
        )
        async with Client(stdio_client(server, errlog=errors), mode=era) as client:
            yield client


async def called(agent: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await agent.call_tool(tool, arguments)
    return {**(result.structured_content or {}), "failed": result.is_error}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.requirement("G19.1")
@pytest.mark.requirement("G19.2")
@pytest.mark.requirement("G19.11")
async def test_an_outer_agent_runs_a_session_that_a_person_finds(place: Place, era: str) -> None:
    settings(place)
    allow_us(place)
    async with outer_agent(place, era=era) as agent:
        assert agent.protocol_version == ("2025-11-25" if era == "legacy" else "2026-07-28")
        report = await called(agent, RUN, prompt="go")
        listed = await asyncio.to_thread(place.bridle, "sessions", "list", "--json")
        watch = await asyncio.to_thread(_first_words, place, "attach", "--watch", report["session"])
    assert (report["answer"], report["files_changed"]) == ("[scripted] It is done.", ["env.txt"])
    assert [one["id"] for one in json.loads(listed.out)] == [report["session"]]
    assert f"watching {report['session']}" in watch
    told = (place.home / "stderr.txt").read_text()
    assert f"started session {report['session']}. Watch it: bridle attach {report['session']}" in told
    assert "BRIDLE_TOKEN" not in (place.work / "env.txt").read_text()
    ended = place.events(report["session"])[-1]  # its stdin ended, and so did its sessions
    assert ended.kind == "SessionEnded"


def _first_words(place: Place, *words: str) -> str:
    process = subprocess.Popen(
        [*BRIDLE, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=place.environment(),
        cwd=place.work,
    )
    assert process.stderr is not None
    try:
        return process.stderr.readline().decode()
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT_S)


@pytest.mark.requirement("G19.3")
async def test_a_program_that_is_new_here_waits_for_a_person(place: Place) -> None:
    settings(place)
    async with outer_agent(place, "mcp") as agent:  # the verb may be left out where stdin is a pipe
        assert len((await agent.list_tools()).tools) == 12
        told: asyncio.Queue[str] = asyncio.Queue()

        async def hear(_progress: float, _total: float | None, message: str | None) -> None:
            told.put_nowait(message or "")

        running = asyncio.ensure_future(agent.call_tool(RUN, {"prompt": "go"}, progress_callback=hear))
        assert (await told.get()).startswith("waits for a person: bridle mcp allow ")
        (waiting,) = register(place).parents()
        assert (waiting.state, waiting.program.pid) == ("waiting", os.getpid())
        assert place.bridle("sessions", "list", "--json").out == "[]\n"
        register(place).allow(waiting, auto_attach=False)
        assert (await running).is_error is False


@pytest.mark.parametrize("era", ERAS)
async def test_a_program_that_is_new_lists_what_there_is_without_waiting_for_anybody(
    place: Place, era: str
) -> None:
    settings(place)
    async with outer_agent(place, era=era) as agent:
        tools = (await agent.list_tools()).tools
        resources = (await agent.list_resources()).resources
        before = (await agent.list_prompts()).prompts
        assert (len(tools), len(resources), before) == (len(TOOLS), 6, [])
        (waiting,) = register(place).parents()
        register(place).allow(waiting, auto_attach=False)
        assert (await agent.list_prompts()).prompts != []


@pytest.mark.requirement("G19.12")
async def test_a_person_who_always_wants_to_see_is_shown_each_session(place: Place) -> None:
    settings(place)
    shown = place.home / "shown"
    os.mkfifo(shown)
    with open(place.home / ".config/bridle/config.toml", "a", encoding="utf-8") as file:
        file.write(f'[mcp_server]\nattach_command = ["/bin/sh", "-c", "echo {{session}} > {shown}"]\n')
    allow_us(place, auto_attach=True)
    async with outer_agent(place) as agent:
        made = await called(agent, "create_session")
        assert not made["failed"], made
        assert (await asyncio.to_thread(shown.read_text)).strip() == made["session"]


@pytest.mark.requirement("G19.2")
async def test_a_token_binds_an_agent_to_its_session(place: Place) -> None:
    settings(place)
    allow_us(place)
    with serving(place) as engine:
        ids = [engine.ask("POST", "/v1/sessions", {"cwd": str(place.work)}).json["session"] for _ in range(2)]
        for one in ids:
            engine.ask(
                "POST", f"/v1/sessions/{one}/input?wait=turn", {"content": [{"type": "text", "text": "a"}]}
            )
        with sitting(
            place, "token", "mint", "--session", ids[0], "--identity-class", "agent", "--out", "t"
        ) as person:
            person.sees("Written")
        token = json.loads((place.work / "t").read_text())["token"]
        async with outer_agent(place, BRIDLE_TOKEN=token) as agent:
            listed = (await called(agent, "list_sessions"))["sessions"]
            other = await called(agent, "attach_session", session=ids[1])
            made = await called(agent, "create_session")
            report = await called(agent, RUN, prompt="go")
        assert [one["id"] for one in listed] == [ids[0]]
        assert (other["reason"], made["reason"]) == ("UnknownSession", "NotGranted")
        assert report["session"] == ids[0]
        async with outer_agent(place, BRIDLE_TOKEN="nobody") as agent:
            assert (await called(agent, "list_sessions"))["reason"] == "TokenInvalid"


async def test_an_engine_that_runs_already_is_used_and_keeps_the_session(place: Place) -> None:
    settings(place)
    allow_us(place)
    with serving(place) as engine:
        one = engine.ask("POST", "/v1/sessions", {"cwd": str(place.work)}).json["session"]
        async with outer_agent(place) as agent:
            report = await called(agent, RUN, prompt="go")
            assert (await called(agent, "attach_session", session=one))["reason"] == "UnknownSession"
            assert (await called(agent, "list_sessions"))["sessions"][0]["id"] == report["session"]
        described = engine.ask("GET", f"/v1/sessions/{report['session']}").json
        assert described["session"]["state"] == "open"
        assert engine.stop() == 0


def test_what_a_call_started_is_never_an_outer_agent(place: Place) -> None:
    ran = place.bridle("mcp", "serve", env={MARK: "1"})
    assert (ran.code, ran.out) == (3, "")
    ran = place.bridle("mcp", "allow", "abc", env={MARK: "1"})
    assert ran.code == 3


def test_a_token_is_no_word_of_the_command(place: Place) -> None:
    ran = place.bridle("mcp", "serve", "--token", "x")
    assert (ran.code, ran.out) == (2, "")
    assert 'no option "--token"' in ran.err


def test_a_line_that_is_too_long_is_answered_and_the_next_is_read(place: Place) -> None:
    long = '{"jsonrpc": "2.0", "id": 7, "method": "tools/list", "x": "' + "x" * (10 * 1024 * 1024) + '"}\n'
    hello = {
        "jsonrpc": "2.0",
        "id": 8,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        },
    }
    ran = place.bridle("mcp", "serve", stdin=f"{long}no JSON\n{json.dumps(hello)}\n")
    answers = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code == 0
    assert [(one["id"], one.get("error", {}).get("code")) for one in answers] == [
        (7, -32600),
        (None, -32700),
        (8, None),
    ]


# The person's word


def asked(place: Place, pid: int) -> str:
    program = ParentProgram(pid=pid, word="agent", path="/opt/agent", sha256="a" * 64)
    return register(place).ask(program).id


@pytest.mark.requirement("G19.3")
def test_a_person_lets_a_program_in_at_a_terminal(place: Place) -> None:
    number = asked(place, _gone())
    with sitting(place, "mcp", "allow", number[:6]) as person:
        person.sees("/opt/agent", "sha256 aaaa", "Let it? y/N")
        person.types("y\n")
        person.sees("Always show you its sessions")
        person.types("\n")
        assert person.ends() == 0
    (known,) = register(place).parents()
    assert (known.state, known.auto_attach) == ("allowed", False)
    assert "allowed since" in place.bridle("mcp", "parents").out
    assert place.bridle("mcp", "forget", number).code == 0
    assert json.loads(place.bridle("mcp", "parents", "--json").out) == {"parents": []}


@pytest.mark.requirement("G19.3")
def test_a_program_cannot_allow_itself_and_no_script_can(place: Place) -> None:
    ours = asked(place, os.getpid())
    with sitting(place, "mcp", "allow", ours) as person:
        person.sees("A program cannot allow itself")
        assert person.ends() == 3
    assert place.bridle("mcp", "allow", ours).code == 3
    with sitting(place, "mcp", "allow", asked(place, _gone())) as person:
        person.sees("Let it?")
        person.types("\n")
        assert person.ends() == 3
    assert {one.state for one in register(place).parents()} == {"waiting"}


def _gone() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid
