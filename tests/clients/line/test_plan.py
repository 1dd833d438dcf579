"""The model's plan as a checklist, its current item in the status line, and how long a model thought."""

from bridle.clients.interaction.session.controller import MARK
from bridle.conformance.fake_models import scripted
from bridle.protocol import events as e
from bridle.providers.script import call, say
from clients.line.line_kit import READER, Scene, at_terminal
from clients.line.test_screens import CREATE, PAST, prompt, settled, step
from clients.line.test_status import above_prompt
from clients.line.test_talk import conversation
from tables import table

STEPS = (
    "reproduce the wrong total with the orders of last week",
    "fix total()",
    "add a test",
    "run all tests",
    "write a line in the changelog",
)
ASKED = e.StepStarted(step=1, provider="work", model="some-model")


def plan(done: int, *, steps: tuple[str, ...] = STEPS, current: bool = True) -> e.TodosChanged:
    """So many are done, and the next one is being done."""
    return e.TodosChanged(
        todos=tuple(
            e.Todo(text=text, state="done" if at < done else "doing" if at == done and current else "open")
            for at, text in enumerate(steps)
        )
    )


def listed(call_id: str = "call_1") -> tuple[e.AnyEvent, ...]:
    return (
        e.ToolCallRequested(call_id=call_id, tool="todo", input={}, step=1),
        e.ToolCallStarted(call_id=call_id, tool="todo", input={}, mutating=False, input_sha256=""),
    )


def kept(call_id: str = "call_1") -> e.ToolResult:
    return e.ToolResult(call_id=call_id, tool="todo", outcome="ok", content="1 of 5 done.")


@table("columns", [44, 80, 100])
async def test_a_plan_of_five_steps(columns: int) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        await person.types("fix it\r", then=f"{MARK}fix it")
        scene.tell(prompt("fix it"), e.TurnStarted(input=4), *listed(), plan(1), kept())
        await person.sees("plan     1 of 5 done")
        scene.tell(*listed("call_2"), plan(2), kept("call_2"), ASKED)
        await person.passes(0.3)
        await person.passes(12.2)
        await person.sees("thinking 12 s · add a test · Ctrl-C stops")
        await person.shows("plan", columns)
        assert "ran      todo" not in person.glass.text


async def test_a_plan_that_did_not_change_is_not_drawn_again() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(e.TurnStarted(input=4), *listed(), plan(1), kept(), *listed("call_2"), plan(1))
        scene.tell(kept("call_2"), e.TurnEnded(stop="end_turn", steps=2))
        await person.sees("2 steps")
        assert person.glass.text.count("plan     1 of 5 done") == 1


async def test_of_a_long_plan_what_is_near_is_drawn() -> None:
    scene = Scene(*PAST)
    many = tuple(f"step {number}" for number in range(1, 41))
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(e.TurnStarted(input=4), plan(20, steps=many), e.TurnEnded(stop="end_turn", steps=2))
        await person.sees("plan     20 of 40 done", "▸ step 21", "2 steps")
        assert "✓ 18 before" in person.glass.text
        assert "· 13 more: /todos" in person.glass.text
        assert "step 35" not in person.glass.text


async def test_todos_shows_all_of_it_again() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await person.types("/todos\r", then="The model has made no plan in this session.")
        many = tuple(f"step {number}" for number in range(1, 41))
        scene.tell(e.TurnStarted(input=4), plan(20, steps=many), e.TurnEnded(stop="end_turn", steps=2))
        await person.sees("2 steps")
        await person.types("/todos\r", then="· step 40")
        assert "✓ step 1\n" in person.glass.text


async def test_people_who_listen_hear_words_in_place_of_marks() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, look=READER) as (person, _):
        await person.sees("Type what you want")
        scene.tell(e.TurnStarted(input=4), plan(1), e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("done: reproduce", "now: fix total()", "open: add a test", "1 step")
        assert "✓" not in person.glass.text


async def test_the_plan_of_a_real_turn() -> None:
    model = scripted(
        call("todo", todos=[{"text": "read", "state": "done"}, {"text": "fix \x1b[2J", "state": "doing"}]),
        say("Ok."),
    )
    async with conversation(model) as (person, _, _session):
        await person.types("go\r", then="2 steps")
        await person.sees("plan     1 of 2 done", "✓ read", "▸ fix ⟨ESC⟩[2J")


async def test_it_is_said_how_long_a_model_thought_and_thinking_opens_it() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await person.types("/thinking\r", then="Nothing was told of what the model thought.")
        scene.tell(prompt("go"), e.TurnStarted(input=4), ASKED)
        scene.tell(
            e.ThinkingDelta(text="Prices are\n"), e.ThinkingDelta(text="floats\x1b[2J."), after_ms=3000
        )
        scene.tell(*step("So it is.")[1:], e.TurnEnded(stop="end_turn", steps=1), after_ms=3000)
        await person.sees("thought 6 s\nSo it is.", "1 step")
        await settled(person)
        assert "Prices are" not in person.glass.text
        await person.types("\x0f", then="  Prices are\n  floats⟨ESC⟩[2J.")
        assert above_prompt(person) != "thought 6 s"


async def test_a_thought_before_a_call_is_said_and_one_of_a_moment_is_not() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(e.TurnStarted(input=4), ASKED)
        scene.tell(e.ThinkingDelta(text="Hm."))
        scene.tell(e.StepEnded(step=1, stop="tool_use", text_sha256="", calls=()), after_ms=2000)
        await person.sees("thought 2 s")
        scene.tell(ASKED, e.ThinkingDelta(text="Hm."), *step("Done.")[1:], after_ms=100)
        scene.tell(e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("1 step")
        assert person.glass.text.count("thought") == 1
