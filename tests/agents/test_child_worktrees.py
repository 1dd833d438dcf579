"""Agents that write in git worktrees of their own, and what a person makes of it: `/worktrees`."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bridle.clients.interaction.render.call_text import did_not_run
from bridle.clients.interaction.render.progress_text import ended_line
from bridle.clients.interaction.view import SessionView
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import of_kind
from bridle.protocol import events as e
from bridle.protocol.commands import AnswerPermission, CancelTurn, RunSlash
from bridle.providers.script import call, say
from git_kit import Repository
from git_traps import LEAVES_MARKER
from worktree_kit import (
    GO,
    KEEP,
    WRITES,
    branches,
    left_by_writer,
    name_of,
    sending,
    session_of,
    slash,
    take_back,
)


@pytest.mark.requirement("X19")
async def test_two_agents_write_at_once_each_in_a_worktree_of_its_own(repo: Repository) -> None:
    model = scripted(
        *sending("writer", "other"),
        agents={
            "writer": [call("write_file", path="a.txt", content="mine\n"), say("Wrote it.")],
            "other": [call("write_file", path="a.txt", content="other\n"), say("Wrote it too.")],
        },
    )
    before = repo.told()
    async with session_of(repo, model) as session:
        events = await session.ask("go")
    started, ended = of_kind(events, e.ChildStarted), of_kind(events, e.ChildEnded)
    kinds = [type(event) for event in events if isinstance(event, e.ChildStarted | e.ChildEnded)]
    assert kinds[:2] == [e.ChildStarted, e.ChildStarted]
    assert [one.changed for one in ended] == [("a.txt",), ("a.txt",)]
    assert {one.branch for one in started} == {one.branch for one in ended} == set(branches(repo)) - {"main"}
    said = {one.agent: repo.git("show", f"{one.branch}:a.txt") for one in ended}
    assert said == {"writer": "mine\n", "other": "other\n"}
    assert not (repo.folder / "a.txt").exists()
    assert repo.told()[0] == before[0]
    results = [one for one in of_kind(events, e.ToolResult) if one.tool == "delegate_agent"]
    assert all("left on branch bridle/" in one.content and "/worktrees" in one.content for one in results)
    author = repo.git("log", "-1", "--format=%an %s", ended[0].branch)
    assert author.startswith("Bridle agent ")


async def test_an_agent_that_changed_nothing_leaves_no_worktree_and_no_branch(repo: Repository) -> None:
    model = scripted(
        *sending("writer"), agents={"writer": [call("read_file", path="cart.py"), say("Read it.")]}
    )
    async with session_of(repo, model) as session:
        events = await session.ask("go")
        told = (await slash(session)).data["told"]
    (started,), (ended,) = of_kind(events, e.ChildStarted), of_kind(events, e.ChildEnded)
    assert started.worktree
    assert not os.path.exists(started.worktree)
    assert (ended.ok, ended.branch, branches(repo)) == (True, "", ["main"])
    assert told == "No agent has left a worktree here."
    assert repo.git("worktree", "list").count("\n") == 1


async def test_a_person_sees_what_was_left_and_brings_it_into_the_working_tree(repo: Repository) -> None:
    (repo.folder / "mine.txt").write_text("not committed\n")
    async with session_of(repo, scripted(*sending("writer"), agents=WRITES)) as session:
        name = await left_by_writer(session)
        listed = (await slash(session)).data["told"]
        shown = (await slash(session, f"show {name}")).data["told"]
        refused = await slash(session, f"merge {name}", answers=[KEEP])
        assert not (repo.folder / "new.txt").exists()
        merged = await slash(session, f"merge bridle/{name}", answers=[GO])
    assert f"{name}   1 file +1 -0   agent writer: Do it." in listed
    assert "+new" in shown
    assert refused.reason == "NotDone"
    assert (merged.reason, merged.data["merged"]) == (None, name)
    assert (repo.folder / "new.txt").read_text() == "new\n"
    assert repo.git("status", "--porcelain") == "A  new.txt\n?? mine.txt\n"
    assert f"bridle/{name}" in branches(repo)


EDITS = {
    "writer": [
        call("read_file", path="cart.py"),
        call("write_file", path="cart.py", content="changed by the agent\n"),
        call("write_file", path="new.txt", content="new\n"),
        say("Wrote it."),
    ]
}


async def test_a_conflict_changes_nothing_and_names_the_files(repo: Repository) -> None:
    async with session_of(repo, scripted(*sending("writer"), agents=EDITS)) as session:
        name = await left_by_writer(session)
        (repo.folder / "cart.py").write_text("changed by the person\n")
        dirty = await slash(session, f"merge {name}")
        repo.git("commit", "-q", "-a", "-m", "the person's")
        before = repo.told()
        torn = await slash(session, f"merge {name}", answers=[GO])
    assert (dirty.reason, dirty.data["files"]) == ("WorktreeOverlaps", "cart.py")
    assert (torn.reason, torn.data["files"]) == ("WorktreeConflict", "cart.py")
    assert repo.told() == before
    assert (repo.folder / "cart.py").read_text() == "changed by the person\n"
    assert not (repo.folder / "new.txt").exists()
    assert repo.git("show", f"bridle/{name}:cart.py") == "changed by the agent\n"


async def test_a_person_drops_what_was_left(repo: Repository) -> None:
    async with session_of(repo, scripted(*sending("writer"), agents=WRITES)) as session:
        name = await left_by_writer(session)
        kept = await slash(session, f"drop {name}", answers=[KEEP])
        assert f"bridle/{name}" in branches(repo)
        dropped = await slash(session, f"drop {name}", answers=[GO])
        gone = await slash(session, f"drop {name}")
    assert (kept.reason, dropped.reason, gone.reason) == ("NotDone", None, "NoSuchWorktree")
    assert branches(repo) == ["main"]
    assert os.listdir(repo.folder.parent / "bridle/worktrees") == [".lock"]


async def test_what_a_stopped_agent_wrote_is_left_on_its_branch(repo: Repository) -> None:
    writing = [call("write_file", path="half.txt", content="half\n"), call("bash", command="sleep 60")]
    async with session_of(repo, scripted(*sending("writer"), agents={"writer": writing})) as session:
        before = session.conversation.last_id
        await session.send("go")
        async for envelope in session.connection.events(session.id, since=before):
            match envelope.event:
                case e.ToolCallStarted(tool="bash"):
                    await session.connection.send(CancelTurn(session=session.id))
                case e.ChildEnded() as ended:
                    break
                case _:
                    pass
    assert (ended.ok, ended.changed) == (False, ("half.txt",))
    assert repo.git("show", f"{ended.branch}:half.txt") == "half\n"


async def test_a_worktree_that_was_never_checked_out_is_no_deletion_of_everything(repo: Repository) -> None:
    """As after kill -9 while it was made."""
    place = repo.folder.parent / "bridle/worktrees/writer-x"
    repo.git("worktree", "add", "-q", "--no-checkout", "--lock", "-b", "bridle/writer-x", str(place))
    async with session_of(repo, scripted(say("Nothing."))) as session:
        listed = (await slash(session)).data["told"]
        merged = await slash(session, "merge writer-x")
        await slash(session, "drop writer-x", answers=[GO])
    assert "writer-x   0 files +0 -0" in listed
    assert merged.reason == "WorktreeEmpty"
    assert branches(repo) == ["main"]


async def test_what_is_not_on_its_branch_is_neither_committed_nor_removed(repo: Repository) -> None:
    async with session_of(repo, scripted(*sending("writer"), agents=WRITES)) as session:
        name = await left_by_writer(session)
        place = repo.folder.parent / "bridle/worktrees" / name
        repo.git("checkout", "-q", "--detach", cwd=place)
        (place / "more.txt").write_text("more\n")
        listed = (await slash(session)).data["told"]
        merged = await slash(session, f"merge {name}")
    assert "its branch is not the one that is checked out there" in listed
    assert merged.reason == "GitUnusable"
    assert (place / "more.txt").read_text() == "more\n"


async def test_a_yes_to_an_agent_in_its_worktree_is_the_sessions(repo: Repository) -> None:
    agents = {
        "writer": [call("write_file", path="a.txt", content="a\n"), say("Wrote it.")],
        "other": [call("write_file", path="b.txt", content="b\n"), say("Wrote it too.")],
    }
    model = scripted(
        call("delegate_agent", agent="writer", task="Do it."),
        call("delegate_agent", agent="other", task="Do it."),
        call("write_file", path="c.txt", content="c\n"),
        say("Done."),
        agents=agents,
    )
    asked: list[tuple[str, ...]] = []
    async with session_of(repo, model, mode="default") as session:
        number = await session.send("go")
        async for envelope in session.connection.events(session.id, since=number):
            if isinstance(envelope.event, e.PermissionRequested):
                asked.append(envelope.agent_path)
                answer = AnswerPermission(session=session.id, call_id=envelope.event.call_id, answer="tool")
                await session.connection.send(answer)
            if isinstance(envelope.event, e.TurnEnded) and envelope.invocation is None:
                break
    assert asked == [("writer",)]
    assert (repo.folder / "c.txt").read_text() == "c\n"


async def test_people_are_told_what_an_agent_left(repo: Repository) -> None:
    model = scripted(*sending("writer", "other"), agents={**WRITES, "other": [say("Nothing to do.")]})
    view = SessionView("cli_me")
    async with session_of(repo, model) as session:
        await session.ask("go")
        for envelope in await session.stored():
            view.take(envelope)
    told = {one.agent: ended_line(one) for one in view.children.entries.values()}
    assert view.changed == set(), "neither /diff nor /undo know of it"
    assert "left on bridle/writer-" in told["writer"]
    assert told["other"] == "agent other: 1 step, changed nothing"


async def test_a_person_sends_an_agent_into_a_worktree(repo: Repository) -> None:
    async with session_of(repo, scripted(agents=WRITES)) as session:
        before = session.conversation.last_id
        command = RunSlash(session=session.id, name="agents:writer", arguments="write it")
        await session.connection.send(command)
        said = await session.until(e.ContextAdded, since=before)
    assert "What it changed is on the branch bridle/writer-" in e.text_of(said.content)
    assert not (repo.folder / "new.txt").exists()


async def test_a_worktree_in_which_an_agent_works_is_left_alone(repo: Repository) -> None:
    async with session_of(repo, scripted(*sending("writer"), agents=WRITES)) as session:
        name = await left_by_writer(session)
        lock = f"{repo.folder.parent}/bridle/worktrees/{name}.lock"
        holder = subprocess.Popen(["flock", lock, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            holder.stdin.write(b"held\n")
            holder.stdin.flush()
            holder.stdout.readline()
            listed, dropped = (await slash(session)).data["told"], await slash(session, f"drop {name}")
        finally:
            holder.communicate()
    assert "an agent works there" in listed
    assert dropped.reason == "WorktreeInUse"


@pytest.mark.parametrize("has_commit", [False, True], ids=["no commit", "no repository"])
async def test_without_a_commit_to_begin_with_the_call_fails_before_anything_starts(
    tmp_path: Path, has_commit: bool
) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    bare = Repository(folder, tmp_path / "person")
    if not has_commit:
        bare.git("init", "-q", "-b", "main")
    async with session_of(bare, scripted(*sending("writer"))) as session:
        events = await session.ask("go")
    assert not of_kind(events, e.ChildStarted)
    (result,) = of_kind(events, e.ToolResult)
    assert (result.outcome, result.reason) == ("error", "NoWorktree")
    assert ("nothing was committed" if not has_commit else "not in a git repository") in result.content
    assert did_not_run(result, began=True)
    assert events[-1].stop == "end_turn"


async def test_without_a_repository_there_is_nothing_to_list(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    async with session_of(Repository(tmp_path / "plain", tmp_path / "person"), scripted()) as session:
        ended = await slash(session)
    assert ended.message == "This folder is not in a git repository."


@pytest.mark.parametrize("deed", ["show", "merge", "drop", "undo", "redo"])
async def test_who_names_no_worktree_is_asked_for_one(repo: Repository, deed: str) -> None:
    async with session_of(repo, scripted()) as session:
        ended = await slash(session, deed)
    assert ended.message.startswith(f"Which one? It is written /worktrees {deed} NAME")


def trapped(repo: Repository) -> Path:
    """Every program that a repository can have git run leaves a marker."""
    program, marker = repo.folder.parent / "program", repo.folder.parent / "marker"
    program.write_text(LEAVES_MARKER.format(marker=marker, code=0))
    program.chmod(0o755)
    hooks = repo.folder / ".git/hooks"
    shutil.rmtree(hooks, ignore_errors=True)
    hooks.mkdir()
    for name in (
        "post-checkout",
        "pre-commit",
        "commit-msg",
        "post-commit",
        "post-index-change",
        "reference-transaction",
    ):
        shutil.copy(program, hooks / name)
    repo.git("config", "core.fsmonitor", str(program))
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "gpg.program", str(program))
    there = repo.folder / ".git/there"
    there.write_text(f'[filter "x=y"]\n smudge = {program} through\n clean = {program} through\n')
    repo.git("config", "includeIf.onbranch:bridle/**.path", "there")
    return marker


async def test_a_hostile_repository_has_nothing_run(repo: Repository) -> None:
    (repo.folder / ".gitattributes").write_text("*.py filter=x=y\n*.txt filter=x=y\n")
    repo.git("add", ".")
    repo.git("commit", "-q", "-m", "attributes")
    marker = trapped(repo)
    async with session_of(repo, scripted(*sending("writer"), agents=WRITES)) as session:
        events = await session.ask("go")
        name = name_of(events)
        await slash(session)
        await take_back(session, "worktrees", f"undo {name}")
        await take_back(session, "worktrees", f"redo {name}")
        merged = await slash(session, f"merge {name}", answers=[GO])
        dropped = await slash(session, f"drop {name}", answers=[GO])
    (ended,) = of_kind(events, e.ChildEnded)
    assert (ended.ok, ended.changed) == (True, ("new.txt",))
    assert (merged.reason, dropped.reason) == (None, None)
    assert (repo.folder / "new.txt").read_text() == "new\n"
    assert not marker.exists()
    without_hooks, without_monitor = ("-c", "core.hooksPath=/dev/null"), ("-c", "core.fsmonitor=false")
    repo.git(*without_hooks, *without_monitor, "worktree", "add", "-q", "-b", "bridle/x", "../x")
    marker.unlink()  # the filter is alive
    repo.git(*without_monitor, "branch", "y")
    marker.unlink()  # hooks are
    repo.git(*without_hooks, "status")
    marker.unlink()  # what looks for changed files is


async def test_files_that_go_through_a_filter_refuse_the_worktree(repo: Repository) -> None:
    (repo.folder / ".gitattributes").write_text("*.py filter=big\n")
    repo.git("add", ".")
    repo.git("commit", "-q", "-m", "attributes")
    repo.git("config", "filter.big.smudge", "false")
    async with session_of(repo, scripted(*sending("writer"))) as session:
        events = await session.ask("go")
    (result,) = of_kind(events, e.ToolResult)
    assert result.reason == "NoWorktree"
    assert "hands files of this repository to a program (big)" in result.content
    assert branches(repo) == ["main"]


async def test_commands_of_the_agent_write_neither_the_main_working_tree_nor_the_repository(
    repo: Repository,
) -> None:
    tries = f"""
        echo x > {repo.folder}/cart.py
        echo x > {repo.folder}/.git/index
        git update-ref refs/heads/main HEAD~1
        git branch stolen
        git commit --allow-empty -m mine
        echo here > here.txt
        git status --short
    """
    model = scripted(
        *sending("writer"),
        agents={
            "writer": [
                call("write_file", path="tries", content=tries),
                call("bash", command="sh ./tries; true"),
                call("write_file", path=f"{repo.folder}/cart.py", content="x\n"),
                say("Tried."),
            ]
        },
    )
    before = repo.told()
    async with session_of(repo, model, answers=False) as session:
        events = await session.ask("go")
    (ended,) = of_kind(events, e.ChildEnded)
    command = next(one for one in of_kind(events, e.ToolResult) if one.tool == "bash")
    assert "?? here.txt" in command.content
    assert ended.changed == ("here.txt", "tries")
    assert repo.git("log", "--format=%an", f"main..{ended.branch}") == "Bridle\n"
    assert repo.told()[0] == before[0]
    assert set(branches(repo)) == {"main", ended.branch}
    refused = [one.reason for one in of_kind(events, e.ToolResult) if one.tool == "write_file"]
    assert refused == [None, "PathOutsideWorkspace"]
