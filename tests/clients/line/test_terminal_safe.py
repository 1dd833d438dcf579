"""Whatever happens in a session does nothing to the terminal it is shown on: one hostile text through every event."""

import asyncio
import re

from bridle.base.text.line_diff import DiffLine
from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.commands.work_commands import transcript
from bridle.clients.interaction.render.start_info import StartInfo, StartLine
from bridle.clients.line.terminal import Look
from bridle.protocol import events as e
from bridle.protocol.commands import CreateSession
from bridle.protocol.display_values import ShownCommand
from bridle.protocol.errors import CommandRefused
from bridle.protocol.messages import TextBlock
from bridle.protocol.questions import (
    AnyQuestion,
    BudgetQuestion,
    ConflictQuestion,
    GitFile,
    GitHook,
    GitQuestion,
    LaunchShown,
    OpenQuestion,
    OrphanQuestion,
    PlanQuestion,
    TrustQuestion,
    UndoConflict,
    UndoFile,
    UndoMissed,
    UndoPreview,
    UndoQuestion,
)
from clients.line.line_kit import COLOURLESS, DUMB, READER, Person, Scene, at_terminal
from hostile_text import HOSTILE, ONE_LINE, check_none_obeyed, check_safe
from tables import table

WIDE = 4000
"""So wide that no line is broken, and every piece of the text would stand there in one piece."""
LOOKS = {
    "colours": Look(codes=True, colour=True, moves=True),
    "codes": COLOURLESS,
    "dumb": DUMB,
    "reader": READER,
}
OWN_CODES = re.compile(r"\x1b\[(?:\?2004[hl]|[0-9;]*[ACKm])|[\r\x07\x08]")
PAST = (
    e.SessionCreated(log="log_1", cwd="/work"),
    e.ModelChanged(provider="work", model="some-model"),
)
CREATE = CreateSession(cwd="/work", model="work:some-model")
MARKDOWN = "\n".join(
    f"{before}{HOSTILE}{after}"
    for before, after in (
        ("# ", ""),
        ("**", "**"),
        ("`", "`"),
        ("- ", ""),
        ("> ", ""),
        ("[", "](http://host.invalid)"),
        ("[words](http://host.invalid/", ")"),
        ("![", "](http://host.invalid/a.png)"),
        ("| ", " | b |"),
        ("```", "\ncode\n```"),
        ("```\n", "\n```"),
    )
)
DIFF = f"diff --git a/a b/a\n+++ b/{HOSTILE}\n@@ -1 +1 @@\n+{HOSTILE}"
BASH = {"command": f"ls {HOSTILE}", "cwd": HOSTILE}


def step(*texts: str) -> tuple[e.AnyEvent, ...]:
    return (
        e.StepStarted(step=1, provider="work", model="some-model"),
        *(e.TextDelta(text=text) for text in texts),
        e.StepEnded(step=1, stop="end_turn", text_sha256=""),
    )


def asks(tool: str, given: dict[str, object]) -> tuple[e.AnyEvent, ...]:
    part = e.CommandPart(text=HOSTILE, command_class="shell", does=HOSTILE)
    offers = (e.Offer(answer="pattern", tool=tool, pattern=HOSTILE), e.Offer(answer="tool", tool=HOSTILE))
    asked = e.PermissionRequested(
        call_id="call_1",
        tool=tool,
        input=given,
        risk="shell",
        why=HOSTILE,
        because=HOSTILE,
        subjects=(HOSTILE,),
        parts=(part,),
        offers=offers,
    )
    return (e.ToolCallRequested(call_id="call_1", tool=tool, input=given, step=1), asked)


def asks_about(question: AnyQuestion) -> tuple[e.AnyEvent, ...]:
    return (e.QuestionAsked(question_id="q", question=question),)


def ran(tool: str, outcome: e.Outcome, *, step: int = 1, **more: object) -> tuple[e.AnyEvent, ...]:
    given = {"command": HOSTILE, "path": HOSTILE}
    return (
        e.ToolCallRequested(call_id="call_1", tool=tool, input=given, step=step),
        e.ToolCallStarted(call_id="call_1", tool=tool, input=given, input_sha256="", mutating=False),
        e.ToolCallProgress(call_id="call_1", text=HOSTILE),
        e.ToolResult(call_id="call_1", tool=tool, outcome=outcome, content=HOSTILE, **more),  # pyright: ignore
    )


EVENTS: dict[str, tuple[e.AnyEvent, ...]] = {
    "an answer": step(MARKDOWN),
    "an answer in small pieces": step(*(HOSTILE[at : at + 5] for at in range(0, len(HOSTILE), 5))),
    "thinking": (e.ThinkingDelta(text=HOSTILE), *step(HOSTILE)),
    "a command of the person": ran("bash", "ok", step=0),
    "a command": ran("bash", "ok", shown=ShownCommand(exit_code=0)),
    "a failed command": ran("bash", "error"),
    "a call that was blocked": ran(
        "edit_file", "blocked", reason="HookBlocked", evidence=e.Evidence(source="hook", rule=HOSTILE, matched=HOSTILE)
    ),
    "a call of an unknown tool": ran(HOSTILE, "error", reason="UnknownTool"),
    "a question about a command": asks("bash", BASH),
    "a question about a file": asks("write_file", {"path": HOSTILE, "content": HOSTILE, "more": HOSTILE}),
    "a question about a change": asks(
        "edit_file", {"path": HOSTILE, "old_string": HOSTILE, "new_string": f"{HOSTILE}\n{HOSTILE}"}
    ),
    "a question about a patch": asks("apply_patch", {"patch": f"*** Add File: {HOSTILE}\n+{HOSTILE}"}),
    "a question about another tool": asks(HOSTILE, {HOSTILE: {"a": [HOSTILE]}}),
    "a question of the model": asks_about(OpenQuestion(text=HOSTILE, choices=(HOSTILE, "b"))),
    "a plan": asks_about(PlanQuestion(plan=HOSTILE)),
    "a question of trust": asks_about(
        TrustQuestion(
            kind="instructions",
            path=HOSTILE,
            sha256="",
            asked_ms=0,
            lines=(DiffLine(" ", 1, HOSTILE),),
            owner=HOSTILE,
            changed_ms=0,
            wishes=(HOSTILE,),
        )
    ),
    "a question about a program": asks_about(
        TrustQuestion(
            kind="mcp_server",
            path=HOSTILE,
            sha256="",
            asked_ms=0,
            when="Bridle starts",
            launch=LaunchShown(
                argv=(HOSTILE, HOSTILE),
                env=((HOSTILE, HOSTILE),),
                cwd=HOSTILE,
                program=HOSTILE,
                files=(HOSTILE,),
                fetched=HOSTILE,
                command=HOSTILE,
            ),
        )
    ),
    "a question about money": asks_about(
        BudgetQuestion(
            reason="BudgetExceeded", model=HOSTILE, cap_usd=1, spent_usd=1, raise_to_usd=2, cheaper=HOSTILE
        )
    ),
    "an undo": asks_about(
        UndoQuestion(
            preview=UndoPreview(
                title=HOSTILE,
                files=(UndoFile(path=HOSTILE, did="changed", becomes="goes back"),),
                done=(HOSTILE,),
                missed=(UndoMissed(why="network", names=(HOSTILE,)),),
            )
        )
    ),
    "a conflict": asks_about(ConflictQuestion(conflict=UndoConflict(path=HOSTILE, since="turn"))),
    "a commit": asks_about(
        GitQuestion(
            deed="commit",
            cwd=HOSTILE,
            commands=((HOSTILE, HOSTILE),),
            branch=HOSTILE,
            message=HOSTILE,
            no_draft=HOSTILE,
            files=(GitFile(path=HOSTILE, did="changed"),),
            new_files=(HOSTILE,),
            hooks=(GitHook(path=HOSTILE),),
        )
    ),
    "what came of a commit": (
        e.Notice(reason="GitRunning", message=HOSTILE, data={"command": HOSTILE}),
        e.GitEnded(
            name="commit-push-pr",
            data=dict.fromkeys(("commit", "subject", "branch", "pull_request"), HOSTILE),
        ),
    ),
    "a commit that failed": (
        e.GitEnded(
            name="commit",
            runs=(e.GitRun(argv=(HOSTILE,), exit_code=1, output=HOSTILE),),
            reason="GitFailed",
            message=HOSTILE,
            data={"draft": HOSTILE},
        ),
    ),
    "a call nobody saw end": asks_about(
        OrphanQuestion(
            tool=HOSTILE,
            input={HOSTILE: HOSTILE},
            started_ms=0,
            stopped_ms=0,
            now=(HOSTILE,),
            not_undoable=HOSTILE,
        )
    ),
    "a denial": (
        *asks("bash", BASH),
        e.PermissionDecided(
            call_id="call_1",
            tool="bash",
            verdict="deny",
            decided_by="rule",
            rule=HOSTILE,
            origin=HOSTILE,
            reason="RuleDenied",
            note=HOSTILE,
        ),
        e.ToolResult(call_id="call_1", tool="bash", outcome="denied", content=HOSTILE, reason="RuleDenied"),
    ),
    "a grant": (e.GrantAdded(grant_id="g", tool=HOSTILE, pattern=HOSTILE, life="session"),),
    "a notice": (e.Notice(reason="x", message=HOSTILE),),
    "a warning": (e.Degraded(what="x", reason="x", message=HOSTILE),),
    "an error": (e.Error(reason="x", message=HOSTILE),),
    "a failed attempt": (
        e.StepStarted(step=1, provider=HOSTILE, model=HOSTILE),
        e.StepFailed(step=1, attempt=1, attempts=3, reason="RateLimited", message=HOSTILE, retry_in_ms=10),
    ),
    "the end of a turn": (e.TurnEnded(stop="error", reason="x", message=HOSTILE, steps=1),),
    "a hook that hangs": (e.HookTimeout(event="PreToolUse", command=HOSTILE, timeout_ms=1),),
    "a hook that fails": (e.HookError(event=HOSTILE, command=HOSTILE, exit_code=1, message=HOSTILE),),
    "a server that is gone": (e.MCPServerDown(name=HOSTILE, reason=HOSTILE, attempts=1),),
    "a command in the background": (e.BackgroundStarted(call_id="c", command=HOSTILE),),
    "a model": (e.ModelChanged(provider=HOSTILE, model=HOSTILE),),
    "a diff": (e.ContextAdded(source="diff", content=(TextBlock(text=DIFF),)),),
    "somebody else's words": (e.InputAccepted(content=(TextBlock(text=HOSTILE),)),),
}  # fmt: skip


async def everything_seen(person: Person, scene: Scene) -> str:
    """The raw output, once everything told so far is on the screen."""
    scene.tell(e.Notice(reason="x", message="That was all."))
    await person.sees("That was all.")
    return person.bytes.decode()


def check(output: str) -> None:
    check_none_obeyed(output)
    check_safe(OWN_CODES.sub("", output))


@table("look", LOOKS.values())
@table("events", EVENTS.values())
async def test_no_event_does_anything_to_the_terminal(events: tuple[e.AnyEvent, ...], look: Look) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=WIDE, look=look) as (person, _):
        await person.sees("Type what you want")
        scene.tell(e.TurnStarted(input=1))
        for event in events:
            scene.tell(event, originator="cli_other")
            await asyncio.sleep(0)  # the terminal takes in what was written so far
        check(await everything_seen(person, scene))


@table("typed", ["/queue", "/jobs", "/permissions", "/status", "/model", "/context", "/nothing"])
async def test_no_command_does_anything_to_the_terminal(typed: str) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=WIDE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(
            e.ModelChanged(provider=HOSTILE, model=HOSTILE),
            e.GrantAdded(grant_id="g", tool=HOSTILE, pattern=HOSTILE, life="session"),
            e.BackgroundStarted(call_id="c", command=HOSTILE),
            e.Degraded(what="x", reason="x", message=HOSTILE),
        )
        scene.refuse = CommandRefused("UnknownSlash", name=HOSTILE)
        await person.types(f"{typed}\r", then=typed)
        check(await everything_seen(person, scene))


async def test_the_first_lines_and_earlier_prompts_do_nothing_to_the_terminal() -> None:
    scene = Scene(
        *PAST, e.InputAccepted(content=(TextBlock(text=HOSTILE),)), e.TurnStarted(input=3), *step(HOSTILE)
    )
    scene.cwd = HOSTILE
    start = StartInfo(branch=HOSTILE, model_from=HOSTILE, lines=(StartLine("rules", HOSTILE, HOSTILE),))
    history = (HOSTILE, ONE_LINE)
    async with at_terminal(scene, CREATE, columns=WIDE, start=start, history=history) as (person, _):
        await person.sees("Type what you want")
        await person.types("\x1b[A", then="hyphen")
        await person.types("\x12", then="hyphen")
        check(await everything_seen(person, scene))


def test_an_exported_conversation_holds_nothing_that_is_obeyed() -> None:
    told = [
        e.Envelope(id=n, kind=type(one).__name__, session="s", originator="c", ts_ms=0, event=one)
        for n, one in enumerate(one for events in EVENTS.values() for one in events)
    ]
    text = transcript(HOSTILE, told)
    assert visible(text) == text
    check_safe(text)
