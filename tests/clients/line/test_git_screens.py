"""`/commit` at a real pseudo-terminal: what a person reads from the command to the commit, and their editor between."""

import msgspec
import pytest

from bridle.clients.interaction.session.controller import MARK
from bridle.protocol import events as e
from bridle.protocol.commands import AnswerQuestion, CancelTurn, CreateSession, RunSlash, SendInput
from bridle.protocol.errors import UsageError
from bridle.protocol.questions import GitAnswer, GitFile, GitHook, GitQuestion
from clients.line.line_kit import SESSION, Person, Scene, at_terminal, commands
from tables import table

CREATE = CreateSession(cwd="/work", model="work:some-model")
PAST = (e.SessionCreated(log="log_1", cwd="/work"), e.ModelChanged(provider="work", model="some-model"))
COMMIT = ("git", "commit", "--all", "--cleanup=whitespace", "--file=-")
SHOWN = " ".join(COMMIT)
DRAFTING = e.Notice(reason="GitDrafting", message="Drafting a message from the diff…")
RUNNING = e.Notice(reason="GitRunning", message=f"Running {SHOWN}", data={"command": SHOWN})
ASKED = GitQuestion(
    deed="commit",
    cwd="/home/me/code/shop",
    commands=(COMMIT,),
    branch="fix-total",
    message="fix(cart): count what is bought twice\n\nThe total added each price once, however often it was bought.",
    files=(GitFile(path="cart.py", did="changed"), GitFile(path="test_cart.py", did="added")),
    new_files=("notes.txt",),
    hooks=(GitHook(path=".git/hooks/pre-commit"),),
)
MINE = "fix(cart): my own words"
ENDED = e.GitEnded(
    name="commit",
    runs=(e.GitRun(argv=COMMIT, exit_code=0),),
    data={"commit": "4f2c1aa02", "subject": MINE, "branch": "fix-total"},
)


def asked(number: int, question: GitQuestion = ASKED) -> e.QuestionAsked:
    return e.QuestionAsked(question_id=f"git_{number}", question=question)


def answered(number: int, answer: GitAnswer) -> e.QuestionAnswered:
    return e.QuestionAnswered(question_id=f"git_{number}", answer=answer, answered_by="cli_me")


async def writes_mine(_text: str) -> str | None:
    return f"{MINE}\n"


async def fails(_text: str) -> str | None:
    raise UsageError("The editor ended with code 1. The draft is as it was")


async def decides(person: Person, scene: Scene, key: str) -> AnswerQuestion:
    """Answers the question in front, and gives what was sent for it."""
    before = len(commands(scene, AnswerQuestion))
    await person.types(key, then=f"{MARK}{key}")
    person.type("\r")
    await person.waits(lambda: len(commands(scene, AnswerQuestion)) > before, "the answer")
    sent = commands(scene, AnswerQuestion)[-1]
    assert isinstance(sent, AnswerQuestion)
    return sent


@pytest.mark.requirement("H12.2")
@table("columns", [44, 80, 100])
async def test_a_commit_from_the_command_to_its_line(columns: int) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=columns, edit=writes_mine) as (person, _):
        await person.sees("Type what you want")
        await person.types("/commit\r", then="/commit")
        await person.waits(lambda: bool(commands(scene, RunSlash)), "the command")
        scene.tell(DRAFTING)
        await person.sees("drafting")
        scene.tell(asked(1))
        await person.sees("Commit 2 files on fix-total?")
        edited = await decides(person, scene, "e")
        assert edited.answer == GitAnswer(choice="edit", text=f"{MINE}\n")
        scene.tell(answered(1, GitAnswer(choice="edit", text=MINE)))
        scene.tell(asked(2, msgspec.structs.replace(ASKED, message=MINE)))
        await person.sees(f"    {MINE}")
        assert (await decides(person, scene, "y")).answer == GitAnswer(choice="go")
        scene.tell(answered(2, GitAnswer(choice="go")), RUNNING)
        await person.sees("Running git")
        scene.tell(ENDED)
        await person.sees("commit   4f2c1aa02")
        await person.waits(lambda: "Ctrl-C stops\n" not in person.glass.text, "the status line gone")
        await person.shows("commit", columns)
    assert commands(scene, RunSlash) == [RunSlash(session=SESSION, name="commit")]


async def test_an_editor_that_fails_leaves_the_question_open() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, edit=fails) as (person, _):
        await person.sees("Type what you want")
        scene.tell(DRAFTING, asked(1))
        await person.sees("Commit 2 files on fix-total?")
        await person.types("e", then=f"{MARK}e")
        person.type("\r")
        await person.sees("The editor ended with code 1")
        await person.waits(lambda: person.glass.text.count("Commit 2 files") == 2, "the question again")
        assert (await decides(person, scene, "y")).answer == GitAnswer(choice="go")


async def test_a_yes_typed_too_early_for_a_question_is_no_message_to_the_model() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await person.types("x", then=f"{MARK}x")
        scene.tell(asked(1))
        await person.sees("Commit 2 files on fix-total?")
        await person.types(
            "\x7fy\r", then='"y" was not sent: alone it looks like an answer. A question is waiting'
        )
        assert not commands(scene, SendInput)
        assert (await decides(person, scene, "y")).answer == GitAnswer(choice="go")


async def test_ctrl_c_stops_what_drafts_and_what_runs() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(DRAFTING)
        await person.sees("drafting")
        person.type("\x03")
        await person.waits(lambda: bool(commands(scene, CancelTurn)), "the wish to stop")
        scene.tell(e.Cancelled(by="cli_me"))
        await person.sees("stopped")
        await person.waits(lambda: "drafting ·" not in person.glass.text, "the status line gone")
