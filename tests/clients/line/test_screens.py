"""Whole screens at a real pseudo-terminal, as golden files: what a person reads, word for word."""

import asyncio

import pytest

from bridle.clients.interaction.render.start_info import StartInfo, start_hint
from bridle.clients.interaction.session.controller import MARK
from bridle.clients.line.terminal import Look
from bridle.protocol import events as e
from bridle.protocol.commands import AnswerPermission, AnswerQuestion, CreateSession, RunSlash, SendInput
from bridle.protocol.display_values import ShownCommand
from bridle.protocol.errors import CommandRefused
from bridle.protocol.messages import TextBlock, Usage
from bridle.protocol.questions import OpenQuestion, WordsAnswer
from clients.line.line_kit import (
    COLOURLESS,
    DUMB,
    READER,
    SESSION,
    Person,
    Scene,
    at_terminal,
    check_golden,
    commands,
)
from tables import table

CREATE = CreateSession(cwd="/work", model="work:some-model")
PAST = (
    e.SessionCreated(log="log_1", cwd="/work"),
    e.ModelChanged(provider="work", model="some-model"),
    e.Degraded(
        what="sandbox", reason="NoSandbox", message="Commands are not sandboxed: they run with your rights."
    ),
)
ANSWER = """# Cart

Prices are **floats**; `total()` adds them up. I will look at three things:

- the *sum* itself
- rounding

```python
def total(items):
    return sum(items)
```
That is all.
"""


def prompt(text: str) -> e.InputAccepted:
    return e.InputAccepted(content=(TextBlock(text=text),))


def step(*texts: str, calls: tuple[e.RequestedCall, ...] = ()) -> tuple[e.AnyEvent, ...]:
    return (
        e.StepStarted(step=1, provider="work", model="some-model"),
        *(e.TextDelta(text=text) for text in texts),
        e.StepEnded(step=1, stop="tool_use" if calls else "end_turn", text_sha256="", calls=calls),
    )


def asks(tool: str, call: str = "call_1", **given: object) -> tuple[e.AnyEvent, ...]:
    return (
        e.ToolCallRequested(call_id=call, tool=tool, input=given, step=1),
        e.PermissionRequested(
            call_id=call,
            tool=tool,
            input=given,
            risk="shell",
            why="mode=default action=ask",
            digest="d1",
            because="it runs code",
            offers=_offers(tool, given),
        ),
    )


def _offers(tool: str, given: dict[str, object]) -> tuple[e.Offer, ...]:
    """What a question about a command offers; about another call only the call itself."""
    if not isinstance(command := given.get("command"), str):
        return ()
    return (
        e.Offer(answer="pattern", tool=tool, pattern=command),
        e.Offer(answer="tool", tool=tool),
        e.Offer(answer="always", tool=tool, pattern=command, days=7),
    )


def denied(note: str | None = None, call: str = "call_1", tool: str = "bash") -> tuple[e.AnyEvent, ...]:
    return (
        e.PermissionDecided(
            call_id=call, tool=tool, verdict="deny", decided_by="person", answered_by="cli_me", note=note
        ),
        e.ToolResult(call_id=call, tool=tool, outcome="denied", content="", reason="PermissionDenied"),
    )


async def seen(scene: Scene, columns: int, *events: e.AnyEvent, until: str, look: Look | None = None) -> str:
    """What stands on the screen after these events of a turn."""
    options = {} if look is None else {"look": look}
    async with at_terminal(scene, CREATE, columns=columns, **options) as (person, _):
        await person.sees("Type what you want")
        await person.types("why is the total wrong?\r", then="why is the total wrong?")
        scene.tell(prompt("why is the total wrong?"), e.TurnStarted(input=4), *events)
        await person.sees(until)
        await settled(person)
        return person.glass.text


async def settled(person: Person) -> None:
    """The prompt stands alone on the last line, and nothing is said to be under way above it."""

    def alone() -> bool:
        *_, above, last = person.glass.text.splitlines()
        rests = not above.startswith(("working", "thinking", "writing", "running", "summarising"))
        return rests and last in (MARK.strip(), "Answer:")

    await person.waits(alone, "an empty prompt")


@table("columns", [44, 80, 100])
async def test_the_first_lines(columns: int) -> None:
    async with at_terminal(Scene(*PAST), CREATE, columns=columns) as (person, _):
        await person.sees("twice leaves", MARK.strip())
        await person.shows("start", columns)


@table("columns", [44, 80, 100])
async def test_an_answer_with_its_costs(columns: int) -> None:
    pieces = [ANSWER[at : at + 7] for at in range(0, len(ANSWER), 7)]
    usage = Usage(input_tokens=2300, cache_read_tokens=9800, output_tokens=640)
    text = await seen(
        Scene(*PAST),
        columns,
        *step(*pieces),
        e.CostIncremented(provider="work", model="some-model", usage=usage, usd=0.03),
        e.TurnEnded(stop="end_turn", steps=1),
        until="session $0.03",
    )
    check_golden("answer", columns, text)


@pytest.mark.requirement("D13.14")
async def test_without_codes_markdown_is_printed_as_it_is() -> None:
    for look in (DUMB, READER):
        text = await seen(
            Scene(*PAST), 100, *step(ANSWER), e.TurnEnded(stop="end_turn", steps=1), until="1 step", look=look
        )
        assert ANSWER in text


@table("columns", [44, 80, 100])
async def test_calls_that_ran_and_calls_that_did_not(columns: int) -> None:
    text = await seen(
        Scene(*PAST),
        columns,
        e.ToolCallRequested(call_id="call_0", tool="bash", input={"command": "npm test"}, step=1),
        e.ToolCallStarted(
            call_id="call_0", tool="bash", input={"command": "npm test"}, mutating=True, input_sha256=""
        ),
        e.ToolResult(
            call_id="call_0",
            tool="bash",
            outcome="ok",
            content="",
            shown=ShownCommand(exit_code=1),
            duration_ms=4200,
        ),
        e.ToolCallRequested(
            call_id="call_1", tool="bash", input={"command": "rm -rf build && npm run build"}, step=1
        ),
        *denied("keep build/cache"),
        e.ToolCallRequested(call_id="call_2", tool="bash", input={"command": "git push --force"}, step=1),
        e.PermissionDecided(
            call_id="call_2",
            tool="bash",
            verdict="deny",
            decided_by="rule",
            rule="git push --force*",
            origin="user config, line 12",
        ),
        e.ToolResult(call_id="call_2", tool="bash", outcome="denied", content="", reason="RuleDenied"),
        e.ToolResult(call_id="call_3", tool="bash", outcome="unknown", content=""),
        e.GrantAdded(grant_id="g", tool="bash", pattern="npm test", life="session"),
        e.GrantAdded(grant_id="h", tool="write_file", pattern="", life="session"),
        e.TurnEnded(stop="end_turn", steps=3),
        until="3 steps",
    )
    check_golden("calls", columns, text)
    assert "ran      rm" not in text


@table("columns", [44, 80, 100])
async def test_failures_and_second_tries(columns: int) -> None:
    text = await seen(
        Scene(*PAST),
        columns,
        e.StepStarted(step=1, provider="work", model="some-model"),
        e.TextDelta(text="Half an ans"),
        e.StepFailed(step=1, attempt=1, reason="StreamSilent", message="No data for 60 s.", retry_in_ms=2000),
        e.StepFailed(step=1, attempt=2, reason="Overloaded", message="work is overloaded (529)."),
        e.Notice(reason="Fallback", message="Continuing with work:other."),
        e.Error(reason="Overloaded", message="work is overloaded (529)."),
        e.TurnEnded(stop="error", reason="Overloaded", message="work is overloaded (529).", steps=1),
        until="1 step",
    )
    check_golden("failures", columns, text)


async def test_a_model_chosen_during_a_turn_is_said_to_come_with_the_next() -> None:
    scene = Scene(*PAST)
    other = e.ModelChanged(provider="work", model="other")
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(e.TurnStarted(input=4), other)
        await person.sees("model    work:other               from the next turn on")
        scene.tell(*step("Done."), e.TurnEnded(stop="end_turn", steps=1), other)
        await person.sees("1 step")
        await person.waits(
            lambda: person.glass.text.count("work:other") == 2, "the model that holds from here on"
        )
        assert person.glass.text.count("from the next turn on") == 1


@table("look", [COLOURLESS, DUMB, READER])
async def test_nothing_that_others_wrote_is_obeyed_by_the_terminal(look: Look) -> None:
    evil = "a\x1b[2J\x1b]0;x\x07\x9b31m\u202eb"
    scene = Scene(*PAST[:1], e.ModelChanged(provider=evil, model=evil), PAST[2])
    scene.cwd = evil
    async with at_terminal(scene, CREATE, look=look, start=StartInfo(branch=evil)) as (person, _):
        await person.sees("Type what you want")
        scene.tell(prompt(evil), e.TurnStarted(input=4), originator="cli_other")
        scene.tell(*step(f"{evil} **{evil}** `{evil}`\n```{evil}\n{evil}\n```\n"))
        scene.tell(e.Notice(reason="x", message=evil), e.Error(reason="x", message=evil + "\nsecond line"))
        scene.tell(e.StepFailed(step=1, attempt=1, reason="x", message=evil))
        scene.tell(e.GrantAdded(grant_id="g", tool="bash", pattern=evil, life="session"))
        scene.tell(e.ToolResult(call_id="c", tool=evil, outcome="error", content=evil))
        scene.tell(*asks(evil, path=evil, other=evil))
        await person.sees("elsewhere: a⟨ESC⟩[2J")
        await person.types(f"\x1b[200~{evil}\x1b[201~", then="⟨ESC⟩]0;x⟨BEL⟩")
        scene.tell(e.TurnEnded(stop="error", reason="x", message=evil + "!", steps=1))
        await person.sees("1 step")
        shown = person.bytes.replace(b"\x1b[?2004h", b"")
        assert b"\x1b[2J" not in shown
        assert b"\x1b]" not in shown
        assert "\x9b".encode() not in shown
        assert "\u202e".encode() not in shown


@table("columns", [44, 80, 100])
async def test_a_limit_that_ends_a_turn_is_said_once(columns: int) -> None:
    message = "The same call gave the same result 3 times. Stopped. Tell me what to try instead, or /retry."
    text = await seen(
        Scene(*PAST),
        columns,
        e.TurnEnded(stop="error", reason="LoopDetected", message=message, steps=3),
        until="3 steps",
    )
    check_golden("loop", columns, text)


@table("columns", [44, 80, 100])
async def test_a_question_a_no_with_a_note_and_what_was_not_run(columns: int) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        await person.types("clean up\r", then="clean up")
        scene.tell(
            prompt("clean up"), e.TurnStarted(input=4), *asks("bash", command="rm -rf build && npm run build")
        )
        await person.sees("Run this command?")
        await person.types("keep build/cache", then=f"{MARK}keep build/cache")
        person.type("\r")
        await person.waits(lambda: bool(commands(scene, AnswerPermission)), "the answer")
        scene.tell(*denied("keep build/cache"), e.TurnEnded(stop="end_turn", steps=2))
        await person.sees("2 steps")
        await settled(person)
        await person.shows("question-and-no", columns)
        assert b"\x07" in person.bytes, "it rings"
    assert commands(scene, AnswerPermission) == [
        AnswerPermission(
            session=SESSION, call_id="call_1", answer="deny", note="keep build/cache", digest="d1"
        )
    ]


@table("columns", [44, 80, 100])
async def test_a_question_while_a_draft_is_being_written(columns: int) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        await person.types("go\r", then=f"{MARK}go")
        scene.tell(prompt("go"), e.TurnStarted(input=4))
        await person.types("also handle ref", then=f"{MARK}also handle ref")
        scene.tell(*asks("bash", command="npm test"))
        await person.sees("Tab to answer")
        await person.types("unds", then=f"{MARK}also handle refunds")
        await person.shows("question-and-draft", columns)
        assert not commands(scene, AnswerPermission)


async def test_a_question_of_the_model_takes_words_or_a_number() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        question = OpenQuestion(text="Which one?", choices=("SQLite", "Postgres"))
        asked = e.QuestionAsked(question_id="q_1", question=question)
        scene.tell(prompt("go"), e.TurnStarted(input=4), asked)
        await person.sees("2  Postgres")
        await person.types("2\r")
        await person.waits(lambda: bool(commands(scene, AnswerQuestion)), "the answer")
    assert commands(scene, AnswerQuestion) == [
        AnswerQuestion(session=SESSION, question_id="q_1", answer=WordsAnswer(text="Postgres"))
    ]


async def test_a_question_answered_elsewhere_goes_away() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(prompt("go"), e.TurnStarted(input=4), *asks("bash", command="npm test"))
        await person.sees("Run this command?")
        decided = e.PermissionDecided(
            call_id="call_1", tool="bash", verdict="allow", decided_by="person", answered_by="cli_ana"
        )
        scene.tell(decided)
        await person.sees("Answered elsewhere.")
        await person.types("y\r", then='"y" was not sent')
    assert not commands(scene, AnswerPermission)
    assert not commands(scene, SendInput)


@table("columns", [44, 80, 100])
async def test_people_who_listen_get_words_in_order(columns: int) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=columns, look=READER) as (person, _):
        await person.sees("Type what you want")
        await person.types("go\r", then=f"{MARK}go")
        scene.tell(prompt("go"), e.TurnStarted(input=4), *step("First. Sec", "ond."))
        scene.tell(*asks("bash", command="npm test"))
        await person.sees("Tab to answer")
        await person.passes(1.5)
        await person.sees("Answer:")
        await person.types("n\r", then="Answer: n")
        scene.tell(*denied(), e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("1 step")
        await settled(person)
        await person.shows("reader", columns)
        assert b"\x1b" not in person.bytes


async def test_people_who_listen_hear_that_a_turn_still_runs() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, look=READER) as (person, _):
        await person.sees("Type what you want")
        scene.tell(prompt("go"), e.TurnStarted(input=4), *step("Hmm."))
        await person.sees("Hmm.")
        await person.passes(65)
        await person.sees("still working, 30 s\nstill working, 60 s\n")
        scene.tell(e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("1 step")
        await person.passes(65)
        await person.types("x", then=f"{MARK}x")
        assert "90 s" not in person.glass.text


@table("columns", [44, 80, 100])
async def test_commands_that_are_ours(columns: int) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        for typed, then in [
            ("/help", "(also /exit)"),
            ("/keys", "As text"),
            ("/model", "Connect one: /login"),
            ("/effort", "Change it: /effort NAME"),
            ("/mode", "Change it: /mode NAME"),
            ("/btw", "join the"),
            ("/login", "In a shell: bridle login"),
            ("/trust", "In a shell: bridle trust list"),
            ("/hooks", "In a shell: bridle hooks list"),
            ("/queue", "Nothing is queued."),
            ("/cost", "Nothing used yet."),
            ("/permissions", "Nothing is allowed beyond"),
            ("/jobs", "No command runs in"),
            ("/context", "Nothing has been sent to a model"),
            ("/sessions", "There are no sessions to list."),
            ("/copy", "There is no answer yet."),
            ("/doctor", "bridle doctor"),
            ("/stop", "No turn is running."),
        ]:
            await person.types(f"{typed}\r", then=then)
        scene.refuse = CommandRefused("NotSupported", what="RunSlash")
        await person.types("/compact\r", then="not available")
        await person.shows("commands", columns)


@table("columns", [44, 80, 100])
async def test_coming_back_and_leaving(columns: int) -> None:
    past = (
        *PAST[:2],
        prompt("fix rounding in cart totals"),
        e.TurnStarted(input=3),
        *step("The error came from float prices, fixed in `src/cart.py`."),
        e.TurnEnded(stop="end_turn", steps=1),
        *PAST,
    )
    resume = CreateSession(cwd="/work", resume=SESSION)
    async with at_terminal(Scene(*past), resume, columns=columns) as (person, task):
        await person.sees("twice leaves", MARK.strip())
        await person.types("\x04")
        assert await asyncio.wait_for(task, 10) == 0
        await person.sees("01JV00")
        await person.shows("back-and-leave", columns)


@table("columns", [44, 80, 100])
async def test_ctrl_c_says_what_the_next_one_does(columns: int) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=columns) as (person, task):
        await person.sees("Type what you want")
        await person.types("a draft", then=f"{MARK}a draft")
        await person.types("\x03", then="Draft cleared, Up brings it back.")
        shown = [person.glass.text]
        await person.passes(2.5)
        await person.types("\x1b[A", then=f"{MARK}a draft")
        await person.types("\x15\x03", then="Ctrl-C again to leave")
        shown.append(person.glass.text)
        await person.passes(2.5)
        scene.tell(prompt("go"), e.TurnStarted(input=4))
        await person.types("\x03", then="Stopping… Ctrl-C again")
        shown.append(person.glass.text)
        assert not task.done()
        check_golden("ctrl-c", columns, "--\n".join(shown))


DIFF = """\
Changes since the last commit (git diff HEAD):

diff --git a/cart.py b/cart.py
index 1111111..2222222 100644
--- a/cart.py
+++ b/cart.py
@@ -1 +1,2 @@
-total = 1
+total = 2\t
+name = "\x1b[31m\u202e"
diff --git a/new.py b/new.py
new file mode 100644
index 0000000..e69de29

New, not known to git: notes.md"""


@table("columns", [44, 80, 100])
async def test_a_diff_is_shown_file_by_file(columns: int) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        await person.types("/diff git\r", then="/diff git")
        scene.tell(e.ContextAdded(source="diff", content=(TextBlock(text=DIFF),)))
        await person.sees("with your next message")
        await settled(person)
        assert commands(scene, RunSlash) == [RunSlash(session=SESSION, name="diff")]
        await person.shows("diff", columns)


@table(
    ("covered", "words"),
    [
        (
            {"SendInput", "AnswerPermission", "CancelTurn", "ShellRequest"},
            "Type what you want.  / commands   @ files   ! shell   Ctrl-C stops, twice leaves",
        ),
        (
            {"SendInput", "CancelTurn"},
            "Type what you want.  / commands   @ files   Ctrl-C stops, twice leaves",
        ),
        (
            {"AnswerPermission"},
            "You can answer what is asked here, and nothing else is sent.  / commands   Ctrl-C twice leaves",
        ),
        (set(), "You can look on here, and nothing else is sent.  / commands   Ctrl-C twice leaves"),
    ],
)
def test_a_terminal_greets_with_what_its_token_lets_it_do(covered: set[str], words: str) -> None:
    assert start_hint(covered.__contains__) == words
