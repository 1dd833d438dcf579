"""What a decision looks at in a command beyond its own words: the files a search would come by."""

from pathlib import Path

import pytest

from bridle.app.queries.explain import explain, standing
from tables import table


async def verdict(workspace: Path, command: str) -> str:
    home = workspace.parent / "person"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "BRIDLE_HOME": str(home / "bridle")}
    here = standing(env, cwd=str(workspace), mode="default")
    return (await explain(here, "bash", {"command": command})).verdict


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src" / "deploy").mkdir(parents=True)
    (folder / "node_modules" / "x").mkdir(parents=True)
    (folder / "node_modules" / "x" / "test.pem").write_text("x")
    (folder / "src" / "a.py").write_text("x = 1\n")
    return folder


SEARCHES = [
    "grep -r x .",
    "grep -rn x",
    "rg -uuu x",
    "rg --hidden x",
    "diff -r . src",
    "git grep --no-index x",
]


@pytest.mark.requirement("C11")
@table("command", SEARCHES)
@table("secret", [".env", "src/deploy/.env"])
async def test_a_search_that_comes_by_a_secret_file_asks(workspace: Path, command: str, secret: str) -> None:
    (workspace / secret).write_text("x\n")
    assert await verdict(workspace, command) == "ask"


@table("command", ["grep -r x .", "grep -rn x src", "rg x", "rg --hidden x", "grep x src/a.py"])
async def test_a_search_that_does_not_is_quiet(workspace: Path, command: str) -> None:
    assert await verdict(workspace, command) == "allow"


@table("command", ["rg x", "grep -rn --include='*.py' x .", "grep -r x src", "ls -la"])
async def test_a_secret_that_the_search_leaves_out_is_no_reason(workspace: Path, command: str) -> None:
    (workspace / ".env").write_text("x\n")
    assert await verdict(workspace, command) == "allow"
