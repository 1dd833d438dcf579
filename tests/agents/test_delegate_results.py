"""What comes back from agents that were sent: short, with a place to read the whole, and in a ledger once it is old."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_kit import Answering, calling, kept_at, sending
from bridle.agents.definition import AgentDefinition, AgentDelegation
from bridle.agents.delegate_ledger import LEFT_OUT, KeptAnswer, delegate_result, fitted_lines, ledger_line
from bridle.base.text.token_estimate import estimated_tokens
from bridle.conformance.harness import harness, of_kind
from bridle.engine.conversation import COMPACTED, LEDGER_LEAD, Conversation, Invocation, ledger_text
from bridle.engine.steps import encode
from bridle.protocol import events as e
from bridle.protocol.messages import ToolResultBlock
from bridle.protocol.queries import ReadOutput

WRITER = AgentDefinition(
    name="writer", description="Writes.", mode="subagent", delegation=AgentDelegation(invocation="allow")
)
LONG = "".join(f"Line {number} of a long answer.\n" for number in range(800))


def once(*answers, **given):
    """A main agent that sends one, then does what `answers` say."""

    def main(number, body):
        if not number:
            return sending("Look.", **given)
        answer = answers[number - 1]
        return answer(body) if callable(answer) else answer

    return main


def results(events):
    return [event for event in of_kind(events, e.ToolResult) if event.tool == "delegate_agent"]


@pytest.mark.requirement("D11.16", "T9.8", "D12.5")
async def test_a_long_answer_comes_back_short_and_its_whole_can_be_read(tmp_path: Path) -> None:
    def read_whole(body):
        return calling("read_file", path=kept_at(body), offset=799)

    model = Answering(once(read_whole, "Done."), lambda *_: LONG)
    async with harness(model, folder=str(tmp_path), agent_mode="multi") as session:
        events = await session.ask("go")
        (result,), (ended,) = results(events), of_kind(events, e.ChildEnded)
        part = await session.connection.ask(ReadOutput(session=session.id, call_id=result.call_id))
    assert part.text == LONG.strip() == ended.result
    assert estimated_tokens(len(result.content)) <= 1_000
    assert result.content.startswith("Line 0 of")
    assert result.metadata["truncated"] is True
    assert result.metadata["output_bytes"] == len(LONG.strip())
    read = of_kind(events, e.ToolResult)[-1]
    assert (read.tool, read.outcome) == ("read_file", "ok")
    assert "Line 799 of" in read.content
    assert {
        name: result.metadata[name] for name in ("subagent_id", "success", "turns_completed", "tools_used")
    } == {
        "subagent_id": ended.invocation,
        "success": True,
        "turns_completed": 1,
        "tools_used": [],
    }
    assert result.metadata["response"].startswith("Line 0 of")


@pytest.mark.requirement("D11.16", "T9.8")
async def test_the_last_line_names_what_it_did_and_the_files_it_knew_and_changed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha\n")
    steps = (
        calling("read_file", path="a.txt"),
        calling("write_file", path="b.txt", content="beta\n"),
        "Written.",
    )
    model = Answering(once("Done.", agent="writer"), lambda number, _body: steps[number])
    async with harness(
        model, folder=str(tmp_path), agent_mode="multi", agents=[WRITER], mode="auto"
    ) as session:
        events = await session.ask("go")
    (result,), (ended,) = results(events), of_kind(events, e.ChildEnded)
    assert (ended.changed, ended.files) == (("b.txt",), ("a.txt", "b.txt"))
    answer, _, facts = result.content.rpartition("\n\n")
    assert answer == "Written."
    assert facts == (
        f"agent writer: whole answer: output:{result.call_id} · 3 steps · used read_file, write_file · "
        "changed b.txt · knew a.txt"
    )


@pytest.mark.requirement("D12.4", "D12.5")
@pytest.mark.parametrize(
    ("sets", "given", "most"),
    [
        (("context.child.result_tokens=200",), {}, 200),
        (("context.delegates.result_tokens=300",), {}, 300),
        (("context.delegates.result_tokens=3000", "context.child.result_tokens=3000"), {}, 3_000),
        ((), {"return_mode": "brief"}, 250),
    ],
    ids=["of the child", "of the sender", "more", "brief"],
)
async def test_as_much_comes_back_as_has_room(tmp_path: Path, sets, given, most) -> None:
    model = Answering(once("Done.", **given), lambda *_: LONG)
    async with harness(model, folder=str(tmp_path), agent_mode="multi", sets=sets) as session:
        events = await session.ask("go")
    (result,) = results(events)
    assert most * 0.9 < estimated_tokens(len(result.content)) <= most


@given(
    st.text(max_size=3_000), st.lists(st.text(max_size=90), max_size=9), st.integers(2, 900), st.booleans()
)
def test_a_result_has_room_whatever_is_said(answer, names, most_tokens, is_brief) -> None:
    ended = e.ChildEnded(
        invocation="i", agent="a", ok=True, result="", files=tuple(names), changed=tuple(names[:3])
    )
    kept = KeptAnswer(path="output:call_1")
    result = delegate_result(answer, ended, kept, most_tokens=most_tokens, is_brief=is_brief)
    assert estimated_tokens(len(result.text)) <= most_tokens
    line = ledger_line("a", "the task", result.text)
    assert "\n" not in line
    if most_tokens > 40:
        assert "(output:call_1)" in line
    if not result.is_cut:
        assert result.text.startswith(answer)


# The ledger


def raw_tokens(conversation):
    """About how many tokens the results of agents have in a conversation."""
    blocks = [
        block
        for message in conversation.messages
        for block in message.content
        if isinstance(block, ToolResultBlock) and block.tool == "delegate_agent"
    ]
    return sum(estimated_tokens(len(block.text)) for block in blocks), [block.text for block in blocks]


def steps_of(stored, invocation):
    """The events up to each request of an invocation."""
    return [
        stored[:index]
        for index, one in enumerate(stored)
        if one.kind == "StepStarted" and one.invocation == invocation
    ]


@pytest.mark.requirement("X29", "D12.4")
async def test_twenty_children_one_after_the_other_grow_the_conversation_only_by_the_ledger(
    tmp_path: Path,
) -> None:
    def main(number, _body):
        return sending(f"Task {number}.") if number < 20 else "Done."

    count = 0

    def child(_number, _body):
        nonlocal count
        count += 1
        return f"Answer {count} begins. " + "word " * 1_000

    model = Answering(main, child)
    async with harness(model, folder=str(tmp_path), agent_mode="multi") as session:
        events = await session.ask("go")
        stored = await session.stored()
    folds = [event for event in of_kind(events, e.Compacted) if event.why == "ledger"]
    assert 5 <= len(folds) <= 10, "only when it pays"
    for before in steps_of(stored, None):
        tokens, _ = raw_tokens(Conversation.of(before))
        assert tokens <= 2 * 1_020 + 2 * 1_020 + 1_200 + 20 * 5
    whole = Conversation.of(stored)
    _, texts = raw_tokens(whole)
    (ledger,) = [text for text in texts if LEDGER_LEAD in text]
    assert estimated_tokens(len(ledger)) <= 1_200
    assert "Answer 1 begins." in ledger, "the first is still told"
    assert f"(output:{results(events)[0].call_id})" in ledger
    assert texts[-2:] == [text for text in texts if text.count("word ") > 500][-2:], (
        "the last stay as they came"
    )
    assert texts.count(COMPACTED) >= 15
    assert ledger.startswith("<untrusted-tool-result>")
    bodies = [request.body for request in model.requests if not request.agent]
    assert bodies == [encode(Conversation.of(before), model.wire) for before in steps_of(stored, None)]
    for started in of_kind(events, e.ChildStarted)[:3]:
        named = Invocation(id=started.invocation, agent_path=("explore",))
        (before,) = steps_of(stored, started.invocation)
        sent = encode(Conversation.of(before, named), model.wire)
        assert sent in [request.body for request in model.requests if request.agent]
    kept = Conversation.restored(whole.folded())
    assert (kept.ledger, kept.messages) == (whole.ledger, whole.messages)


@pytest.mark.requirement("X29", "D12.4", "D12.11")
async def test_how_many_stay_raw_and_how_long_the_ledger_is_are_settings(tmp_path: Path) -> None:
    def main(number, _body):
        return sending(f"Task {number}.") if number < 6 else "Done."

    model = Answering(main, lambda *_: "word " * 300)
    async with harness(
        model,
        folder=str(tmp_path),
        agent_mode="multi",
        sets=("context.delegates.ledger_tokens=100",),
        env={"BRIDLE_MAIN_KEEP_RAW_DELEGATE_RESULTS": "1"},
    ) as session:
        await session.ask("go")
        _, texts = raw_tokens(session.conversation)
    assert len(texts) == 6
    assert [text.count("word ") > 200 for text in texts] == [False] * 5 + [True]
    assert [LEDGER_LEAD in text for text in texts] == [False] * 4 + [True, False]
    assert estimated_tokens(len(texts[4])) <= 100
    assert LEFT_OUT in texts[4]


async def test_short_results_stay_as_they_came(tmp_path: Path) -> None:
    def main(number, _body):
        return sending(f"Task {number}.") if number < 8 else "Done."

    model = Answering(main, lambda *_: "Nothing.")
    async with harness(model, folder=str(tmp_path), agent_mode="multi") as session:
        events = await session.ask("go")
    assert not of_kind(events, e.Compacted)
    bodies = [json.loads(body)["messages"] for body in model.bodies()]
    for earlier, later in pairwise(bodies):
        assert later[: len(earlier)] == earlier


@given(
    st.lists(st.text(max_size=300).map(lambda text: " ".join(("- x", *text.split()))), max_size=40),
    st.integers(1, 1_500),
)
def test_a_ledger_is_within_its_budget_and_keeps_the_newest(lines, most_tokens) -> None:
    fitted = fitted_lines(lines, most_tokens)
    assert not fitted or estimated_tokens(len(ledger_text(fitted))) <= most_tokens
    assert len(fitted) <= len(lines) + 1
    kept = [line for line in fitted if line != LEFT_OUT]
    assert len(kept) == len(lines) or not fitted or fitted[0] == LEFT_OUT or LEFT_OUT in lines
    for line, given_line in zip(reversed(kept), reversed(lines), strict=False):
        assert line == given_line or line.endswith("…")
    assert fitted_lines(fitted, most_tokens) == fitted
