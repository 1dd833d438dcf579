"""The line above the prompt while something is under way: what it is, for how long; nothing of it stays."""

import pytest

from bridle.clients.engine_address import EngineLink
from bridle.clients.interaction.session.controller import MARK
from bridle.protocol import events as e
from bridle.protocol.commands import CreateSession
from bridle.protocol.errors import CommandRefused
from clients.line.line_kit import COLOURLESS, DUMB, READER, Look, Person, Scene, at_terminal, check_golden
from clients.line.test_screens import CREATE, PAST, asks, prompt, settled, step
from tables import table

NPM = {"command": "npm test"}
ASKED = e.StepStarted(step=1, provider="work", model="some-model")
BEGUN = (prompt("why?"), e.TurnStarted(input=4), ASKED)
CALLED = e.ToolCallRequested(call_id="call_1", tool="bash", input=NPM, step=1)
RUNS = e.ToolCallStarted(call_id="call_1", tool="bash", input=NPM, mutating=True, input_sha256="")
RAN = e.ToolResult(call_id="call_1", tool="bash", outcome="ok", content="")


def above_prompt(person: Person) -> str:
    """The row right above the line that is typed on."""
    return person.glass.text.splitlines()[-2]


async def test_a_model_that_thinks_for_long_is_seen_to_think() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await person.types("why?\r", then="working · Ctrl-C stops")
        scene.tell(*BEGUN)
        await person.passes(1)
        await person.sees("thinking · Ctrl-C stops")
        await person.passes(40)
        await person.sees("thinking 40 s · Ctrl-C stops")
        assert above_prompt(person) == "thinking 40 s · Ctrl-C stops"
        await person.passes(45)
        await person.sees("thinking 1 min 25 s · Ctrl-C stops")
        assert person.glass.text.count("thinking") == 1, "it is drawn over itself"


@table("columns", [44, 80, 100])
async def test_every_kind_of_work_has_its_words(columns: int) -> None:
    scene = Scene(*PAST)
    shown: list[str] = []

    async def looks(person: Person, words: str, seconds: float = 12.3) -> None:
        await person.passes(0.3)
        await person.passes(seconds)
        await person.sees(words)
        shown.append(above_prompt(person))

    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        await person.types("why?\r", then="working")
        scene.tell(*BEGUN)
        await looks(person, "thinking 12 s")
        scene.tell(e.ThinkingDelta(text="prices " * 80))
        await looks(person, "thinking 24 s · about")
        scene.tell(e.TextDelta(text="They are floats. " * 3))
        await looks(person, "writing 12 s")
        scene.tell(e.StepEnded(step=1, stop="tool_use", text_sha256="", calls=()), CALLED, RUNS)
        await looks(person, "running npm test 12 s")
        scene.tell(e.ToolCallProgress(call_id="call_1", text="ok\n", lines=38))
        await looks(person, "running npm test 25 s · 38 lines")
        person.type("also handle refunds\r")
        await person.sees("queued   also")
        scene.tell(prompt("also handle refunds"))
        await looks(person, "running npm test 37 s · 38 lines · 1 queued")
        scene.tell(RAN, e.Notice(reason="Compacting", message="The context is nearly full."))
        await looks(person, "summarising 12 s")
    check_golden("status", columns, "\n".join(shown) + "\n")
    assert all(len(row) < columns for row in shown)


async def test_nothing_of_it_stays_on_the_page() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await person.types("why?\r", then="working")
        scene.tell(*BEGUN)
        await person.passes(5)
        await person.sees("thinking 4 s")
        scene.tell(*step("Done.")[1:], CALLED, RUNS)
        await person.passes(1)
        await person.sees("running npm test")
        scene.tell(RAN, e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("1 step")
        await settled(person)
        for word in ("working", "thinking", "writing", "running npm", "Ctrl-C stops,"):
            assert word not in person.glass.text.replace("Ctrl-C stops, twice leaves", "")


async def test_a_long_command_is_cut_so_that_its_time_is_seen() -> None:
    scene = Scene(*PAST)
    long = {"command": "find . -name 'a name that goes on and on and on' -newer another-file"}
    async with at_terminal(scene, CREATE, columns=44) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*BEGUN, *step()[2:])
        scene.tell(
            e.ToolCallStarted(call_id="call_1", tool="bash", input=long, mutating=True, input_sha256="")
        )
        await person.passes(0.5)
        await person.passes(7)
        await person.sees(" 7 s")
        assert above_prompt(person).startswith("running find . -name")
        assert len(above_prompt(person)) < 44


async def test_calls_that_run_at_once_are_counted() -> None:
    scene = Scene(*PAST)
    calls = [
        e.ToolCallStarted(
            call_id=call, tool="read_file", input={"path": path}, mutating=False, input_sha256=""
        )
        for call, path in (("a", "one.py"), ("b", "two.py"), ("c", "three.py"))
    ]
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*BEGUN, *calls)
        await person.passes(0.3)
        await person.sees("running read one.py · 2 more calls")
        scene.tell(e.ToolResult(call_id="a", tool="read_file", outcome="ok", content=""))
        await person.passes(0.3)
        await person.sees("running read two.py · 1 more call")


async def test_it_is_drawn_at_most_four_times_a_second_and_not_at_all_at_rest() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*BEGUN, CALLED, RUNS)
        await person.passes(0.3)
        await person.sees("running npm test")
        before = person.bytes.count(b"running npm test")
        for number in range(100):
            scene.tell(e.ToolCallProgress(call_id="call_1", text="x\n", lines=number))
            await person.passes(0.02)
        await person.passes(0.3)
        await person.sees("99 lines")
        assert person.bytes.count(b"running npm test") - before <= 10
        scene.tell(RAN, e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("1 step")
        await settled(person)
        still = person.bytes
        await person.passes(600)
        assert person.bytes == still


async def test_deltas_do_not_draw_it_anew() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=100) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*BEGUN, e.TextDelta(text="begun "))
        await person.passes(0.3)
        await person.sees("writing")
        before = person.glass.text.splitlines()[-2]
        scene.tell(*(e.TextDelta(text=f"word{number}\n") for number in range(200)))
        await person.sees("word199")
        assert above_prompt(person) == before


@pytest.mark.requirement("D13.14")
@table("look", [DUMB, READER])
async def test_where_nothing_can_be_redrawn_there_is_none(look: Look) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, look=look) as (person, _):
        await person.sees("Type what you want")
        await person.types("why?\r", then=f"{MARK}why?")
        scene.tell(*BEGUN)
        await person.passes(20)
        scene.tell(*step("Done.")[1:], e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("1 step")
        assert "thinking" not in person.glass.text


async def test_while_a_question_waits_for_the_person_nothing_else_is_said_to_be_under_way() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*BEGUN, *step()[2:], *asks("bash", command="npm test"))
        await person.sees("Run this command?")
        await person.passes(10)
        assert "Ctrl-C stops" not in person.glass.text.replace("Ctrl-C stops, twice leaves", "")


async def test_a_wait_that_is_counted_down_is_the_only_line() -> None:
    scene = Scene(*PAST)
    limited = e.StepFailed(
        step=1, attempt=1, attempts=5, reason="RateLimited", message="Provider work …", retry_in_ms=20_000
    )
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*BEGUN)
        await person.passes(0.3)
        await person.sees("thinking · Ctrl-C stops")
        scene.tell(limited)
        await person.sees("asks us to wait 20 s")
        await person.passes(3)
        await person.sees("asks us to wait 17 s")
        assert "thinking" not in person.glass.text
        scene.tell(ASKED)
        await person.passes(1)
        await person.sees("thinking")


async def test_it_is_faint_where_codes_are_allowed_and_made_of_words_alone() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CreateSession(cwd="/work"), look=COLOURLESS) as (person, _):
        await person.sees("Type what you want")
        evil = {"command": "echo \x1b[2J\x1b]0;x\x07"}
        scene.tell(*BEGUN)
        scene.tell(
            e.ToolCallStarted(call_id="call_1", tool="bash", input=evil, mutating=True, input_sha256="")
        )
        await person.passes(0.3)
        await person.sees("running echo ⟨ESC⟩[2J")
        assert "\x1b[2mrunning echo" in person.bytes.decode()
        assert b"\x1b[2J" not in person.bytes


async def test_an_engine_that_is_lost_is_said_at_once_with_the_time_left() -> None:
    scene, link = Scene(*PAST), EngineLink()
    async with at_terminal(scene, CREATE, link=link) as (person, task):
        await person.sees("Type what you want")
        scene.tell(*BEGUN)
        await person.passes(0.3)
        await person.sees("thinking")
        link.hear(30.0)
        await person.passes(0.3)
        await person.sees("! engine lost, reconnecting, gives up in 29 s")
        assert "thinking" not in person.glass.text, "nobody knows whether it still does"
        await person.passes(5)
        await person.sees("! engine lost, reconnecting, gives up in 24 s")
        link.hear(None)
        await person.passes(0.3)
        await person.sees("thinking")
        assert "engine lost" not in person.glass.text
        link.hear(30.0)
        scene.fail(CommandRefused("NoEngine", address="/run/engine.sock", problem="Connection refused"))
        assert await task == 2
        await person.sees("Start one: bridle serve", 'Saved as "why?".  Come back: bridle -c')


async def test_at_rest_a_lost_engine_is_said_too() -> None:
    scene, link = Scene(*PAST), EngineLink()
    async with at_terminal(scene, CREATE, link=link) as (person, _):
        await person.sees("Type what you want")
        link.hear(30.0)
        await person.passes(0.3)
        await person.sees("! engine lost, reconnecting, gives up in 29 s")
        assert person.glass.text.count("engine lost") == 1


@table("look", [DUMB, READER])
async def test_where_nothing_can_be_redrawn_a_lost_engine_is_two_lines(look: Look) -> None:
    scene, link = Scene(*PAST), EngineLink()
    async with at_terminal(scene, CREATE, look=look, link=link) as (person, _):
        await person.sees("Type what you want")
        link.hear(30.0)
        await person.sees("engine lost, reconnecting.")
        link.hear(None)
        await person.sees("engine found again.")
