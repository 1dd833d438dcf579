"""A replay shows a session as it went, in its own time or faster; what two sessions changed can be told from events."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.interaction.render.session_fold import FileChange, changes_of
from bridle.clients.replay import LONGEST_PAUSE_S, frames
from bridle.protocol import events as e
from bridle.protocol.codec import EXPIRED
from bridle.protocol.display_values import EditedFile, ShownCommand, ShownEdit
from bridle.protocol.messages import TextBlock


def _at(*timed: tuple[int, e.AnyEvent]) -> list[e.Envelope]:
    return [
        e.Envelope(id=number, kind=type(event).__name__, session="s", originator="", ts_ms=ts_ms, event=event)
        for number, (ts_ms, event) in enumerate(timed, 1)
    ]


TOLD = _at(
    (0, e.InputAccepted(content=(TextBlock(text="fix\nit"),))),
    (100, e.StepStarted(step=1, provider="p", model="m")),
    (1_100, e.TextDelta(text="On ")),
    (1_600, e.TextDelta(text="it.")),
    (1_700, e.StepEnded(step=1, stop="tool_use", text_sha256="")),
    (1_800, e.ToolCallRequested(call_id="c", tool="bash", input={"command": "make"}, step=1)),
    (
        61_800,
        e.ToolResult(call_id="c", tool="bash", outcome="ok", content="", shown=ShownCommand(exit_code=0)),
    ),
    (61_900, e.TurnEnded(stop="cancelled")),
)


def test_frames_come_in_the_time_they_took_but_nobody_waits_long() -> None:
    shown = [(frame.text, frame.pause_s, frame.rests) for frame in frames(TOLD)]
    assert shown == [
        ("\n› fix\n  it\n\n", 0.0, True),
        ("On ", 1.1, False),
        ("it.", 0.5, False),
        ("\n", 0.1, True),
        ("  ran      make                           exit 0\n", LONGEST_PAUSE_S, True),
        ("  ended: cancelled\n", pytest.approx(0.1), True),
    ]


def test_a_pace_makes_it_faster() -> None:
    assert [frame.pause_s for frame in frames(TOLD, pace=10)] == pytest.approx(
        [0, 0.11, 0.05, 0.01, 2.0, 0.01]
    )


def test_what_has_expired_is_said_at_the_end() -> None:
    (frame,) = frames(_at((0, e.UnknownEvent(kind="TextDelta", raw=EXPIRED))))
    assert frame.text == "The content of 1 event has expired and is not kept any more.\n"


@given(st.lists(st.integers(0, 10**13)), st.floats(0.01, 1000))
def test_no_pause_is_negative_or_long_whatever_the_clock_did(times, pace) -> None:
    told = _at(*((ts_ms, e.TextDelta(text="x")) for ts_ms in times))
    assert all(0 <= frame.pause_s <= LONGEST_PAUSE_S for frame in frames(told, pace=pace))


# Changes


def _edit(call_id: str, *files: EditedFile, outcome: e.Outcome = "ok") -> e.ToolResult:
    shown = ShownEdit(files=files or (EditedFile(path="x.py", added=1, diff=f"+{call_id}\n"),))
    return e.ToolResult(call_id=call_id, tool="edit_file", outcome=outcome, content="", shown=shown)


def test_edits_of_a_file_add_up() -> None:
    made = EditedFile(path="x.py", kind="create", added=1, diff="+a\n")
    changed = EditedFile(path="x.py", added=3, removed=2, diff="+b\n")
    changes = changes_of(_at((0, _edit("a", made)), (1, _edit("b", changed))))
    assert changes.files == {
        "x.py": FileChange(path="x.py", added=4, removed=2, created=True, diffs=["+a\n", "+b\n"])
    }


def test_an_edit_that_was_taken_back_does_not_count_until_it_is_done_again() -> None:
    undo = e.UndoApplied(turn=1, paths=("x.py",), calls=("a",))
    redo = e.UndoApplied(turn=1, paths=("x.py",), calls=("a",), redone=True)
    taken_back = changes_of(_at((0, _edit("a")), (1, undo)))
    assert (taken_back.files, taken_back.undone) == ({}, 1)
    assert list(changes_of(_at((0, _edit("a")), (1, undo), (2, redo))).files) == ["x.py"]


def test_a_patch_counts_each_of_its_files_and_a_failed_edit_none() -> None:
    patch = _edit(
        "p",
        EditedFile(path="a", added=1, diff="+a\n"),
        EditedFile(path="b", kind="delete", removed=4, diff="-b\n"),
        EditedFile(path="c", added=2, removed=None),
    )
    failed = _edit("f", EditedFile(path="d", added=1), outcome="error")
    changes = changes_of(_at((0, patch), (1, failed)))
    assert list(changes.files.values()) == [
        FileChange(path="a", added=1, diffs=["+a\n"]),
        FileChange(path="b", removed=4, deleted=True, diffs=["-b\n"]),
        FileChange(path="c", added=2),
    ]


def test_commands_that_may_have_changed_more_are_counted() -> None:
    started = e.ToolCallStarted(call_id="c", tool="bash", input={}, mutating=True, input_sha256="")
    ran = e.ToolResult(call_id="c", tool="bash", outcome="ok", content="")
    read = e.ToolResult(call_id="d", tool="bash", outcome="ok", content="")
    assert changes_of(_at((0, started), (1, ran), (2, read))).commands == 1


@pytest.mark.requirement("D13.34")
def test_what_an_agent_did_stands_below_who_sent_it_and_is_not_said_by_them() -> None:
    child = {"agent_path": ("review",), "invocation": "inv_1"}
    told = _at(
        (0, e.InputAccepted(content=(TextBlock(text="go"),))),
        (1, e.ChildStarted(invocation="inv_1", agent="review", task="Look at a.txt.", call_id="c")),
        (2, e.InputAccepted(content=(TextBlock(text="HANDED OVER"),))),
        (3, e.TextDelta(text="No faults.\n\nNone.")),
        (4, e.StepEnded(step=1, stop="end_turn", text_sha256="")),
        (5, e.TurnEnded(stop="end_turn")),
        (6, e.ChildEnded(invocation="inv_1", agent="review", ok=True, result="No faults.", steps=1)),
        (7, e.ToolResult(call_id="c", tool="delegate_agent", outcome="ok", content="No faults.")),
        (8, e.TextDelta(text="Fine.")),
    )
    told = [msgspec.structs.replace(one, **child) if 2 < one.id < 7 else one for one in told]
    assert "".join(frame.text for frame in frames(told)) == (
        "\n› go\n\n"
        "  agent review: Look at a.txt.\n"
        "    said     No faults.\n"
        "             \n"
        "             None.\n"
        "  agent review: 1 step\n"
        "Fine.\n"
    )
