"""A repository for tests of agents that write in worktrees of it."""

from pathlib import Path

import pytest

from git_kit import Repository


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    folder = tmp_path / "shop"
    folder.mkdir()
    made = Repository(folder, tmp_path / "person")
    made.git("init", "-q", "-b", "main")
    made.commit("cart.py")
    return made
