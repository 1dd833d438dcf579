"""The engine's small parts on their own: runs, bus, fold, loops, deadline, registry, timing."""

import asyncio
import itertools
from types import SimpleNamespace
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.conformance.fake_clock import FakeClock
from bridle.engine.bus import Bus
from bridle.engine.conversation import Conversation
from bridle.engine.deadline import Deadline
from bridle.engine.deltas import MIN_GAP_S, PROGRESS_GAP_S, DeltaWriter, ProgressWriter
from bridle.engine.dispatch import Dispatcher, runs
from bridle.engine.journal import Journal, redacted
from bridle.engine.loops import LoopDetector
from bridle.engine.stopwatch import Stopwatch
from bridle.engine.tools import BUILTIN, Registry, Tool, ToolOrigin, ToolOutput
from bridle.protocol import events as e
from bridle.protocol.codec import encode_payload
from bridle.protocol.display_values import EditedFile, ShownEdit
from bridle.protocol.messages import TextBlock
from tables import table


def envelope(number, event, turn=1):
    return e.Envelope(
        id=number,
        kind=type(event).__name__,
        session="s",
        originator="c",
        ts_ms=number or 0,
        event=event,
        turn=turn,
    )


class EmptyLog:
    """A log nothing needs to be read from."""

    last_id = 0

    async def since(self, after, *, limit):
        return []


def call_of(tool, name="call"):
    return e.RequestedCall(call_id=name, wire_id=name, tool=tool, input={})


@pytest.mark.requirement("D7.6", "T2.5")
@given(st.lists(st.sampled_from(["read", "write", "other_read"])))
def test_runs_keep_the_order_and_join_only_neighbours_that_are_parallel_safe(tools):
    grouped = runs(
        [call_of(tool) for tool in tools],
        lambda tool, _given: "serial" if tool == "write" else "parallel_safe",
    )
    assert [call.tool for group in grouped for call in group] == tools
    for group in grouped:
        assert len(group) == 1 or all(call.tool != "write" for call in group)
    for one, other in itertools.pairwise(grouped):
        assert one[0].tool == "write" or other[0].tool == "write"


@pytest.mark.requirement("G5.6", "G26.2", "G20.1")
async def test_a_reader_gets_what_came_before_and_then_what_comes():
    bus = Bus(1)
    for number in (1, 2, 3):
        bus.publish(envelope(number, e.TextDelta(text=str(number))), b"{}")
    reader = bus.follow(EmptyLog(), 1)
    assert [(await anext(reader)).id for _ in range(2)] == [2, 3]
    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    assert not waiting.done()
    bus.publish(envelope(4, e.TextDelta(text="4")), b"{}")
    assert (await waiting).id == 4
    bus.close()
    with pytest.raises(StopAsyncIteration):
        await anext(reader)


async def test_a_reader_that_falls_out_of_the_ring_is_told_what_it_missed():
    bus = Bus(1, ring_events=3)
    reader = bus.follow(EmptyLog(), 0)
    bus.publish(envelope(1, e.TextDelta(text="1")), b"{}")
    assert (await anext(reader)).id == 1
    for number in range(2, 9):
        bus.publish(envelope(number, e.TextDelta(text=str(number))), b"{}")
    gap = await anext(reader)
    assert gap.event == e.StreamGap(first=2, last=5, reason="slow")
    assert gap.id is None
    assert [(await anext(reader)).id for _ in range(3)] == [6, 7, 8]


async def test_dropped_live_events_are_no_gap():
    bus = Bus(1, ring_events=2)
    bus.publish(envelope(1, e.TextDelta(text="1")), b"{}")
    reader = bus.follow(EmptyLog(), 0)
    assert (await anext(reader)).id == 1
    for _ in range(5):
        bus.publish(envelope(None, e.ToolCallProgress(call_id="x", text="…")), b"{}")
    bus.publish(envelope(2, e.TextDelta(text="2")), b"{}")
    kinds = [(await anext(reader)).kind for _ in range(2)]
    assert kinds == ["ToolCallProgress", "TextDelta"]


async def test_the_ring_is_bounded_by_bytes_too():
    bus = Bus(1, ring_bytes=1000)
    for number in range(1, 100):
        bus.publish(envelope(number, e.TextDelta(text="x")), b"x" * 100)
    assert len(bus._ring) == 10


async def test_readers_learn_why_a_bus_was_closed():
    bus = Bus(1)
    reader = bus.follow(EmptyLog(), 0)
    bus.close(ValueError("disk"))
    with pytest.raises(ValueError, match="disk"):
        await anext(reader)


@pytest.mark.requirement("G1.6")
def test_every_durable_event_either_changes_the_conversation_or_is_known_not_to():
    changes_nothing = {
        "ThinkingDelta", "PermissionRequested", "PermissionDecided", "QuestionAsked",
        "QuestionAnswered", "GrantAdded", "GrantRevoked", "UndoApplied", "GitEnded", "AsideAsked", "AsideAnswered",
        "BackgroundStarted", "BackgroundEnded", "HookTimeout", "HookError", "MCPServerDown", "SkillRegistryChanged",
        "Degraded", "Notice", "Error", "Cancelled", "TurnTiming", "SessionEnded", "CustomEvent",
        "ApprovalGiven", "CommandTaken",
    }  # fmt: skip
    handled = {kind.__name__ for kind in Conversation._HANDLERS}
    assert handled.isdisjoint(changes_nothing)
    assert handled | changes_nothing == {kind.__name__ for kind in get_args(e.DurableEvent)}


def conversation_of(*events):
    return Conversation.of(envelope(number, event) for number, event in enumerate(events, 1))


def said(text):
    return (TextBlock(text=text),)


async def test_a_compaction_replaces_what_came_before_and_keeps_the_rest():
    conversation = conversation_of(
        e.InputAccepted(content=said("one")),
        e.TurnStarted(input=1),
        e.TurnEnded(stop="end_turn"),
        e.InputAccepted(content=said("two")),
        e.TurnStarted(input=4),
        e.Compacted(summary="It was about one.", kept_from=5),
    )
    assert [message.content[0].text for message in conversation.messages] == ["It was about one.", "two"]
    assert conversation.epoch == 1


async def test_what_is_kept_of_a_conversation_does_not_grow_with_what_compactions_dropped():
    def kept(turns):
        events = []
        for turn in range(1, turns + 1):
            first = len(events) + 1
            call = e.RequestedCall(call_id=f"call{turn}", wire_id=f"toolu_{turn}", tool="bash", input={})
            events += [
                e.InputAccepted(content=said("go on")),
                e.TurnStarted(input=first),
                e.StepStarted(step=1, provider="p", model="m"),
                e.StepEnded(step=1, stop="tool_use", text_sha256="", calls=(call,)),
                e.ToolResult(call_id=f"call{turn}", tool="bash", outcome="ok", content="text"),
                e.TurnEnded(stop="end_turn"),
                e.Compacted(summary="It went on.", kept_from=first),
            ]
        conversation = conversation_of(*events)
        assert conversation.wire_ids == {f"toolu_{turns}"}, "the ids of the next request are known"
        return conversation.folded()

    assert len(kept(200)) < 1.1 * len(kept(10))


async def test_context_that_arrives_while_calls_are_open_waits_for_their_results():
    conversation = conversation_of(
        e.StepStarted(step=1, provider="p", model="m"),
        e.StepEnded(step=1, stop="tool_use", text_sha256="", calls=(call_of("read_file"),)),
        e.ContextAdded(source="diagnostics", content=said("a warning")),
        e.ToolResult(call_id="call", tool="read_file", outcome="ok", content="text"),
    )
    assert [type(message.content[0]).__name__ for message in conversation.messages] == [
        "ToolUseBlock",
        "ToolResultBlock",
        "TextBlock",
    ]


def test_a_loop_is_the_same_step_in_a_row():
    detector = LoopDetector()
    calls, other = [call_of("bash")], [call_of("read_file")]
    result = [e.ToolResult(call_id="a", tool="bash", outcome="ok", content="x")]
    assert [detector.repeats(c, result) for c in (calls, calls, other, calls, calls, calls, calls)] == [
        0,
        0,
        0,
        0,
        0,
        3,
        4,
    ]


async def test_a_deadline_counts_from_the_last_touch_and_passes_other_cancellations_on():
    clock = FakeClock()

    async def touched():
        async with Deadline(clock, 10) as guard:
            while True:
                await clock.sleep(6)
                if clock.monotonic() > start + 20:
                    await clock.sleep(1000)
                guard.touch()

    start = clock.monotonic()
    task = asyncio.ensure_future(touched())
    for _ in range(8):
        await asyncio.sleep(0)
        await clock.advance(6)
    with pytest.raises(TimeoutError):
        await task

    async def waiting():
        async with Deadline(clock, 10):
            await clock.sleep(1000)

    task = asyncio.ensure_future(waiting())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@table("limits_s", [(300, 60), (300, 5), (5, 300), (300,), (0.5,), (60, 150, 20)])
async def test_a_deadline_comes_when_the_last_limit_says(limits_s):
    clock = FakeClock()
    limit_s, *later_s = limits_s

    async def limited():
        async with Deadline(clock, limit_s) as guard:
            for allowed_s in later_s:
                await clock.sleep(0.25)
                guard.allow(allowed_s)
            await clock.sleep(10_000)

    task = asyncio.ensure_future(limited())
    await clock.advance(0.25 * len(later_s))
    await clock.advance(limits_s[-1] - 0.1)
    assert not task.done()
    await clock.advance(0.1)
    with pytest.raises(TimeoutError):
        await task


async def test_words_that_come_as_a_model_speaks_are_told_at_once_and_faster_ones_60_times_a_second():
    clock, told = FakeClock(), []
    writer = DeltaWriter(SimpleNamespace(emit=told.append, secrets=tuple), clock)
    for word in ("one ", "two ", "three "):
        writer.text(word)
        assert told[-1].text == word, "nothing came for a while"
        await clock.advance(0.02)
    for word in ("four ", "five ", "six ", "seven "):
        writer.text(word)
    assert [event.text for event in told[3:]] == ["four "]
    await clock.advance(MIN_GAP_S)
    assert [event.text for event in told[3:]] == ["four ", "five six seven "]


async def test_what_a_call_prints_is_shown_30_times_a_second_and_not_when_it_is_over_by_then():
    clock, shown = FakeClock(), []
    journal = SimpleNamespace(show=shown.append)
    short, long = (ProgressWriter(journal, clock, name) for name in ("short", "long"))
    for writer in (short, long):
        writer.write("a")
    await clock.advance(PROGRESS_GAP_S / 2)
    short.stop()
    long.write("b")
    await clock.advance(PROGRESS_GAP_S / 2)
    await clock.advance(1)
    long.write("c")
    long.write("d")
    await clock.advance(PROGRESS_GAP_S)
    assert [(event.call_id, event.text) for event in shown] == [("long", "ab"), ("long", "c"), ("long", "d")]


class NoArgs(msgspec.Struct, frozen=True):
    pass


def tool_named(name, description=""):
    async def run(args, context):
        return ToolOutput()

    return Tool(name=name, description=description, input=NoArgs, risk="read", run=run)


@pytest.mark.requirement("D5.1", "D5.2", "T2.2", "T2.6")
def test_the_first_tool_of_a_name_stays_and_hidden_ones_are_not_there():
    registry = Registry()
    mine, theirs = tool_named("bash", "ours"), tool_named("bash", "theirs")
    assert registry.replace("ours", [mine, tool_named("grep")], BUILTIN) == ()
    (left_out,) = registry.replace("theirs", [theirs], ToolOrigin(scope="project"))
    assert (left_out.tool, left_out.reason) == ("bash", "ToolNameTaken")
    assert registry.visible("bash") is mine
    assert registry.origin("bash") == BUILTIN
    registry.hide(["grep"])
    assert [tool.name for tool in registry.list()] == ["bash"]
    assert registry.visible("grep") is None
    assert registry.concurrency("nobody", {}) == "serial"


def test_redacting_an_event_changes_only_its_texts():
    secret = "AKIA" + "Q3J7ZK5M2XW4TB6V"
    event = e.ToolResult(
        call_id="c",
        tool="bash",
        outcome="ok",
        content=f"key {secret}",
        shown=ShownEdit(files=(EditedFile(path="a", diff=f"+{secret}\n", added=1),)),
        metadata={"lines": [secret, 3]},
    )
    clean = redacted(event)
    assert secret not in encode_payload(clean).decode()
    assert (clean.shown.files[0].added, clean.metadata["lines"][1], clean.outcome) == (1, 3, "ok")


@pytest.mark.requirement("H2.1", "T2.8", "G1.4")
async def test_the_function_that_runs_a_tool_is_given_and_dispatch_adds_no_policy(tmp_path):
    clock = FakeClock()
    seen = []

    async def run_tool(call):
        seen.append((call.name, call.input))
        return ToolOutput(outcome="error" if call.name == "rm" else "ok", content=call.name)

    journal = Journal(session="s", log=KeptLog(), clock=clock, bus=None, conversation=Conversation())
    dispatcher = Dispatcher(
        journal=journal,
        clock=clock,
        stopwatch=Stopwatch(clock),
        run_tool=run_tool,
        concurrency=lambda name, _given: "parallel_safe" if name == "ls" else "serial",
    )
    calls = [call_of(name, f"call {index}") for index, name in enumerate(["ls", "ls", "rm", "ls"])]
    results = await dispatcher.run(calls, step=1, identity="human")
    assert [(result.call_id, result.outcome) for result in results] == [
        ("call 0", "ok"),
        ("call 1", "ok"),
        ("call 2", "error"),
        ("call 3", "ok"),
    ]
    assert [name for name, _ in seen] == ["ls", "ls", "rm", "ls"]


class KeptLog(EmptyLog):
    def append(self, envelope, payload):
        self.last_id += 1
