"""`/branch`, `/commit`, `/commit-push-pr`, `/worktree`, `/stash`: shown, agreed to, run as the person."""

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridle.conformance.fake_models import FailingModel, RecordingModel, SilentModel, say, scripted
from bridle.conformance.harness import HarnessSession, harness, of_kind
from bridle.engine.ports import Provider
from bridle.protocol.commands import AnswerQuestion, CancelTurn, RunSlash
from bridle.protocol.errors import CommandRefused, ProviderError
from bridle.protocol.events import (
    AnyEvent,
    Cancelled,
    ContextAdded,
    GitEnded,
    Notice,
    PermissionRequested,
    QuestionAsked,
    text_of,
)
from bridle.protocol.questions import GitAnswer, GitFile, GitHook, GitQuestion
from secret_kit import tokens

DRAFTED = "[scripted] fix(cart): count items"
GO = GitAnswer(choice="go")
KEEP = GitAnswer(choice="keep")
NAMES = ("branch", "commit", "commit-push-pr", "worktree", "stash")


class Repo:
    """A real repository of a person, with a bare remote beside it where one is wanted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.remote = folder.parent / "origin.git"
        self.bin = folder.parent / "bin"

    def git(self, *words: str, cwd: Path | None = None) -> str:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.folder, env=env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def hook(self, name: str, script: str) -> Path:
        path = self.folder / ".git/hooks" / name
        path.parent.mkdir(exist_ok=True)
        return program(path, script)

    def message(self) -> str:
        return self.git("log", "-1", "--format=%B")

    def commits(self) -> int:
        return int(self.git("rev-list", "--count", "HEAD"))

    def publish(self) -> None:
        """Gives it a remote with its main branch."""
        self.git("init", "--quiet", "--bare", str(self.remote), cwd=self.folder.parent)
        self.git("remote", "add", "origin", str(self.remote))
        self.git("push", "--quiet", "origin", "main")
        self.git("remote", "set-head", "origin", "main")

    def gh(self, script: str) -> dict[str, str]:
        """A program called gh, and the environment of a person who has it."""
        self.bin.mkdir()
        program(self.bin / "gh", script)
        return {"PATH": f"{self.bin}:{os.defpath}"}


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    folder = tmp_path / "shop"
    folder.mkdir()
    repo = Repo(folder)
    repo.git("init", "--quiet", "-b", "main")
    repo.git("config", "user.name", "A Person")
    repo.git("config", "user.email", "a@example.org")
    repo.write("cart.py", "total = 1\n")
    repo.git("add", ".")
    repo.git("commit", "--quiet", "-m", "feat: a cart")
    return repo


@asynccontextmanager
async def session_in(
    repo: Repo, model: Provider | None = None, *, answers: bool = True, **options: Any
) -> AsyncGenerator[HarnessSession]:
    model = model or scripted(say("fix(cart): count items"))
    async with harness(model, folder=str(repo.folder), answers=answers, **options) as session:
        yield session


async def give(
    session: HarnessSession, name: str, arguments: str = "", *, answers: Sequence[GitAnswer] = (GO,)
) -> list[AnyEvent]:
    """Gives a command, answers what it asks, and returns its events."""
    before = session.conversation.last_id
    left, found = list(answers), list[AnyEvent]()
    await session.connection.send(RunSlash(session=session.id, name=name, arguments=arguments))
    async for envelope in session.connection.events(session.id, since=before):
        found.append(envelope.event)
        match envelope.event:
            case QuestionAsked(question_id=number):
                await session.connection.send(
                    AnswerQuestion(session=session.id, question_id=number, answer=left.pop(0))
                )
            case GitEnded():
                assert not left
                return found
            case _:
                pass
    raise AssertionError("the session ended")


def questions(events: Sequence[AnyEvent]) -> list[GitQuestion]:
    found = [event.question for event in of_kind(events, QuestionAsked)]
    return [question for question in found if isinstance(question, GitQuestion)]


def ended(events: Sequence[AnyEvent]) -> GitEnded:
    (event,) = of_kind(events, GitEnded)
    return event


async def refused(session: HarnessSession, name: str, arguments: str = "") -> str:
    """The sentence with which a command was refused before anybody was asked."""
    events = await give(session, name, arguments, answers=())
    assert ended(events).reason is not None
    assert ended(events).runs == ()
    return ended(events).message


# Commits


@pytest.mark.requirement("H12.2", "P23")
async def test_a_commit_has_the_drafted_message_and_takes_what_git_knows(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    repo.write("notes.txt", "mine\n")
    async with session_in(repo) as session:
        events = await give(session, "commit")
    (question,) = questions(events)
    assert question == GitQuestion(
        deed="commit",
        cwd=str(repo.folder),
        commands=(("git", "commit", "--all", "--cleanup=whitespace", "--file=-"),),
        branch="main",
        message=DRAFTED,
        files=(GitFile(path="cart.py", did="changed"),),
        new_files=("notes.txt",),
    )
    assert repo.message() == DRAFTED
    assert repo.git("status", "--porcelain") == "?? notes.txt"
    done = ended(events)
    assert done.reason is None
    assert done.data["commit"] == repo.git("rev-parse", "HEAD")[:9]
    assert (done.data["subject"], done.data["branch"]) == (DRAFTED, "main")


@pytest.mark.requirement("H12.7")
@pytest.mark.parametrize("mode", ["plan", "strict"])
async def test_the_permission_system_is_not_asked_about_a_persons_own_commit(repo: Repo, mode: Any) -> None:
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo, mode=mode, deny=["bash"]) as session:
        events = await give(session, "commit")
        assert of_kind(events, PermissionRequested) == []
    assert repo.commits() == 2


@pytest.mark.requirement("H12.2")
async def test_the_message_is_drafted_from_the_diff_and_the_way_of_earlier_commits(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    model = RecordingModel(scripted(say("fix: two")))
    async with session_in(repo, model) as session:
        await give(session, "commit", answers=(KEEP,))
    (body,) = model.bodies
    assert b"+total = 2" in body
    assert b"feat: a cart" in body
    assert b"untrusted-diff" in body
    assert repo.commits() == 1


async def test_a_no_changes_nothing(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo) as session:
        events = await give(session, "commit", answers=(KEEP,))
    assert ended(events).message == "Nothing was done."
    assert repo.git("status", "--porcelain") == "M cart.py"
    assert repo.commits() == 1


async def test_an_edited_message_is_asked_about_again_as_it_will_be(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    mine = "-m\t\x1b[31mmy own\u202e words  \r\n\n\n\n# not a comment\n--amend\n\n"
    async with session_in(repo) as session:
        events = await give(session, "commit", answers=(GitAnswer(choice="edit", text=mine), GO))
    shown = [question.message for question in questions(events)]
    assert shown == [DRAFTED, "-m    [31mmy own words\n\n# not a comment\n--amend"]
    assert repo.message() == shown[1]
    assert repo.commits() == 2


async def test_a_wish_gets_another_draft_beside_the_first(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    model = RecordingModel(scripted(say("fix: one"), say("fix: two")))
    async with session_in(repo, model) as session:
        wish = GitAnswer(choice="draft", text="mention the tax")
        events = await give(session, "commit", answers=(wish, GO))
    assert b"mention the tax" in model.bodies[1]
    assert b"fix: one" in model.bodies[1]
    assert questions(events)[1].message == repo.message()


async def test_words_behind_the_command_are_the_message_and_no_model_is_asked(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    model = RecordingModel(scripted(say("never")))
    async with session_in(repo, model) as session:
        events = await give(session, "commit", "--amend everything")
    assert model.bodies == []
    assert questions(events)[0].message == repo.message() == "--amend everything"
    assert repo.commits() == 2


async def test_without_a_draft_a_person_writes_the_message(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    model = FailingModel(ProviderError("StreamSilent", provider="demo", timeout_s="60"))
    async with session_in(repo, model) as session:
        events = await give(session, "commit", answers=(GitAnswer(choice="edit", text="fix: mine"), GO))
    first, second = questions(events)
    assert first.message == ""
    assert "No data from demo" in first.no_draft
    assert (second.message, second.no_draft) == ("fix: mine", "")
    assert repo.message() == "fix: mine"


async def test_a_yes_to_no_message_commits_nothing(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    model = FailingModel(ProviderError("StreamSilent", provider="demo", timeout_s="60"))
    async with session_in(repo, model) as session:
        events = await give(session, "commit")
    assert ended(events).reason == "NoMessage"
    assert repo.commits() == 1


@pytest.mark.requirement("P23")
async def test_nothing_to_commit_is_a_sentence(repo: Repo) -> None:
    async with session_in(repo) as session:
        assert await refused(session, "commit") == "Nothing to commit: no file that git knows has changed."
        repo.write("new.py", "x\n")
        assert (await refused(session, "commit")).endswith("New files are added first: !git add FILE")


async def test_a_secret_in_the_diff_or_the_message_stays_here(repo: Repo) -> None:
    key = tokens()[0].secret
    repo.write("cart.py", f'token = "{key}"\n')
    model = RecordingModel(scripted(say(f"fix: use {key}")))
    async with session_in(repo, model) as session:
        events = await give(session, "commit")
        stored = b"".join(repr(envelope.event).encode() for envelope in await session.stored())
    assert key.encode() not in model.bodies[0]
    assert key not in repo.message()
    assert questions(events)[0].message == repo.message()
    assert key.encode() not in stored


async def test_a_file_that_may_hold_secrets_is_named_to_the_model_and_not_shown(repo: Repo) -> None:
    repo.write(".env", "WORD=one\n")
    repo.git("add", ".env")
    model = RecordingModel(scripted(say("chore: settings")))
    async with session_in(repo, model) as session:
        events = await give(session, "commit")
    assert b"WORD=one" not in model.bodies[0]
    assert questions(events)[0].files == (GitFile(path=".env", did="added"),)
    assert repo.commits() == 2


async def test_a_hook_is_named_and_one_that_says_no_leaves_everything_as_it_was(repo: Repo) -> None:
    repo.hook("pre-commit", "echo the tests fail; exit 3")
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo) as session:
        events = await give(session, "commit")
        said = str(session.conversation.messages[-1].content)
    assert questions(events)[0].hooks == (GitHook(path=".git/hooks/pre-commit"),)
    done = ended(events)
    assert (done.reason, done.runs[0].exit_code) == ("GitFailed", 1)
    assert "the tests fail" in done.runs[0].output
    assert done.message == "git commit --all --cleanup=whitespace --file=- failed (exit 1)."
    assert "the tests fail" in said  # so that one can say: fix that
    assert repo.commits() == 1
    assert repo.git("diff", "--cached", "--name-only") == ""


async def test_a_hook_in_the_working_tree_that_changed_is_marked(repo: Repo) -> None:
    (repo.folder / ".husky").mkdir()
    program(repo.folder / ".husky/commit-msg", "exit 0")
    repo.git("config", "core.hooksPath", ".husky")
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo) as session:
        events = await give(session, "commit", answers=(KEEP,))
    assert questions(events)[0].hooks == (GitHook(path=".husky/commit-msg", changed=True),)


async def test_hooks_run_outside_the_sandbox_with_the_environment_of_the_person(
    repo: Repo, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    repo.hook(
        "pre-commit",
        f'echo "$MY_OWN/$BRIDLE_HOME/$GIT_DIR_OF_OTHERS" > "{outside}"; test -z "$GIT_WORK_TREE"',
    )
    repo.write("cart.py", "total = 2\n")
    env = {"MY_OWN": "yes", "GIT_WORK_TREE": "/nowhere", "GIT_DIR": "/nowhere"}
    async with session_in(repo, env=env) as session:
        events = await give(session, "commit")
    assert ended(events).reason is None
    assert outside.read_text() == "yes//\n"


async def test_the_signature_is_the_persons_own(repo: Repo) -> None:
    signer = program(
        repo.folder.parent / "signer",
        'cat > /dev/null; echo >&2; echo "[GNUPG:] SIG_CREATED D 1 2" >&2; echo SIGNATURE',
    )
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "gpg.program", str(signer))
    repo.git("config", "user.signingKey", "me")
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo) as session:
        await give(session, "commit")
    assert "gpgsig SIGNATURE" in repo.git("cat-file", "-p", "HEAD")


async def test_a_conflict_is_not_committed(repo: Repo) -> None:
    repo.git("checkout", "--quiet", "-b", "other")
    repo.write("cart.py", "total = 3\n")
    repo.git("commit", "--quiet", "-am", "three")
    repo.git("checkout", "--quiet", "main")
    repo.write("cart.py", "total = 2\n")
    repo.git("commit", "--quiet", "-am", "two")
    with pytest.raises(subprocess.CalledProcessError):
        repo.git("merge", "other")
    async with session_in(repo) as session:
        sentence = await refused(session, "commit")
        assert sentence.startswith("A merge left conflicts in cart.py. Resolve them")
        repo.write("cart.py", "total = 5\n")
        repo.git("add", "cart.py")
        events = await give(session, "commit")
    assert questions(events)[0].merges
    assert len(repo.git("log", "-1", "--format=%P").split()) == 2


async def test_without_a_branch_a_commit_says_so(repo: Repo) -> None:
    repo.git("checkout", "--quiet", "--detach")
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo) as session:
        events = await give(session, "commit")
    assert questions(events)[0].branch == ""
    assert ended(events).data["branch"] == ""
    assert repo.commits() == 2


async def test_what_changed_while_a_person_looked_is_not_committed(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo) as session:
        await session.connection.send(RunSlash(session=session.id, name="commit"))
        asked = await session.until(QuestionAsked)
        repo.write("cart.py", "total = 1000\n")
        await session.connection.send(
            AnswerQuestion(session=session.id, question_id=asked.question_id, answer=GO)
        )
        assert (await session.until(GitEnded)).reason == "ChangedMeanwhile"
    assert repo.commits() == 1


async def test_before_the_first_commit_there_can_be_one(repo: Repo) -> None:
    repo.git("checkout", "--quiet", "--orphan", "fresh")
    async with session_in(repo) as session:
        events = await give(session, "commit")
    assert ended(events).reason is None
    assert repo.commits() == 1


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_stopping_it_while_a_hook_runs_ends_the_hook_and_is_on_record(
    repo: Repo, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    repo.hook("pre-commit", f'echo $$ > "{begun}"; exec sleep 600')
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo) as session:
        task = asyncio.create_task(give(session, "commit"))
        pid = int(await asyncio.to_thread(begun.read_text))
        await session.connection.send(CancelTurn(session=session.id))
        done = ended(await task)
        await session.until(Cancelled)
    assert done.reason == "GitStopped"
    assert not runs(pid)
    assert repo.commits() == 1


async def test_stopping_it_while_the_model_writes_ends_it(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo, SilentModel()) as session:
        await session.connection.send(RunSlash(session=session.id, name="commit"))
        notice = await session.until(Notice)
        assert notice.reason == "GitDrafting"
        await session.connection.send(CancelTurn(session=session.id))
        await session.until(Cancelled)
    assert repo.commits() == 1


async def test_the_model_hears_that_there_is_a_commit(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo) as session:
        events = await give(session, "commit", "fix: two")
    (added,) = of_kind(events, ContextAdded)
    assert text_of(added.content).endswith(f"{repo.git('rev-parse', 'HEAD')[:9]} fix: two")


# Where nobody can be asked


async def test_where_nobody_answers_nothing_is_drafted_and_nothing_done(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    model = RecordingModel(scripted(say("never")))
    async with session_in(repo, model, answers=False) as session:
        sentence = await refused(session, "commit")
        assert sentence.startswith("Nobody is here to answer for /commit, so it was not run. Say yes")
        assert sentence.endswith("bridle run -y /commit")
        assert (await refused(session, "branch", "x")).endswith("bridle run -y '/branch x'")
    assert model.bodies == []
    assert repo.git("branch", "--list", "x") == ""


async def test_a_run_with_a_yes_commits_without_a_question(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo, answers=False, yes=True, headless=True) as session:
        events = await give(session, "commit", answers=())
    assert ended(events).reason is None
    assert repo.message() == DRAFTED


async def test_a_yes_for_calls_does_not_answer_for_a_person_who_is_there(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo, yes=True) as session:
        events = await give(session, "commit", answers=(KEEP,))
    assert len(questions(events)) == 1
    assert repo.commits() == 1


async def test_a_dry_run_says_what_it_would_do(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo, answers=False, dry_run=True) as session:
        events = await give(session, "commit", answers=())
    done = ended(events)
    assert done.reason == "DryRun"
    assert done.data["draft"] == DRAFTED
    assert repo.commits() == 1


@pytest.mark.requirement("H12.7")
async def test_an_agent_gives_none_of_them_and_answers_none(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo) as session:
        agent = session.engine.connect(name="agent", identity="agent", answers=True)
        for name in NAMES:
            with pytest.raises(CommandRefused) as refusal:
                await agent.send(RunSlash(session=session.id, name=name, arguments="x"))
            assert refusal.value.reason == "NotAPerson"
        await session.connection.send(RunSlash(session=session.id, name="commit"))
        asked = await session.until(QuestionAsked)
        with pytest.raises(CommandRefused) as refusal:
            await agent.send(AnswerQuestion(session=session.id, question_id=asked.question_id, answer=GO))
        assert refusal.value.reason == "SelfApproval"
    assert repo.commits() == 1


async def test_the_model_has_no_tool_for_them(repo: Repo) -> None:
    async with session_in(repo, scripted(say("Hello."))) as session:
        await session.ask("hello")
        prefix = session.conversation.prefix
        assert prefix is not None
        assert not {tool.name for tool in prefix.tools}.intersection({*NAMES, "git", "slash", "run_slash"})


# Branches, worktrees, stashes


@pytest.mark.requirement("H12.1")
async def test_a_branch_is_made_and_checked_out(repo: Repo) -> None:
    async with session_in(repo) as session:
        events = await give(session, "branch", "fix/total")
    (question,) = questions(events)
    assert question.commands == (("git", "checkout", "-b", "fix/total", "--"),)
    assert repo.git("branch", "--show-current") == "fix/total"
    assert ended(events).data == {"branch": "fix/total"}


HOSTILE = (
    "-f", "--orphan", "a b", "a\nb", "a\x1b[31m", "a..b", "x.lock", "/a", "a/", ".a", "@", "a\u202eb", "HEAD",
    "a:b", "\udcff",
)  # fmt: skip


@pytest.mark.parametrize("command", ["branch", "worktree"])
async def test_a_hostile_name_is_refused_before_git_sees_it(repo: Repo, command: str) -> None:
    async with session_in(repo) as session:
        assert await refused(session, command) == f"What is it to be called? /{command} NAME"
        for name in HOSTILE:
            sentence = await refused(session, command, name)
            assert "cannot name a branch" in sentence
            assert sentence.isprintable()
    assert repo.git("branch", "--format=%(refname:short)") == "main"


async def test_a_branch_that_is_there_is_not_made_again(repo: Repo) -> None:
    repo.git("branch", "old")
    async with session_in(repo) as session:
        expected = "There is a branch old already. Go to it: !git switch old"
        assert await refused(session, "branch", "old") == expected
        assert await refused(session, "worktree", "old") == expected


@pytest.mark.requirement("H12.4")
async def test_a_worktree_stands_beside_the_repository(repo: Repo) -> None:
    async with session_in(repo) as session:
        events = await give(session, "worktree", "fix/total")
    (question,) = questions(events)
    assert question.commands == (("git", "worktree", "add", "-b", "fix/total", "--", "../shop-fix-total"),)
    made = repo.folder.parent / "shop-fix-total"
    assert repo.git("branch", "--show-current", cwd=made) == "fix/total"
    assert ended(events).data == {"branch": "fix/total", "path": "../shop-fix-total"}


async def test_a_folder_that_is_there_is_left_alone(repo: Repo) -> None:
    (repo.folder.parent / "shop-x").mkdir()
    async with session_in(repo) as session:
        assert (await refused(session, "worktree", "x")).startswith("../shop-x is there already")
    assert repo.git("branch", "--list", "x") == ""


@pytest.mark.requirement("H12.6")
async def test_a_stash_is_dated_and_comes_back(repo: Repo) -> None:
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo) as session:
        assert (
            await refused(session, "stash", "pop")
            == "/stash takes no words. To bring it back: !git stash pop"
        )
        events = await give(session, "stash")
        assert await refused(session, "stash") == "Nothing to stash: no file that git knows has changed."
    (command,) = questions(events)[0].commands
    assert command[:3] == ("git", "stash", "push")
    assert repo.git("stash", "list").startswith("stash@{0}: On main: bridle: 20")
    assert (repo.folder / "cart.py").read_text() == "total = 1\n"
    repo.git("stash", "pop")
    assert (repo.folder / "cart.py").read_text() == "total = 2\n"


async def test_a_folder_without_a_repository_is_told_in_a_sentence(tmp_path: Path) -> None:
    async with session_in(Repo(tmp_path)) as session:
        for name in NAMES:
            assert await refused(session, name) == "This folder is not in a git repository."


# Pull requests


@pytest.fixture
def published(repo: Repo) -> Repo:
    repo.publish()
    repo.git("checkout", "--quiet", "-b", "fix")
    repo.write("cart.py", "total = 2\n")
    return repo


def pushed(repo: Repo) -> str:
    return repo.git("branch", "--list", "fix", cwd=repo.remote)


@pytest.mark.requirement("H12.3")
async def test_a_commit_is_pushed_and_a_pull_request_opened(published: Repo) -> None:
    env = published.gh('echo "$@" > "$0.said"; echo https://example.org/shop/pull/7')
    async with session_in(published, env=env) as session:
        events = await give(session, "commit-push-pr")
    (question,) = questions(events)
    assert question.commands == (
        ("git", "commit", "--all", "--cleanup=whitespace", "--file=-"),
        ("git", "push", "--set-upstream", "--", "origin", "HEAD"),
        ("gh", "pr", "create", "--fill"),
    )
    assert pushed(published)
    assert published.git("rev-parse", "fix@{upstream}") == published.git("rev-parse", "HEAD")
    assert (published.bin / "gh.said").read_text() == "pr create --fill\n"
    assert ended(events).data["pull_request"] == "https://example.org/shop/pull/7"
    assert not ended(events).data["existed"]


@pytest.mark.requirement("P23")
async def test_a_pull_request_that_is_there_already_is_fine(published: Repo) -> None:
    env = published.gh(
        """echo 'a pull request for branch "fix" into branch "main" already exists:' >&2
        echo https://example.org/shop/pull/7 >&2; exit 1"""
    )
    async with session_in(published, env=env) as session:
        events = await give(session, "commit-push-pr")
    assert ended(events).reason is None
    assert ended(events).data["existed"]
    assert ended(events).data["pull_request"] == "https://example.org/shop/pull/7"


async def test_without_gh_nothing_is_half_done(published: Repo) -> None:
    async with session_in(published, env={"PATH": os.defpath}) as session:
        assert (await refused(session, "commit-push-pr")).startswith(
            "gh, the program that opens pull requests"
        )
    assert published.commits() == 1
    assert not pushed(published)


async def test_a_gh_of_the_workspace_is_none(published: Repo) -> None:
    inside = published.folder / "bin"
    inside.mkdir()
    program(inside / "gh", "exit 0")
    async with session_in(published, env={"PATH": f"{inside}:{os.defpath}"}) as session:
        assert (await refused(session, "commit-push-pr")).startswith("gh, the program")


async def test_without_a_remote_nothing_is_half_done(repo: Repo) -> None:
    repo.git("checkout", "--quiet", "-b", "fix")
    repo.write("cart.py", "total = 2\n")
    async with session_in(repo, env=repo.gh("exit 0")) as session:
        assert (await refused(session, "commit-push-pr")).startswith("This repository knows no remote")
    assert repo.commits() == 1


async def test_the_branch_that_requests_go_to_is_not_pushed(published: Repo) -> None:
    published.git("checkout", "--quiet", "main")
    async with session_in(published, env=published.gh("exit 0")) as session:
        assert (await refused(session, "commit-push-pr")).startswith(
            "main is the branch a pull request would go to"
        )
        published.git("checkout", "--quiet", "--detach")
        assert (await refused(session, "commit-push-pr")).startswith("No branch is checked out")


async def test_what_failed_behind_the_commit_says_what_was_done_and_goes_on_from_there(
    published: Repo,
) -> None:
    env = published.gh("echo not logged in; exit 4")
    async with session_in(published, env=env) as session:
        events = await give(session, "commit-push-pr")
        done = ended(events)
        assert done.message.startswith("gh pr create --fill failed (exit 4). Done before: git commit --all")
        assert done.message.endswith("Go on from there: /commit-push-pr")
        assert published.commits() == 2
        program(published.bin / "gh", "echo https://example.org/1")
        again = await give(session, "commit-push-pr")
        assert [command[0] for command in questions(again)[0].commands] == ["git", "gh"]
        assert questions(again)[0].message == ""
    assert ended(again).data["pull_request"] == "https://example.org/1"
    assert published.commits() == 2


async def test_a_refused_push_is_told_and_opens_no_pull_request(published: Repo) -> None:
    program(published.remote / "hooks/pre-receive", "echo no pushes today; exit 1")
    async with session_in(published, env=published.gh("touch $0.called")) as session:
        events = await give(session, "commit-push-pr")
    done = ended(events)
    assert done.reason == "GitFailed"
    assert "no pushes today" in done.runs[-1].output
    assert not (published.bin / "gh.called").exists()
