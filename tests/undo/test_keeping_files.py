"""Undo below the door of people: exactly the tree before, exactly the tree after, whatever was done to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bridle.engine.undo_records import NEVER_THE_SAME, Missed
from bridle.undo.file_tree import Limits, Look, WatchedFolders, newly_missed, signature_of
from bridle.undo.keeper import Begun
from bridle.undo.undo_words import interrupted
from effort import examples
from sessions.session_kit import new_store
from undo.undo_kit import Workshop, fresh_workshop, remove, tree_below, workshop

NAMES = ("a", "b", "sub", "sub/c", "sub/d", "sub/deep", "sub/deep/e", "x\nname")
OPERATIONS = st.tuples(
    st.sampled_from(("write", "append", "remove", "folder", "link", "mode", "move", "again", "many")),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from((b"", b"one\n", b"two\n", b"\0\xff", b"long" * 100_000)),
)
CALLS = st.lists(st.lists(OPERATIONS, max_size=5), min_size=1, max_size=4)


def do(folder: Path, operation: tuple[str, str, str, bytes]) -> None:
    """One thing a command might do. What is impossible as things stand is left."""
    what, name, other, content = operation
    path, target = folder / name, folder / other
    try:
        match what:
            case "write":
                if path.is_symlink() or path.is_dir():
                    remove(path)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            case "append":
                with path.open("ab") as file:
                    file.write(content)
            case "remove":
                remove(path)
            case "folder":
                path.mkdir(parents=True)
            case "link":
                path.symlink_to(other)
            case "mode":
                if not path.is_symlink():
                    path.chmod(0o750 if path.is_dir() else 0o640)
            case "move":
                path.rename(target)
            case "many":
                path.mkdir(parents=True, exist_ok=True)
                for number in range(300):  # more than is looked at in place
                    (path / f"{number}").write_bytes(content[:10])
            case _:
                path.write_bytes(path.read_bytes())
    except OSError:
        pass


def test_undo_gives_exactly_the_tree_before_and_redo_the_tree_after(tmp_path: Path):
    @given(before=st.lists(OPERATIONS, max_size=6), calls=CALLS)
    @example(
        before=[("link", "sub", "a", b"")],
        calls=[[("remove", "sub", "a", b""), ("write", "sub/c", "a", b"")]],
    )
    @settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def always(before, calls) -> None:
        with fresh_workshop(store) as shop:
            folder = shop.folder
            for operation in before:
                do(folder, operation)
            trees: list[dict[bytes, tuple[object, ...]]] = [shop.tree()]
            for operations in calls:
                shop.call(lambda operations=operations: [do(folder, one) for one in operations])
                if shop.tree() != trees[-1]:
                    trees.append(shop.tree())
            for tree in reversed(trees[:-1]):
                shop.undo_last()
                assert shop.tree() == tree
            assert shop.plan() is None
            for tree in trees[1:]:
                shop.redo_last()
                assert shop.tree() == tree
            if trees[-1] != trees[0]:  # else there is nothing to take back
                shop.undo_last("session")
                assert shop.tree() == trees[0]

    with closing(new_store(tmp_path / "data")) as store:
        always()


STEPS = st.one_of(
    st.just(("begin", None)),
    st.tuples(st.just("end"), st.integers(0, 2)),
    st.tuples(st.just("do"), OPERATIONS),
)


def test_what_is_changed_while_calls_overlap_is_undone_whichever_ends_first(tmp_path: Path):
    @given(before=st.lists(OPERATIONS, max_size=4), steps=st.lists(STEPS, max_size=12))
    @example(before=[], steps=[("begin", None), ("do", ("write", "a", "a", b"")), ("begin", None)])
    @example(
        before=[],
        steps=[
            ("begin", None),
            ("begin", None),
            ("do", ("write", "a", "a", b"")),
            ("end", 1),
            ("do", ("write", "a", "a", b"one\n")),
        ],
    )
    @settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def always(before, steps) -> None:
        with fresh_workshop(store) as shop:
            for operation in before:
                do(shop.folder, operation)
            tree = shop.tree()
            running: list[Begun] = []
            for what, how in steps:
                if what == "begin":
                    running.append(shop.begin())
                elif running and what == "end":
                    shop.end(running.pop(how % len(running)))
                elif running:
                    do(shop.folder, how)
            for begun in running:
                shop.end(begun)
            if shop.tree() != tree:
                shop.undo_last("session")
                assert shop.tree() == tree

    with closing(new_store(tmp_path / "data")) as store:
        always()


def many_files(folder: Path) -> None:
    for number in range(300):
        (folder / f"{number}").write_text("x")


def many_folders(folder: Path) -> None:
    for number in range(300):
        (folder / f"{number}").mkdir()


def large_file(folder: Path) -> None:
    (folder / "large").write_bytes(bytes(1 << 20))


def test_many_files_many_folders_and_a_large_file_are_taken_back(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "ws") as shop:
        shop.call(lambda: (tmp_path / "ws" / "a").write_text("1"))
        before = shop.tree()
        for work in (many_files, many_folders, large_file):
            shop.call(lambda work=work: work(tmp_path / "ws"))
            shop.undo_last()
            assert shop.tree() == before, work.__name__


def test_what_somebody_else_changed_is_never_touched_without_a_word(tmp_path: Path):
    @given(calls=st.lists(OPERATIONS, min_size=1, max_size=3), mine=OPERATIONS)
    @settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def never(calls, mine) -> None:
        with fresh_workshop(store) as shop:
            folder = shop.folder
            for name in ("a", "b", "sub/c"):
                do(folder, ("write", name, name, b"start\n"))
            shop.call(lambda: [do(folder, one) for one in calls])
            left = shop.tree()
            do(folder, mine)
            now = shop.tree()
            changed = {name for name in left.keys() | now.keys() if left.get(name) != now.get(name)}
            plan = shop.plan()
            if plan is not None:
                asyncio.run(shop.undo.apply(plan))
            after = shop.tree()
            assert {name: after.get(name) for name in changed} == {name: now.get(name) for name in changed}

    with closing(new_store(tmp_path / "data")) as store:
        never()


def test_a_change_of_somebody_else_between_two_calls_is_not_lost_with_theirs(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        file = shop.folder / "a"
        file.write_text("start")
        shop.call(lambda: file.write_text("first call"))
        file.write_text("mine")
        shop.call(lambda: file.write_text("mine, and the second call"))
        plan = shop.plan("session")
        assert plan is not None
        assert [step.fate for step in plan.steps] == ["conflict"]


def test_names_that_are_no_text_are_undone_too(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        path = os.fsencode(shop.folder) + b"/caf\xe9"
        with open(path, "wb") as file:
            file.write(b"one")
        before = shop.tree()
        shop.call(lambda: os.unlink(path))
        applied = shop.undo_last()
        assert shop.tree() == before
        assert applied.paths == ("caf\N{REPLACEMENT CHARACTER}",)


def test_a_file_that_has_just_changed_is_read_again(tmp_path: Path):
    """It might change once more within one tick of the system's clock, and its times would not tell."""
    file = tmp_path / "a"
    file.write_text("one")
    status = file.stat()
    changed_ns = status.st_ctime_ns
    assert signature_of(status, changed_ns + 1_000_000) == NEVER_THE_SAME
    assert signature_of(status, changed_ns + 3_000_000_000) != NEVER_THE_SAME
    ground = WatchedFolders(roots=(str(tmp_path),), kept_objects="")
    first = ground.around(Look(), lambda _digest, _data: None).tree[str(file)]
    seen = msgspec.structs.replace(first, signature=NEVER_THE_SAME)
    read: list[bytes] = []
    ground.around(Look(tree={str(file): seen}), lambda _digest, data: read.append(data))
    assert read == [b"one"]


def test_what_only_one_of_two_looks_could_see_is_neither_new_nor_gone(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work", Limits(entries=6)) as shop:
        for name in ("near", "wide"):
            (shop.folder / name).mkdir()
        for number in range(4):
            (shop.folder / f"wide/{number}").write_text("x")
        crowd = [shop.folder / f"a{number}" for number in range(3)]

        def come() -> None:
            for file in crowd:
                file.write_text("x")

        shop.call(come)
        shop.call(lambda: [file.unlink() for file in crowd])
        for number in (1, 2):
            plan = shop.plan(str(number))
            assert plan is not None
            assert {os.path.basename(step.path) for step in plan.steps} == {"a0", "a1", "a2"}


def test_a_call_that_names_its_files_looks_at_nothing_else(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        shop.call(lambda: (shop.folder / "other").write_text("x"), "named")
        assert shop.plan() is None


def test_content_is_encrypted_and_stored_once(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        text = "plain words that must not lie about " * 50
        for name in ("a", "b", "c"):
            (shop.folder / name).write_text(text)
        shop.call(lambda: (shop.folder / "a").unlink())
        for file in (tmp_path / "data").rglob("*"):
            assert not file.is_file() or b"must not lie about" not in file.read_bytes()
        reader = asyncio.run(shop.log.undo_store()._settled())
        assert reader.execute("select count(*) from undo_contents").fetchall() == [(1,)]


def test_nothing_is_written_through_a_link_that_took_a_folder_s_place(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        (shop.folder / "sub").mkdir()
        (shop.folder / "sub/a").write_text("one")
        (shop.folder / "b").write_text("one")
        shop.call(lambda: ((shop.folder / "sub/a").unlink(), (shop.folder / "b").unlink()))
        (shop.folder / "sub").rmdir()
        (shop.folder / "sub").symlink_to(outside)
        plan = shop.plan()
        assert plan is not None
        applied = shop.apply(plan)
        assert (applied.paths, applied.left) == (("b",), ("sub/a",))
        assert list(outside.iterdir()) == []


def test_a_file_that_changes_between_plan_and_deed_is_left_alone(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        shop.call(lambda: [(shop.folder / name).write_text("made") for name in ("a", "b")])
        plan = shop.plan()
        assert plan is not None
        (shop.folder / "a").write_text("mine")
        applied = shop.apply(plan)
        assert (applied.paths, applied.left) == (("b",), ("a",))
        assert (shop.folder / "a").read_text() == "mine"


def test_what_the_guard_refuses_stays(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        shop.call(lambda: [(shop.folder / name).write_text("made") for name in ("a", "b")])
        undo = shop.undo
        undo._may_write = lambda path: "no" if path.endswith("/a") else None
        plan = asyncio.run(undo.plan())
        assert plan is not None
        applied = asyncio.run(undo.apply(plan))
        assert applied is not None
        assert (applied.paths, applied.left) == (("b",), ("a",))


def test_beyond_the_limits_nothing_is_guessed(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work", Limits(entries=5, file_bytes=10)) as shop:
        for folder in ("near", "wide"):
            (shop.folder / folder).mkdir()
        for number in range(9):
            (shop.folder / f"wide/{number}").write_text("x")
        (shop.folder / "large").write_text("y" * 11)

        def work() -> None:
            (shop.folder / "wide/new").write_text("x")
            (shop.folder / "wide/0").unlink()
            (shop.folder / "large").write_text("z" * 12)
            (shop.folder / "near/made").write_text("x")

        shop.call(work)
        plan = shop.plan()
        assert plan is not None
        fates = {os.path.relpath(step.path, shop.folder): step.fate for step in plan.steps}
        assert fates == {"large": "impossible", "near/made": "goes"}
        assert [(missed.what, missed.why) for missed in plan.missed] == [("wide", "limit")]
        shop.apply(plan)
        assert (shop.folder / "wide/new").exists()
        assert (shop.folder / "large").read_text() == "z" * 12


def test_calling_a_folder_a_cache_does_not_hide_what_was_covered(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        (shop.folder / "src").mkdir()
        (shop.folder / "src/a").write_text("one")
        shop.call(lambda: None)

        def work() -> None:
            (shop.folder / "src/CACHEDIR.TAG").write_text("")
            (shop.folder / "src/a").write_text("two")

        before = shop.tree()
        shop.call(work)
        shop.undo_last()
        assert shop.tree() == before


def test_a_link_from_outside_makes_undo_cover_what_it_leads_to_in_an_excluded_folder(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        (shop.folder / ".venv/lib/deep").mkdir(parents=True)
        for name in (".venv/lib/a", ".venv/lib/deep/b", ".venv/alone"):
            (shop.folder / name).write_text("one")
        (shop.folder / "link").symlink_to(".venv/lib")
        before = shop.tree()
        shop.call(lambda: (shop.folder / ".venv/lib/a").write_text("two"))
        shop.undo_last()
        assert shop.tree() == before
        shop.call(lambda: shutil.rmtree(shop.folder / ".venv"))
        shop.undo_last()
        del before[b".venv/alone"]
        assert shop.tree() == before


def uncover(folder: Path) -> None:
    """Make undo cover two folders, and change a file in each."""
    (folder / "link").symlink_to(".venv/lib")
    (folder / ".venv/lib/a").write_text("two")
    (folder / "cache/CACHEDIR.TAG").unlink()
    (folder / "cache/a").write_text("two")


def test_what_a_call_made_undo_cover_is_not_taken_for_new(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        for name in (".venv/lib", "cache"):
            (shop.folder / name).mkdir(parents=True)
            (shop.folder / name / "a").write_text("one")
        (shop.folder / "cache/CACHEDIR.TAG").write_text("")
        shop.call(lambda: uncover(shop.folder))
        after = shop.tree()
        shop.undo_last()
        del after[b"link"]
        assert shop.tree() == after


def test_a_link_into_an_excluded_folder_made_before_bridle_was_killed_takes_nothing_for_new(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        (shop.folder / ".venv/lib").mkdir(parents=True)
        (shop.folder / ".venv/lib/a").write_text("one")
        before = shop.tree()
        shop.begin()
        (shop.folder / "link").symlink_to(".venv/lib")
        shop.undo_last()
        assert shop.tree() == before


def test_a_file_is_restored_that_was_changed_in_a_folder_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    now_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + 10_000_000_000)  # all has long been as it is
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        (shop.folder / "sub").mkdir()
        (shop.folder / "sub/a").write_text("one")
        listed: list[object] = []
        for content in ("one", "other"):
            shop.call(lambda content=content: (shop.folder / "sub/a").write_text(content))
            known = shop.keeper._trees.get("")
            assert known is not None
            listed.append(known.folders[str(shop.folder / "sub")])
        assert listed[0] is listed[1], "it is not listed again"
        shop.undo_last()
        assert (shop.folder / "sub/a").read_text() == "one"


def test_a_folder_that_becomes_a_link_between_looks_or_during_one_is_not_followed(tmp_path: Path):
    outside, work = tmp_path / "outside", tmp_path / "work"
    for folder in (outside, work / "one", work / "two"):
        folder.mkdir(parents=True)
        (folder / "a").write_text(folder.name)
    (work / "first").write_text("first")
    swapped, other = (work / name for name in os.listdir(work) if name != "first")  # as a look comes to them
    read: list[bytes] = []

    def swap() -> None:
        remove(swapped)
        swapped.symlink_to(outside)

    def keep(_digest: bytes, data: bytes) -> None:
        read.append(data)
        if data == b"first":  # what is near is read before what is below
            swap()

    look = WatchedFolders(roots=(str(work),), kept_objects="").around(Look(), keep)
    assert (read, look.unlisted) == ([b"first", other.name.encode()], {str(swapped)})

    remove(swapped)
    swapped.mkdir()
    (swapped / "a").write_text("inside")
    with workshop(tmp_path / "data", work) as shop:
        before = shop.tree()
        shop.call(swap)
        known = {os.path.relpath(path, work) for path in shop.known()}
        assert known == {"first", "one", "two", f"{other.name}/a"}
        shop.undo_last()
        assert shop.tree() == before


def test_folders_left_out_by_rule_are_reported_when_they_change_and_bridle_s_own_are_not(tmp_path: Path):
    for name in (".hg", "node_modules", "own", "placeholder"):
        (tmp_path / "work" / name).mkdir(parents=True)
        (tmp_path / "work" / name / "a").write_text("one")
    remove(tmp_path / "work/placeholder/a")
    (tmp_path / "work/placeholder").chmod(0o1755)
    work = str(tmp_path / "work")
    ground = WatchedFolders(roots=(work,), kept_objects="", apart=(f"{work}/own",))
    before = ground.around(Look(), lambda _digest, _data: None)
    for name in (".hg", "node_modules", "own"):
        (tmp_path / "work" / name / "b").write_text("two")
    after = ground.around(before, lambda _digest, _data: None)
    assert (before.tree, after.tree) == ({}, {})
    assert newly_missed(before, after, (work,)) == [
        Missed(".hg", "skipped"),
        Missed("node_modules", "skipped"),
    ]


def test_a_large_repository_takes_no_room_from_the_workspace(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work", Limits(entries=5, git_entries=4)) as shop:
        (shop.folder / ".git/refs").mkdir(parents=True)
        (shop.folder / "sub").mkdir()
        (shop.folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
        for name in "abc":
            (shop.folder / ".git/refs" / name).write_text("0" * 40)
            (shop.folder / "sub" / name).write_text("one")
        before = shop.tree()

        def work() -> None:
            (shop.folder / ".git/HEAD").unlink()
            shutil.rmtree(shop.folder / "sub")

        shop.call(work)
        (row,) = shop.rows()
        assert row.kept.missed == (Missed(".git/refs", "limit"),)
        shop.undo_last()
        assert shop.tree() == before


def test_a_look_that_ran_out_of_time_takes_nothing_for_new_or_gone(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work", Limits(later_s=0)) as shop:
        (shop.folder / "sub").mkdir()
        (shop.folder / "sub/a").write_text("one")
        shop.call(lambda: ((shop.folder / "sub/a").unlink(), (shop.folder / "sub/new").touch()))
        assert shop.plan() is None
        (row,) = shop.rows()
        assert {missed.why for missed in row.kept.missed} == {"limit"}


def test_a_later_session_reads_only_what_changed(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        for number in range(3):
            (shop.folder / str(number)).write_text(str(number))
            os.utime(shop.folder / str(number), (1, 1))
        shop.call(lambda: None)
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        known = shop.known()
        assert {os.path.basename(path) for path in known} == {"0", "1", "2"}
        shop.call(lambda: (shop.folder / "0").unlink())
        shop.undo_last()
        assert (shop.folder / "0").read_text() == "0"


def test_old_copies_go_and_younger_ones_stay(tmp_path: Path):
    day_ms = 24 * 3600 * 1000
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        shop.call(lambda: (shop.folder / "a").write_text("one"))
        store = shop.log.undo_store()
        now_ms = shop.rows()[0].started_ms
        asyncio.run(store.forget_old(now_ms + 29 * day_ms))
        assert shop.plan() is not None
        asyncio.run(store.forget_old(now_ms + 31 * day_ms))
        assert shop.plan() is None
        assert store._reader().execute("select count(*) from undo_contents").fetchall() == [(0,)]


# Bridle dies in the middle

DRIVER = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from undo.undo_kit import workshop

def die():
    os.kill(os.getpid(), signal.SIGKILL)

data, folder, how = Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
with workshop(data, folder) as shop:
    print(shop.log.session, flush=True)
    if how == "during the call":
        shop.begin()
        (folder / "a").write_text("changed")
        (folder / "made").write_text("made")
        die()
    shop.call(lambda: [(folder / name).write_text("changed") for name in "abcd"])
    left = [3]
    def after_each():
        left[0] -= 1
        if not left[0]:
            die()
    asyncio.run(shop.undo.apply(shop.plan(), after_each=after_each))
"""


def killed(tmp_path: Path, how: str) -> str:
    """A session whose process is killed at that moment; returns its id."""
    (tmp_path / "work").mkdir()
    for name in "abcd":
        (tmp_path / "work" / name).write_text("start")
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            DRIVER,
            str(Path(__file__).parents[1]),
            str(tmp_path / "data"),
            str(tmp_path / "work"),
            how,
        ],
        capture_output=True,
        text=True,
        env={"HOME": str(tmp_path), "PATH": os.defpath},
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    return ran.stdout.strip()


def test_an_undo_that_was_killed_says_what_is_done_and_is_finished_by_the_next(tmp_path: Path):
    session = killed(tmp_path, "between files")
    folder = tmp_path / "work"
    after = dict.fromkeys((b"a", b"b", b"c", b"d"), (420, b"changed"))
    before = dict.fromkeys(after, (420, b"start"))
    half = tree_below(folder)
    assert half == {b"a": before[b"a"], b"b": before[b"b"], b"c": before[b"c"], b"d": after[b"d"]}
    with closing(new_store(tmp_path / "data")) as store, closing(store.open(session)) as log:
        shop = Workshop(folder, log, tmp_path / "data")
        (cut_off,) = shop.cut_off()
        assert interrupted(cut_off) == (
            "An undo of turn 1 was cut off when Bridle stopped: 3 of 4 files are done (a, b, c); not done: d. "
            "/undo finishes it."
        )
        shop.undo_last()
        assert shop.tree() == before
        assert shop.cut_off() == []
        shop.redo_last()
        assert shop.tree() == after, "also what the killed attempt had done"


@pytest.mark.parametrize("files", [2, 4])
def test_a_redo_that_was_cut_off_is_finished_by_the_next(tmp_path: Path, files: int):
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        for name in "abcd":
            (shop.folder / name).write_text("start")
        shop.call(lambda: [(shop.folder / name).write_text("changed") for name in "abcd"])
        after = shop.tree()
        shop.undo_last()
        before = shop.tree()
        left = list(range(files - 1))
        with contextlib.suppress(IndexError):  # and no event: as if Bridle had been killed there
            asyncio.run(shop.undo.apply(shop.redo_plan(), after_each=lambda: left.pop() and None))
        assert [(one.is_redo, len(one.done)) for one in shop.cut_off()] == [(True, files)]
        shop.redo_last()
        assert shop.tree() == after
        assert shop.cut_off() == []
        assert shop.redo_plan() is None
        shop.undo_last()
        assert shop.tree() == before


def test_what_a_call_changed_before_bridle_was_killed_is_undone(tmp_path: Path):
    session = killed(tmp_path, "during the call")
    folder = tmp_path / "work"
    with closing(new_store(tmp_path / "data")) as store, closing(store.open(session)) as log:
        shop = Workshop(folder, log, tmp_path / "data")
        shop.undo_last()
        assert shop.tree() == dict.fromkeys((b"a", b"b", b"c", b"d"), (420, b"start"))


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_what_git_moves_is_told_and_stays(tmp_path: Path):
    with workshop(tmp_path / "data", tmp_path / "work") as shop:
        env = {"PATH": os.defpath, "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", "init", "-q"], cwd=shop.folder, env=env, check=True)
        shop.call(lambda: (shop.folder / ".git/HEAD").write_text("ref: refs/heads/other\n"))
        assert shop.plan() is None
        assert [m.why for row in shop.rows() for m in row.kept.missed] == ["git"]
