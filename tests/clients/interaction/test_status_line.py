"""The words of the status line, whatever is under way and however narrow the row."""

from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.interaction.cells import width_of
from bridle.clients.interaction.session.status_line import StatusLine, span_words
from bridle.clients.interaction.view import SessionView
from bridle.conformance.fake_clock import FakeClock
from bridle.protocol import events as e
from clients.interaction.test_view import told
from tables import table

TURN = (e.TurnStarted(input=1), e.StepStarted(step=1, provider="work", model="some-model"))


@given(command=st.text(max_size=200), columns=st.integers(8, 120), lines=st.integers(0, 10**6))
def test_it_is_one_row_that_fits(command: str, columns: int, lines: int) -> None:
    view = told(
        SessionView("cli_me"),
        *TURN,
        e.ToolCallStarted(
            call_id="c", tool="bash", input={"command": command}, mutating=True, input_sha256=""
        ),
        e.ToolCallProgress(call_id="c", text="", lines=lines),
    )
    words = StatusLine(FakeClock()).words(view, columns)
    assert words.startswith("running"[: columns - 1])
    assert width_of(words) <= columns
    assert "\n" not in words


async def test_each_thing_has_its_own_seconds() -> None:
    clock = FakeClock()
    status, view = StatusLine(clock), told(SessionView("cli_me"), *TURN)
    assert status.words(view, 80) == "thinking · Ctrl-C stops"
    await clock.advance(6)
    assert status.words(view, 80).startswith("thinking 6 s")
    told(view, e.TextDelta(text="So."), first=3)
    assert status.words(view, 80).startswith("writing · about 2 tokens")
    told(view, e.TurnEnded(stop="end_turn"), first=4)
    assert status.words(view, 80) == ""


def test_a_command_a_person_typed_outlives_the_turn_that_ends_meanwhile() -> None:
    typed = (
        e.ToolCallRequested(call_id="c", tool="bash", input={"command": "make"}, step=0),
        e.ToolCallStarted(
            call_id="c", tool="bash", input={"command": "make"}, mutating=True, input_sha256=""
        ),
    )
    view = told(SessionView("cli_me"), *TURN, *typed, e.TurnEnded(stop="end_turn"))
    assert StatusLine(FakeClock()).words(view, 80).startswith("running make")


@table(("seconds", "words"), [(0.9, ""), (1, "1 s"), (59.9, "59 s"), (60, "1 min 0 s"), (3725, "62 min 5 s")])
def test_a_span_of_time_in_words(seconds: float, words: str) -> None:
    assert span_words(seconds) == words
