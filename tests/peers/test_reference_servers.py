"""The seven reference servers in a real session: four of the older revision from npm, three of the newer from PyPI."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import of_kind, outcomes
from bridle.protocol.commands import AnswerQuestion, RunSlash, SendInput
from bridle.protocol.display_values import ShownServerResult
from bridle.protocol.events import (
    ContextAdded,
    QuestionAsked,
    ToolCallProgress,
    ToolResult,
    TurnEnded,
)
from bridle.protocol.messages import FileMention, ImageBlock, TextBlock
from bridle.protocol.questions import InputAnswer, OpenQuestion, WordsAnswer
from bridle.providers.script import call, say
from mcp_kit import session_with, until_phase
from peers.peer_kit import MODULES

pytestmark = pytest.mark.peers

OLDER, NEWER = "2025-11-25", "2026-07-28"
PYTHON_PEERS = Path(sys.prefix) / "peers"
ALL = {"allow": ("mcp__*",)}


def from_npm(package: str, *words: str, **settings) -> dict:
    """A server of npm, in the sandbox as people have it."""
    node, script = shutil.which("node"), MODULES / "@modelcontextprotocol" / package / "dist" / "index.js"
    if node is None or not script.is_file():
        pytest.skip("needs node and the npm packages: run make test-peers")
    return {"command": [node, str(script), *words], "discovery": "eager", **settings}


def from_pypi(module: str, *words: str, **settings) -> dict:
    if not (PYTHON_PEERS / module).is_dir():
        pytest.skip("needs the packages of requirements/peers.txt: run make test-peers")
    env = {"PYTHONPATH": str(PYTHON_PEERS)}
    return {"command": [sys.executable, "-m", module, *words], "env": env, "discovery": "eager", **settings}


def texts(events) -> list[str]:
    outer = ("<untrusted-mcp-result>", "</untrusted-mcp-result>")
    return [one.content.removeprefix(outer[0]).removesuffix(outer[1]) for one in of_kind(events, ToolResult)]


async def test_filesystem_reads_and_writes_what_it_may_and_nothing_else(tmp_path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("hello from a file")
    model = scripted(
        call("mcp__files__read_text_file", path=str(work / "a.txt")),
        call("mcp__files__write_file", path=str(work / "b.txt"), content="written"),
        call("mcp__files__read_text_file", path="/etc/hostname"),
        say("Done."),
    )
    servers = {"files": from_npm("server-filesystem", str(work))}
    async with session_with(model, tmp_path / "home", servers, folder=str(work), **ALL) as session:
        state = await until_phase(session, "files", "up")
        events = await session.ask("go")
    assert (state["protocol"], state["tools"]) == (OLDER, 14)
    assert outcomes(events) == ["ok", "ok", "error"]
    assert "hello from a file" in texts(events)[0]
    assert (work / "b.txt").read_text() == "written"
    assert "Access denied" in texts(events)[2]


async def test_memory_keeps_what_it_was_told(tmp_path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    entity = {"name": "Ann", "entityType": "person", "observations": ["likes tea"]}
    model = scripted(
        call("mcp__memory__create_entities", entities=[entity]),
        call("mcp__memory__search_nodes", query="tea"),
        say("Done."),
    )
    servers = {"memory": from_npm("server-memory", env={"MEMORY_FILE_PATH": str(work / "memory.jsonl")})}
    async with session_with(model, tmp_path / "home", servers, folder=str(work), **ALL) as session:
        state = await until_phase(session, "memory", "up")
        events = await session.ask("go")
    assert (state["protocol"], state["tools"]) == (OLDER, 9)
    assert outcomes(events) == ["ok", "ok"]
    assert "likes tea" in texts(events)[1]
    shown = of_kind(events, ToolResult)[1].shown
    assert isinstance(shown, ShownServerResult)
    assert json.loads(shown.structured or "{}")["entities"][0]["name"] == "Ann"


async def test_sequential_thinking_counts_thoughts(tmp_path) -> None:
    thought = {"thought": "First.", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 2}
    model = scripted(call("mcp__think__sequentialthinking", **thought), say("Done."))
    servers = {"think": from_npm("server-sequential-thinking")}
    async with session_with(model, tmp_path, servers, **ALL) as session:
        state = await until_phase(session, "think", "up")
        events = await session.ask("go")
    assert (state["protocol"], state["tools"]) == (OLDER, 1)
    assert '"thoughtHistoryLength": 1' in texts(events)[0].replace('":1', '": 1')


async def test_git_sees_the_repository_of_the_session(tmp_path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    for words in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-qm", "First", "--allow-empty")):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *words], cwd=work, env=env, check=True)
    (work / "new.txt").write_text("new\n")
    model = scripted(
        call("mcp__git__git_status", repo_path=str(work)),
        call("mcp__git__git_log", repo_path=str(work)),
        say("Done."),
    )
    servers = {"git": from_pypi("mcp_server_git", "--repository", str(work))}
    async with session_with(model, tmp_path / "home", servers, folder=str(work), **ALL) as session:
        state = await until_phase(session, "git", "up")
        events = await session.ask("go")
    assert (state["protocol"], state["tools"]) == (NEWER, 12)
    assert outcomes(events) == ["ok", "ok"], texts(events)
    assert "new.txt" in texts(events)[0]
    assert "First" in texts(events)[1]


async def test_time_converts_and_says_what_it_does_not_know(tmp_path) -> None:
    model = scripted(
        call("mcp__time__convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"),
        call("mcp__time__get_current_time", timezone="Nowhere/Else"),
        say("Done."),
    )
    servers = {"time": from_pypi("mcp_server_time", "--local-timezone", "UTC")}
    async with session_with(model, tmp_path, servers, **ALL) as session:
        state = await until_phase(session, "time", "up")
        events = await session.ask("go")
    assert (state["protocol"], state["tools"]) == (NEWER, 2)
    assert outcomes(events) == ["ok", "error"]
    assert "21:00" in texts(events)[0]


async def test_fetch_refuses_this_machine_and_its_prompt_is_the_persons(tmp_path) -> None:
    model = scripted(call("mcp__fetch__fetch", url="http://127.0.0.1:9/"), say("Done."))
    servers = {"fetch": from_pypi("mcp_server_fetch")}
    async with session_with(model, tmp_path, servers, **ALL) as session:
        state = await until_phase(session, "fetch", "up")
        events = await session.ask("go")
    assert (state["protocol"], state["tools"], state["prompts"]) == (NEWER, 1, 1)
    assert outcomes(events) == ["error"]


# Everything


@pytest.fixture
def everything() -> dict:
    return {"all": from_npm("server-everything", "stdio")}


async def test_everything_answers_with_text_pictures_and_structure(tmp_path, everything) -> None:
    model = scripted(
        call("mcp__all__echo", message="hi"),
        call("mcp__all__get-tiny-image"),
        call("mcp__all__get-structured-content", location="Chicago"),
        say("Done."),
    )
    async with session_with(model, tmp_path, everything, **ALL) as session:
        state = await until_phase(session, "all", "up")
        events = await session.ask("go")
    assert (state["protocol"], state["tools"]) == (OLDER, 16)
    assert outcomes(events) == ["ok", "ok", "ok"], texts(events)
    assert texts(events)[0] == "Echo: hi"
    (added,) = of_kind(events, ContextAdded)
    assert isinstance(added.content[0], ImageBlock)
    shown = of_kind(events, ToolResult)[2].shown
    assert isinstance(shown, ShownServerResult)
    assert "temperature" in json.loads(shown.structured or "{}")


async def test_everything_tells_of_its_progress(tmp_path, everything) -> None:
    model = scripted(call("mcp__all__trigger-long-running-operation", duration=1, steps=2), say("Done."))
    async with session_with(model, tmp_path, everything, **ALL) as session:
        await until_phase(session, "all", "up")
        number = await session.send("go")
        shown = ""
        async for envelope in session.connection.events(session.id, since=number):
            if isinstance(envelope.event, ToolCallProgress):
                shown += envelope.event.text
            if isinstance(envelope.event, TurnEnded):
                break
        events = await session.turn_of(number)
    assert outcomes(events) == ["ok"]
    assert [line.split()[0] for line in shown.splitlines()] == ["1/2", "2/2"]


async def test_everything_has_resources_to_list_read_and_point_at(tmp_path, everything) -> None:
    model = scripted(call("mcp__all__list_resources"), say("So many."), say("Read."))
    async with session_with(model, tmp_path, everything, **ALL) as session:
        await until_phase(session, "all", "up")
        listed = texts(await session.ask("what is there?"))[0]
        uri = listed.splitlines()[0].split()[0]
        content = (FileMention(path=f"all:{uri}"), TextBlock(text=" what does it say?"))
        sent = await session.connection.send(SendInput(session=session.id, content=content))
        read = await session.turn_of(sent.event)
    (added,) = of_kind(read, ContextAdded)
    assert added.content[0].text.startswith(f"all:{uri}:\n<untrusted-mcp-result>")


async def test_a_prompt_of_everything_is_sent_once_the_person_saw_it(tmp_path, everything) -> None:
    async with session_with(scripted(say("Hello.")), tmp_path, everything, answers=True) as session:
        await until_phase(session, "all", "up")
        await session.connection.send(
            RunSlash(session=session.id, name="mcp:all:args-prompt", arguments="city=Paris state=Texas")
        )
        asked = await session.until(QuestionAsked)
        answer = AnswerQuestion(
            session=session.id, question_id=asked.question_id, answer=WordsAnswer(text="send it")
        )
        await session.connection.send(answer)
        await session.until(TurnEnded)
        first = session.conversation.messages[0].content[0]
    assert isinstance(asked.question, OpenQuestion)
    assert isinstance(first, TextBlock)
    assert "Paris" in first.text
    assert first.text in asked.question.text


async def test_what_everything_asks_a_person_is_put_to_them(tmp_path, everything) -> None:
    model = scripted(call("mcp__all__trigger-elicitation-request"), say("Done."))
    async with session_with(model, tmp_path, everything, answers=True, **ALL) as session:
        await until_phase(session, "all", "up")
        number = await session.send("go")
        asked = await session.until(QuestionAsked)
        reply = InputAnswer(declined=True)
        await session.connection.send(
            AnswerQuestion(session=session.id, question_id=asked.question_id, answer=reply)
        )
        events = await session.turn_of(number)
    assert asked.question.server == "all"
    assert outcomes(events) == ["ok"]
    assert "declined" in texts(events)[0]


async def test_no_model_is_lent_to_everything(tmp_path, everything) -> None:
    model = scripted(call("mcp__all__trigger-sampling-request", prompt="say hi"), say("Done."))
    async with session_with(model, tmp_path, everything, **ALL) as session:
        await until_phase(session, "all", "up")
        events = await session.ask("go")
    assert of_kind(events, ToolResult)[0].reason == "UnknownTool", "it is not even told that there is one"
