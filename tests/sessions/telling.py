"""Sessions as they could have happened, for property tests: turns with words, answers, calls and their results."""

from __future__ import annotations

from hashlib import sha256

from hypothesis import strategies as st

from bridle.base.ids import Ids
from bridle.protocol import events as e
from bridle.protocol.messages import TextBlock, Usage
from bridle.sessions.log.session_log import StoredLog
from sessions.session_kit import put

words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=60)
outcomes = st.sampled_from(["ok", "error", "denied", "cancelled", "unknown"])
calls = st.tuples(st.sampled_from(["bash", "read_file", "edit_file"]), words, outcomes, st.integers(0, 3))
steps = st.tuples(st.lists(words, max_size=4), st.lists(calls, max_size=3))
turns = st.tuples(
    words, st.lists(steps, min_size=1, max_size=3), st.sampled_from(["end_turn", "cancelled", "error"])
)
stories = st.lists(turns, min_size=1, max_size=4)

_ids = Ids(lambda: 1_700_000_000_000, lambda count: b"\x01" * count)


def tell(log: StoredLog, story: list, *, mode: e.Mode = "default") -> None:
    """Appends a whole session."""
    put(
        log,
        e.SessionCreated(log=log.log, cwd="/work", mode=mode),
        e.ModelChanged(provider="work", model="small"),
        e.PrefixSet(provider="work", model="small", system="You help. " * 500),
    )
    step = 0
    for number, (asked, taken, stop) in enumerate(story, 1):
        put(log, e.InputAccepted(content=(TextBlock(text=asked),)))
        accepted = log.last_id
        put(log, e.TurnStarted(input=accepted), turn=number)
        for answer, wanted in taken:
            step += 1
            put(log, *_step(step, answer, wanted), turn=number)
        put(log, e.TurnTiming(durations_ms={"turn.total": 5.0}), turn=number)
        put(log, e.TurnEnded(stop=stop, steps=len(taken)), turn=number)


def _step(step: int, answer: list[str], wanted: list) -> list[e.DurableEvent]:
    text = "".join(answer)
    requested = tuple(
        e.RequestedCall(
            call_id=_ids.new("call"), wire_id=f"c{step}_{index}", tool=tool, input={"command": word}
        )
        for index, (tool, word, _, _) in enumerate(wanted)
    )
    found: list[e.DurableEvent] = [
        e.StepStarted(step=step, provider="work", model="small"),
        *(e.TextDelta(text=part) for part in answer),
        e.StepEnded(
            step=step,
            stop="tool_use" if requested else "end_turn",
            text_sha256=sha256(text.encode()).hexdigest(),
            calls=requested,
            usage=Usage(input_tokens=3, output_tokens=2),
        ),
        e.CostIncremented(provider="work", model="small", usage=Usage(), usd=0.25),
    ]
    for call, (tool, word, outcome, size) in zip(requested, wanted, strict=True):
        found += [
            e.ToolCallRequested(call_id=call.call_id, tool=tool, input=call.input, step=step),
            e.ToolCallStarted(
                call_id=call.call_id,
                tool=tool,
                input=call.input,
                mutating=tool != "read_file",
                input_sha256="0",
            ),
            e.ToolResult(call_id=call.call_id, tool=tool, outcome=outcome, content=word * (size * 200 + 1)),
        ]
    return found
