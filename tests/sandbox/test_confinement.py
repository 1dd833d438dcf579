"""What a policy means: which paths, and that the deeper one decides."""

import os
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.fs.placeholders import is_stand_in
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.adapters.adapter import cache_variables
from bridle.sandbox.adapters.mount_check import Mount, mounts_of
from bridle.sandbox.confinement import Confinement, HostContext, UnheldEntry, confinement_of
from bridle.sandbox.policy_files.git_placeholders import Masks
from bridle.sandbox.policy_files.quarantine import put_right


class World:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.workspace = base / "home" / "code" / "shop"
        self.home = base / "home"
        self.workspace.mkdir(parents=True)
        self.env: dict[str, str] = {}
        self.own: tuple[str, ...] = ()
        self.records = ""

    def place(self) -> HostContext:
        temporary = (str(self.base / "tmp"),)
        return HostContext(
            home=str(self.home),
            own=self.own,
            caches=str(self.base / "caches"),
            records=self.records,
            env=self.env,
            temporary=temporary,
        )

    def confinement(self, cwd: str = "", **policy: object) -> Confinement:
        settings: dict = {"mode": "workspace-write", "workspace": str(self.workspace), **policy}
        return confinement_of(SpawnPolicy(**settings), self.place(), cwd)

    def make(self, name: str, text: str = "x") -> str:
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(Path(os.path.realpath(tmp_path)))


def test_workspace_write_opens_the_workspace_and_the_caches(world: World) -> None:
    confinement = world.confinement()
    assert confinement.writable == (str(world.workspace), str(world.base / "caches"))
    assert confinement.caches == str(world.base / "caches")
    assert (world.base / "caches").stat().st_mode & 0o777 == 0o700


def test_read_only_opens_nothing_and_still_shows_the_workspace(world: World) -> None:
    confinement = world.confinement(mode="read-only")
    assert confinement.writable == ()
    assert confinement.caches == ""
    assert str(world.workspace) in confinement.shown
    assert not (world.base / "caches").exists()


def test_programs_are_shown_only_where_a_temporary_folder_hides_them(world: World) -> None:
    world.home = world.base / "tmp" / "home"
    world.env = {"SSH_AUTH_SOCK": str(world.base / "tmp" / "agent" / "socket")}
    made = [
        world.make(f"{name}/file")
        for name in ("tmp/srv", "tmp/home/.ssh", "tmp/agent", "opt", "home/code/shop/.venv")
    ]
    folders = tuple(map(os.path.dirname, made))
    named = (*folders, str(world.base / "tmp"), str(world.base / "tmp" / "missing"))
    plain, confinement = world.confinement(), world.confinement(programs=named)
    assert set(confinement.shown) - set(plain.shown) == {folders[0]}
    assert confinement.temporary == plain.temporary == (str(world.base / "tmp"),)


def test_off_has_no_confinement(world: World) -> None:
    with pytest.raises(ValueError, match="confines nothing"):
        world.confinement(mode="off")


def test_what_is_not_there_is_left_out_and_named(world: World) -> None:
    (world.base / "added").mkdir()
    confinement = world.confinement(writable=(str(world.base / "added"), "../none"))
    assert str(world.base / "added") in confinement.writable
    assert confinement.left_out == (str(world.workspace.parent / "none"),)


def test_policy_files_that_are_there_are_protected(world: World) -> None:
    agents = world.make("home/code/shop/AGENTS.md")
    npmrc = world.make("home/code/shop/.npmrc")
    cargo = world.make("home/code/shop/.cargo/config.toml")
    world.make("home/code/shop/Makefile")
    confinement = world.confinement()
    assert set(confinement.read_only) == {agents, npmrc, cargo}
    assert confinement.absent == (str(world.workspace / ".git"),)
    assert confinement.held == (str(world.workspace / ".cargo"),)


def test_policy_files_on_the_way_to_where_the_command_starts_are_protected(world: World) -> None:
    nested = world.make("home/code/shop/app/ui/AGENTS.md")
    elsewhere = world.make("home/code/shop/lib/AGENTS.md")
    confinement = world.confinement(cwd=os.path.dirname(nested))
    assert nested in confinement.read_only
    assert elsewhere not in confinement.read_only
    assert set(confinement.held) == {str(world.workspace / "app"), str(world.workspace / "app" / "ui")}


def test_what_a_person_opened_by_name_is_open(world: World) -> None:
    (world.workspace / ".vscode").mkdir()
    confinement = world.confinement(writable=(str(world.workspace / ".vscode"),))
    assert str(world.workspace / ".vscode") in confinement.writable
    assert str(world.workspace / ".vscode") not in confinement.read_only


def test_a_home_as_workspace_protects_what_shells_read(world: World) -> None:
    world.workspace = world.home
    rc = world.make("home/.bashrc")
    confinement = world.confinement()
    assert rc in confinement.read_only


def test_credentials_and_our_own_folders_are_hidden(world: World) -> None:
    world.own = (str(world.base / "own"),)
    world.make("own/config.toml")
    key = world.make("home/.ssh/id_test")
    netrc = world.make("home/.netrc")
    world.make("elsewhere/kube")
    world.env = {"KUBECONFIG": str(world.base / "elsewhere" / "kube")}
    hidden = world.confinement().hidden
    assert {str(world.base / "own"), os.path.dirname(key), netrc, world.env["KUBECONFIG"]} <= set(hidden)
    assert str(world.home / ".gnupg") not in hidden


def test_a_workspace_inside_a_hidden_place_wins(world: World) -> None:
    world.workspace = world.home / ".config" / "gh" / "work"
    world.workspace.mkdir(parents=True)
    mounts = {mount.path: mount for mount in mounts_of(world.confinement())}
    hidden = mounts[str(world.home / ".config" / "gh")]
    assert (hidden.kind, hidden.crossed) == ("hidden", True)
    assert mounts[str(world.workspace)].kind == "writable"
    world.workspace = world.home / ".config" / "gh"
    assert str(world.workspace) not in world.confinement().hidden


def test_socket_folders_are_emptied_but_never_the_home(world: World) -> None:
    (world.base / "agents").mkdir()
    world.env = {
        "SSH_AUTH_SOCK": str(world.base / "agents" / "s"),
        "DOCKER_HOST": f"unix://{world.home}/docker.sock",
    }
    emptied = world.confinement().emptied
    assert str(world.base / "agents") in emptied
    assert str(world.home) not in emptied


def test_nothing_in_a_temporary_folder_is_seen_but_what_was_named(world: World) -> None:
    (world.base / "tmp" / "a" / "ws").mkdir(parents=True)
    world.workspace = world.base / "tmp" / "a" / "ws"
    mounts = mounts_of(world.confinement())
    kinds = {mount.path: mount.kind for mount in mounts}
    assert kinds[str(world.base / "tmp")] == "temporary"
    assert kinds[str(world.base / "tmp" / "a")] == "room"
    assert kinds[str(world.workspace)] == "writable"


def test_a_chain_of_links_is_remembered_and_its_end_protected(world: World) -> None:
    rules = world.make("home/code/shop/docs/rules.md")
    (world.workspace / "mid.md").symlink_to("docs/rules.md")
    (world.workspace / "AGENTS.md").symlink_to("mid.md")
    confinement = world.confinement()
    assert {kept.path for kept in confinement.kept} == {
        str(world.workspace / name) for name in ("AGENTS.md", "mid.md")
    }
    assert rules in confinement.read_only
    assert str(world.workspace / "docs") in confinement.held


# Names a and b at three levels: every way in which entries can lie above, below and beside one another.
PATHS = st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))
FIELDS = ("writable", "read_only", "absent", "held", "hidden", "emptied", "shown", "temporary")


@given(st.fixed_dictionaries({name: st.lists(PATHS, max_size=3, unique=True).map(tuple) for name in FIELDS}))
def test_mounts_go_from_shallow_to_deep_and_each_path_once(fields: dict[str, tuple[str, ...]]) -> None:
    confinement = Confinement(**fields)
    mounts = mounts_of(confinement)
    paths = [mount.path for mount in mounts]
    assert paths[0] == "/"
    assert len(set(paths)) == len(paths)
    for index, path in enumerate(paths):
        assert not any(path.startswith(f"{deeper}/") for deeper in paths[index + 1 :])
    by_path = {mount.path: mount for mount in mounts}
    for path in confinement.writable:
        assert by_path[path].kind == "writable"
    for mount in mounts:
        if mount.kind == "writable":
            assert mount.path in (*confinement.writable, *confinement.held)


@given(st.fixed_dictionaries({name: st.lists(PATHS, max_size=3, unique=True).map(tuple) for name in FIELDS}))
def test_what_is_protected_or_hidden_is_never_writable(fields: dict[str, tuple[str, ...]]) -> None:
    """The nearest mount at or above a path decides what it is."""
    confinement = Confinement(**fields)
    by_path = {mount.path: mount for mount in mounts_of(confinement)}

    def decides(path: str) -> Mount:
        while path not in by_path:
            path = os.path.dirname(path)
        return by_path[path]

    opened = {*confinement.writable, *confinement.held}
    for path in {*confinement.read_only, *confinement.absent} - opened:
        assert decides(path).kind != "writable"
    for path in {*confinement.hidden} - {*confinement.writable, *confinement.temporary}:
        assert decides(path).kind in {"masked", "hidden", "empty", "temporary", "room"}


@pytest.mark.parametrize(
    "named",
    ["own", "own/", "alias/own", "link", "gone", "missing", "own/../own", "./own", "own/.", "alias//own"],
)
def test_what_is_hidden_is_hidden_where_it_is(world: World, named: str) -> None:
    base = world.base / "places"
    (base / "own").mkdir(parents=True)
    (base / "alias").symlink_to(".")
    (base / "link").symlink_to("alias/own")
    (base / "gone").symlink_to("alias/missing")
    world.own = (f"{base}/{named}",)
    below = [path for path in world.confinement().hidden if path.startswith(str(base))]
    assert below == ([str(base / "own")] if (base / named).exists() else [])


def test_a_mask_is_shared_and_taken_away_by_the_last_who_needs_it(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    first, second = Masks([str(path)]), Masks([str(path)])
    assert is_stand_in(str(path))
    first.release()
    first.release()
    assert path.is_dir()
    second.release()
    assert not path.exists()


def test_a_mask_that_others_need_is_let_go_at_once(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    first, second = Masks([str(path)]), Masks([str(path)])
    later: list[Callable[[], None]] = []
    first.release(later.append)
    second.release(later.append)
    assert (path.exists(), len(later)) == (False, 1)
    later[0]()


def test_without_descriptors_nothing_is_taken_for_protected(world: World) -> None:
    (world.workspace / "CLAUDE.md").write_text("x")
    path = world.workspace / "AGENTS.md"
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            Masks([str(path)])
        with pytest.raises(OSError, match="Too many open files"):
            world.confinement()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert is_stand_in(str(path))  # nobody holds it, and whoever needs it next uses it again
    Masks([str(path)]).release()
    assert not path.exists()


def test_a_mask_that_somebody_filled_stays(tmp_path: Path) -> None:
    path = tmp_path / ".vscode"
    masks = Masks([str(path)])
    (path / "settings.json").write_text("{}")
    masks.release()
    assert (path / "settings.json").read_text() == "{}"


def test_a_folder_that_is_not_a_mask_is_never_taken_away(tmp_path: Path) -> None:
    folder, file = tmp_path / ".bridle", tmp_path / "AGENTS.md"
    folder.mkdir()
    file.write_text("mine")
    Masks([str(folder), str(file)]).release()
    assert folder.is_dir()
    assert file.read_text() == "mine"


def test_a_mask_left_behind_counts_as_nothing_there(world: World) -> None:
    left = world.workspace / ".git"
    left.mkdir()
    left.chmod(0o1755)
    assert str(left) in world.confinement().absent
    Masks([str(left)]).release()
    assert not left.exists()


def test_tampering_is_put_right_and_nothing_is_lost(tmp_path: Path) -> None:
    link, pointer, new = tmp_path / "AGENTS.md", tmp_path / "commondir", tmp_path / "config.worktree"
    confinement = Confinement(
        unwanted=(str(new),),
        kept=(
            UnheldEntry(path=str(link), link="docs/x.md"),
            UnheldEntry(path=str(pointer), content=b"../..\n"),
        ),
    )
    link.symlink_to("docs/x.md")
    pointer.write_text("../..\n")
    assert put_right(confinement) == ()
    link.unlink()
    link.write_text("evil")
    pointer.write_text("/evil")
    new.write_text("evil")
    assert put_right(confinement) == (str(new), str(link), str(pointer))
    assert os.readlink(link) == "docs/x.md"
    assert pointer.read_text() == "../..\n"
    assert not new.exists()
    aside = sorted(path.name for path in tmp_path.iterdir() if "put-aside" in path.name)
    assert aside == ["AGENTS.md.put-aside-1", "commondir.put-aside-1", "config.worktree.put-aside-1"]
    pointer.unlink()
    assert put_right(confinement) == ()


def test_putting_right_follows_no_link(tmp_path: Path) -> None:
    base = Path(os.path.realpath(tmp_path))
    (base / "victim").mkdir()
    (base / "victim" / "commondir").write_text("theirs")
    (base / "planted").symlink_to(base / "victim")
    confinement = Confinement(unwanted=(str(base / "planted" / "commondir"),))
    assert put_right(confinement) == (str(base / "planted" / "commondir"),)
    assert (base / "victim" / "commondir").read_text() == "theirs"


def test_caches_are_all_in_one_folder(tmp_path: Path) -> None:
    variables = cache_variables("/caches/shop")
    settings = {"UV_LINK_MODE", "MAVEN_ARGS"}
    assert all(value.startswith("/caches/shop/") for name, value in variables.items() if name not in settings)
    assert "MAVEN_ARGS" not in cache_variables("/with space")


def test_packs_that_cannot_be_kept_by_a_link_stay_where_they_are(world: World) -> None:
    for name in ("HEAD", "config", "refs/heads/x", "objects/pack/pack-1.pack", "objects/pack/pack-1.idx"):
        world.make(f"home/code/shop/.git/{name}")
    git = world.workspace / ".git"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        world.records = str(world.base / "not/there/yet")
        assert str(git / "objects/pack/pack-1.pack") not in world.confinement().read_only
        if os.stat(elsewhere).st_dev == os.stat(git).st_dev:
            pytest.skip("needs two file systems")
        world.records = os.path.join(elsewhere, "bridle")
        confined = world.confinement()
        assert {str(git / f"objects/pack/pack-1.{end}") for end in ("pack", "idx")} <= {*confined.read_only}
        assert {str(git / "objects"), str(git / "objects/pack")} <= {*confined.held}
