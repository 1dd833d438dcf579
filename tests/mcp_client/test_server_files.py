"""What a server makes in the workspace while a session and a person work there too."""

import os

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol.events import Notice, ToolResult
from bridle.providers.script import call, say
from bridle.sandbox.plain_spawn import UNCONFINED
from mcp_kit import server, until_phase, write_settings


async def held(session) -> None:
    if await session.engine.services.spawn.held_by() in {"", UNCONFINED}:
        pytest.skip("nothing confines commands here")


def files_server(home, **told) -> None:
    write_settings(str(home), {"files": server(told, sandbox="workspace-write")})


@pytest.mark.requirement("T8.1")
async def test_while_a_server_runs_nothing_stands_in_the_workspace_and_everybody_can_write_there(tmp_path):
    files_server(tmp_path)
    model = scripted(
        call("mcp__files__echo"),
        call("write_file", path="AGENTS.md", content="by a tool"),
        call("write_file", path=".vscode/tasks.json", content="{}"),
        call("mcp__files__write", path="plain"),
        say("Done."),
    )
    async with harness(
        model, home=str(tmp_path), allow=("mcp__*", "write_file(AGENTS.md)", "write_file(.vscode/tasks.json)")
    ) as session:
        await held(session)
        await until_phase(session, "files", "up")
        work = session.folder
        assert os.listdir(work) == []
        events = await session.ask("go")
        assert [result.outcome for result in of_kind(events, ToolResult)] == ["ok"] * 4
        assert set(os.listdir(work)) == {"AGENTS.md", ".vscode", "plain"}
        assert [one for one in of_kind(events, Notice) if one.reason == "PutAside"] == []


@pytest.mark.requirement("T8.1")
async def test_instructions_that_a_server_writes_are_put_aside_and_person_and_model_are_told(tmp_path):
    files_server(tmp_path)
    model = scripted(call("mcp__files__write", path="AGENTS.md"), say("Done."))
    async with harness(model, home=str(tmp_path), allow=("mcp__*",)) as session:
        await held(session)
        events = await session.ask("go")
        assert os.listdir(session.folder) == ["AGENTS.md.put-aside-1"]
    (result,) = of_kind(events, ToolResult)
    (notice,) = (one for one in of_kind(events, Notice) if one.reason == "PutAside")
    told = "AGENTS.md was quarantined as AGENTS.md.put-aside-1"
    assert told in notice.message
    assert "bridle sandbox give-back AGENTS.md.put-aside-1" in notice.message
    assert told in result.content
