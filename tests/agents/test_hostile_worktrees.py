"""Repositories, names and folders that worktrees of agents have trouble with: a sentence each, and nothing is lost."""

import asyncio
import os
import shutil
from pathlib import Path

import msgspec

from bridle.base.fs.files import FileLock
from bridle.base.git.own_worktrees import plain_name
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, harness, of_kind
from bridle.protocol import events as e
from bridle.providers.script import call, say
from git_kit import Repository
from tables import table
from worktree_kit import GO, OTHER, WRITER, WRITES, branches, left_by_writer, sending, session_of, slash


async def refused(session: HarnessSession) -> str:
    """What whoever sent the agent is told; nothing began."""
    events = await session.ask("go")
    assert not of_kind(events, e.ChildStarted)
    (result,) = of_kind(events, e.ToolResult)
    assert (result.outcome, result.reason, events[-1].stop) == ("error", "NoWorktree", "end_turn")
    assert "\n" not in result.content
    return result.content


def leftovers(repo: Repository) -> list[str]:
    folder = repo.folder.parent / "bridle/worktrees"
    return [name for name in os.listdir(folder) if name != ".lock"] if folder.exists() else []


@table("name", ["-rf", "a b\nc", "../../../out", "ünïcode", "x" * 300, "\0"])
def test_any_name_becomes_one_that_stays_in_its_folder(name: str) -> None:
    made = plain_name(name)
    assert made.isascii()
    assert made == made.strip("-")
    assert 0 < len(made) <= 40
    assert not set(made) & set("/. \n\0")


async def test_a_task_and_an_agent_with_any_characters_leave_a_worktree(repo: Repository) -> None:
    odd = msgspec.structs.replace(WRITER, name="-o.dd na/me\n..")
    task = "--reason\0 of \x1b[31mmine\nand more\x85 lines"
    model = scripted(
        call("delegate_agent", agent=odd.name, task=task), say("Done."), agents={odd.name: WRITES["writer"]}
    )
    async with session_of(repo, model, agents=[odd]) as session:
        events = await session.ask("go")
        listed = (await slash(session)).data["told"]
    (ended,) = of_kind(events, e.ChildEnded)
    assert ended.ok
    assert ended.branch.startswith("bridle/o-dd-na-me-")
    assert "1 file +1 -0   agent o-dd-na-me: --reason" in listed
    assert "\x1b" not in listed


async def test_a_bare_repository_has_no_working_tree_to_begin_with(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    bare = Repository(folder, tmp_path / "person")
    bare.git("init", "-q", "--bare")
    async with session_of(bare, scripted(*sending("writer"))) as session:
        assert "there can be none" in await refused(session)
    assert leftovers(bare) == []


async def test_where_git_is_missing_that_is_said(repo: Repository) -> None:
    async with session_of(repo, scripted(*sending("writer")), env={"PATH": "/nonexistent"}) as session:
        assert "git cannot be started (not found)" in await refused(session)
    assert branches(repo) == ["main"]


async def test_a_shallow_clone_with_a_submodule_works_like_any_other(
    repo: Repository, tmp_path: Path
) -> None:
    repo.git("submodule", "add", "-q", str(repo.folder), "inner")
    repo.git("commit", "-q", "-m", "inner")
    repo.commit("more.py")
    folder = tmp_path / "clone"
    repo.git("clone", "-q", "--depth=1", f"file://{repo.folder}", str(folder))
    clone = Repository(folder, tmp_path / "person")
    async with session_of(clone, scripted(*sending("writer"), agents=WRITES)) as session:
        name = await left_by_writer(session)
        merged = await slash(session, f"merge {name}", answers=[GO])
        dropped = await slash(session, f"drop {name}", answers=[GO])
    assert (merged.reason, dropped.reason) == (None, None)
    assert (folder / "new.txt").exists()
    assert branches(clone) == ["main"]


async def test_the_main_folder_may_be_a_worktree_itself_and_below_the_top(
    repo: Repository, tmp_path: Path
) -> None:
    (repo.folder / "deep").mkdir()
    repo.commit("deep/a.txt")
    place = tmp_path / "second"
    repo.git("worktree", "add", "-q", "-b", "second", str(place))
    inside = Repository(place / "deep", tmp_path / "person")
    async with session_of(inside, scripted(*sending("writer"), agents=WRITES)) as session:
        name = await left_by_writer(session)
        shown = (await slash(session, f"show {name}")).data["told"]
        merged = await slash(session, f"merge {name}", answers=[GO])
    assert "deep/new.txt" in shown
    assert merged.reason is None
    assert (place / "deep/new.txt").read_text() == "new\n"
    assert not (repo.folder / "deep/new.txt").exists()


async def test_a_folder_that_was_committed_as_a_link_is_no_place_to_work(repo: Repository) -> None:
    """What is a folder here leads out of the worktree there."""
    elsewhere, below = repo.folder.parent / "elsewhere", repo.folder / "sub"
    elsewhere.mkdir()
    below.symlink_to(elsewhere)
    repo.git("add", "sub")
    repo.git("commit", "-q", "-m", "sub")
    below.unlink()
    below.mkdir()
    inside = Repository(below, repo.folder.parent / "person")
    options = {"home": str(repo.folder.parent / "bridle")}
    model = scripted(*sending("writer"), agents=WRITES)
    async with harness(
        model, folder=str(below), mode="yolo", agents=[WRITER], agent_mode="multi", **options
    ) as session:
        assert "this folder is in no commit yet" in await refused(session)
    assert os.listdir(elsewhere) == []
    assert (branches(inside), leftovers(repo)) == (["main"], [])


async def test_what_was_not_committed_here_is_neither_in_the_worktree_nor_touched(repo: Repository) -> None:
    (repo.folder / "cart.py").write_text("half a change\n")
    (repo.folder / "staged.py").write_text("staged\n")
    repo.git("add", "staged.py")
    before = repo.git("status", "--porcelain")
    agents = {"writer": [call("bash", command="ls; cat cart.py > seen.txt"), say("Saw it.")]}
    async with session_of(repo, scripted(*sending("writer"), agents=agents)) as session:
        events = await session.ask("go")
        name = of_kind(events, e.ChildEnded)[0].branch
    assert repo.git("show", f"{name}:seen.txt") == "cart.py\n" * 20
    assert repo.git("status", "--porcelain") == before


async def test_the_folder_of_worktrees_may_be_a_link(repo: Repository) -> None:
    home, elsewhere = repo.folder.parent / "bridle", repo.folder.parent / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (home / "worktrees").symlink_to(elsewhere)
    async with session_of(repo, scripted(*sending("writer"), agents=WRITES)) as session:
        name = await left_by_writer(session)
        dropped = await slash(session, f"drop {name}", answers=[GO])
    assert dropped.reason is None
    assert os.listdir(elsewhere) == [".lock"]
    assert branches(repo) == ["main"]


async def test_a_folder_of_worktrees_that_cannot_be_used_is_named(repo: Repository) -> None:
    home = repo.folder.parent / "bridle"
    home.mkdir()
    (home / "worktrees").write_text("a file")
    async with session_of(repo, scripted(*sending("writer"))) as session:
        assert "worktrees cannot be used" in await refused(session)
    assert branches(repo) == ["main"]


async def test_a_worktree_that_somebody_removed_is_listed_and_dropped(repo: Repository) -> None:
    async with session_of(repo, scripted(*sending("writer"), agents=WRITES)) as session:
        name = await left_by_writer(session)
        shutil.rmtree(repo.folder.parent / "bridle/worktrees" / name)
        listed = (await slash(session)).data["told"]
        undone = await slash(session, f"undo {name}")
        merged = await slash(session, f"merge {name}", answers=[GO])
        dropped = await slash(session, f"drop {name}", answers=[GO])
    assert f"{name}   1 file +1 -0, its folder is gone" in listed
    assert undone.reason == "NothingInWorktree"
    assert (merged.reason, dropped.reason) == (None, None)
    assert (repo.folder / "new.txt").read_text() == "new\n"
    assert (branches(repo), leftovers(repo)) == (["main"], [])


async def test_a_branch_that_has_nothing_in_common_with_this_one_is_said(repo: Repository) -> None:
    async with session_of(repo, scripted(*sending("writer"), agents=WRITES)) as session:
        name = await left_by_writer(session)
        repo.git("checkout", "-q", "--orphan", "new")
        repo.git("commit", "-q", "-m", "new")
        listed = (await slash(session)).data["told"]
        merged = await slash(session, f"merge {name}")
    assert "no commit in common" in listed
    assert merged.reason == "GitUnusable"
    assert not (repo.folder / "new.txt").exists()


async def test_a_worktree_whose_branch_somebody_deleted_says_so_and_is_dropped(repo: Repository) -> None:
    async with session_of(repo, scripted(*sending("writer"), agents=WRITES)) as session:
        name = await left_by_writer(session)
        repo.git("update-ref", "-d", f"refs/heads/bridle/{name}")
        listed = await slash(session)
        merged = await slash(session, f"merge {name}")
        dropped = await slash(session, f"drop {name}", answers=[GO])
    assert "is gone; its files are in" in listed.data["told"]
    assert merged.reason == "GitUnusable"
    assert dropped.reason is None
    assert branches(repo) == ["main"]


async def test_a_checkout_that_fails_leaves_neither_a_worktree_nor_a_branch(repo: Repository) -> None:
    """As on a full disk: what git was to write cannot be read."""
    blob = repo.git("rev-parse", "HEAD:cart.py").strip()
    (repo.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    async with session_of(repo, scripted(*sending("writer"))) as session:
        assert "git reset failed" in await refused(session)
        listed = (await slash(session)).data["told"]
    assert listed == "No agent has left a worktree here."
    assert (branches(repo), leftovers(repo)) == (["main"], [])


async def test_two_sessions_send_an_agent_of_one_name_at_once(repo: Repository) -> None:
    async with (
        session_of(repo, scripted(*sending("writer"), agents=WRITES)) as one,
        session_of(
            repo, scripted(*sending("writer", "other"), agents={**WRITES, "other": WRITES["writer"]})
        ) as two,
    ):
        first, second = await asyncio.gather(one.ask("go"), two.ask("go"))
    ended = [*of_kind(first, e.ChildEnded), *of_kind(second, e.ChildEnded)]
    assert [one.ok for one in ended] == [True, True, True]
    assert len({one.branch for one in ended}) == 3
    assert {repo.git("show", f"{one.branch}:new.txt") for one in ended} == {"new\n"}
    assert OTHER.name in ended[-1].branch or OTHER.name in ended[-2].branch


async def test_an_agent_waits_while_another_session_adds_a_worktree(repo: Repository) -> None:
    """Git fails on an entry of its list that another git has only begun."""
    folder, half = repo.folder.parent / "bridle/worktrees", repo.folder / ".git/worktrees/half"
    folder.mkdir(parents=True)
    half.mkdir(parents=True)
    (half / "HEAD").write_text("ref: refs/heads/half\n")
    (half / "gitdir").write_text(f"{folder}/half/.git\n")
    (half / "commondir").touch()
    async with session_of(repo, scripted(*sending("writer"), agents=WRITES)) as session:
        with FileLock(str(folder / ".lock")) as lock:
            assert lock.acquire()
            asked = asyncio.create_task(session.ask("go"))
            done, _ = await asyncio.wait((asked,), timeout=1)
            assert not done
            shutil.rmtree(half)
        (ended,) = of_kind(await asked, e.ChildEnded)
    assert ended.ok


def with_inner(repo: Repository) -> Repository:
    """Has a submodule `inner`."""
    repo.git("submodule", "add", "-q", str(repo.folder), "inner")
    repo.git("commit", "-q", "-m", "inner")
    return Repository(repo.folder / "inner", repo.folder.parent / "person")


async def test_what_an_agent_left_in_the_folder_of_a_submodule_stays_and_is_said(repo: Repository) -> None:
    with_inner(repo)
    agents = {"writer": [call("write_file", path="inner/new.txt", content="new\n"), say("Wrote it.")]}
    async with session_of(repo, scripted(*sending("writer"), agents=agents)) as session:
        events = await session.ask("go")
        listed = (await slash(session)).data["told"]
        (started,), (ended,) = of_kind(events, e.ChildStarted), of_kind(events, e.ChildEnded)
        place = Path(started.worktree)
        kept = (place / "inner/new.txt").read_text()
        dropped = await slash(session, f"drop {ended.branch}", answers=[GO])
    assert kept == "new\n"
    assert "inner: files of another repository" in ended.result
    assert "0 files +0 -0, not on its branch: inner" in listed
    assert dropped.reason is None
    assert not place.exists()


async def test_a_repository_that_an_agent_made_is_said_to_be_on_no_branch(repo: Repository) -> None:
    make = "git init -q made; cd made; echo a > a; git add a; git -c user.name=a -c user.email=a@b commit -q -m a"
    agents = {"writer": [call("bash", command=make), say("Made it.")]}
    async with session_of(repo, scripted(*sending("writer"), agents=agents), sandbox="off") as session:
        events = await session.ask("go")
        listed = (await slash(session)).data["told"]
    (ended,) = of_kind(events, e.ChildEnded)
    assert "made: files of another repository" in ended.result
    assert "not on its branch: made" in listed


async def test_committing_what_an_agent_left_runs_no_program_of_a_repository_inside(repo: Repository) -> None:
    """Git looks into submodules when it adds files, and obeys their settings there."""
    inner, mark = with_inner(repo), repo.folder.parent / "ran"
    async with session_of(repo, scripted(*sending("writer"), agents=WRITES)) as session:
        events = await session.ask("go")
        place = Path(of_kind(events, e.ChildStarted)[0].worktree)
        inner.git("clone", "-q", str(inner.folder), str(place / "inner"))
        inner.git("config", "filter.own.clean", f"touch {mark}; cat", cwd=place / "inner")
        (place / "inner/.gitattributes").write_text("* filter=own\n")
        (place / "inner/cart.py").write_text("cart.PY\n" * 20)
        (place / "more.txt").write_text("more\n")
        listed = (await slash(session)).data["told"]
    assert "2 files +2 -0, not on its branch: inner" in listed
    assert not mark.exists()
