"""Git brings files that later runs obey: a person is asked, and it ends complete or changes nothing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bridle.app.queries.explain import explain, standing
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.protocol.commands import AnswerPermission, AnswerQuestion
from bridle.protocol.events import Notice, PermissionRequested, QuestionAsked, ToolResult
from bridle.protocol.questions import TrustAnswer
from bridle.providers.script import call, say
from effort import sample

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

FILES = ("AGENTS.md", ".vscode/tasks.json", "src/CLAUDE.md")


class Shop:
    """A repository with a branch `other` that has other instructions, and `plain` that has none of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Ann")
        self.git("config", "user.email", "ann@example.org")
        self.write("readme", "hello\n")
        self.write("AGENTS.md", "Be kind.\n")
        self.commit("first")
        self.git("checkout", "-q", "-b", "plain")
        self.write("readme", "plain\n")
        self.commit("plain")
        self.git("checkout", "-q", "main")
        self.git("checkout", "-q", "-b", "other")
        for name in FILES:
            self.write(name, "Be quick.\n")
        self.commit("other")
        self.git("checkout", "-q", "main")

    def git(self, *words: str, cwd: Path | None = None) -> str:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.folder, env=env, check=True, capture_output=True, text=True
        )
        return done.stdout

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", message)

    def status(self) -> str:
        return self.git("status", "--porcelain")

    async def run(
        self, command: str, answer: str | None = None
    ) -> tuple[ToolResult, PermissionRequested | None]:
        """One command in yolo; what it came to, and what was asked. Without an answer nobody is there."""
        model = scripted(call("bash", command=command), say("Done."))
        async with harness(
            model, folder=str(self.folder), mode="yolo", answers=answer is not None
        ) as session:
            number = await session.send("go")
            asked = None
            if answer is not None:
                trust = await session.until(QuestionAsked, since=number)
                await session.connection.send(
                    AnswerQuestion(
                        session=session.id, question_id=trust.question_id, answer=TrustAnswer(use=False)
                    )
                )
                asked = await session.until(PermissionRequested, since=number)
                await session.connection.send(
                    AnswerPermission(
                        session=session.id, call_id=asked.call_id, digest=asked.digest, answer=answer
                    )
                )
            events = await session.turn_of(number)
        (result,) = of_kind(events, ToolResult)
        return result, asked


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(Path(os.path.realpath(tmp_path)) / "shop")


BRINGS = [
    "git checkout other",
    "git switch -q other",
    "git merge -q other",
    "git rebase -q other",
    "git reset -q --hard other",
    "git cherry-pick other",
    "git restore --source=other .",
    "git checkout other -- AGENTS.md .vscode src",
    "git status && git checkout -q other",
]


@pytest.mark.parametrize("command", BRINGS)
async def test_after_a_yes_git_ends_complete(shop: Shop, command: str) -> None:
    result, asked = await shop.run(command, "once")
    assert asked is not None
    assert "AGENTS.md" in asked.because
    assert result.shown.exit_code == 0, result.content
    assert [(shop.folder / name).read_text() for name in FILES] == ["Be quick.\n"] * len(FILES)
    if "--source" not in command and " -- " not in command:
        assert shop.status() == ""
        assert shop.git("diff", "--name-only", "other") == ""


async def test_switching_to_a_branch_with_other_instructions_tasks_and_ci_files_and_back_completes(
    shop: Shop,
) -> None:
    files = (
        "AGENTS.md",
        ".vscode/tasks.json",
        ".vscode/new.json",
        ".github/workflows/ci.yml",
        "src/CLAUDE.md",
    )
    for name in files:
        if name != ".vscode/new.json":
            shop.write(name, "main\n")
    shop.commit("main")
    shop.git("checkout", "-q", "-b", "theirs")
    for name in files:
        shop.write(name, "theirs\n")
    shop.commit("theirs")
    shop.git("checkout", "-q", "main")
    for branch in ("theirs", "main"):
        result, asked = await shop.run(f"git switch -q {branch}", "once")
        assert asked is not None
        assert "AGENTS.md" in asked.because
        assert (result.shown.exit_code, shop.status()) == (0, ""), result.content
        there = {name: (shop.folder / name).read_text() for name in files if (shop.folder / name).exists()}
        assert set(there.values()) == {f"{branch}\n"}
        assert len(there) == (5 if branch == "theirs" else 4)
        assert not list(shop.folder.rglob("*.put-aside-*"))


@pytest.mark.parametrize("command", BRINGS)
@pytest.mark.parametrize("answer", sample(["deny", None]))
async def test_after_a_no_and_where_nobody_answers_nothing_changes(
    shop: Shop, command: str, answer: str | None
) -> None:
    before = shop.git("rev-parse", "HEAD", "--abbrev-ref", "HEAD")
    result, _ = await shop.run(command, answer)
    assert result.outcome == "denied"
    assert shop.git("rev-parse", "HEAD", "--abbrev-ref", "HEAD") == before
    assert shop.status() == ""


@pytest.mark.parametrize(
    ("command", "verdict"),
    [("git checkout other", "ask"), ("git checkout plain", "allow"), ("git checkout other; touch x", "deny")],
)
async def test_it_is_explained_as_it_would_be_judged(shop: Shop, command: str, verdict: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(shop.folder.parent)}
    told = await explain(standing(env, cwd=str(shop.folder), mode="auto"), "bash", {"command": command})
    assert (told.verdict, told.for_person) == (verdict, verdict == "ask")
    assert shop.status() == ""


async def test_nobody_is_told_of_a_rule_that_would_not_let_git_bring_them(shop: Shop) -> None:
    result, _ = await shop.run("git checkout other")
    assert result.content.endswith(
        "Only the user can approve changes to policy files. To allow it: --allow-policy-changes"
    )


@pytest.mark.parametrize(
    "command",
    [
        "git checkout plain",
        "git switch -c new",
        "git merge plain",
        "git stash",
        "git reset --hard",
        "git checkout -- readme",
    ],
)
async def test_git_that_brings_nothing_of_the_kind_asks_nobody(shop: Shop, command: str) -> None:
    shop.write("readme", "changed\n") if "stash" in command or "readme" in command else None
    result, _ = await shop.run(command)
    assert result.shown.exit_code == 0, result.content
    assert "[sandbox" not in result.content
    assert shop.status() == ""


async def test_a_stash_with_instructions_comes_back_after_a_yes(shop: Shop) -> None:
    shop.write("AGENTS.md", "Be brief.\n")
    shop.git("stash")
    result, _ = await shop.run("git stash pop", "once")
    assert result.shown.exit_code == 0, result.content
    assert (shop.folder / "AGENTS.md").read_text() == "Be brief.\n"
    assert "[sandbox" not in result.content


async def test_a_merge_that_stops_in_instructions_leaves_both_sides(shop: Shop) -> None:
    shop.write("AGENTS.md", "Be slow.\n")
    shop.commit("slow")
    result, _ = await shop.run("git merge other", "once")
    assert result.shown.exit_code == 1
    assert "<<<<<<<" in (shop.folder / "AGENTS.md").read_text()


@pytest.fixture
def behind(shop: Shop) -> Shop:
    """A clone whose remote has other instructions meanwhile. The remote is where commands see it."""
    origin = shop.folder / "origin.git"
    (shop.folder / ".git/info/exclude").write_text("origin.git\n")
    shop.git("clone", "-q", "--bare", str(shop.folder), str(origin))
    shop.git("remote", "add", "origin", str(origin))
    shop.git("fetch", "-q")
    shop.git("branch", "-q", "-u", "origin/main")
    shop.git("update-ref", "refs/heads/main", "refs/heads/other", cwd=origin)
    return shop


async def test_a_pull_from_a_known_remote_brings_what_is_committed_and_says_so(behind: Shop) -> None:
    result, _ = await behind.run("git pull -q")
    assert result.shown.exit_code == 0, result.content
    assert behind.status() == ""
    assert (behind.folder / "AGENTS.md").read_text() == "Be quick.\n"
    assert "[sandbox: git brought " in result.content
    assert "AGENTS.md" in result.content


async def test_a_pull_in_a_repository_inside_the_workspace_ends_complete(behind: Shop) -> None:
    inner = behind.folder / "inner"
    behind.git("clone", "-q", str(behind.folder / "origin.git"), str(inner))
    behind.git("reset", "-q", "--hard", "HEAD~1", cwd=inner)
    result, _ = await behind.run("git -C inner pull -q")
    assert result.shown.exit_code == 0, result.content
    assert (inner / "AGENTS.md").read_text() == "Be quick.\n"
    assert behind.git("status", "--porcelain", cwd=inner) == ""


async def test_a_pull_from_anywhere_else_asks(behind: Shop) -> None:
    result, _ = await behind.run("git pull -q ./origin.git main")
    assert (result.outcome, behind.status()) == ("denied", "")
    result, _ = await behind.run("git pull -q ./origin.git main", "once")
    assert (result.shown.exit_code, behind.status()) == (0, "")


async def test_beside_other_work_git_brings_nothing_and_says_how(shop: Shop) -> None:
    result, _ = await shop.run("git checkout -q other && touch done")
    assert (result.outcome, result.reason) == ("denied", "GitNotAlone")
    assert "AGENTS.md" in result.content
    assert shop.git("rev-parse", "--abbrev-ref", "HEAD") == "main\n"


async def test_git_hidden_in_a_script_says_what_stayed_and_how_to_bring_it(shop: Shop) -> None:
    shop.write("go.sh", "git checkout -q other\n")
    result, _ = await shop.run("sh go.sh")
    assert (shop.folder / "AGENTS.md").read_text() == "Be kind.\n"
    assert "AGENTS.md stayed as it was" in result.content
    assert "git checkout HEAD -- " in result.content
    shop.git("clean", "-qfd")
    result, _ = await shop.run("git checkout HEAD -- AGENTS.md .vscode src", "once")
    assert result.shown.exit_code == 0, result.content
    assert shop.status() == ""


@pytest.mark.parametrize("background", [False, True])
async def test_what_was_put_aside_is_told_to_the_model_and_to_the_person(
    shop: Shop, background: bool
) -> None:
    more = "exec sleep 600\n" if background else ""
    shop.write("go.sh", f"mkdir -p pkg; echo evil > pkg/AGENTS.md; : > done\n{more}")
    calls = [call("bash", command="sh go.sh")]
    if background:
        calls = [
            call("bash", command="sh go.sh", background=True),
            call("bash", command="until [ -e done ]; do :; done"),
            call("bash", job="job1", stop=True),
        ]
    async with harness(scripted(*calls, say("Done.")), folder=str(shop.folder), mode="yolo") as session:
        events = await session.ask("go")
    told = [notice.message for notice in of_kind(events, Notice) if notice.reason == "PutAside"]
    assert ["pkg/AGENTS.md.put-aside-1" in message for message in told] == [True]
    assert any("pkg/AGENTS.md.put-aside-1" in result.content for result in of_kind(events, ToolResult))
    assert not (shop.folder / "pkg/AGENTS.md").exists()


async def test_a_pull_that_asks_nobody_opens_nothing_for_what_stands_beside_it(shop: Shop) -> None:
    await shop.run("git pull -q; git reset -q other; git checkout -q -- AGENTS.md")
    assert (shop.folder / "AGENTS.md").read_text() == "Be kind.\n"


async def test_a_pull_of_a_branch_that_follows_another_here_asks(shop: Shop) -> None:
    shop.git("branch", "-q", "-u", "other")
    result, _ = await shop.run("git pull -q")
    assert result.outcome == "denied"
    assert (shop.folder / "AGENTS.md").read_text() == "Be kind.\n"


@pytest.mark.parametrize(
    "change", ["git remote add more ./evil.git", "git config remote.more.url ./evil.git"]
)
async def test_a_pull_from_a_remote_that_a_command_named_asks(behind: Shop, change: str) -> None:
    behind.git("clone", "-q", "--bare", str(behind.folder / "origin.git"), str(behind.folder / "evil.git"))
    pull = "git pull -q more main"
    model = scripted(call("bash", command=change), call("bash", command=pull), say("Done."))
    async with harness(model, folder=str(behind.folder), mode="yolo", answers=False) as session:
        events = await session.turn_of(await session.send("go"))
    first, second = of_kind(events, ToolResult)
    assert (first.outcome, second.outcome) == ("ok", "denied"), first.content
    assert (behind.folder / "AGENTS.md").read_text() == "Be kind.\n"


@pytest.mark.parametrize(
    "change",
    [
        "git remote add more ./evil.git",
        "git re''mote add more ./evil.git",
        "g=remote; git $g add more ./evil.git",
    ],
)
async def test_a_remote_that_a_command_named_is_remembered_when_a_session_is_resumed(
    behind: Shop, tmp_path: Path, change: str
) -> None:
    behind.git("clone", "-q", "--bare", str(behind.folder / "origin.git"), str(behind.folder / "evil.git"))
    where = {
        "folder": str(behind.folder),
        "home": str(tmp_path / "bridle-home"),
        "mode": "yolo",
        "answers": False,
    }
    script = (
        call("bash", command=change),
        say("Done."),
        call("bash", command="git pull -q more main"),
        say("Done."),
    )
    async with harness(scripted(*script), **where) as session:
        (named,) = of_kind(await session.turn_of(await session.send("go")), ToolResult)
    assert named.outcome == "ok", named.content
    async with harness(scripted(*script), resume=session.id, **where) as again:
        (pulled,) = of_kind(await again.turn_of(await again.send("go")), ToolResult)
    assert pulled.outcome == "denied"
    assert (behind.folder / "AGENTS.md").read_text() == "Be kind.\n"
