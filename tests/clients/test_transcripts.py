"""A session as lines for other tools: dotted names that say whose doing it is, and a chain of lines with parents."""

import json
from typing import Any

import pytest

from bridle.clients.dotted_events import ChainForm, chain_lines, events_lines
from bridle.protocol import events as e
from bridle.protocol.codec import EXPIRED, kind_of
from bridle.protocol.messages import FileMention, ImageBlock, TextBlock, ToolSchema, Usage
from secret_kit import tokens
from tables import table

SESSION = "sess_01JV0000000000000000000000"
START_MS = 1_700_000_000_000

CALL = {"call_id": "call_1", "tool": "bash"}
RUN = {"command": "make test"}


def told(*events: e.AnyEvent | tuple[e.AnyEvent, dict[str, Any]]) -> list[e.Envelope]:
    """The events in order, each with fields of its envelope where they are given."""
    pairs = [event if isinstance(event, tuple) else (event, {}) for event in events]
    return [
        e.Envelope(
            id=number,
            kind=kind_of(event),
            session=SESSION,
            originator="cli_1",
            ts_ms=START_MS + number,
            event=event,
            **{"turn": None, **fields},
        )
        for number, (event, fields) in enumerate(pairs, 1)
    ]


def dotted(*events: e.AnyEvent | tuple[e.AnyEvent, dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in events_lines(told(*events))]


def chained(*events: e.AnyEvent | tuple[e.AnyEvent, dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in chain_lines(told(*events))]


def names(lines: list[dict[str, Any]]) -> list[str]:
    return [line["type"] for line in lines]


A_TURN = (
    e.SessionCreated(log="log_1", cwd="/work", mode="auto"),
    e.InputAccepted(content=(TextBlock(text="run the tests"), ImageBlock(url="data:x"), FileMention(path="a.py"))),
    e.TurnStarted(input=2),
    e.PrefixSet(provider="work", model="small", system="You help."),
    e.StepStarted(step=1, provider="work", model="small"),
    e.TextDelta(text="wrong "),
    e.StepFailed(step=1, attempt=1, attempts=5, reason="Overloaded", message="busy", retry_in_ms=900),
    e.StepStarted(step=1, provider="work", model="small"),
    e.TextDelta(text="I look "),
    e.TextDelta(text="at it."),
    e.StepEnded(step=1, stop="tool_use", text_sha256="0"),
    e.CostIncremented(provider="work", model="small", usage=Usage(input_tokens=7, output_tokens=3), usd=0.5),
    e.ToolCallRequested(**CALL, input=RUN, step=1),
    e.PermissionRequested(**CALL, input=RUN, risk="shell", why="the mode asks"),
    e.PermissionDecided(**CALL, verdict="allow", decided_by="person", answered_by="cli_1"),
    e.ToolCallStarted(**CALL, input=RUN, mutating=True, input_sha256="0"),
    e.ToolResult(**CALL, outcome="ok", content="passed", duration_ms=12),
    e.Compacted(summary="We ran tests.", kept_from=9, tokens_before=90, tokens_after=20),
    e.HookTimeout(event="Stop", command="slow", timeout_ms=5000),
    e.TurnTiming(durations_ms={"turn.total": 1.0}),
    e.TurnEnded(stop="end_turn", steps=1),
    e.SessionEnded(cause="user"),
)  # fmt: skip


@pytest.mark.requirement("D18.1")
def test_everything_that_happens_in_a_turn_has_its_dotted_name():
    assert names(dotted(*A_TURN)) == [
        "session.started",
        "user.message",
        "context.compiled",
        "model.request",
        "model.text.delta",
        "provider.retry",
        "context.compiled",
        "model.request",
        "model.text.delta",
        "model.text.delta",
        "model.text",
        "model.usage",
        "tool.requested",
        "permission.requested",
        "permission.granted",
        "tool.started",
        "tool.completed",
        "context.compacted",
        "hook.failed",
        "turn.ended",
        "session.ended",
    ]


@pytest.mark.requirement("D18.1")
@table(
    ("event", "name"),
    [
        (e.StepEnded(step=1, stop="content_filter", text_sha256="0"), "model.content_filter"),
        (e.ContextAdded(source="hook", content=(TextBlock(text="mind this"),)), "hook.fired"),
        (e.Notice(reason="HookPatched", message="hook x changed the input"), "hook.fired"),
        (e.HookError(event="Stop", command="x", exit_code=1), "hook.failed"),
        (e.ToolResult(**CALL, outcome="denied", content="no"), "tool.failed"),
        (e.PermissionDecided(**CALL, verdict="deny", decided_by="rule"), "permission.denied"),
        (e.ChildStarted(invocation="inv_1", agent="plan", task="think"), "agent.invocation.started"),
        (
            e.ChildEnded(invocation="inv_1", agent="plan", ok=True, result="thought"),
            "agent.invocation.completed",
        ),
        (e.ChildEnded(invocation="inv_1", agent="plan", ok=False, result=""), "agent.invocation.failed"),
        (
            e.ChildEnded(invocation="inv_1", agent="plan", ok=False, result="", stop="cancelled"),
            "agent.invocation.cancelled",
        ),
        (e.UnknownEvent(kind="TextDelta", raw=EXPIRED), "content.expired"),
    ],
)
def test_what_goes_another_way_has_a_name_too(event: e.AnyEvent, name: str):
    assert names(dotted(event)) == [name]


def test_a_call_that_a_hook_blocked_tells_both():
    blocked = e.ToolResult(**CALL, outcome="blocked", content="no", reason="HookBlocked")
    assert names(dotted(blocked)) == ["hook.fired", "tool.failed"]


def test_what_has_no_name_is_left_out():
    assert dotted(e.ModeChanged(mode="auto"), e.UnknownEvent(kind="Later", raw=b"{}")) == []


@pytest.mark.requirement("D18.7")
def test_a_line_has_its_type_first_then_ids_and_its_time_last():
    (line,) = dotted((e.SessionEnded(cause="idle"), {"turn": 3}))
    assert list(line.items()) == [
        ("type", "session.ended"),
        ("sessionId", SESSION),
        ("rootSessionId", SESSION),
        ("eventId", 1),
        ("turn", 3),
        ("cause", "idle"),
        ("ts", START_MS + 1),
    ]


def test_a_message_tells_words_images_and_files():
    message = dotted(*A_TURN)[1]
    assert (message["text"], message["images"], message["files"]) == ("run the tests", 1, ["a.py"])


def test_the_answer_is_whole_and_without_the_attempt_that_failed():
    answer = next(line for line in dotted(*A_TURN) if line["type"] == "model.text")
    assert (answer["text"], answer["complete"]) == ("I look at it.", True)


def test_an_answer_that_was_cut_off_is_told_as_far_as_somebody_read_it():
    lines = dotted(e.TextDelta(text="half of"), e.TurnEnded(stop="cancelled"))
    assert (lines[1]["type"], lines[1]["text"], lines[1]["complete"]) == ("model.text", "half of", False)


def test_a_secret_that_was_split_between_two_deltas_is_not_put_together_again():
    secret = tokens()[0]
    middle = len(secret.text) // 2
    deltas = (e.TextDelta(text=secret.text[:middle]), e.TextDelta(text=secret.text[middle:]))
    for lines in (events_lines, chain_lines):
        whole = b"".join(lines(told(*deltas, e.StepEnded(step=1, stop="end_turn", text_sha256="0"))))
        assert secret.secret.encode() not in whole
        assert "«redacted:".encode() in whole


@pytest.mark.requirement("D18.3")
def test_permission_events_name_what_they_are_about_and_what_was_decided():
    asked, granted = [line for line in dotted(*A_TURN) if line["type"].startswith("permission.")]
    assert (asked["targetType"], asked["targetName"], asked["decision"]) == ("tool", "bash", "ask")
    assert (granted["targetType"], granted["targetName"], granted["decision"]) == ("tool", "bash", "allow")
    assert (granted["decidedBy"], granted["answeredBy"]) == ("person", "cli_1")
    call = {"call_id": "call_2", "tool": "delegate_agent"}
    lines = dotted(
        e.ToolCallRequested(**call, input={"agent": "plan", "task": "think"}, step=1),
        e.PermissionDecided(**call, verdict="deny", decided_by="mode"),
    )
    assert names(lines) == ["tool.requested", "agent.invocation.requested", "permission.denied"]
    assert (lines[2]["targetType"], lines[2]["targetName"], lines[2]["decision"]) == ("agent", "plan", "deny")


@pytest.mark.requirement("D18.2")
def test_a_childs_lines_say_whose_they_are_and_the_sessions_own_do_not():
    child = {"invocation": "inv_2", "agent_path": ("build", "plan")}
    lines = dotted(
        e.TextDelta(text="mine"),
        (e.ChildStarted(invocation="inv_2", agent="plan", task="think"), {"invocation": "inv_1"}),
        (e.TextDelta(text="of the child"), child),
        (e.StepEnded(step=1, stop="end_turn", text_sha256="0"), child),
        (e.Compacted(summary="s", kept_from=1), child),
        e.StepEnded(step=1, stop="end_turn", text_sha256="0"),
    )
    assert (
        not {"invocationId", "agent", "agentPath", "agentSessionId", "parentInvocationId"} & lines[0].keys()
    )
    assert {line["rootSessionId"] for line in lines} == {SESSION}
    own = {name: lines[2][name] for name in ("invocationId", "parentInvocationId", "agent", "agentPath")}
    assert own == {
        "invocationId": "inv_2",
        "parentInvocationId": "inv_1",
        "agent": "plan",
        "agentPath": ["build", "plan"],
    }
    assert lines[2]["agentSessionId"] == f"{SESSION}/build/plan"
    assert [(line["type"], line.get("text")) for line in lines[3:]] == [
        ("model.text", "of the child"),
        ("agent.session.context_compacted", None),
        ("model.text", "mine"),
    ]


@pytest.mark.requirement("T18.9")
def test_the_chain_tells_a_turn_with_numbers_ids_and_parents():
    lines = chained(*((event, {"turn": 1}) for event in A_TURN))
    assert [line["event"]["type"] for line in lines] == [
        "user.message",
        "assistant.delta",
        "assistant.delta",
        "assistant.delta",
        "assistant.completed",
        "tool.permission",
        "tool.permission",
        "tool.started",
        "tool.completed",
        "turn.completed",
    ]
    assert [line["seq"] for line in lines] == list(range(1, 11))
    assert [line["parentUuid"] for line in lines] == [None, *(line["uuid"] for line in lines[:-1])]
    assert len({line["uuid"] for line in lines}) == 10
    assert {(line["version"], line["sessionId"], line["turnId"], line["cwd"]) for line in lines} == {
        (1, SESSION, "turn_1", "/work")
    }
    assert lines[0]["timestamp"] == "2023-11-14T22:13:20.002Z"
    assert lines[-1]["event"]["usage"] == {
        "inputTokens": 7,
        "outputTokens": 3,
        "cacheReadTokens": 0,
        "cacheWriteTokens": 0,
    }


@table(
    ("stop", "name"),
    [("end_turn", "turn.completed"), ("error", "turn.failed"), ("cancelled", "turn.failed")],
)
def test_a_turn_that_failed_is_told_as_that(stop: e.TurnStop, name: str):
    (line,) = chained(e.TurnEnded(stop=stop))
    assert line["event"]["type"] == name


def test_the_tokens_of_a_turn_are_its_own():
    used = e.CostIncremented(provider="w", model="s", usage=Usage(input_tokens=2), usd=None)
    ends = chained(used, used, e.TurnEnded(stop="end_turn"), used, e.TurnEnded(stop="end_turn"))
    assert [line["event"]["usage"]["inputTokens"] for line in ends] == [4, 2]


def test_what_stands_beside_the_chain_says_where_it_ends():
    form, envelopes = ChainForm(), told(*A_TURN)
    lines = [json.loads(line) for envelope in envelopes for line in form.lines(envelope)]
    assert json.loads(form.about(envelopes[-1])) == {
        "version": 1,
        "sessionId": SESSION,
        "cwd": "/work",
        "createdAt": "2023-11-14T22:13:20.001Z",
        "updatedAt": "2023-11-14T22:13:20.022Z",
        "lastSeq": 10,
        "lastUuid": lines[-1]["uuid"],
    }


CHILD = {"invocation": "inv_2", "agent_path": ("plan",)}
TOOLS = (ToolSchema(name="grep", description="", input_schema={}),)
A_CHILD = (
    (e.ChildStarted(invocation="inv_2", agent="plan", task="think", call_id="call_9"), {}),
    (e.InputAccepted(content=(TextBlock(text="You are plan."),)), CHILD),
    (e.PrefixSet(provider="w", model="s", system="", tools=TOOLS), CHILD),
    (e.TextDelta(text="of the child"), CHILD),
    (e.StepEnded(step=1, stop="end_turn", text_sha256="0"), CHILD),
    (e.PermissionRequested(**CALL, input=RUN, risk="shell", why=""), CHILD),
    (e.TurnEnded(stop="end_turn"), CHILD),
    (e.ChildEnded(invocation="inv_2", agent="plan", ok=True, result="done", steps=1, usd=0.5), {}),
)  # fmt: skip


@pytest.mark.requirement("D18.1")
def test_what_a_child_may_and_is_told_has_names_of_its_own():
    assert names(dotted(*A_CHILD)) == [
        "agent.invocation.started",
        "agent.invocation.handoff",
        "agent.invocation.tool_policy.applied",
        "model.text.delta",
        "model.text",
        "permission.requested",
        "turn.ended",
        "agent.invocation.completed",
    ]
    assert dotted(*A_CHILD)[2]["tools"] == ["grep"]


@pytest.mark.requirement("D18.6")
def test_the_chain_names_what_a_child_does_so_that_nobody_takes_it_for_the_conversation():
    lines = chained(*A_CHILD)
    assert [line["event"]["type"] for line in lines] == [
        "agent.started",
        "agent.message",
        "tool.permission",
        "agent.completed",
    ]
    assert [line.get("invocationId") for line in lines] == [None, "inv_2", "inv_2", None]
    assert lines[1]["agentPath"] == ["plan"]
