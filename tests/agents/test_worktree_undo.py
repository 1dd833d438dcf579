"""Undo in worktrees of agents: there alone, here alone, after a resume, after a merge, after a crash."""

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import of_kind
from bridle.engine.undo_records import Item
from bridle.protocol import events as e
from bridle.providers.script import call, say
from git_kit import Repository
from worktree_kit import (
    CHANGES,
    GO,
    branches,
    left_by_writer,
    name_of,
    sending,
    session_of,
    slash,
    take_back,
)


async def test_what_an_agent_did_in_its_worktree_is_taken_back_there_and_brought_again(
    repo: Repository,
) -> None:
    committed = (repo.folder / "cart.py").read_text()
    model = scripted(
        call("write_file", path="here.txt", content="by the session\n"),
        *sending("writer"),
        agents=CHANGES,
    )
    async with session_of(repo, model) as session:
        name = await left_by_writer(session)
        place = repo.folder.parent / "bridle/worktrees" / name
        (repo.folder / "cart.py").write_text("by the person\n")
        undone = await take_back(session, "worktrees", f"undo {name}")
        assert (place / "cart.py").read_text() == committed
        assert not (place / "deep").exists()
        assert repo.git("diff", "--stat", "main", f"bridle/{name}") == ""
        again = await take_back(session, "worktrees", f"undo {name}")
        redone = await take_back(session, "worktrees", f"redo {name}")
        assert repo.git("show", f"bridle/{name}:deep/made.txt") == "made\n"
    assert isinstance(undone, e.UndoApplied)
    assert undone.worktree == name
    assert undone.paths == tuple(f"bridle/{name}:{path}" for path in ("cart.py", "deep", "deep/made.txt"))
    assert isinstance(again, e.Notice)
    assert again.message == f"There is nothing to undo in {name}."
    assert isinstance(redone, e.UndoApplied)
    assert (redone.redone, redone.worktree) == (True, name)
    assert (repo.folder / "cart.py").read_text() == "by the person\n"
    assert (repo.folder / "here.txt").read_text() == "by the session\n"


async def test_undo_here_leaves_a_worktree_alone_and_undo_there_leaves_this_folder(repo: Repository) -> None:
    model = scripted(
        call("write_file", path="here.txt", content="by the session\n"),
        *sending("writer"),
        call("bash", command="echo more > more.txt"),
        say("Done."),
        agents=CHANGES,
    )
    async with session_of(repo, model) as session:
        await session.ask("go")
        events = await session.ask("and more")
        name = next(one for one in branches(repo) if one != "main").removeprefix("bridle/")
        place = repo.folder.parent / "bridle/worktrees" / name
        undone = await take_back(session, "undo", "session")
        assert not (repo.folder / "here.txt").exists()
        nothing = await take_back(session, "undo", "")
        assert (place / "deep/made.txt").exists()
    assert events[-1].stop == "end_turn"
    assert isinstance(undone, e.UndoApplied)
    assert (undone.paths, undone.left, undone.worktree) == (("here.txt", "more.txt"), (), "")
    assert isinstance(nothing, e.Notice)
    assert repo.git("show", f"bridle/{name}:deep/made.txt") == "made\n"


async def test_after_a_resume_one_call_in_a_worktree_is_taken_back_and_not_from_another_session(
    repo: Repository,
) -> None:
    async with session_of(repo, scripted(*sending("writer"), agents=CHANGES)) as session:
        events = await session.ask("go")
        name, earlier = name_of(events), session.id
        written = next(one for one in of_kind(events, e.ToolCallStarted) if one.tool == "write_file")
    async with session_of(repo, scripted(say("Nothing."))) as session:
        elsewhere = await take_back(session, "worktrees", f"undo {name}")
    async with session_of(repo, scripted(say("Nothing.")), resume=earlier) as session:
        undone = await take_back(session, "worktrees", f"undo {name} {written.call_id}")
    assert isinstance(elsewhere, e.GitEnded)
    assert elsewhere.reason == "NothingInWorktree"
    assert isinstance(undone, e.UndoApplied)
    assert undone.paths == (f"bridle/{name}:cart.py",)
    assert repo.git("diff", "--name-only", "main", f"bridle/{name}") == "deep/made.txt\n"


async def test_undo_takes_back_what_a_merge_brought(repo: Repository) -> None:
    committed = (repo.folder / "cart.py").read_text()
    async with session_of(repo, scripted(*sending("writer"), agents=CHANGES)) as session:
        name = await left_by_writer(session)
        await slash(session, f"merge {name}", answers=[GO])
        assert (repo.folder / "deep/made.txt").exists()
        undone = await take_back(session, "undo", "")
        again = await slash(session, f"merge {name}")
        repo.git("reset", "-q", "--", ".")
        await slash(session, f"merge {name}", answers=[GO])
    assert isinstance(undone, e.UndoApplied)
    assert (undone.paths, undone.worktree) == (("cart.py", "deep", "deep/made.txt"), "")
    assert again.reason == "WorktreeOverlaps"
    assert (repo.folder / "cart.py").read_text() != committed


async def test_an_undo_in_a_worktree_that_was_cut_off_is_said_with_how_to_finish_it(repo: Repository) -> None:
    async with session_of(repo, scripted(*sending("writer"), agents=CHANGES)) as session:
        name = await left_by_writer(session)
        store = session.engine.live.session(session.id)._ports.log.undo_store()
        rows = [row for row in await store.calls() if row.kept.changes]
        items = [Item(one.path, one.after, one.before) for row in rows for one in row.kept.changes]
        calls = [row.call_id for row in rows]
        await store.begin_action(items, calls=calls, turn=None, redo_of=None, started_ms=1)
        earlier = session.id
    async with session_of(repo, scripted(say("Nothing.")), resume=earlier) as session:
        notices = of_kind([one.event for one in await session.stored()], e.Notice)
        finished = await take_back(session, "worktrees", f"undo {name}")
    (told,) = [one.message for one in notices if one.reason == "UndoInterrupted"]
    assert "0 of 3 files are done" in told
    assert f"bridle/{name}:cart.py" in told
    assert told.endswith(f"/worktrees undo {name} finishes it.")
    assert isinstance(finished, e.UndoApplied)
    assert repo.git("diff", "--stat", "main", f"bridle/{name}") == ""
