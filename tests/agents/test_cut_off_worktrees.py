"""Worktrees of agents after Bridle was killed: nothing lost, nothing repeated, nothing left unsaid."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bridle.base.git.own_worktrees import OwnTree, cut_off, mark_of
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, of_kind
from bridle.engine.tools import Subject, Tool, ToolContext, ToolOutput
from bridle.protocol import events as e
from bridle.protocol.commands import AnswerQuestion
from bridle.protocol.questions import OrphanAnswer, OrphanQuestion
from bridle.providers.script import call, say
from git_kit import Repository
from worktree_kit import GO, WRITES, branches, left_by_writer, sending, session_of, slash

UNDO = OrphanAnswer(judgement="undo")


async def be_killed(folder: str) -> None:
    """Has an agent write, and the whole process die while it writes on."""

    async def die(_args: object, context: ToolContext) -> ToolOutput:
        Path(context.call.resolved("torn.txt")).write_text("torn")
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    class Nothing(msgspec.Struct):
        pass

    tool = Tool(
        name="die",
        description="Ends it.",
        input=Nothing,
        risk="write",
        run=die,
        side_effect="workspace",
        subjects=lambda _args: (Subject(kind="path", access="write", value="torn.txt"),),
    )
    writing = [call("write_file", path="half.txt", content="half\n"), call("die")]
    model = scripted(*sending("writer"), agents={"writer": writing})
    repo = Repository(Path(folder), Path(folder).parent / "person")
    async with session_of(repo, model, answers=False, tools=[tool]) as session:
        await session.ask("go")


async def killed(repo: Repository) -> str:
    """The name of the worktree in which an agent was killed."""
    code = f"import asyncio, test_cut_off_worktrees as t; asyncio.run(t.be_killed({str(repo.folder)!r}))"
    places = os.pathsep.join(map(str, (Path(__file__).parent, Path(__file__).parent.parent)))
    env = {"PATH": os.defpath, "HOME": str(repo.folder.parent / "person"), "PYTHONPATH": places}
    died = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], env=env, capture_output=True, text=True
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    repo.git("worktree", "prune")
    (name,) = (one.removeprefix("bridle/") for one in branches(repo) if one != "main")
    return name


async def said_at_start(session: HarnessSession) -> list[str]:
    events = [one.event for one in await session.stored()]
    return [one.data["names"] for one in of_kind(events, e.Notice) if one.reason == "WorktreeCutOff"]


async def test_what_a_killed_agent_left_is_said_listed_and_committed_by_the_next_session(
    repo: Repository,
) -> None:
    name = await killed(repo)
    assert repo.git("log", "--format=%s", "main..bridle/" + name) == ""
    async with session_of(repo, scripted(say("Nothing."))) as session:
        said = await said_at_start(session)
        listed = (await slash(session)).data["told"]
        await slash(session, f"merge {name}", answers=[GO])
    async with session_of(repo, scripted(say("Nothing."))) as session:
        later = await said_at_start(session)
    assert (said, later) == ([name], [])
    assert f"{name}   2 files +2 -0   agent writer: Do it." in listed
    assert (repo.folder / "half.txt").read_text() == "half\n"


@pytest.mark.requirement("G32.3")
async def test_a_person_judges_what_a_killed_agent_was_doing_and_has_it_undone_in_its_worktree(
    repo: Repository,
) -> None:
    name = await killed(repo)
    place = repo.folder.parent / "bridle/worktrees" / name
    assert (place / "torn.txt").exists()
    (repo.folder / "torn.txt").write_text("the person's\n")
    store = {"resume": "", "on_orphan": "ask"}
    async with session_of(repo, scripted(say("Nothing."))) as session:
        rows = session.engine.store.list(cwd=str(repo.folder.resolve()))
        store["resume"] = next(row.id for row in rows if row.id != session.id)
    async with session_of(repo, scripted(say("I am back.")), **store) as session:
        asked = await session.until(e.QuestionAsked)
        assert isinstance(asked.question, OrphanQuestion)
        await session.connection.send(
            AnswerQuestion(session=session.id, question_id=asked.question_id, answer=UNDO)
        )
        undone = await session.until(e.UndoApplied)
        ended = await session.until(e.ChildEnded)
    assert asked.question.not_undoable == ""
    assert (undone.paths, undone.worktree) == ((f"bridle/{name}:torn.txt",), name)
    assert (ended.ok, ended.branch) == (False, f"bridle/{name}")
    assert not (place / "torn.txt").exists()
    assert (place / "half.txt").read_text() == "half\n"
    assert (repo.folder / "torn.txt").read_text() == "the person's\n"


def leave_mark(repo: Repository, name: str) -> OwnTree:
    """What somebody leaves who is killed while they make, use or take away a worktree."""
    folder = (repo.folder.parent / "bridle/worktrees").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    tree = OwnTree(name, str(folder / name), "")
    lock = tree.lock()
    common = os.path.realpath(repo.folder / ".git")
    assert lock.acquire(note=mark_of(common))
    lock.release(keep_note=True)
    assert name in cut_off(str(folder), common)
    return tree


async def test_killed_before_there_was_anything_leaves_nothing_once_it_was_said(repo: Repository) -> None:
    tree = leave_mark(repo, "writer-x")
    Path(tree.patch).write_text("half a patch")
    Path(tree.path).mkdir()
    Path(tree.path, ".git").write_text("gitdir: nowhere\n")
    async with session_of(repo, scripted(say("Nothing."))) as session:
        said = await said_at_start(session)
        listed = (await slash(session)).data["told"]
    assert (said, listed) == (["writer-x"], "No agent has left a worktree here.")
    assert os.listdir(repo.folder.parent / "bridle/worktrees") == []


async def test_killed_between_the_two_steps_of_a_drop_the_branch_is_listed_and_still_of_use(
    repo: Repository,
) -> None:
    async with session_of(repo, scripted(*sending("writer"), agents=WRITES)) as session:
        name = await left_by_writer(session)
    tree = leave_mark(repo, name)
    repo.git("worktree", "remove", "--force", "--force", tree.path)
    async with session_of(repo, scripted(say("Nothing."))) as session:
        said = await said_at_start(session)
        listed = (await slash(session)).data["told"]
        await slash(session, f"merge {name}", answers=[GO])
        dropped = await slash(session, f"drop {name}", answers=[GO])
        again = (await slash(session)).data["told"]
    assert said == [name]
    assert f"{name}   1 file +1 -0, its folder is gone" in listed
    assert [run.argv[1] for run in dropped.runs] == ["branch"]
    assert (repo.folder / "new.txt").read_text() == "new\n"
    assert (branches(repo), again) == (["main"], "No agent has left a worktree here.")


async def test_a_mark_of_another_repository_is_none_of_ours(repo: Repository, tmp_path: Path) -> None:
    leave_mark(repo, "writer-x")
    folder = tmp_path / "other"
    folder.mkdir()
    other = Repository(folder, tmp_path / "person")
    other.git("init", "-q", "-b", "main")
    other.commit("a.txt")
    async with session_of(other, scripted(say("Nothing."))) as session:
        assert await said_at_start(session) == []
        await slash(session)
    assert os.listdir(repo.folder.parent / "bridle/worktrees") == ["writer-x.lock"]
