"""Prompts of people as files: said by their name, those of a project after trust, and nothing in them is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.commands.prompt_files import PromptFile, find_prompt_files, said_with
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, harness
from bridle.protocol.commands import AnswerQuestion, AttachSession, RunSlash
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import Error, InputAccepted, Notice, QuestionAsked, TurnEnded, text_of
from bridle.protocol.queries import ListSlash
from bridle.protocol.questions import TrustAnswer, TrustQuestion
from bridle.providers.script import say

TIDY = "---\ndescription: Tidy up\nargument-hint: [folder]\n---\n\nTidy $1 up. All: $ARGUMENTS\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def said(session: HarnessSession, name: str, arguments: str = "", *, use: bool = True) -> list:
    """Gives the command, agrees to what is asked, and returns the events until the model answered or it was refused."""
    before, found = session.conversation.last_id, []
    try:
        await session.connection.send(RunSlash(session=session.id, name=name, arguments=arguments))
    except CommandRefused as refused:
        return [refused.reason]
    async for envelope in session.connection.events(session.id, since=before):
        event = envelope.event
        found.append(event)
        if isinstance(event, QuestionAsked):
            answer = AnswerQuestion(
                session=session.id, question_id=event.question_id, answer=TrustAnswer(use=use)
            )
            await session.connection.send(answer)
        refused = isinstance(event, (Error, Notice)) and event.reason in (
            "UnknownPrompt",
            "BadPrompt",
            "PromptNotTrusted",
        )
        if isinstance(event, TurnEnded) or refused:
            return found
    return found


def words(events: list) -> list[str]:
    return [text_of(event.content) for event in events if isinstance(event, InputAccepted)]


async def test_a_prompt_of_the_person_is_said_under_their_namespace_and_under_no_bare_name(tmp_path: Path):
    write(tmp_path / "home/config/commands/git/tidy.md", TIDY)
    write(tmp_path / "home/config/commands/undo.md", "never this")
    async with harness(scripted(say("ok")), home=str(tmp_path / "home")) as session:
        listed = await session.connection.ask(ListSlash(session=session.id))
        entry = next(one for one in listed.commands if one.name == "user:git:tidy")
        assert (entry.description, entry.namespace) == ("Tidy up", "user")
        assert "tidy" not in {one.name for one in listed.commands}
        assert words(await said(session, "user:git:tidy", "src now")) == ["Tidy src up. All: src now"]


async def test_a_prompt_of_a_project_is_shown_and_agreed_to_once_before_it_is_said(tmp_path: Path):
    write(tmp_path / "work/.bridle/commands/tidy.md", TIDY)
    async with harness(
        scripted(say("a"), say("b"), say("c")), folder=str(tmp_path / "work"), answers=True
    ) as session:
        listed = await session.connection.ask(ListSlash(session=session.id))
        assert "Tidy up" not in {one.description for one in listed.commands}
        first = await said(session, "project:tidy", "src")
        (asked,) = (event.question for event in first if isinstance(event, QuestionAsked))
        assert isinstance(asked, TrustQuestion)
        assert (asked.kind, asked.path) == ("command", ".bridle/commands/tidy.md")
        assert words(first) == ["Tidy src up. All: src"]
        again = await said(session, "project:tidy", "src")
        assert not [event for event in again if isinstance(event, QuestionAsked)]
        write(tmp_path / "work/.bridle/commands/tidy.md", "Something else.")
        changed = await said(session, "project:tidy")
        assert [event for event in changed if isinstance(event, QuestionAsked)]


async def test_without_a_yes_nothing_of_a_project_is_said(tmp_path: Path):
    write(tmp_path / "work/.bridle/commands/tidy.md", TIDY)
    async with harness(scripted(say("a")), folder=str(tmp_path / "work"), answers=True) as session:
        assert words(await said(session, "project:tidy", use=False)) == []
    async with harness(scripted(say("a")), folder=str(tmp_path / "work")) as session:
        assert await said(session, "project:tidy") == ["PromptNotTrusted"]


async def test_a_name_that_is_no_prompt_is_refused_with_those_there_are(tmp_path: Path):
    write(tmp_path / "home/config/commands/tidy.md", TIDY)
    async with harness(scripted(say("ok")), home=str(tmp_path / "home")) as session:
        with pytest.raises(CommandRefused, match=r"There is no prompt /user:tidi\. There are: /user:tidy\."):
            await session.connection.send(RunSlash(session=session.id, name="user:tidi", arguments=""))


async def test_folders_of_other_agents_count_where_the_person_lists_them_and_what_leads_out_does_not(
    tmp_path: Path,
):
    write(tmp_path / "work/.claude/commands/tidy.md", TIDY)
    write(tmp_path / "elsewhere.md", "out")
    (tmp_path / "work/.claude/commands/out.md").symlink_to(tmp_path / "elsewhere.md")
    sets = ('commands.folders=[".claude/commands"]',)
    async with harness(scripted(say("a")), folder=str(tmp_path / "work")) as session:
        names = {one.name for one in (await session.connection.ask(ListSlash(session=session.id))).commands}
        assert "project:tidy" not in names
    async with harness(scripted(say("a")), folder=str(tmp_path / "work"), sets=sets, answers=True) as session:
        names = {one.name for one in (await session.connection.ask(ListSlash(session=session.id))).commands}
        assert "project:tidy" in names
        assert "project:out" not in names
        assert words(await said(session, "project:tidy", "x")) == ["Tidy x up. All: x"]


async def test_commands_in_a_prompt_are_said_and_not_run(tmp_path: Path):
    write(tmp_path / "home/config/commands/see.md", "Look: !`touch ran`\n@secrets.txt")
    async with harness(scripted(say("ok")), home=str(tmp_path / "home")) as session:
        events = await said(session, "user:see")
        assert words(events) == ["Look: !`touch ran`\n@secrets.txt"]
        assert "PromptRunsNothing" in [event.reason for event in events if isinstance(event, Notice)]
        assert not Path(session.folder, "ran").exists()


@given(st.text(), st.text())
def test_what_is_written_behind_a_name_is_never_filled_in_twice(body, arguments):
    plain = said_with(PromptFile(name="x", path="x", body="$ARGUMENTS"), arguments)
    assert plain == arguments.strip()
    assert isinstance(said_with(PromptFile(name="x", path="x", body=body), arguments), str)


@pytest.mark.parametrize(
    "name", ["user", "user:tidy", "user: tidy", "user:tidy now", "user:", "project: tidy"]
)
async def test_an_agent_says_no_prompt_of_the_person_however_its_name_is_written(tmp_path: Path, name: str):
    write(tmp_path / "home/config/commands/tidy.md", TIDY)
    write(tmp_path / "work/.bridle/commands/tidy.md", TIDY)
    home, folder = str(tmp_path / "home"), str(tmp_path / "work")
    async with harness(scripted(say("ok")), home=home, folder=folder) as session:
        agent = session.engine.connect(name="agent", identity="agent", answers=False)
        await agent.send(AttachSession(session=session.id))
        with pytest.raises(CommandRefused) as refusal:
            await agent.send(RunSlash(session=session.id, name=name))
        assert refusal.value.reason == "NotAPerson"


async def test_nothing_that_stands_in_a_prompt_of_a_project_is_told_before_trust(tmp_path: Path):
    folder = tmp_path / "work/.bridle/commands"
    write(folder / "hint.md", "---\ndescription: HOSTILE\nargument-hint: HOSTILE hint\n---\n\nx\n")
    write(folder / "twice.md", "---\nHOSTILE words: a\nHOSTILE words: b\n---\n\nx\n")
    write(folder / "handle.md", "---\na: !HOSTILE!b c\n---\n\nx\n")
    write(folder / "alias.md", "---\na: *HOSTILE\n---\n\nx\n")
    write(folder / "anchor.md", "---\n%HOSTILE a b\n---\n\nx\n")
    async with harness(scripted(say("ok")), folder=str(tmp_path / "work"), answers=True) as session:
        listed = await session.connection.ask(ListSlash(session=session.id))
        assert "project:hint" in {one.name for one in listed.commands}
        assert "HOSTILE" not in str(listed)
        await said(session, "project:hint")
        assert "HOSTILE hint" in str(await session.connection.ask(ListSlash(session=session.id)))


def test_a_folder_of_prompts_is_looked_at_only_so_far(tmp_path: Path):
    many = tmp_path / "many"
    many.mkdir()
    for number in range(1_200):
        (many / f"p{number:04}.txt").touch()
    (tmp_path / "b").mkdir()
    for number in range(300):
        (tmp_path / f"b/p{number:04}.md").write_text("Say it.")
    deep = tmp_path / "c/1/2/3/4/5"
    deep.mkdir(parents=True)
    (deep.parent / "in.md").write_text("In.")
    (deep / "out.md").write_text("Out.")
    (tmp_path / "a.md").write_text("First.")
    names = [one.name for one in find_prompt_files(str(tmp_path))]
    assert (len(names), names[:2], names[-1]) == (200, ["a", "b:p0000"], "b:p0198")
    assert [one.name for one in find_prompt_files(str(tmp_path / "c"))] == ["1:2:3:4:in"]
