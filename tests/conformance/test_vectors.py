"""The vectors that ship, run against our own implementations; and the runner that outsiders use."""

import json
import re
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.net.backoff import Backoff
from bridle.base.net.sse import SseFrame, SseFrameBuffer
from bridle.base.text.tool_names import mcp_tool_name
from bridle.conformance import vectors
from bridle.context.compaction import Goal, plan_clearing, plan_summary
from bridle.context.summaries import deterministic_summary
from bridle.engine.conversation import Entry, Mark
from bridle.protocol.events import Todo
from bridle.protocol.messages import AnyBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from bridle.safety.rules import Rule, evaluate
from tables import table


def frames_of(chunks: list[bytes]) -> list[SseFrame]:
    buffer = SseFrameBuffer()
    return [frame for chunk in chunks for frame in buffer.feed(chunk)]


@pytest.mark.requirement("H3.1", "H3.2", "H3.3", "T15.1", "P26", "H18.8")
def test_our_sse_parser_passes_every_vector():
    assert vectors.run_sse(frames_of) == []


@pytest.mark.requirement("H16.3", "C27", "H18.8")
def test_our_backoff_passes_every_vector():
    def delay_ms(base_ms: int, max_ms: int, attempt: int, random: float) -> int:
        return Backoff(base_ms, max_ms, lambda: random).delay_ms(attempt)

    assert vectors.run_backoff(delay_ms) == []


@pytest.mark.requirement("H7.1", "H7.2", "H7.3", "H18.8")
def test_our_evaluation_of_rules_passes_every_vector():
    verdicts = {"allow": "allow", "deny": "deny", "prompt": "ask"}

    def evaluated(case):
        rules = [
            Rule(rule["tool_pattern"], verdicts[rule["mode"]], reason=rule.get("reason"))
            for rule in case["rules"]
        ]
        verdict, matched = evaluate(rules, case["tool"])
        mode = next(mode for mode, ours in verdicts.items() if ours == verdict)
        index = next((at for at, rule in enumerate(rules) if rule is matched), None)
        return {"mode": mode, "rule": index, "reason": matched.reason if matched else None}

    assert vectors.run("permission-policy", evaluated) == []


def entry_of(said) -> Entry:
    blocks: list[AnyBlock] = [TextBlock(text=said["text"])] if said.get("text") else []
    blocks += [
        ToolUseBlock(wire_id=call["id"], tool=call["tool"], input=call["input"])
        for call in said.get("calls", ())
    ]
    blocks += [
        ToolResultBlock(
            wire_id=result["id"], tool=result["tool"], text=result["text"], failed=result["failed"]
        )
        for result in said.get("results", ())
    ]
    role = "assistant" if said["source"] == "answer" else "user"
    return Entry(Mark(said["event"], said["turn"], said["source"]), Message(role=role, content=tuple(blocks)))


def compacted_case(case):
    entries = [entry_of(said) for said in case["messages"]]
    goal = Goal(**case["goal"])
    plan, summary = plan_clearing(entries, goal) if case["clear_first"] else None, ""
    if plan is None:
        plan = plan_summary(entries, goal)
        if plan is None:
            return None
        todos = [Todo(**task) for task in case["tasks"]]
        summary = deterministic_summary(plan.dropped, todos, max_tokens=goal.summary_tokens)
    event = plan.event(entries, summary)
    return {
        "kept_from": event.kept_from,
        "also_kept": list(event.also_kept),
        "cleared": list(event.cleared),
        "summary": event.summary,
        "tokens_before": event.tokens_before,
        "tokens_after": event.tokens_after,
    }


@pytest.mark.requirement("H5.2", "H5.3", "H5.4", "D7.22", "P22", "H18.8")
def test_our_compaction_passes_every_vector():
    assert vectors.run("session-compaction", compacted_case) == []


@pytest.mark.requirement("P20", "H18.8")
def test_our_names_for_foreign_tools_pass_every_vector():
    assert (
        vectors.run(
            "mcp-normalization", lambda case: mcp_tool_name(case["server"], case["tool"], set(case["taken"]))
        )
        == []
    )


@given(server=st.text(max_size=80), tool=st.text(max_size=80), others=st.integers(0, 12))
def test_a_name_for_a_foreign_tool_is_always_usable_and_new(server: str, tool: str, others: int):
    taken: set[str] = set()
    for _ in range(others + 1):
        name = mcp_tool_name(server, tool, taken)
        assert re.fullmatch(r"mcp__[A-Za-z0-9_-]{1,59}", name)
        assert name not in taken
        taken.add(name)


@pytest.mark.requirement("H0.1", "H18.1")
@table(
    "name",
    [
        "backoff-timing",
        "config-merge",
        "mcp-normalization",
        "oauth-pkce",
        "permission-policy",
        "session-compaction",
        "sse-frames",
    ],
)
def test_every_pure_part_has_vectors_that_other_implementations_can_read(name: str):
    """As plain JSON beside the code: cases with a name, an input and what is expected, and how to read them."""
    text = files("bridle.conformance").joinpath("test-vectors", f"{name}.json").read_text(encoding="utf-8")
    file = json.loads(text)
    assert set(file) == {"about", "cases"}
    assert file["about"]
    assert len(file["cases"]) >= 10
    assert all(set(case) == {"name", "input", "expected"} for case in file["cases"])
    assert [case.name for case in vectors.load(name)] == [case["name"] for case in file["cases"]]


@pytest.mark.requirement("H3.3", "H18.2")
def test_the_files_ship_with_enough_cases():
    assert {"sse-frames", "backoff-timing", "permission-policy", "mcp-normalization"} <= set(vectors.names())
    assert len(vectors.load("sse-frames")) >= 60
    assert len(vectors.load("backoff-timing")) >= 20


@table("name", vectors.names())
def test_case_names_are_unique(name: str):
    names = [case.name for case in vectors.load(name)]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.requirement("H18.8")
def test_a_parser_that_splits_at_two_line_feeds_is_caught():
    def naive(chunks: list[bytes]) -> list[dict[str, object]]:
        blocks = b"".join(chunks).decode("utf-8", "replace").split("\n\n")[:-1]
        return [{"data": block.removeprefix("data: ")} for block in blocks]

    failed = {failure.case for failure in vectors.run_sse(naive)}
    assert "CRLF ends lines" in failed
    assert "one data line and a blank line make a frame" not in failed


@pytest.mark.requirement("H18.8")
def test_a_backoff_that_overflows_or_does_not_jitter_is_caught():
    def naive(base_ms: int, max_ms: int, attempt: int, random: float) -> float:
        return min(max_ms, base_ms * 2.0**attempt)

    failures = {failure.case: failure for failure in vectors.run_backoff(naive)}
    assert "attempt 0 of the provider ladder, no luck" in failures
    overflow = failures["the ceiling saturates at attempt 1024, past the range of a double"]
    assert str(overflow.actual).startswith("raised OverflowError")


def test_a_failure_names_the_case_and_both_answers():
    [failure, *_] = vectors.run_sse(lambda chunks: [])
    assert failure == vectors.Failure(
        "one data line and a blank line make a frame",
        [{"event": None, "data": "hello", "id": None, "retry": None}],
        [],
    )


def test_unknown_vectors_are_named_as_such():
    with pytest.raises(LookupError, match="sse-frames"):
        vectors.load("../sse-frames")
