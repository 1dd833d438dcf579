"""A repository that a call destroyed comes back: refs, HEAD, index and objects, as git itself sees them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bridle.clients.interaction.questions.change_forms import undo_lines
from bridle.engine.undo_records import Lost
from bridle.undo.object_links import ObjectLinks
from bridle.undo.undo_commands import shown_before
from git_kit import Repository
from undo.undo_kit import Workshop, remove, workshop

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def shop(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        yield shop


@pytest.fixture
def repository(shop: Workshop, tmp_path: Path) -> Repository:
    return Repository(shop.folder, tmp_path / "home").fill()


def shown(shop: Workshop) -> str:
    plan = shop.plan()
    assert plan is not None
    return "\n".join(undo_lines(asyncio.run(shown_before(shop.undo, plan, "", now_ms=0))))


def in_git(*names: str) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        for name in names:
            remove(folder / ".git" / name)

    return work


def every_fan_out(folder: Path) -> None:
    for path in (folder / ".git/objects").iterdir():
        if len(path.name) == 2:
            shutil.rmtree(path)


def what_a_sandbox_lets_go(folder: Path) -> None:
    """Everything but the settings and the hooks, which commands cannot change."""
    for path in (folder / ".git").iterdir():
        if path.name not in {"config", "hooks"}:
            remove(path)


def the_branches_packed(folder: Path) -> None:
    packed = folder / ".git/packed-refs"
    lines = packed.read_text().splitlines(keepends=True)
    packed.write_text("".join(line for line in lines if "refs/heads" not in line))


def loose_objects_and_the_times_of_their_folders(folder: Path) -> None:
    for victim in loose_objects(folder):
        before = victim.parent.stat()
        victim.unlink()
        os.utime(victim.parent, ns=(before.st_atime_ns, before.st_mtime_ns))


def another_in_its_place(name: str, put: Callable[[Path], object]) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        remove(folder / name)
        put(folder / name)

    return work


def a_new_repository(place: Path) -> None:
    subprocess.run(
        ["git", "init", "-q", "-b", "other", str(place.parent)], check=True, env={"PATH": os.defpath}
    )


HARM: dict[str, Callable[[Path], object]] = {
    "everything": lambda folder: shutil.rmtree(folder / ".git"),
    "what a sandbox lets go": what_a_sandbox_lets_go,
    "refs": in_git("refs", "packed-refs"),
    "packed refs": in_git("packed-refs"),
    "the branches that were packed": the_branches_packed,
    "HEAD": in_git("HEAD"),
    "HEAD overwritten": lambda folder: (folder / ".git/HEAD").write_text("garbage\n"),
    "HEAD empty": lambda folder: (folder / ".git/HEAD").write_text(""),
    "a branch overwritten": lambda folder: (folder / ".git/refs/heads/main").write_text("0" * 40 + "\n"),
    "index": in_git("index"),
    "index cut off": lambda folder: os.truncate(folder / ".git/index", 40),
    "objects": in_git("objects"),
    "packs": in_git("objects/pack"),
    "loose objects": every_fan_out,
    "loose objects, with times set back": loose_objects_and_the_times_of_their_folders,
    "config": in_git("config"),
    "a new repository": another_in_its_place(".git", a_new_repository),
    "a file for the repository": another_in_its_place(".git", lambda place: place.write_text("gitdir: x\n")),
    "a link for the repository": another_in_its_place(".git", lambda place: place.symlink_to("..")),
    "a file for the objects": another_in_its_place(".git/objects", Path.touch),
    "a link for the objects": another_in_its_place(".git/objects", lambda place: place.symlink_to("../..")),
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM.keys())
def test_what_went_from_a_repository_comes_back(shop: Workshop, repository: Repository, harm):
    before = repository.told()
    shop.call(lambda: harm(shop.folder))
    assert "restored" in shown(shop) or "goes back" in shown(shop)
    shop.undo_last()
    assert repository.told() == before
    assert shop.plan() is None


def test_no_folder_is_made_through_a_link_that_came_for_the_objects(
    shop: Workshop, repository: Repository, tmp_path: Path
):
    objects = shop.folder / ".git/objects"
    shop.call(lambda: shutil.rmtree(objects))
    (tmp_path / "outside").mkdir()
    objects.symlink_to(tmp_path / "outside")
    plan = shop.plan()
    assert plan is not None
    shop.apply(plan)
    assert os.listdir(tmp_path / "outside") == []


@pytest.mark.parametrize("branch", ["old", "fresh", "feature/deep"])
def test_a_branch_that_was_deleted_comes_back(shop: Workshop, repository: Repository, branch: str):
    before = repository.told()
    shop.call(lambda: repository.git("update-ref", "-d", f"refs/heads/{branch}"))
    assert repository.told() != before
    shop.undo_last()
    assert repository.told() == before


def test_a_repository_put_in_the_place_of_another_gives_way(shop: Workshop, repository: Repository):
    before = repository.told()

    def replace() -> None:
        shutil.rmtree(shop.folder / ".git")
        repository.git("init", "-q", "-b", "main")
        repository.git("add", "-A")
        repository.git("commit", "-q", "-m", "clean history")

    shop.call(replace)
    shop.undo_last()
    assert repository.told() == before


def test_a_repository_is_destroyed_while_bridle_is_killed_and_comes_back(tmp_path: Path):
    from contextlib import closing

    from sessions.session_kit import new_store

    folder = tmp_path / "work"
    with workshop(tmp_path / "data", folder) as shop:
        repository = Repository(folder, tmp_path / "home").fill()
        shop.call(lambda: repository.commit("four"))
        before = repository.told()
        shop.begin()
        shutil.rmtree(folder / ".git")
        session = shop.log.session
    with closing(new_store(tmp_path / "data")) as store, closing(store.open(session)) as log:
        Workshop(folder, log, tmp_path / "data").undo_last()
    assert repository.told() == before


def test_what_git_does_by_itself_is_no_loss(shop: Workshop, repository: Repository):
    def work() -> None:
        repository.commit("four")
        repository.git("gc", "-q")
        repository.git("pack-refs", "--all")
        repository.git("checkout", "-q", "-b", "other")
        repository.git("repack", "-a", "-d", "-q")
        repository.git("prune-packed")

    repository.git("commit", "-q", "-m", "staged")
    shop.call(work)
    told = repository.told()
    lines = shown(shop)
    assert "deleted" not in lines
    assert ".git" not in lines.replace("(.git); undo gives back only what is missing there", "")
    shop.undo_last()
    now = repository.told()
    assert (now[1:]) == (told[1:]), "only the file of the working tree went"


def test_a_commit_that_was_reset_away_stays_in_the_reflog_and_the_branch_where_it_is(
    shop: Workshop, repository: Repository
):
    lost = repository.git("rev-parse", "HEAD").strip()
    shop.call(lambda: repository.git("reset", "-q", "--hard", "HEAD~1"))
    told = repository.git("for-each-ref")
    shop.undo_last()
    assert repository.git("for-each-ref") == told
    assert lost in repository.git("reflog", "--format=%H")


def loose_objects(folder: Path) -> list[Path]:
    found = (folder / ".git/objects").rglob("*")
    return [path for path in found if path.is_file() and len(path.parent.name) == 2]


def test_what_is_linked_or_touched_and_still_whole_is_no_loss(
    shop: Workshop, repository: Repository, tmp_path: Path
):
    def touch() -> None:
        for path in loose_objects(shop.folder):
            os.link(path, tmp_path / path.name)
            path.chmod(0o644)

    shop.call(touch)
    assert shop.plan() is None


def test_objects_of_an_older_session_are_read_and_given_back(shop: Workshop, repository: Repository):
    """Older sessions stored how many objects were not kept, and kept copies beside links."""
    before = repository.told()
    shop.call(lambda: every_fan_out(shop.folder))
    row = shop.rows()[-1]
    assert len(row.kept.lost) == 1
    for path in (shop.folder.parent / "data" / "git-objects").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            path.unlink()
            path.write_bytes(data)
    stored = [row.kept.lost[0].objects, row.kept.lost[0].names, 7]
    older = msgspec.msgpack.decode(msgspec.msgpack.encode(stored), type=Lost)
    asyncio.run(shop.log.undo_store().end(row.number, msgspec.structs.replace(row.kept, lost=(older,))))
    shop.undo_last()
    assert repository.told() == before


def test_submodules_and_working_trees_come_back(shop: Workshop, repository: Repository, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    Repository(other, tmp_path / "home").fill()
    repository.git("submodule", "add", "-q", str(other), "libs/part")
    repository.git("commit", "-q", "-m", "part")
    repository.git("worktree", "add", "-q", "trees/side", "fresh")
    side, part = shop.folder / "trees/side", shop.folder / "libs/part"

    def told() -> tuple[str, ...]:
        return (
            *repository.told(),
            repository.git("status", "--branch", "--porcelain", cwd=side),
            repository.git("status", "--branch", "--porcelain", cwd=part),
            repository.git("log", "--all", "--format=%H", cwd=part),
            repository.git("worktree", "list"),
            repository.git("submodule", "status"),
        )

    before = told()

    def destroy() -> None:
        shutil.rmtree(shop.folder / ".git")
        (side / ".git").unlink()
        (part / ".git").unlink()

    shop.call(destroy)
    shop.undo_last()
    assert told() == before


def test_what_went_a_month_ago_is_not_kept_for_ever(shop: Workshop, repository: Repository, tmp_path: Path):
    objects = ObjectLinks(shop.ground.kept_objects)
    shop.call(lambda: every_fan_out(shop.folder))
    kept = tmp_path / "data/git-objects"
    count = len([path for path in kept.rglob("*") if path.is_file()])
    now_ms = int(os.stat(kept).st_ctime * 1000)
    objects.forget_old(now_ms + 29 * 24 * 3600 * 1000, 30)
    assert len([path for path in kept.rglob("*") if path.is_file()]) == count
    objects.forget_old(now_ms + 31 * 24 * 3600 * 1000, 30)
    left = {path.name for path in kept.rglob("*") if path.is_file()}
    assert left == {path.name for path in (shop.folder / ".git/objects/pack").iterdir()}


def test_where_nothing_can_be_linked_that_is_said_once(tmp_path: Path):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        if os.stat(elsewhere).st_dev == os.stat(tmp_path).st_dev:
            pytest.skip("needs two file systems")
        with workshop(tmp_path / "data", Path(elsewhere, "work")) as shop:
            repository = Repository(shop.folder, tmp_path / "home").fill()
            shop.call(lambda: repository.commit("four"))
            said = "Undo cannot give back .git/objects if a command destroys it: Invalid cross-device link."
            assert shop.keeper.untold() == [said]
            shop.call(lambda: repository.commit("five"))
            assert shop.keeper.untold() == []
            head = (shop.folder / ".git/HEAD").read_text()
            shop.call((shop.folder / ".git/HEAD").unlink)
            shop.undo_last()
            assert (shop.folder / ".git/HEAD").read_text() == head, "refs come back all the same"
