"""`/diff`: what changed since the last commit, for the person and for the model."""

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridle.base.git.git_repository import GitFailed
from bridle.base.process.processes import Processes
from bridle.conformance.fake_models import say, scripted
from bridle.conformance.harness import HarnessSession, harness
from bridle.protocol.commands import RunSlash
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import AnyEvent, ContextAdded, Notice, text_of
from bridle.sandbox.plain_spawn import EnvOnlySpawn
from bridle.sandbox.read_only_git import repository_of


def git(folder: Path, *arguments: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent)}
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, env=env, check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with one commit of three files."""
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "cart.py").write_text("total = 1\n")
    (work / "src/tax.py").write_text("rate = 1\n")
    (work / ".env").write_text("WORD=one\n")
    git(work, "init", "--quiet")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "-m", "first")
    return work


@asynccontextmanager
async def session_in(folder: Path) -> AsyncIterator[HarnessSession]:
    async with harness(scripted(say("I see.")), folder=str(folder)) as session:
        yield session


async def diff(session: HarnessSession, arguments: str = "") -> AnyEvent:
    """What `/diff` came to."""
    before = session.conversation.last_id
    await session.connection.send(RunSlash(session=session.id, name="diff", arguments=arguments))
    async for envelope in session.connection.events(session.id, since=before):
        return envelope.event
    raise AssertionError("the session ended")


async def shown(session: HarnessSession, arguments: str = "") -> str:
    event = await diff(session, arguments)
    assert isinstance(event, ContextAdded)
    assert event.source == "diff"
    return text_of(event.content)


@pytest.mark.requirement("H12.5")
async def test_the_model_reads_what_is_staged_and_what_is_not(folder: Path) -> None:
    (folder / "cart.py").write_text("total = 2\n")
    git(folder, "add", "cart.py")
    (folder / "src/tax.py").write_text("rate = 2\n")
    (folder / "new.py").write_text("")
    async with session_in(folder) as session:
        text = await shown(session)
        assert text.startswith(
            "Changes since the last commit (git diff HEAD):\n\ndiff --git a/cart.py b/cart.py\n"
        )
        assert "-total = 1\n+total = 2\n" in text
        assert "-rate = 1\n+rate = 2\n" in text
        assert text.endswith("\n\nNew, not known to git: new.py")
        await session.ask("what did I change?")
        assert text in [block.text for block in session.conversation.messages[0].content]


async def test_a_path_narrows_it(folder: Path) -> None:
    (folder / "cart.py").write_text("total = 2\n")
    (folder / "src/tax.py").write_text("rate = 2\n")
    async with session_in(folder) as session:
        text = await shown(session, "src")
        assert "rate = 2" in text
        assert "total" not in text


async def test_a_file_that_may_hold_secrets_is_named_and_not_shown(folder: Path) -> None:
    (folder / ".env").write_text("WORD=two\n")
    async with session_in(folder) as session:
        only = await shown(session)
        assert only == "Changed, not shown because it may hold secrets: .env"
        git(folder, "mv", "-f", ".env", "plain.txt")
        (folder / "cart.py").write_text("total = 2\n")
        text = await shown(session)
        assert "total = 2" in text
        assert "WORD" not in text


async def test_nothing_changed_is_said_to_people_only(folder: Path) -> None:
    async with session_in(folder) as session:
        assert await diff(session) == Notice(
            reason="NoChanges", message="Nothing has changed since the last commit."
        )


async def test_a_folder_without_a_repository_is_told_in_a_sentence(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        event = await diff(session)
        assert isinstance(event, Notice)
        assert event.message == "This folder is not in a git repository."


@pytest.fixture
def filtered(folder: Path, tmp_path: Path) -> Path:
    """The marker that a filter of the repository would leave outside it."""
    marker = tmp_path / "marker"
    (folder / ".gitattributes").write_text("*.py filter=evil\n")
    git(folder, "config", "filter.evil.clean", f"touch '{marker}'; cat")
    (folder / "cart.py").write_text("total = 2\n")
    return marker


async def test_a_filter_does_no_harm_whatever_holds_commands_here(folder: Path, filtered: Path) -> None:
    async with session_in(folder) as session:
        event = await diff(session)
        assert isinstance(event, ContextAdded) or event.message.startswith(
            "Git hands files of this repository to a program (evil)"
        )
        assert not filtered.exists()


async def test_where_no_sandbox_holds_it_a_filter_is_not_run(folder: Path, filtered: Path) -> None:
    processes = Processes()
    try:
        repository = repository_of(EnvOnlySpawn(processes), cwd=str(folder), env={"PATH": os.defpath})
        with pytest.raises(GitFailed) as failure:
            await repository.diff()
        assert failure.value.reason == "FiltersConfigured"
        assert not filtered.exists()
    finally:
        await processes.close()


async def test_a_long_diff_is_cut_and_says_so(folder: Path) -> None:
    (folder / "cart.py").write_text("a line of words\n" * 10_000)
    async with session_in(folder) as session:
        text = await shown(session)
        assert len(text) < 40_000
        assert text.endswith("There is more: this is the beginning, 32 KB.")


async def test_an_agent_does_not_give_commands_of_people(folder: Path) -> None:
    async with session_in(folder) as session:
        agent = session.engine.connect(name="agent", identity="agent", answers=False)
        with pytest.raises(CommandRefused) as refusal:
            await agent.send(RunSlash(session=session.id, name="diff"))
        assert refusal.value.reason == "NotAPerson"


async def test_what_is_typed_meanwhile_waits_for_it(folder: Path) -> None:
    (folder / "cart.py").write_text("total = 2\n")
    async with session_in(folder) as session:
        await session.connection.send(RunSlash(session=session.id, name="diff"))
        events = await session.ask("and now?")
        assert events
        assert "total = 2" in session.conversation.messages[0].content[0].text
