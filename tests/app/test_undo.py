"""Undo through the door of people: what a turn did to files is taken back exactly, and brought again."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bridle.base.memory_budget import LIMIT_BYTES
from bridle.clients.interaction.questions.change_forms import conflict_words, undo_headline, undo_lines
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.engine.store_ports import UndoStore
from bridle.protocol.commands import AnswerQuestion, CancelTurn, RunSlash, ShellRequest, Undo
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import (
    ContextAdded,
    Notice,
    QuestionAsked,
    ToolCallProgress,
    ToolResult,
    UndoApplied,
)
from bridle.protocol.questions import AnyQuestion, ConflictAnswer, ConflictQuestion, UndoAnswer, UndoQuestion
from bridle.providers.script import call, say
from bridle.undo.file_tree import WatchedFolders
from bridle.undo.undo_service import Undo as Undoing
from git_kit import Repository

EDITS = (
    "sed -i s/one/ONE/ src/a.txt && printf 'more\\n' >> src/b.txt && chmod 700 tool.sh && echo x > tool.sh"
    " && rm gone.bin && mkdir -p new/deep && printf 'made\\0' > new/deep/made.bin && ln -sf src/b.txt link"
    " && rm door && mkdir door && echo in > door/inside"
)


def tree(folder: str) -> dict[str, tuple[object, ...]]:
    """Everything below a folder but git's own records: kind, mode, and content or target."""
    found: dict[str, tuple[object, ...]] = {}
    for where, folders, files in os.walk(folder):
        if ".git" in folders:
            folders.remove(".git")
        for name in (*folders, *files):
            path = Path(where, name)
            status = path.lstat()
            if path.is_symlink():
                what: object = os.readlink(path)
            else:
                what = path.read_bytes() if path.is_file() else "folder"
            mode = 0 if path.is_symlink() else stat.S_IMODE(status.st_mode)
            found[str(path.relative_to(folder))] = (mode, what)
    return found


def fill(folder: Path, *, git: bool) -> None:
    (folder / "src").mkdir()
    (folder / "src/a.txt").write_text("one\ntwo\n")
    (folder / "src/b.txt").write_text("bee\n")
    (folder / "tool.sh").write_text("#!/bin/sh\n")
    (folder / "tool.sh").chmod(0o755)
    (folder / "gone.bin").write_bytes(bytes(range(256)))
    (folder / "link").symlink_to("src/a.txt")
    (folder / "door").symlink_to("src")
    if git:
        env = {"PATH": os.defpath, "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        for words in (["init", "-q"], ["add", "."]):
            subprocess.run(["git", *words], cwd=folder, env=env, check=True)


async def slash(
    session, name: str, *answers: str, arguments: str = "", meanwhile: Callable[[], object] = lambda: None
) -> list[object]:
    """Gives a command, answers its questions in order, and returns the events until it is done.

    `meanwhile` happens while a question is on the screen.
    """
    since = session.conversation.last_id
    await session.connection.send(RunSlash(session=session.id, name=name, arguments=arguments))
    return await answered(session, since, *answers, meanwhile=meanwhile)


async def answered(
    session, since: int, *answers: str, meanwhile: Callable[[], object] = lambda: None
) -> list[object]:
    left, events = list(answers), []
    async for envelope in session.connection.events(session.id, since=since):
        events.append(envelope.event)
        match envelope.event:
            case QuestionAsked(question_id=number, question=question):
                assert left, f"nobody expected: {question}"
                choice = left.pop(0)
                meanwhile()
                given = (
                    UndoAnswer(choice=choice)
                    if isinstance(question, UndoQuestion)
                    else ConflictAnswer(choice=choice)
                )
                answer = AnswerQuestion(session=session.id, question_id=number, answer=given)
                await session.connection.send(answer)
            case Notice(reason=reason) if reason != "UndoDiff":
                return events
            case UndoApplied():
                return events
            case _:
                pass
    raise AssertionError("the session ended")


def undo_store(session) -> UndoStore:
    return session.engine.live.session(session.id)._ports.log.undo_store()


def undo_of(session) -> Undoing:
    """What the commands work with."""
    folder = os.path.realpath(session.folder)
    return Undoing(
        undo_store(session),
        ground=WatchedFolders(roots=(folder,), kept_objects=f"{session.home}/kept-objects"),
        may_write=lambda _path: None,
        now_ms=lambda: 0,
    )


def questions(events: list[object]) -> list[str]:
    return [words_of(event.question) for event in events if isinstance(event, QuestionAsked)]


def words_of(question: AnyQuestion) -> str:
    """What a person reads."""
    if isinstance(question, ConflictQuestion):
        return f"{conflict_words(question.conflict)}."
    assert isinstance(question, UndoQuestion)
    return "\n".join((undo_headline(question.preview), *undo_lines(question.preview)))


def the(events: list[object], kind: type):
    (found,) = (event for event in events if isinstance(event, kind))
    return found


@pytest.mark.parametrize("git", [False, True], ids=["without git", "with git"])
async def test_a_command_that_edits_deletes_and_creates_is_undone_exactly_and_redone(
    tmp_path: Path, git: bool
):
    folder = tmp_path / "work"
    folder.mkdir()
    fill(folder, git=git)
    before = tree(str(folder))
    index = (folder / ".git/index").read_bytes() if git else b""
    async with harness(
        scripted(call("bash", command=EDITS), say("done")), folder=str(folder), mode="yolo", answers=True
    ) as session:
        events = await session.ask("speed up the cart")
        assert the(events, ToolResult).outcome == "ok"
        after = tree(str(folder))
        assert after != before

        events = await slash(session, "undo", "go")
        assert tree(str(folder)) == before
        applied = the(events, UndoApplied)
        assert (applied.turn, applied.redone, applied.left) == (1, False, ())
        assert set(applied.paths) == {
            "src/a.txt", "src/b.txt", "tool.sh", "gone.bin", "link", "new", "new/deep", "new/deep/made.bin", "door",
            "door/inside",
        }  # fmt: skip
        assert "I undid what turn 1 changed." in the(events, ContextAdded).content[0].text
        (preview,) = questions(events)
        assert preview.splitlines()[0] == 'Undo turn 1 "speed up the cart"?'
        assert [line.split() for line in preview.splitlines()[1:]] == [
            ["changed", "door", "goes", "back"],
            ["created", "door/inside", "removed"],
            ["deleted", "gone.bin", "restored"],
            ["changed", "link", "goes", "back"],
            ["created", "new/deep/made.bin", "removed"],
            ["changed", "src/a.txt", "+1", "−1", "goes", "back"],
            ["changed", "src/b.txt", "+1", "−0", "goes", "back"],
            ["changed", "tool.sh", "+1", "−1", "goes", "back"],
        ]

        events = await slash(session, "redo", "go")
        assert tree(str(folder)) == after
        assert the(events, UndoApplied).redone

        await slash(session, "undo", "go")
        assert tree(str(folder)) == before
    assert not git or (folder / ".git/index").read_bytes() == index, "git is left alone"


async def test_a_file_that_changed_since_is_a_conflict_and_stays_until_a_person_decides(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    fill(folder, git=False)
    before = tree(str(folder))
    async with harness(
        scripted(call("bash", command=EDITS), say("done")), folder=str(folder), mode="yolo", answers=True
    ) as session:
        await session.ask("change")
        (folder / "src/a.txt").write_text("mine\n")
        after = tree(str(folder))

        events = await slash(session, "undo", "go", "stop")
        preview, conflict = questions(events)
        assert "  conflict: src/a.txt changed after this turn (by you, just now)" in preview.splitlines()
        assert conflict == "src/a.txt changed after this turn (by you, just now)."
        assert tree(str(folder)) == after, "nothing at all was touched"

        events = await slash(session, "undo", "go", "skip")
        assert tree(str(folder)) == {**before, "src/a.txt": after["src/a.txt"]}
        assert the(events, UndoApplied).left == ("src/a.txt",)

        await slash(session, "redo", "go")
        assert tree(str(folder)) == after

        await slash(session, "undo", "go", "overwrite")
        assert tree(str(folder)) == before
        await slash(session, "redo", "go")
        assert tree(str(folder)) == after, "the version that was overwritten comes back too"


async def test_an_undo_that_found_every_file_changed_meanwhile_did_not_happen(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    script = scripted(call("bash", command="sed -i s/one/ONE/ a.txt"), say("done"))
    async with harness(script, folder=str(folder), mode="yolo", answers=True) as session:
        await session.ask("change")
        events = await slash(session, "undo", "go", meanwhile=lambda: (folder / "a.txt").write_text("mine\n"))
        message = "Nothing was changed: the files are no longer what was shown. Look again: /undo"
        assert events[-1] == Notice(reason="NotUndone", message=message)
        assert (folder / "a.txt").read_text() == "mine\n"

        await slash(session, "undo", "go", "overwrite")
        assert (folder / "a.txt").read_text() == "one\n", "it can still be undone"


async def test_the_diff_is_shown_before_anything_is_decided(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    fill(folder, git=False)
    async with harness(
        scripted(call("bash", command="sed -i s/one/ONE/ src/a.txt"), say("done")),
        folder=str(folder),
        mode="yolo",
        answers=True,
    ) as session:
        await session.ask("change")
        events = await slash(session, "undo", "diff", "keep")
        shown = next(event.message for event in events if isinstance(event, Notice))
        assert shown.splitlines()[-3:] == ["-ONE", "+one", " two"]
        assert events[-1] == Notice(reason="NotUndone", message="Nothing was changed.")
        assert (folder / "src/a.txt").read_text() == "ONE\ntwo\n"


async def test_turns_are_undone_one_after_the_other_and_file_tools_exactly(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    model = scripted(
        call("write_file", path="deep/er/a.txt", content="first\n"),
        say("one"),
        call("edit_file", path="deep/er/a.txt", old_string="first", new_string="second"),
        call("bash", command="echo third >> deep/er/a.txt"),
        say("two"),
    )
    async with harness(model, folder=str(folder), mode="yolo", answers=True) as session:
        await session.ask("one")
        first = tree(str(folder))
        await session.ask("two")
        second = tree(str(folder))
        assert (folder / "deep/er/a.txt").read_text() == "second\nthird\n"

        await slash(session, "undo", "go")
        assert tree(str(folder)) == first
        await slash(session, "undo", "go")
        assert tree(str(folder)) == {}, "the folders made for the file go with it"
        events = await slash(session, "undo")
        assert events[-1] == Notice(
            reason="NothingToUndo", message="There is nothing to undo in this session."
        )
        await slash(session, "redo", "go")
        assert tree(str(folder)) == first
        await slash(session, "redo", "go")
        assert tree(str(folder)) == second
        events = await slash(session, "redo")
        assert events[-1] == Notice(reason="NothingToRedo", message="There is no undo to take back.")


async def test_an_earlier_turn_conflicts_with_a_later_one(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    model = scripted(
        call("write_file", path="a.txt", content="first\n"),
        say("one"),
        call("write_file", path="a.txt", content="second\n"),
        say("two"),
    )
    async with harness(model, folder=str(folder), mode="yolo", answers=True) as session:
        await session.ask("one")
        await session.ask("two")
        events = await slash(session, "undo", "go", "stop", arguments="1")
        assert questions(events)[1] == "a.txt changed after this turn (by turn 2)."
        events = await slash(session, "undo", arguments="7")
        assert events[-1].message == "Turn 7 changed no files that undo knows of."
        await slash(session, "undo", "go", arguments="session")
        assert tree(str(folder)) == {}


async def test_a_command_a_person_typed_is_undone_by_itself(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    async with harness(scripted(say("hello")), folder=str(folder), mode="yolo", answers=True) as session:
        await session.connection.send(ShellRequest(session=session.id, command="echo hi > made.txt"))
        await session.until(ToolResult)
        while session.engine.live.session(session.id).busy:
            await asyncio.sleep(0)
        events = await slash(session, "undo", "go")
        assert questions(events)[0].splitlines()[0] == 'Undo what "echo hi > made.txt" changed?'
        assert tree(str(folder)) == {}


async def test_the_undo_command_of_the_protocol_is_the_same_and_only_for_people(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    model = scripted(call("write_file", path="a.txt", content="first\n"), say("one"))
    async with harness(model, folder=str(folder), mode="yolo", answers=True) as session:
        await session.ask("one")
        agent = session.engine.connect(name="agent", identity="agent", answers=False)
        with pytest.raises(CommandRefused, match="for people"):
            await agent.send(Undo(session=session.id))
        since = session.conversation.last_id
        await session.connection.send(Undo(session=session.id, turn=1))
        await answered(session, since, "go")
        assert tree(str(folder)) == {}
        since = session.conversation.last_id
        await session.connection.send(Undo(session=session.id, redo=True))
        await answered(session, since, "go")
        assert set(tree(str(folder))) == {"a.txt"}


async def test_nobody_there_to_agree_means_nothing_is_undone(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    model = scripted(call("write_file", path="a.txt", content="first\n"), say("one"))
    async with harness(model, folder=str(folder), mode="yolo") as session:
        await session.ask("one")
        events = await slash(session, "undo")
        assert events[-1].reason == "NotUndone"
        assert set(tree(str(folder))) == {"a.txt"}


async def test_what_cannot_be_undone_is_named(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    env = {"PATH": os.defpath, "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q"], cwd=folder, env=env, check=True)
    (folder / "big.bin").write_bytes(b"\1" * (5 << 20))
    (folder / "node_modules").mkdir()
    command = (
        "for f in b*.bin; do printf x >> $f; done; mkdir node_modules/x; echo a > a.txt; git add a.txt;"
        " git -c user.name=x -c user.email=x@example commit -q -m x; curl -s http://127.0.0.1:9/ || true"
    )
    model = scripted(call("bash", command=command), say("done"))
    async with harness(model, folder=str(folder), mode="yolo", answers=True) as session:
        await session.ask("all at once")
        events = await slash(session, "undo", "go")
        lines = questions(events)[0].splitlines()
        assert "  cannot be undone: changed big.bin (5 MB, not kept)" in lines
        assert (
            "  cannot be undone: what git recorded (.git); undo gives back only what is missing there"
            in lines
        )
        assert "  cannot be undone: not kept, tools make it again: node_modules" in lines
        assert any(line.startswith("  cannot be undone: 1 network call (curl") for line in lines)
        assert not (folder / "a.txt").exists()
        assert (folder / "big.bin").stat().st_size == (5 << 20) + 1


async def test_an_undo_that_was_cut_off_is_told_when_the_session_goes_on(tmp_path: Path):
    folder, home = tmp_path / "work", str(tmp_path / "home")
    folder.mkdir()
    model = scripted(call("bash", command="echo 1 > a.txt; echo 2 > b.txt"), say("one"))
    async with harness(model, folder=str(folder), home=home, mode="yolo", answers=True) as session:
        await session.ask("one")
        work = undo_of(session)
        await work.apply(await work.plan())  # and no event: as if Bridle had been killed now
        number = session.id
    async with harness(
        scripted(say("back")), folder=str(folder), home=home, resume=number, answers=True
    ) as session:
        notice = next(
            envelope.event
            for envelope in await session.stored()
            if isinstance(envelope.event, Notice) and envelope.event.reason == "UndoInterrupted"
        )
        assert notice.message == (
            "An undo of turn 1 was cut off when Bridle stopped: 2 of 2 files are done (a.txt, b.txt). "
            "/undo finishes it."
        )
        events = await slash(session, "undo", "go")
        assert "  done already: a.txt, b.txt" in questions(events)[0].splitlines()
        await slash(session, "redo", "go")
        assert set(tree(str(folder))) == {"a.txt", "b.txt"}


async def test_what_a_cancelled_command_changed_is_undone(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    model = scripted(call("bash", command="echo 1 > a.txt; echo ready; sleep 60"), say("never"))
    async with harness(model, folder=str(folder), mode="yolo", answers=True) as session:
        number = await session.send("go")
        await session.until(ToolCallProgress)
        await session.connection.send(CancelTurn(session=session.id))
        await session.turn_of(number)
        assert set(tree(str(folder))) == {"a.txt"}
        await slash(session, "undo", "go")
        assert tree(str(folder)) == {}


async def test_calls_that_only_read_or_never_ran_leave_no_trace(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one")
    model = scripted(
        call("bash", command="cat a.txt"),
        call("read_file", path="a.txt"),
        call("write_file", path="../outside.txt", content="x"),
        call("edit_file", path="a.txt", old_string="nothing like it", new_string="x"),
        say("done"),
    )
    async with harness(model, folder=str(folder), mode="yolo", answers=True) as session:
        await session.ask("go")
        assert await undo_store(session).calls() == []


async def test_folders_added_to_the_workspace_are_covered(tmp_path: Path):
    folder, added = tmp_path / "work", tmp_path / "added"
    for path in (folder, added):
        path.mkdir()
    (added / "a.txt").write_text("one")
    before = tree(str(added))
    model = scripted(call("bash", command=f"echo two > {added}/a.txt; echo x > {added}/b.txt"), say("done"))
    async with harness(
        model, folder=str(folder), mode="yolo", answers=True, add_dirs=(str(added),)
    ) as session:
        await session.ask("go")
        assert tree(str(added)) != before
        await slash(session, "undo", "go")
        assert tree(str(added)) == before


async def test_the_repository_of_a_linked_working_tree_is_covered_where_it_lies(tmp_path: Path):
    main = tmp_path / "main"
    main.mkdir()
    repository = Repository(main, tmp_path / "home").fill()
    repository.git("worktree", "add", "-q", str(tmp_path / "side"), "fresh")
    side = tmp_path / "side"
    before = (*repository.told(), repository.git("status", "--branch", "--porcelain", "-uno", cwd=side))
    names = " ".join(f"{main}/.git/{name}" for name in ("refs", "packed-refs", "objects/pack"))
    (side / "wipe.sh").write_text(f"rm -rf {names}\n")
    model = scripted(call("bash", command="sh wipe.sh"), say("done"))
    async with harness(model, folder=str(side), mode="yolo", answers=True) as session:
        await session.ask("go")
        assert not (main / ".git/refs").exists()
        await slash(session, "undo", "go")
    after = (*repository.told(), repository.git("status", "--branch", "--porcelain", "-uno", cwd=side))
    assert after == before


async def test_objects_that_are_kept_are_not_taken_for_files_of_bridle_s_own(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    Repository(folder, tmp_path / "home").fill()
    pack = next((folder / ".git/objects/pack").glob("*.idx"))
    model = scripted(call("bash", command="touch a"), call("read_file", path=str(pack)), say("done"))
    async with harness(model, folder=str(folder), mode="yolo", answers=True) as session:
        await session.ask("go")
        assert pack.stat().st_nlink == 2
        results = [e.event for e in await session.stored() if isinstance(e.event, ToolResult)]
        assert "Bridle" not in str(results[-1])


@pytest.mark.requirement("G42.3")
async def test_files_that_are_read_evict_the_tree_of_undo_which_still_undoes(tmp_path: Path) -> None:
    files = 40
    for number in range(files):
        (tmp_path / f"{number}.txt").write_text(f"{number}" + "x" * 999_000)
    (tmp_path / "kept.txt").write_text("one\n")
    model = scripted(
        call("bash", command="echo two > kept.txt"),
        *(call("read_file", path=f"{number}.txt") for number in range(files)),
        say("read"),
        call("bash", command="echo three > kept.txt"),
        call("write_file", path="0.txt", content="mine\n"),
        call("write_file", path=f"{files - 1}.txt", content="mine\n"),
        say("written"),
    )
    async with harness(model, folder=str(tmp_path), mode="yolo", answers=True) as session:
        memory = session.engine.services.memory
        await session.ask("read")
        assert files * 990_000 > LIMIT_BYTES >= memory.used_bytes > LIMIT_BYTES - 2_000_000
        assert memory.evictions
        for number in (0, files - 1):
            (tmp_path / f"{number}.txt").write_text("by hand\n")
        events = await session.ask("write")
        _, first, last = (event for event in events if isinstance(event, ToolResult))
        assert [first.reason, last.reason] == ["ChangedSinceRead"] * 2
        assert ["What changed:" in one.content for one in (first, last)] == [False, True]
        wholes = [row.kept.whole for row in await undo_store(session).calls() if row.tool == "bash"]
        assert wholes == [True, True], "the tree was evicted, and is looked at again"
        for content in ("two\n", "one\n"):
            await slash(session, "undo", "go")
            assert (tmp_path / "kept.txt").read_text() == content
    assert memory.used_bytes == 0, "nothing stays of a session that ended"
