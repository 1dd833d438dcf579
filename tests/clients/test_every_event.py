"""Every event kind through every consumer of rows: each row is drawn, or its kind is left out on purpose."""

from collections.abc import Callable, Sequence
from typing import get_args

import msgspec

from bridle.clients import print as run_print
from bridle.clients import replay
from bridle.clients.interaction.engine_info import EngineInfo
from bridle.clients.interaction.render import session_pages
from bridle.clients.interaction.render.event_rows import EventRows, RowKind
from bridle.clients.interaction.view import SessionView
from bridle.clients.line import screen
from bridle.clients.line.page import Page
from bridle.clients.line.terminal import Look
from bridle.clients.mcp_server import turn_report
from bridle.protocol import events as e
from bridle.protocol.codec import EXPIRED
from bridle.protocol.display_values import EditedFile, ShownCommand, ShownEdit
from bridle.protocol.messages import TextBlock
from bridle.protocol.questions import OpenQuestion
from rows_kit import enveloped
from tables import table

CHILD = "inv_1"
SILENT = {
    e.SessionCreated, e.CommandTaken, e.TurnStarted, e.TurnTiming, e.SessionEnded, e.ThinkingDelta, e.PrefixSet,
    e.PermissionDecided, e.ToolCallStarted, e.ToolCallProgress, e.QuestionAnswered, e.CostIncremented,
    e.ChildMemoryUpdated, e.CustomEvent, e.TokenExpiring, e.Presence, e.ClientRequest,
}  # fmt: skip
"""Events without rows: they are seen by their effect, or by the rows of later events."""


class Of:
    """An event of the subagent."""

    def __init__(self, event: e.AnyEvent) -> None:
        self.event = event


def asked(tool: str, step: int = 1, **given: str) -> e.ToolCallRequested:
    return e.ToolCallRequested(call_id="call_1", tool=tool, input=given, step=step)


def result(tool: str, content: str = "", **fields: ShownEdit | ShownCommand) -> e.ToolResult:
    return e.ToolResult(call_id="call_1", tool=tool, outcome="ok", content=content, **fields)


def words(*texts: str) -> tuple[TextBlock, ...]:
    return tuple(TextBlock(text=text) for text in texts)


CALLS = (e.RequestedCall(call_id="call_1", wire_id="w", tool="bash", input={}),)
STEP = e.StepStarted(step=1, provider="prov", model="modl")
END = e.StepEnded(step=1, stop="end_turn", text_sha256="")
SENT = e.ChildStarted(invocation=CHILD, agent="review", task="fig task")
EDITED = ShownEdit(files=(EditedFile(path="fig.txt", added=1, diff="--- a\n+++ b\n@@ -0,0 +1 @@\n+plum\n"),))

CASES: list[tuple[Sequence[e.AnyEvent | Of], dict[RowKind, str]]] = [
    ((STEP,), {"start": "model prov:modl"}),
    ((e.InputAccepted(content=words("fig input")),), {"input": "fig input"}),
    ((asked("bash", step=0, command="fig"),), {"command": "fig"}),
    ((asked("bash", step=0, command="fig"), result("bash", "plum")), {"printed": "plum", "call": "ran "}),
    (
        (STEP, e.TextDelta(text="fig text"), e.StepEnded(step=1, stop="tool_use", text_sha256="", calls=CALLS)),
        {"delta": "fig text", "said": "fig text"},
    ),
    (
        (STEP, e.TextDelta(text="fig text"), END),
        {"answer": "fig text"},
    ),
    ((asked("bash", command="fig"), result("bash", "plum", shown=ShownCommand(exit_code=0))), {"output": "plum"}),
    ((asked("write_file", path="fig.txt"), result("write_file", shown=EDITED)), {"edit": "plum"}),
    ((asked("todo"), result("todo")), {"told_call": "todo"}),
    ((SENT, Of(e.TextDelta(text="fig said")), Of(END)), {"child_said": "fig said"}),
    ((SENT, Of(e.TurnEnded(stop="error", message="fig end"))), {"child_ended": "ended: fig end"}),
    ((SENT,), {"agent": "fig task"}),
    ((SENT, e.ChildEnded(invocation=CHILD, agent="review", ok=False, result="fig why")), {"agent": "fig why"}),
    ((e.ContextAdded(source="agent", content=words("a", "fig answer")),), {"agent_answer": "fig answer"}),
    ((e.ContextAdded(source="diff", content=words("fig diff")),), {"diff": "fig diff"}),
    ((e.TodosChanged(todos=(e.Todo(text="fig item", state="doing"),)),), {"plan": "fig item"}),
    ((e.Notice(reason="x", message="fig notice"),), {"note": "fig notice"}),
    ((e.Notice(reason="Usage", message="fig usage"),), {"refusal": "fig usage"}),
    ((e.Degraded(what="x", reason="x", message="fig weak"),), {"degraded": "fig weak"}),
    ((e.Error(reason="x", message="fig error"),), {"error": "fig error"}),
    ((e.StepFailed(step=1, attempt=1, reason="x", message="fig late", retry_in_ms=1),), {"retry": "fig late"}),
    ((e.StepFailed(step=1, attempt=1, reason="x", message="fig over"),), {"failure": "fig over"}),
    ((e.GitEnded(name="commit", reason="NoWorktree", message="fig git"),), {"git": "fig git"}),
    (
        (e.GoalBegun(text="t", check=e.GoalCheck(command="fig check"), limits=e.GoalLimits(rounds=2, steps=9)),),
        {"goal": "fig check"},
    ),
    ((e.GoalChecked(round=1, passed=False, problem="fig exit"),), {"goal": "fig exit"}),
    (
        (e.GoalEnded(reached=True, rounds=1, steps=1, changed=("fig.py",)),),
        {"goal_reached": "reached in 1 round", "warning": "fig.py"},
    ),
    ((e.GoalEnded(reached=False, rounds=1, steps=1, message="fig miss"),), {"goal_missed": "fig miss"}),
    (
        (
            asked("bash", command="fig"),
            e.PermissionRequested(call_id="call_1", tool="bash", input={}, risk="execute", why=""),
        ),
        {"waiting": "waits for a person: fig"},
    ),
    ((e.QuestionAsked(question_id="q", question=OpenQuestion(text="fig?")),), {"waiting": "waits for a person"}),
    ((e.ModelChanged(provider="fig", model="plum"),), {"setting": "fig:plum"}),
    ((e.ModeChanged(mode="safe"),), {"setting": "reading only"}),
    ((e.EffortChanged(effort="high"),), {"setting": "high"}),
    ((e.GrantAdded(grant_id="g", tool="fig", pattern="", life="session"),), {"grant": "every fig call"}),
    ((e.GrantRevoked(grant_id="g"),), {"grant": "revoked"}),
    ((e.InputAccepted(content=words("plum")), e.InputChanged(input=1, change="hold")), {"queue": "held"}),
    ((e.InputChanged(input=1, change="drop", content=words("fig drop")),), {"note": "fig drop"}),
    ((e.TurnEnded(stop="error", message="fig end"),), {"ended": "fig end"}),
    ((e.Branched(parent_log="l", at=7),), {"branch": "branched here (event 7)"}),
    ((e.UnknownEvent(kind="TextDelta", raw=EXPIRED),), {"gap": "has expired"}),
    ((e.Cancelled(by="cli_1"),), {"note": "stopped"}),
    ((e.Compacted(summary="", kept_from=1),), {"note": "Left out 0 old tool results"}),
    ((e.SkillRegistryChanged(skills=("fig",), added=("fig",)),), {"note": "new: fig"}),
    ((e.ApprovalGiven(call_id="c", by=e.Approval(client="c", name="fig"), given=1, keys=2),), {"note": "fig said yes"}),
    ((e.HookTimeout(event="Stop", command="fig", timeout_ms=5),), {"note": "fig"}),
    ((e.HookError(event="Stop", command="fig", exit_code=1),), {"note": "fig"}),
    ((e.MCPServerDown(name="fig", reason="plum", attempts=3),), {"note": "fig"}),
    ((e.BackgroundStarted(call_id="c", command="fig"),), {"note": "fig (in the background)"}),
    ((e.BackgroundEnded(call_id="c", outcome="ok"),), {"note": "background command"}),
    ((e.UndoApplied(turn=1, paths=("fig",)),), {"note": "Undone."}),
    ((e.AsideAsked(question="fig?"),), {"note": "fig?"}),
    ((e.AsideAnswered(asked=1, answer="plum."),), {"note": "plum."}),
    ((e.StreamGap(first=1, last=2, reason="slow"),), {"note": "2 events were skipped"}),
]  # fmt: skip


def envelopes(events: Sequence[e.AnyEvent | Of]) -> list[e.Envelope]:
    plain = enveloped(*(one.event if isinstance(one, Of) else one for one in events))
    return [
        msgspec.structs.replace(one, invocation=CHILD, agent_path=("review",))
        if isinstance(given, Of)
        else one
        for one, given in zip(plain, events, strict=True)
    ]


def on_the_screen(session: list[e.Envelope]) -> str:
    written: list[str] = []
    view = SessionView("cli_1")
    shown = screen.Screen(
        Page(written.append, columns=lambda: 0, moves=False), view, EngineInfo(), look=Look()
    )
    for envelope in session:
        view.take(envelope)
        shown.show(envelope)
    return "".join(written)


def as_progress(session: list[e.Envelope]) -> str:
    lines: list[str] = []
    rows = EventRows(left_out=run_print.LEFT_OUT)
    progress = run_print.RunProgress(lines.append, lines.append, detail=True)
    for envelope in session:
        progress.take(envelope, rows.take(envelope))
    return "\n".join(lines)


def for_programs(session: list[e.Envelope]) -> str:
    fold = turn_report.TurnFold("sess_1", 1, joins=True)
    return "\n".join(line for envelope in session for line in fold.take(envelope))


Draw = Callable[[list[e.Envelope]], str]
CONSUMERS: list[tuple[Draw, frozenset[RowKind]]] = [
    (on_the_screen, screen.LEFT_OUT | {"input", "command"}),
    (as_progress, run_print.LEFT_OUT | {"delta", "answer", "failure", "agent_answer"}),
    (lambda session: "".join(one.text for one in replay.frames(session)), replay.NOT_IN_TRANSCRIPTS),
    (lambda session: "\n".join(replay.transcript_lines(session)), replay.LEFT_OUT),
    (lambda session: "".join(session_pages.markdown("t", (), session)), session_pages.LEFT_OUT),
    (lambda session: "".join(session_pages.html("t", (), session)), session_pages.LEFT_OUT),
    (for_programs, turn_report.LEFT_OUT),
]
"""Each consumer with the kinds that it leaves out, or shows somewhere else, as the closing line of a run."""


@table(("draw", "left_out"), CONSUMERS)
@table(("events", "expected"), CASES)
def test_a_row_is_drawn_by_every_consumer_that_does_not_leave_it_out(
    draw: Draw,
    left_out: frozenset[RowKind],
    events: Sequence[e.AnyEvent | Of],
    expected: dict[RowKind, str],
) -> None:
    session = envelopes(events)
    rows = EventRows()
    found = {row.kind for one in session for row in rows.take(one)}
    assert found >= set(expected), "the rows of these events"
    drawn = draw(session)
    for kind, text in expected.items():
        assert kind in left_out or text in drawn, (kind, drawn)


def test_the_table_has_every_event_and_every_kind_of_row() -> None:
    seen = {type(one.event if isinstance(one, Of) else one) for events, _ in CASES for one in events}
    assert seen | SILENT >= set(get_args(e.AnyEvent))
    assert {kind for _, expected in CASES for kind in expected} == set(get_args(RowKind))
