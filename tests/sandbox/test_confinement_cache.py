"""What a policy means is worked out once for many commands, and never out of date."""

import os
import shutil
import tempfile
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridle.base.other_projects import OtherProjects
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.confinement import HostContext, confinement_of
from bridle.sandbox.confinement_cache import ConfinementCache
from bridle.sandbox.mount_list import mounts_of
from effort import examples

_LATER_NS = 60_000_000_000
_INDEX = bytes.fromhex(f"44495243 00000002 00000001 {'00' * 24} 000081a4 {'00' * 32} 0003 737263 000000")
"""Of git, with one file, `src`."""


class Scene:
    """A workspace with a repository, a home beside it, another project, and who remembers."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.workspace = base / "home" / "code" / "ws"
        for folder in ("added", "shown", "home/code/other", "home/.config", "own", "home/code/ws/src"):
            (base / folder).mkdir(parents=True)
        for folder in ("objects", "refs", "hooks"):
            (self.workspace / ".git" / folder).mkdir(parents=True)
        (self.workspace / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (self.workspace / ".git" / "config").write_text("[core]\n\tbare = false\n")
        home = str(base / "home")
        self.place = HostContext(
            home=home,
            own=(str(base / "own"),),
            caches=str(base / "caches"),
            others=OtherProjects(home),
            temporary=(str(base / "tmp"),),
        )
        self._probe = base / "probe"
        self._probe.write_text("")
        self.cache = ConfinementCache(now_ns=lambda: time.time_ns() + _LATER_NS)
        self.modes = [
            SpawnPolicy(mode="workspace-write", workspace=str(self.workspace), scratch=str(base / "scratch")),
            SpawnPolicy(mode="read-only", workspace=str(self.workspace)),
            SpawnPolicy(
                mode="workspace-write",
                workspace=str(self.workspace),
                writable=(str(base / "added"),),
                readable=(str(base / "shown"), "../other"),
            ),
        ]

    def settle(self) -> None:
        """It is known by now, and the next change has another time than all before."""
        for policy in self.modes:
            for _ in range(3):
                self.cache.of(policy, self.place, str(self.workspace))
        before = self._probe.stat().st_ctime_ns
        while self._probe.stat().st_ctime_ns == before:
            self._probe.chmod(0o600)

    def is_true(self) -> bool:
        cwd = str(self.workspace)
        return all(
            self.cache.of(policy, self.place, cwd) == confinement_of(policy, self.place, cwd)
            for policy in self.modes
        )


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_the_same_answer_is_given_while_nothing_changed(scene: Scene) -> None:
    scene.settle()
    cwd = str(scene.workspace)
    (scene.workspace / "src" / "new.py").write_text("x")
    (scene.workspace / "new.py").write_text("x")
    for policy in scene.modes:
        first = scene.cache.of(policy, scene.place, cwd)
        assert scene.cache.of(policy, scene.place, cwd) is first
        assert first == confinement_of(policy, scene.place, cwd)


def test_a_change_of_this_moment_is_looked_at_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.cache = ConfinementCache()
    (scene.base / "home" / ".netrc").write_text("x")
    policy, cwd = scene.modes[0], str(scene.workspace)
    answers = [scene.cache.of(policy, scene.place, cwd) for _ in range(3)]
    assert answers[0] == answers[2]
    link = scene.base / "home" / ".netrc"
    link.unlink()
    assert scene.is_true()


def test_what_does_not_hold_is_forgotten(scene: Scene) -> None:
    scene.settle()
    policy, cwd = scene.modes[0], str(scene.workspace)
    first = scene.cache.of(policy, scene.place, cwd)
    scene.cache.forget()
    again = scene.cache.of(policy, scene.place, cwd)
    assert again == first
    assert again is not first


def test_an_index_that_is_a_link_is_looked_at_where_it_leads(scene: Scene) -> None:
    index = scene.workspace / "index"
    (scene.workspace / ".git" / "index").symlink_to("../index")
    index.write_bytes(_INDEX)
    (scene.workspace / "src" / ".git").write_text("gitdir: elsewhere\n")
    scene.settle()
    index.write_bytes(_INDEX.replace(b"\x81\xa4", b"\xe0\x00"))
    assert scene.is_true()


def _replace(path: Path) -> None:
    """The same once more, in its place."""
    moved = path.with_name(f"{path.name}.moved")
    path.rename(moved)
    if moved.is_dir():
        shutil.copytree(moved, path)
    else:
        shutil.copy2(moved, path)


@pytest.mark.parametrize("mode", range(3))
def test_whatever_is_mounted_is_looked_at(scene: Scene, mode: int) -> None:
    """Whoever knows that nothing changed need not compare mounts."""
    for name in ("tmp/shown", "scratch/shown", "home/.ssh", "home/.config/gh"):
        (scene.base / name).mkdir(parents=True)
    for file in (scene.base / "home" / ".netrc", scene.workspace / "CLAUDE.md"):
        file.write_text("x")
    cwd = str(scene.workspace)
    scene.modes = [
        msgspec.structs.replace(policy, readable=(*policy.readable, str(scene.base / "tmp" / "shown")))
        for policy in scene.modes
    ]
    policy = scene.modes[mode]
    scene.settle()
    mounted = {mount.path for mount in mounts_of(scene.cache.of(policy, scene.place, cwd))}
    places = [Path(path) for path in mounted if path.startswith(f"{scene.base}/") and os.path.lexists(path)]
    if policy.scratch:
        places += [scene.base / "scratch", scene.base / "scratch" / "shown"]
    assert len(places) > 5
    for place in dict.fromkeys((*places, scene.workspace)):
        scene.settle()
        known = scene.cache.of(policy, scene.place, cwd)
        assert scene.cache.stands(known)
        assert scene.cache.are_in_place(known)
        _replace(place)
        in_place = scene.cache.are_in_place(known)
        now = scene.cache.of(policy, scene.place, cwd)
        assert not (now is known and scene.cache.stands(now)), place
        told_by_times = place.parent in {scene.base, scene.base / "home" / ".config"}
        assert not in_place or told_by_times or place not in places, place


_PLACES = (
    *("ws/AGENTS.md", "ws/.vscode", "ws/CLAUDE.md", "ws/.cursorrules", "ws/.github/copilot-instructions.md"),
    *("ws/.claude/settings.json", "ws/HEAD", "ws/objects", "ws/refs", "ws/.mcp.json", "ws/src", "ws/notes"),
    *("ws/.git", "ws/.git/config", "ws/.git/config.worktree", "ws/.git/hooks", "ws/.git/commondir", "ws/.git/HEAD"),
    *("ws/.git/modules/sub/config", "ws/.git/worktrees/w/gitdir", "ws/.git/index", "ws/.git/sharedindex.1"),
    *("ws/.git/objects", ".git", "HEAD", "other/.env", "third/.env", ".env", "ws/.env"),
    *("../.ssh", "../.netrc", "../.config/gh", "../.config", "../.docker/run", "../.aws/credentials", "../code"),
    *("../../own", "../../tmp", "../../scratch", "../../added", "../../shown", "../../added/CLAUDE.md", "other"),
)  # fmt: skip
_CONTENTS = (
    "",
    "[core]\n\thooksPath = .husky\n",
    "[include]\n\tpath = ../more\n",
    "[extensions]\n\tworktreeConfig = true\n",
    "gitdir: ../elsewhere\n",
)
_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(_PLACES),
        st.sampled_from(("file", "folder", "sticky", "link", "remove", "move")),
        st.sampled_from((*_CONTENTS, "notes", "../other", "src/AGENTS.md")),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=examples(25), deadline=None)
@given(_CHANGES)
@example([("../.config/gh", "folder", "")])
@example([("../../own", "remove", "")])
@example([("../../tmp", "folder", "")])
def test_whatever_changes_the_answer_is_that_of_a_fresh_look(changes: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(os.path.realpath(folder)))
        for place, change, text in changes:
            scene.settle()
            _change(scene.base / "home" / "code" / place, change, text)
            assert scene.is_true(), (place, change, text)


def _change(path: Path, change: str, text: str) -> None:
    path = Path(os.path.normpath(path))
    try:
        if change == "move":
            path.rename(f"{path}.moved")
            path.symlink_to(f"{path.name}.moved")
            return
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
        else:
            shutil.rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        match change:
            case "file":
                path.write_text(text)
            case "folder":
                path.mkdir()
            case "sticky":
                path.mkdir()
                path.chmod(0o1755)
            case "link":
                path.symlink_to(text.strip() or "nowhere")
            case _:
                pass
    except OSError:
        return  # nothing can be there now


def test_packs_that_undo_could_not_keep_are_seen_when_they_come(scene: Scene) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == scene.base.stat().st_dev:
        pytest.skip("there is no second file system")
    scene.place = msgspec.structs.replace(scene.place, records=str(memory))
    scene.settle()
    packs = scene.workspace / ".git" / "objects" / "pack"
    packs.mkdir()
    for name in ("pack-1.pack", "pack-1.idx"):
        (packs / name).write_text("x")
    assert scene.is_true()
