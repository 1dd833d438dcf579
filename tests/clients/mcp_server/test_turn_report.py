"""What an outer agent is told of a turn in which agents were sent."""

import pytest

from bridle.clients.mcp_server.turn_report import SentAgent, TurnFold, WaitingCall, report_text
from bridle.protocol import events as e


def told(event: e.AnyEvent, *path: str) -> e.Envelope:
    child = f"inv_{path[-1]}" if path else None
    return e.Envelope(
        id=1, kind=type(event).__name__, session="s", originator="", ts_ms=0, event=event, agent_path=path,
        invocation=child,
    )  # fmt: skip


@pytest.mark.requirement("G19.4")
def test_agents_that_were_sent_are_named_with_their_tools_and_what_they_wait_for() -> None:
    fold = TurnFold("s", 1)
    lines = [
        line
        for envelope in (
            told(e.TurnStarted(input=1)),
            told(e.ChildStarted(invocation="inv_writer", agent="writer", task="Write.")),
            told(e.TextDelta(text="words of the child"), "writer"),
            told(e.ToolCallRequested(call_id="c", tool="read_file", input={"path": "a"}, step=1), "writer"),
            told(e.ToolResult(call_id="c", tool="read_file", outcome="ok", content=""), "writer"),
            told(e.ToolCallRequested(call_id="d", tool="write_file", input={"path": "b"}, step=1), "writer"),
            told(
                e.PermissionRequested(call_id="d", tool="write_file", input={}, risk="write", why=""),
                "writer",
            ),
        )
        for line in fold.take(envelope)
    ]
    report = fold.report()
    assert report.summary.tools_used == ("read_file",)
    assert report.summary.agents == (
        SentAgent(path=("writer",), task="Write.", state="waiting", steps=0, cost=0.0),
    )
    assert report.waiting == (
        WaitingCall(call_id="d", tool="write_file", call="write b", agents=("writer",)),
    )
    assert report.answer == ""
    assert fold.call_ids == {"c", "d"}, "what children change is found by their calls"
    assert lines[-1] == "waits for a person: writer → write b   bridle attach s"
    assert "agent writer: waiting" in report_text(report)
    fold.take(told(e.ToolResult(call_id="d", tool="write_file", outcome="cancelled", content=""), "writer"))
    assert fold.report().waiting == ()
