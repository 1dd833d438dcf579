"""Looking at a repository runs nothing but git, or it is not called looking."""

import mmap
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from bridle.base.git.git_config import is_plain, submodule_folders
from bridle.shell.command_facts import ScriptContext
from bridle.shell.understanding import understand

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(folder: Path, *words: str) -> None:
    env = {"PATH": os.defpath, "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *who, *words], cwd=folder, env=env, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "x")
    (root / "src").mkdir()
    return root


def test_a_fresh_repository_is_plain_and_so_is_a_clone_and_a_second_working_tree(repository: Path) -> None:
    git(repository.parent, "clone", "-q", str(repository), "copy")
    git(repository, "worktree", "add", "-q", "../second")
    for folder in (repository, repository / "src", repository.parent / "copy", repository.parent / "second"):
        assert is_plain(str(folder)), folder
    assert is_plain(str(repository.parent))


@pytest.mark.parametrize(
    "setting",
    [
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.hooksPath",
        "core.editor",
        "core.gitProxy",
        "diff.external",
        "diff.x.textconv",
        "diff.x.command",
        "filter.x.clean",
        "filter.x.smudge",
        "filter.x.process",
        "pager.log",
        "alias.status",
        "include.path",
        "includeIf.gitdir:/.path",
        "gpg.program",
        "credential.helper",
        "interactive.diffFilter",
        "remote.origin.uploadpack",
        "something.new",
    ],
)
def test_a_setting_that_may_name_a_program_is_not_plain(repository: Path, setting: str) -> None:
    git(repository, "config", setting, "./x")
    assert not is_plain(str(repository))
    assert not is_plain(str(repository / "src"))


@pytest.mark.parametrize(
    "text",
    [
        "[core]fsmonitor=x\n",
        "[CORE]\n\tFsMonitor = x\n",
        "[core] bare = false\n[core] fsmonitor = x\n",
        "[core]\n\tbare = fa\\\nlse\n",
        "[diff.x]\n\ttextconv = x\n",
        "[core]\r\n\tfsmonitor = x\r\n",
        "\ufeff[core]\n\tfsmonitor = x\n",
        "[core\n",
        "nonsense",
    ],
)
def test_however_it_is_written(repository: Path, text: str) -> None:
    (repository / ".git" / "config").write_text(text, encoding="utf-8", newline="")
    assert not is_plain(str(repository))


def test_settings_of_a_second_working_tree_and_of_a_submodule_count_too(repository: Path) -> None:
    inner = repository / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    git(inner, "commit", "-q", "--allow-empty", "-m", "x")
    git(repository, "add", "inner")
    assert is_plain(str(repository))
    git(inner, "config", "core.fsmonitor", "./x")
    assert not is_plain(str(repository))
    git(inner, "config", "--unset", "core.fsmonitor")
    git(repository, "worktree", "add", "-q", "../second")
    git(repository, "config", "extensions.worktreeConfig", "true")
    git(repository.parent / "second", "config", "--worktree", "core.fsmonitor", "./x")
    assert is_plain(str(repository))
    assert not is_plain(str(repository.parent / "second"))


def test_a_hook_that_runs_when_looking_and_a_folder_laid_out_like_a_repository_are_not_plain(
    repository: Path,
) -> None:
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    assert not is_plain(str(repository))
    hook.unlink()
    assert is_plain(str(repository))
    for name in ("HEAD", "objects", "refs"):
        (repository / "src" / name).mkdir()
    assert not is_plain(str(repository / "src"))


def test_what_cannot_be_read_is_not_plain(repository: Path) -> None:
    config = repository / ".git" / "config"
    config.unlink()
    os.mkfifo(config)
    assert not is_plain(str(repository))
    config.unlink()
    config.write_text("#" * 300_000)
    assert not is_plain(str(repository))
    shutil.rmtree(repository / ".git")
    (repository / ".git").write_text("gitdir: nowhere\n")
    assert not is_plain(str(repository))


def test_understanding_looks_each_time(repository: Path) -> None:
    where = ScriptContext(cwd=str(repository), home=str(repository.parent), search_path="/usr/bin:/bin")
    assert understand("git status", where).read_only
    assert understand("cd src && git status", where).read_only
    git(repository, "config", "core.fsmonitor", "./x")
    assert understand("git status", where).command_class == "executes"
    assert understand("git -C src log", where).command_class == "executes"
    assert understand("cd src && git status", where).command_class == "executes"
    assert "settings may run programs" in understand("git add .", where).parts[0].does
    assert understand("git -C .. status", where).read_only


@pytest.mark.parametrize(
    "command", ["git blame a", "git annotate a", "git --no-pager blame -L 1,2 a", "git -C src blame a"]
)
def test_a_setting_that_names_a_file_for_blame_to_read_counts_for_blame_alone(
    repository: Path, command: str
) -> None:
    where = ScriptContext(cwd=str(repository), home=str(repository.parent), search_path="/usr/bin:/bin")
    assert understand(command, where).read_only
    git(repository, "config", "blame.ignoreRevsFile", "../outside")
    assert understand(command, where).command_class == "executes"
    assert understand("git status; git log", where).read_only


@pytest.mark.parametrize(
    "name",
    [
        "core.excludesFile",
        "core.attributesFile",
        "diff.orderFile",
        "mailmap.file",
        "mailmap.blob",
        "commit.template",
    ],
)
def test_any_other_setting_that_names_a_file_is_not_plain(repository: Path, name: str) -> None:
    git(repository, "config", name, "../outside")
    assert not is_plain(str(repository))


@pytest.mark.parametrize(
    "name",
    ["shallow", "packed-refs", "info/grafts", "info/exclude", "info/attributes", "objects/info/alternates",
     "rebase-merge/done", "rebase-apply/next", "sequencer/todo", "MERGE_MSG"],
)  # fmt: skip
def test_a_file_of_git_that_is_a_link_may_be_any_file_and_git_would_show_it(
    repository: Path, name: str
) -> None:
    secret = repository.parent / "secret"
    secret.write_text("line\n")
    link = repository / ".git" / name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(secret)
    assert not is_plain(str(repository))
    link.unlink()
    assert is_plain(str(repository))


def test_a_folder_of_git_that_is_a_link_is_not_plain(repository: Path) -> None:
    shutil.move(repository / ".git" / "info", repository.parent / "info")
    (repository / ".git" / "info").symlink_to("../../info")
    assert not is_plain(str(repository))


def test_a_submodule_whose_files_are_said_to_be_elsewhere_is_not_plain(
    repository: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    (library / "a").write_text("x\n")
    git(library, "add", "a")
    git(library, "commit", "-q", "-m", "x")
    git(repository, "submodule", "add", "-q", str(library), "inner")
    assert is_plain(str(repository))
    git(repository, "config", "-f", ".git/modules/inner/config", "core.worktree", "/etc")
    assert not is_plain(str(repository))


def index_of_one(mode: bytes) -> bytes:
    entry = bytes(24) + mode + bytes(32) + len(b"src").to_bytes(2, "big") + b"src"
    head = b"DIRC" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big")
    return head + entry + bytes(8 - len(entry) % 8)


_FILE, _SUBMODULE = index_of_one(b"\x00\x00\x81\xa4"), index_of_one(b"\x00\x00\xe0\x00")


@pytest.fixture
def long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every file had long been as it is."""
    now_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + 10_000_000_000)


@pytest.mark.usefixtures("long_ago")
def test_an_index_that_comes_to_name_a_submodule_is_noticed_whatever_its_size_and_time(
    repository: Path,
) -> None:
    index = repository / ".git/index"

    def found() -> list[str]:
        return submodule_folders(str(repository), str(repository / ".git"))

    index.write_bytes(_FILE)
    before = index.stat()
    assert found() == found() == []
    index.write_bytes(_SUBMODULE)
    os.utime(index, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert index.stat().st_size == before.st_size
    assert found() == [str(repository / "src")]
    index.write_bytes(_FILE)
    assert found() == []


@pytest.mark.usefixtures("long_ago")
def test_an_index_that_changes_in_the_memory_of_a_process_is_noticed(repository: Path) -> None:
    index = repository / ".git/index"
    index.write_bytes(_FILE)
    with index.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:] = _FILE  # from here on the kernel hears of no change
        changed_ns = index.stat().st_ctime_ns
        assert submodule_folders(str(repository), str(repository / ".git")) == []
        mapped[:] = _SUBMODULE
        assert index.stat().st_ctime_ns == changed_ns
        assert submodule_folders(str(repository), str(repository / ".git")) == [str(repository / "src")]
