"""A request that waits for its next attempt: one line, counted down in place where the terminal can."""

from bridle.protocol import events as e
from clients.line.line_kit import DUMB, READER, Look, Scene, at_terminal
from clients.line.test_screens import CREATE, PAST
from tables import table

LIMITED = e.StepFailed(
    step=1, attempt=1, attempts=5, reason="RateLimited", message="Provider work …", retry_in_ms=20_000
)
STARTED = (e.TurnStarted(input=4), e.StepStarted(step=1, provider="work", model="some-model"))


def line(seconds: int) -> str:
    return f"work asks us to wait {seconds} s (rate limit, try 2 of 5). Ctrl-C stops."


async def test_the_wait_is_one_line_that_counts_down_and_stays_as_it_was_said() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*STARTED, e.TextDelta(text="Half an"), LIMITED)
        await person.sees(line(20))
        assert person.clock is not None
        for left_s in (19, 18, 17):
            await person.passes(1)
            await person.sees(line(left_s))
            assert person.glass.text.count("asks us to wait") == 1
        await person.passes(30)
        await person.sees(line(1))
        scene.tell(STARTED[1], e.TextDelta(text="Here it is."))
        await person.sees("Here it is.")
        assert person.glass.text.count("asks us to wait") == 1
        assert f"{line(20)} Nothing partial was kept." in person.glass.text.replace("\n  ", " ")


async def test_nothing_counts_when_the_turn_is_over() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*STARTED, LIMITED)
        await person.sees(line(20))
        scene.tell(e.Cancelled(by="cli_me"), e.TurnEnded(stop="cancelled", steps=1))
        await person.sees("stopped", "1 step")
        shown = person.glass.text
        await person.passes(5)
        assert person.glass.text == shown


async def test_nothing_counts_when_the_person_has_left() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, task):
        await person.sees("Type what you want")
        scene.tell(*STARTED, LIMITED)
        await person.sees(line(20))
        scene.end()
        assert await task == 0
        await person.waits(lambda: "asks us to wait" not in person.glass.text, "the line taken away")
        await person.passes(5)
        assert "asks us to wait" not in person.glass.text


@table("look", [DUMB, READER])
async def test_where_nothing_can_be_redrawn_it_is_printed_once(look: Look) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, look=look) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*STARTED, LIMITED)
        await person.sees(line(20))
        await person.passes(5)
        assert person.glass.text.count("asks us to wait") == 1


async def test_a_wait_of_a_moment_is_only_said() -> None:
    scene = Scene(*PAST)
    moment = e.StepFailed(
        step=1, attempt=1, attempts=5, reason="Overloaded", message="It is full.", retry_in_ms=400
    )
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*STARTED, moment)
        await person.sees("It is full. Trying again in 0.4 s (try 2 of 5).")
