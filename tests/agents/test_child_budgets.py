"""Every number that settings have for children is obeyed."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_kit import Answering, calling, kept_at, sending
from bridle.agents.agent_settings import ChildContext, DelegateResults
from bridle.agents.definition import AgentDefinition, AgentDelegation
from bridle.agents.handoff import HandoffPacket, handoff_text
from bridle.base.text.token_estimate import estimated_tokens
from bridle.clients.dotted_events import events_lines
from bridle.conformance.harness import harness, of_kind
from bridle.engine.conversation import Conversation, Invocation
from bridle.engine.sizes import request_tokens
from bridle.engine.steps import encode
from bridle.engine.tools import Tool, ToolOutput, never_mutating
from bridle.protocol import events as e
from bridle.protocol.messages import ImageBlock

FREELY = AgentDelegation(invocation="allow")
WORKER = AgentDefinition(name="worker", description="Works.", mode="subagent", delegation=FREELY)


def once(agent="explore", **given):
    return lambda number, _body: "Done." if number else sending("Look.", agent, **given)


def handed(model, agent="explore"):
    """What a child was told."""
    return json.loads(model.bodies(agent)[0])["messages"][0]["content"][0]["text"]


@pytest.mark.requirement("D12.3", "D12.4", "D12.5")
def test_the_defaults_are_the_documented_ones() -> None:
    assert msgspec.structs.asdict(ChildContext()) == {
        "max_tokens": 12_000,
        "compact_at": 0.7,
        "summary_tokens": 1_200,
        "recent_turns": 3,
        "handoff_tokens": 2_000,
        "delegate_context_tokens": 1_000,
        "result_tokens": 1_000,
        "inline_tokens": 2_000,
        "retrieval_tokens": 3_000,
        "image_tokens": 4_000,
    }
    assert DelegateResults() == DelegateResults(kept_raw=2, result_tokens=1_000, ledger_tokens=1_200)


@pytest.mark.requirement("D12.5", "D18.1")
@pytest.mark.parametrize(
    ("sets", "limit"),
    [
        (("context.child.max_tokens=6000",), 6_000 * 0.7),
        (("context.child.max_tokens=12000", "context.child.compact_at=0.35"), 12_000 * 0.35),
    ],
    ids=["max_tokens", "compact_at"],
)
async def test_the_conversation_of_a_child_is_compacted_at_its_own_limit(tmp_path: Path, sets, limit) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(f"file {number} " + "word " * 1_200)

    def child(number, _body):
        return calling("read_file", path=f"{number}.txt") if number < 5 else "Read."

    model = Answering(once(), child)
    async with harness(model, folder=str(tmp_path), agent_mode="multi", sets=sets) as session:
        events = await session.ask("go")
        stored = await session.stored()
    (started,) = of_kind(events, e.ChildStarted)
    compacted = [one for one in stored if one.kind == "Compacted"]
    assert compacted
    assert {(one.invocation, one.agent_path) for one in compacted} == {(started.invocation, ("explore",))}
    assert all(one.event.tokens_before >= limit for one in compacted)
    named = Invocation(id=started.invocation, agent_path=("explore",))
    begun = [
        index
        for index, one in enumerate(stored)
        if one.kind == "StepStarted" and one.invocation == started.invocation
    ]
    before = [Conversation.of(stored[:index], named) for index in begun]
    assert all(request_tokens(one) < limit for one in before)
    sent = [request.body for request in model.requests if request.agent]
    assert sent == [encode(one, model.wire) for one in before]
    lines = [json.loads(line) for line in events_lines(stored)]
    told = [line for line in lines if line["type"].endswith("compacted")]
    assert {line["type"] for line in told} == {"agent.session.context_compacted"}
    assert told[0]["agentPath"] == ["explore"]


@pytest.mark.requirement("D11.15", "D12.5")
async def test_what_is_handed_over_has_its_budget_and_the_task_stands_whole(tmp_path: Path) -> None:
    task = "Look at everything. " * 30
    model = Answering(
        lambda number, _body: (
            "Done."
            if number
            else sending(task, context="context " * 2_000, constraints=["constraint " * 200])
        ),
        lambda *_: "Done.",
    )
    async with harness(
        model,
        folder=str(tmp_path),
        agent_mode="multi",
        sets=("context.child.handoff_tokens=700", "context.child.delegate_context_tokens=300"),
    ) as session:
        await session.ask("go " * 500)
    told = handed(model)
    assert task in told
    assert estimated_tokens(len(told)) <= 700


@pytest.mark.requirement("D12.5")
async def test_what_a_sender_writes_beside_the_task_has_a_budget(tmp_path: Path) -> None:
    model = Answering(once(context="c" * 8_000), lambda *_: "Done.")
    async with harness(
        model, folder=str(tmp_path), agent_mode="multi", sets=("context.child.delegate_context_tokens=100",)
    ) as session:
        await session.ask("go")
    assert 300 < handed(model).count("c" * 10) * 10 <= 400


def printing(risk, text):
    """A tool of this risk that gives back a text."""

    async def run(_args, _context):
        return ToolOutput(content=text)

    return Tool(
        name=f"print_{risk}",
        description="Prints.",
        input=Nothing,
        risk=risk,
        run=run,
        mutating=never_mutating,
    )


class Nothing(msgspec.Struct, frozen=True):
    """No arguments."""


@pytest.mark.requirement("X30")
@pytest.mark.parametrize(("risk", "most"), [("read", 500), ("shell", 200)], ids=["retrieval", "inline"])
async def test_a_result_of_a_tool_is_cut_for_a_child_and_can_be_read_on(tmp_path: Path, risk, most) -> None:
    text = "".join(f"line {number}\n" for number in range(900))

    def child(number, body):
        if number == 0:
            return calling(f"print_{risk}")
        return calling("read_file", path=kept_at(body), offset=450, limit=3) if number == 1 else "Read."

    model = Answering(once("worker"), child)
    async with harness(
        model,
        folder=str(tmp_path),
        agent_mode="multi",
        agents=[WORKER],
        tools=[printing("read", text), printing("shell", text)],
        allow=("print_read", "print_shell"),
        sets=("context.child.inline_tokens=200", "context.child.retrieval_tokens=500"),
    ) as session:
        events = await session.ask("go")
    printed, read, _ = of_kind(events, e.ToolResult)
    assert most * 0.8 < estimated_tokens(len(printed.content)) <= most
    assert printed.metadata["output_bytes"] == len(text)
    assert "line 449" in read.content


async def test_the_same_result_is_whole_for_the_main_agent(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(900))
    model = Answering(lambda number, _body: "Done." if number else calling("print_read"), lambda *_: "")
    async with harness(
        model,
        folder=str(tmp_path),
        agent_mode="multi",
        tools=[printing("read", text)],
        allow=("print_read",),
        sets=("context.child.retrieval_tokens=500",),
    ) as session:
        events = await session.ask("go")
    assert of_kind(events, e.ToolResult)[0].content == text


@pytest.mark.requirement("X30")
async def test_a_child_is_shown_as_many_images_as_it_has_room_for(tmp_path: Path) -> None:
    async def run(_args, context):
        for number in range(3):
            image = ImageBlock(url=f"data:image/png;base64,AAA{number}")
            context.emit(e.ContextAdded(source="mcp", content=(image,)))
        return ToolOutput(content="Three images.")

    tool = Tool(
        name="look", description="Looks.", input=Nothing, risk="read", run=run, mutating=never_mutating
    )
    model = Answering(once("worker"), lambda number, _body: "Seen." if number else calling("look"))
    async with harness(
        model, folder=str(tmp_path), agent_mode="multi", agents=[WORKER], tools=[tool], allow=("look",)
    ) as session:
        await session.ask("go")
    body = model.bodies("worker")[1]
    assert ["AAA0" in body, "AAA1" in body, "AAA2" in body] == [True, True, False]
    assert "An image is left out" in body


# Handing over

NOTES = st.text(max_size=300)
PACKETS = st.builds(
    HandoffPacket,
    request=st.text(max_size=3_000),
    parent=st.just("build"),
    child=st.just("explore"),
    cwd=st.just("/work"),
    task=st.text(min_size=1, max_size=2_000),
    context=st.text(max_size=3_000),
    references=st.lists(NOTES, max_size=6).map(tuple),
    files=st.lists(NOTES, max_size=6).map(tuple),
    constraints=st.lists(NOTES, max_size=6).map(tuple),
    expected=st.text(max_size=1_000),
    memory=st.builds(
        e.ChildMemory,
        summary=NOTES,
        findings=st.lists(NOTES, max_size=6).map(tuple),
        files=st.lists(NOTES, max_size=6).map(tuple),
    ),
    is_brief=st.booleans(),
)


@pytest.mark.requirement("D11.15", "D12.5")
@given(PACKETS, st.integers(1, 2_000), st.integers(2, 1_000))
def test_a_handoff_is_within_its_budget_and_always_has_the_whole_task(packet, most, context) -> None:
    text = handoff_text(packet, most_tokens=most, context_tokens=context)
    assert packet.task in text
    least = HandoffPacket(
        request="", parent="build", child="explore", cwd="/work", task=packet.task, is_brief=packet.is_brief
    )
    alone = handoff_text(least, most_tokens=most, context_tokens=context)
    assert estimated_tokens(len(text)) <= max(most, estimated_tokens(len(alone)))
    assert text.count("<untrusted-notes>") == text.count("</untrusted-notes>") <= 1


def test_of_what_has_no_room_the_least_needed_gives_way_first() -> None:
    packet = HandoffPacket(
        request="request " * 40,
        parent="build",
        child="explore",
        cwd="/work",
        task="The task.",
        context="context " * 40,
        constraints=("constraint " * 40,),
        expected="expected " * 40,
        memory=e.ChildMemory(findings=("finding " * 40,)),
    )
    names = ("finding ", "request ", "context ", "constraint ", "expected ")
    seen = []
    for most in range(600, 20, -10):
        text = handoff_text(packet, most_tokens=most, context_tokens=1_000)
        for name in names:
            if name not in text and name not in seen:
                seen.append(name)
    assert seen == list(names)
