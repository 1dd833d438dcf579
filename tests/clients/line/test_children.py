"""Agents that were sent, at a real pseudo-terminal: their blocks, their questions, and who works."""

import pytest

from bridle.clients.interaction.session.controller import MARK
from bridle.clients.line.terminal import Look
from bridle.protocol import events as e
from bridle.protocol import queries as q
from bridle.protocol.commands import AnswerPermission, CancelTurn
from bridle.protocol.display_values import ShownChild, ShownRead
from bridle.protocol.messages import Usage
from clients.line.line_kit import COLOURLESS, DUMB, READER, SESSION, Scene, at_terminal, commands
from clients.line.test_screens import CREATE, PAST, prompt, settled, step
from tables import table

REVIEW = {"path": ("review",), "child": "inv_review"}
EXPLORE = {"path": ("explore",), "child": "inv_explore"}
TASK = "Look at the change in src/cart.py and say what is wrong with it, the worst first."
FOUND = """Two things are wrong.

- prices are floats
- refunds are not handled
- the test does not cover an empty cart
- nothing says who rounds
"""
EVIL = "a\x1b[2J\x1b]0;x\x07\x9b31m\u202eb"


def sent(
    agent: str, task: str = TASK, call: str = "call_1", *, background: bool = False
) -> tuple[e.AnyEvent, ...]:
    given = {"agent": agent, "task": task}
    return (
        e.ToolCallRequested(call_id=call, tool=e.DELEGATE, input=given, step=1),
        e.ToolCallStarted(call_id=call, tool=e.DELEGATE, input=given, mutating=False, input_sha256=""),
        e.ChildStarted(
            invocation=f"inv_{agent}",
            agent=agent,
            task=task,
            provider="work",
            model="some-model",
            call_id=call,
            background=background,
        ),
    )


def reads(path: str, call: str) -> tuple[e.AnyEvent, ...]:
    given = {"path": path}
    return (
        e.ToolCallRequested(call_id=call, tool="read_file", input=given, step=1),
        e.ToolCallStarted(call_id=call, tool="read_file", input=given, mutating=False, input_sha256=""),
        e.ToolResult(
            call_id=call,
            tool="read_file",
            outcome="ok",
            content="…",
            shown=ShownRead(first_line=1, last_line=112),
        ),
    )


def costs(usd: float | None) -> e.CostIncremented:
    usage = Usage(input_tokens=1200, output_tokens=200)
    return e.CostIncremented(provider="work", model="some-model", usage=usage, usd=usd)


def over(agent: str, call: str = "call_1", **fields: object) -> tuple[e.AnyEvent, ...]:
    values = {"ok": True, "result": FOUND, "stop": "end_turn", "steps": 2, "usd": 0.02, **fields}
    return (
        e.ChildEnded(invocation=f"inv_{agent}", agent=agent, **values),
        e.ToolResult(
            call_id=call,
            tool=e.DELEGATE,
            outcome="ok",
            content=FOUND,
            shown=ShownChild(invocation=f"inv_{agent}", agent=agent, steps=2, usd=0.02),
        ),
    )


@table("columns", [44, 80, 100])
@pytest.mark.requirement("D13.34", "G45.4")
async def test_what_an_agent_does_stands_in_a_block_and_its_words_are_not_the_answer(columns: int) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        await person.types("is it right?\r", then="is it right?")
        scene.tell(prompt("is it right?"), e.TurnStarted(input=4), *step("I will have it looked at."))
        scene.tell(*sent("review"))
        scene.tell(e.TurnStarted(input=9), *step("Let me see."), *reads("src/cart.py", "call_2"), **REVIEW)
        scene.tell(*step(FOUND), costs(0.02), e.TurnEnded(stop="end_turn", steps=2), **REVIEW)
        scene.tell(*over("review"), *step("It found **two** things."), costs(0.01))
        scene.tell(e.TurnEnded(stop="end_turn", steps=2))
        await person.sees("2 steps · ")
        await settled(person)
        await person.shows("agent-block", columns)


@table("columns", [44, 80, 100])
async def test_agents_that_work_side_by_side_keep_their_own_lines(columns: int) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        await person.types("go\r", then=f"{MARK}go")
        scene.tell(prompt("go"), e.TurnStarted(input=4))
        scene.tell(*sent("review"), *sent("explore", "Where are prices summed?", "call_2"))
        scene.tell(*reads("src/cart.py", "call_3"), **REVIEW)
        scene.tell(*reads("src/prices.py", "call_4"), **EXPLORE)
        scene.tell(*step("In src/cart.py, line 42."), **EXPLORE)
        scene.tell(*over("explore", "call_2", steps=1, usd=0.0))
        scene.tell(e.StepStarted(step=2, provider="work", model="some-model"), **REVIEW)
        await person.passes(1)
        await person.sees("review: thinking")
        await person.shows("agents-side-by-side", columns)


@pytest.mark.requirement("D13.34")
async def test_the_status_line_says_who_works_and_how_many_besides() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=100) as (person, _):
        await person.sees("Type what you want")
        await person.types("go\r", then=f"{MARK}go")
        scene.tell(prompt("go"), e.TurnStarted(input=4))
        scene.tell(*sent("review"), *sent("explore", "Where?", "call_2"))
        scene.tell(*reads("src/cart.py", "call_3")[:2], **REVIEW)
        scene.tell(e.StepStarted(step=1, provider="work", model="some-model"), **EXPLORE)
        await person.passes(1)
        await person.sees("review: running read src/cart.py · 1 more agent · Ctrl-C stops")
        scene.tell(*over("review"))
        await person.passes(1)
        await person.sees("explore: thinking · Ctrl-C stops")
        scene.tell(*over("explore", "call_2"))
        await person.passes(1)
        await person.sees("working · Ctrl-C stops")


@pytest.mark.requirement("D13.34")
async def test_who_works_in_the_background_is_named_also_while_nothing_else_runs() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=100) as (person, _):
        await person.sees("Type what you want")
        await person.types("go\r", then=f"{MARK}go")
        scene.tell(prompt("go"), e.TurnStarted(input=4), *sent("review", background=True), over("review")[1])
        scene.tell(e.StepStarted(step=1, provider="work", model="some-model"), **REVIEW)
        await person.passes(1)
        await person.sees(" · 1 agent works: review · Ctrl-C stops")
        scene.tell(
            *sent("explore", "Where?", "call_2", background=True), e.TurnEnded(stop="end_turn", steps=1)
        )
        await person.passes(1)
        await person.sees("2 agents work: review, explore")
        assert "explore · Ctrl-C stops" not in person.glass.text, "that is for the turn"
        scene.tell(over("review")[0])
        await person.passes(1)
        await person.sees("1 agent works: explore")
        scene.tell(over("explore")[0])
        await person.passes(1)
        await person.waits(lambda: "works: explore" not in person.glass.text, "nobody works")


async def test_a_question_from_the_background_is_asked_while_nothing_else_runs() -> None:
    scene = Scene(*PAST)
    asked = e.PermissionRequested(
        call_id="call_2", tool="bash", input={"command": "make"}, risk="shell", why="", digest="d"
    )
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(prompt("go"), e.TurnStarted(input=4), *sent("review", background=True))
        scene.tell(asked, **REVIEW)
        await person.sees("review → Run this command?")
        scene.tell(*step("Gone on."), e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("Gone on.")
        await person.types("y\r")
        await person.waits(lambda: bool(commands(scene, AnswerPermission)), "the answer")
    (answer,) = commands(scene, AnswerPermission)
    assert (answer.call_id, answer.answer) == ("call_2", "once")


async def test_words_that_an_agent_left_for_the_main_one_are_nobodys_prompt() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(prompt("go"), e.TurnStarted(input=4), *sent("review", background=True))
        told = e.InputAccepted(content=prompt("SECOND HAND").content, identity="agent", child="inv_review")
        scene.tell(over("review")[0], e.TurnEnded(stop="end_turn", steps=1))
        scene.tell(told, originator="inv_review")
        scene.tell(e.TurnStarted(input=12), *step("I heard."), e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("I heard.")
        assert "SECOND HAND" not in person.glass.text


async def test_ctrl_c_stops_the_agent_of_a_command() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(sent("review")[-1])
        await person.passes(1)
        await person.sees("agent review", "Ctrl-C stops")
        person.type("\x03")
        await person.waits(lambda: bool(commands(scene, CancelTurn)), "the stop")
    assert commands(scene, CancelTurn) == [CancelTurn(session=SESSION)]


@table("look", [COLOURLESS, DUMB, READER])
async def test_nothing_that_an_agent_wrote_is_obeyed_by_the_terminal(look: Look) -> None:
    scene = Scene(*PAST)
    path = {"path": (EVIL,), "child": "inv_1"}
    async with at_terminal(scene, CREATE, look=look) as (person, _):
        await person.sees("Type what you want")
        started = e.ChildStarted(invocation="inv_1", agent=EVIL, task=EVIL, provider=EVIL, model=EVIL)
        scene.tell(prompt("go"), e.TurnStarted(input=4), started)
        scene.tell(*step(EVIL), *reads(EVIL, "call_2"), *_asks_to_send(EVIL), **path)
        await person.sees("told this, and nothing else")
        failed = e.ChildEnded(invocation="inv_1", agent=EVIL, ok=False, result=EVIL, stop="error")
        scene.tell(failed, e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("did not finish")
        shown = person.bytes.replace(b"\x1b[?2004h", b"")
    for code in (b"\x1b[2J", b"\x1b]", "\x9b".encode(), "\u202e".encode()):
        assert code not in shown, code


HANDOFF = """You are the agent review, sent by build in ~/code/shop.

Task:
Look at the change in src/cart.py and say what is wrong with it, the worst first.

Context:
Prices are floats. The person wants whole cents."""


def _asks_to_send(agent: str, text: str = HANDOFF, call: str = "call_9") -> tuple[e.AnyEvent, ...]:
    given = {"agent": agent, "task": text, "max_turns": 4}
    subject = f"agent:{agent}:other"
    return (
        e.ToolCallRequested(call_id=call, tool=e.DELEGATE, input=given, step=1),
        e.PermissionRequested(
            call_id=call,
            tool=e.DELEGATE,
            input=given,
            risk="read",
            why="mode=default action=ask",
            digest="d1",
            because="it hands over what you see to another agent",
            offers=(
                e.Offer(answer="pattern", tool=e.DELEGATE, pattern=subject),
                e.Offer(answer="tool", tool=e.DELEGATE),
                e.Offer(answer="always", tool=e.DELEGATE, pattern=subject, days=7),
            ),
            handoff=e.Handoff(
                agent=agent,
                provider="other",
                model="big-model",
                text=text,
                tools=("read_file", "grep", "glob", "ls"),
            ),
        ),
    )


@table("columns", [44, 80, 100])
@pytest.mark.requirement("D11.44")
async def test_the_question_names_agent_provider_and_model_and_all_that_is_handed_over(columns: int) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        await person.types("go\r", then=f"{MARK}go")
        scene.tell(prompt("go"), e.TurnStarted(input=4), *_asks_to_send("review"))
        await person.sees("Send the agent review?", "n  no")
        await person.shows("question-agent", columns)
        await person.types("p\r")
        await person.waits(lambda: bool(commands(scene, AnswerPermission)), "the answer")
    (answer,) = commands(scene, AnswerPermission)
    assert answer == AnswerPermission(session=SESSION, call_id="call_9", answer="pattern", digest="d1")


@pytest.mark.requirement("D11.44")
async def test_a_yes_to_an_agent_counts_only_when_all_of_what_it_is_told_was_shown() -> None:
    scene = Scene(*PAST)
    text = "\n".join(f"line {number}" for number in range(60))
    async with at_terminal(scene, CREATE, columns=44, rows=20) as (person, _):
        await person.sees("Type what you want")
        await person.types("go\r", then=f"{MARK}go")
        scene.tell(prompt("go"), e.TurnStarted(input=4), *_asks_to_send("review", text))
        await person.sees("more lines: v or Enter")
        await person.types("y\r", then="y works when all of it was shown.")
        assert not commands(scene, AnswerPermission)
        while "line 59" not in person.glass.text:
            before = len(person.bytes)
            await person.types("\r")
            await person.waits(lambda before=before: len(person.bytes) > before + 80, "another page")
        await person.sees("yes, once")
        await person.types("y\r")
        await person.waits(lambda: bool(commands(scene, AnswerPermission)), "the answer")
    (answer,) = commands(scene, AnswerPermission)
    assert answer.answer == "once"


@table("columns", [44, 80, 100])
@pytest.mark.requirement("D11.44", "G20.6")
async def test_a_question_of_an_agent_has_its_path_in_front_and_goes_with_it(columns: int) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        await person.types("go\r", then=f"{MARK}go")
        scene.tell(prompt("go"), e.TurnStarted(input=4), *sent("writer", "Write it."))
        given = {"path": "src/x.py", "content": "x = 1\n"}
        asked = e.PermissionRequested(
            call_id="call_2", tool="write_file", input=given, risk="write", why="", because="it changes files"
        )
        child = {"path": ("writer",), "child": "inv_writer"}
        scene.tell(e.ToolCallRequested(call_id="call_2", tool="write_file", input=given, step=1), **child)
        scene.tell(asked, **child)
        await person.sees("writer → Write src/x.py?")
        await person.shows("question-of-agent", columns)
        scene.tell(*over("writer", ok=False, stop="cancelled", stopped_by="Ana", result=""))
        await person.sees("agent writer: stopped by Ana")
        await person.types("y\r", then='"y" was not sent')
        assert not commands(scene, AnswerPermission)


async def test_somebody_who_comes_during_the_work_of_an_agent_is_asked_with_its_path() -> None:
    asked = e.PermissionRequested(
        call_id="call_2", tool="bash", input={"command": "make"}, risk="shell", why=""
    )
    scene = Scene()
    scene.tell(*PAST, prompt("go"), e.TurnStarted(input=4), *sent("writer", "Write it."))
    child = {"path": ("writer",), "child": "inv_writer"}
    scene.tell(e.InputAccepted(content=prompt("HANDED OVER").content), e.TurnStarted(input=9), **child)
    scene.tell(*step("Let me see."), asked, **child)
    scene.begin_here()
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("agent writer: Write it.", "said     Let me see.", "writer → Run this command?")
        assert "HANDED OVER" not in person.glass.text


async def test_of_agents_that_an_agent_sent_only_their_beginning_and_end_are_shown() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(prompt("go"), e.TurnStarted(input=4), *sent("review"))
        scene.tell(*sent("explore", "Where?", "call_2"), **REVIEW)
        scene.tell(*reads("secret.py", "call_3"), path=("review", "explore"), child="inv_explore")
        scene.tell(*over("explore", "call_2", steps=1), **REVIEW)
        scene.tell(*over("review"), e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("agent review: 2 steps")
        lines = [line for line in person.glass.text.splitlines() if "agent" in line]
        assert [line.rstrip() for line in lines][1:3] == [
            "  agent explore: Where?",
            "  agent explore: 1 step",
        ]
        assert "secret.py" not in person.glass.text


async def test_ctrl_c_stops_the_whole_tree() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(prompt("go"), e.TurnStarted(input=4), *sent("review"))
        await person.sees("agent review")
        person.type("\x03")
        await person.waits(lambda: bool(commands(scene, CancelTurn)), "the stop")
    assert commands(scene, CancelTurn) == [CancelTurn(session=SESSION)]


AGENTS = (
    q.AgentEntry(name="plan", description="Works it out.", mode="primary", callable=False),
    q.AgentEntry(name="build", description="Builds.", mode="primary", callable=False, chosen=True),
    q.AgentEntry(name="review", description="Looks for faults.", mode="all"),
    q.AgentEntry(name="ours", source="project", place=".bridle/agents/ours.md", trusted=False),
)


@table("columns", [44, 80, 100])
@pytest.mark.requirement("D13.34")
async def test_agents_lists_who_there_is_and_the_tree_of_those_that_were_sent(columns: int) -> None:
    scene = Scene(*PAST)
    scene.agents = AGENTS
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        scene.tell(prompt("go"), e.TurnStarted(input=4), costs(0.03), *sent("review"))
        scene.tell(*step("Hm."), costs(0.02), **REVIEW)
        scene.tell(*sent("explore", "Where?", "call_2"), **REVIEW)
        scene.tell(costs(None), path=("review", "explore"), child="inv_explore")
        scene.tell(*over("explore", "call_2", ok=False, stop="cancelled", stopped_by="Ana"), **REVIEW)
        scene.tell(*over("review"), e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("2 steps, $0.02", "1 step")
        await person.types("/agents\r", then="Its end:")
        await person.types("/cost\r", then="agents   main")
        await person.shows("agents", columns)


async def test_a_person_stops_one_agent_by_its_name() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await person.types("/agents stop review\r", then="No agent is at work here.")
        scene.tell(prompt("go"), e.TurnStarted(input=4), *sent("review"))
        await person.sees("agent review: Look")
        await person.types("/agents stop\r", then="Which one? At work: review.")
        await person.types("/agents stop rview\r", then="No agent rview was sent here. Which one?")
        await person.types("/agents stop review\r")
        await person.waits(lambda: bool(commands(scene, CancelTurn)), "the stop")
        scene.tell(*over("review", ok=False, stop="cancelled", stopped_by="Ana"))
        await person.sees("agent review: stopped by Ana, 2 steps")
        await person.types("/agents stop review\r", then="is not at work any more: stopped.")
    assert commands(scene, CancelTurn) == [CancelTurn(session=SESSION, invocation="inv_review")]
