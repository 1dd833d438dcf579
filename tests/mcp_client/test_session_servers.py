import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import of_kind
from bridle.protocol.events import ToolResult
from bridle.providers.script import call, say
from mcp_kit import server, session_with


@pytest.mark.requirement("H1.1")
async def test_a_tool_of_a_server_is_called_like_any_other(tmp_path):
    model = scripted(call("mcp__files__add", a=2, b=3), say("Five."))
    async with session_with(model, tmp_path, {"files": server()}, allow=("mcp__files__add",)) as session:
        events = await session.ask("add")

    (result,) = of_kind(events, ToolResult)
    assert (result.outcome, result.content) == (
        "ok",
        '<untrusted-mcp-result>5\n{"sum":5}</untrusted-mcp-result>',
    )
