"""Which repository a folder belongs to, and that nothing opens one that does not know it."""

import os
import subprocess
from pathlib import Path

import pytest

from bridle.sandbox.git_places import GitPlaces, files_of, find_repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


def git(folder: Path, *arguments: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    identity = {
        f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
        **identity,
    }
    subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
    )


def repository(folder: Path) -> Path:
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def test_an_ordinary_repository_is_found_from_below(root: Path) -> None:
    top = repository(root / "shop")
    (top / "src" / "deep").mkdir(parents=True)
    expected = GitPlaces(top=str(top), git_dir=str(top / ".git"), common=str(top / ".git"), ours=True)
    assert find_repository(str(top)) == expected
    assert find_repository(str(top / "src" / "deep")) == expected


def test_no_repository(root: Path) -> None:
    (root / "plain" / ".git").mkdir(parents=True)
    found = find_repository(str(root / "plain"))
    assert found is None or not found.top.startswith(str(root))


def test_a_linked_worktree_leads_back(root: Path) -> None:
    main = repository(root / "main")
    git(main, "worktree", "add", "-q", str(root / "side"))
    assert find_repository(str(root / "side")) == GitPlaces(
        top=str(root / "side"),
        git_dir=str(main / ".git" / "worktrees" / "side"),
        common=str(main / ".git"),
        ours=True,
    )


def test_a_submodule_leads_back(root: Path) -> None:
    inner, outer = repository(root / "inner"), repository(root / "outer")
    git(outer, "submodule", "add", "-q", str(inner), "lib/sub")
    folder = str(outer / ".git" / "modules" / "lib" / "sub")
    assert find_repository(str(outer / "lib" / "sub")) == GitPlaces(
        top=str(outer / "lib" / "sub"), git_dir=folder, common=folder, ours=True
    )
    files = files_of(find_repository(str(outer)))
    assert os.path.join(folder, "config") in files.settings
    assert os.path.join(folder, "hooks") in files.programs
    assert str(outer / "lib" / "sub" / ".git") in files.programs


@pytest.mark.parametrize("named", ["{victim}/.git", "{victim}/.git/worktrees/side", "../victim/.git"])
def test_a_planted_git_file_is_not_believed(root: Path, named: str) -> None:
    victim = repository(root / "victim")
    git(victim, "worktree", "add", "-q", str(root / "side"))
    (root / "mine").mkdir()
    (root / "mine" / ".git").write_text(f"gitdir: {named.format(victim=victim)}\n")
    found = find_repository(str(root / "mine"))
    assert found is not None
    assert not found.ours


def test_a_planted_worktree_folder_does_not_open_another_repository(root: Path) -> None:
    """Everything in the workspace may be forged, the `.git` file and what it leads to; the victim knows nothing."""
    victim = repository(root / "victim")
    mine = root / "mine"
    forged = mine / "forged" / "worktrees" / "x"
    forged.mkdir(parents=True)
    (mine / ".git").write_text(f"gitdir: {forged}\n")
    (forged / "gitdir").write_text(f"{mine}/.git\n")
    (forged / "commondir").write_text(f"{victim}/.git\n")
    (forged / "HEAD").write_text("ref: refs/heads/main\n")
    found = find_repository(str(mine))
    assert found is not None
    assert not found.ours


def test_a_link_to_another_repository_is_not_believed(root: Path) -> None:
    victim = repository(root / "victim")
    (root / "mine").mkdir()
    (root / "mine" / ".git").symlink_to(victim / ".git")
    found = find_repository(str(root / "mine"))
    assert found is not None
    assert not found.ours


def test_a_damaged_repository_is_still_looked_after(root: Path) -> None:
    top = repository(root / "shop")
    (top / ".git" / "HEAD").unlink()
    found = find_repository(str(top))
    assert found is not None
    assert not found.ours
    assert str(top / ".git" / "config") in files_of(found).settings


def test_a_bare_repository_is_its_own(root: Path) -> None:
    git(root / "bare", "init", "-q", "--bare")
    folder = str(root / "bare")
    assert find_repository(folder) == GitPlaces(top=folder, git_dir=folder, common=folder, ours=True)


def test_what_to_look_after(root: Path) -> None:
    top = repository(root / "shop")
    git(top, "config", "core.hooksPath", "tools/hooks")
    git(top, "config", "include.path", "../shared.config")
    git(top, "worktree", "add", "-q", str(root / "side"))
    files = files_of(find_repository(str(top)))
    own = top / ".git"
    assert set(files.programs) == {
        str(own / "hooks"),
        str(top / "tools" / "hooks"),
        str(top / "shared.config"),
    }
    assert files.settings == (str(own / "config"),)
    assert str(own / "config.worktree") in files.new_settings
    assert files.stand_ins == ((str(own / "commondir"), b".\n"),)
    pointers = {str(own / "worktrees" / "side" / name) for name in ("commondir", "gitdir")}
    assert set(files.pointers) == {*pointers, str(root / "side" / ".git")}
