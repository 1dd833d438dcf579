"""Sessions whose agents write in git worktrees of their own, for tests, and `/worktrees` given by a person."""

from __future__ import annotations

from collections.abc import Sequence

from bridle.agents.definition import AgentDefinition, AgentDelegation
from bridle.conformance.harness import HarnessSession, harness, of_kind
from bridle.protocol import events as e
from bridle.protocol.commands import AnswerQuestion, RunSlash
from bridle.protocol.questions import GitAnswer, GitQuestion, UndoAnswer, UndoQuestion
from bridle.providers.script import call, say
from git_kit import Repository

APART = AgentDelegation(invocation="allow", worktree=True)
WRITER = AgentDefinition(name="writer", description="Writes.", mode="subagent", delegation=APART)
OTHER = AgentDefinition(name="other", description="Writes too.", mode="subagent", delegation=APART)
GO = GitAnswer(choice="go")
KEEP = GitAnswer(choice="keep")


def sending(*agents: str, then: str = "Done."):
    """A step that sends these agents at once, then an answer."""
    return (tuple(call("delegate_agent", agent=agent, task="Do it.") for agent in agents), say(then))


def session_of(repo: Repository, model, **options):
    given = {"mode": "yolo", "agents": [WRITER, OTHER], "agent_mode": "multi", "answers": True, **options}
    return harness(model, folder=str(repo.folder), home=str(repo.folder.parent / "bridle"), **given)


async def slash(session: HarnessSession, words: str = "", *, answers: Sequence[GitAnswer] = ()) -> e.GitEnded:
    """Gives `/worktrees words`, answers what it asks, and returns what came of it."""
    before, left = session.conversation.last_id, list(answers)
    await session.connection.send(RunSlash(session=session.id, name="worktrees", arguments=words))
    async for envelope in session.connection.events(session.id, since=before):
        match envelope.event:
            case e.QuestionAsked(question_id=number, question=GitQuestion()):
                answer = AnswerQuestion(session=session.id, question_id=number, answer=left.pop(0))
                await session.connection.send(answer)
            case e.GitEnded() as ended:
                assert not left
                return ended
            case _:
                pass
    raise AssertionError("the session ended")


def branches(repo: Repository) -> list[str]:
    return repo.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def name_of(events) -> str:
    return of_kind(events, e.ChildEnded)[0].branch.removeprefix("bridle/")


async def left_by_writer(session: HarnessSession) -> str:
    return name_of(await session.ask("go"))


async def take_back(session: HarnessSession, name: str, words: str) -> e.UndoApplied | e.Notice | e.GitEnded:
    """Gives `/NAME words`, says yes to what it asks, and returns what came of it."""
    before = session.conversation.last_id
    await session.connection.send(RunSlash(session=session.id, name=name, arguments=words))
    async for envelope in session.connection.events(session.id, since=before):
        match envelope.event:
            case e.QuestionAsked(question_id=number, question=UndoQuestion()):
                answer = UndoAnswer(choice="go")
                await session.connection.send(
                    AnswerQuestion(session=session.id, question_id=number, answer=answer)
                )
            case e.UndoApplied() | e.GitEnded() as ended:
                return ended
            case e.Notice(reason="NothingToUndo" | "NothingToRedo" | "NotUndone") as notice:
                return notice
            case _:
                pass
    raise AssertionError("the session ended")


WRITES = {"writer": [call("write_file", path="new.txt", content="new\n"), say("Wrote it.")]}


CHANGES = {
    "writer": [
        call("read_file", path="cart.py"),
        call("write_file", path="cart.py", content="changed by the agent\n"),
        call("bash", command="mkdir -p deep && echo made > deep/made.txt"),
        say("Did it."),
    ]
}
