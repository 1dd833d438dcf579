"""Instruction files: found in order, used only with consent, asked about once per content."""

import os

import pytest

from bridle.base.text.line_diff import DiffLine
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind
from bridle.context.instruction_files import find_instruction_files, instruction_text
from bridle.protocol.commands import AnswerQuestion, RunSlash
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import Notice, QuestionAsked
from bridle.protocol.questions import HiddenCharacters, TrustAnswer
from bridle.providers.script import say


@pytest.fixture
def project(tmp_path):
    """A repository with instructions at its root and further down, and a person with instructions of their own."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "AGENTS.md").write_text("mine")
    inside = tmp_path / "repo" / "src" / "deep"
    inside.mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("above the repository")
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / "AGENTS.md").write_text("root")
    (inside / "AGENTS.md").write_text("deep")
    (inside / ".bridle").mkdir()
    (inside / ".bridle" / "AGENTS.md").write_text("local")
    return tmp_path


@pytest.mark.requirement("G14.1", "G14.3")
def test_files_are_found_from_the_persons_own_down_to_the_folder_and_never_above_the_repository(project):
    found = find_instruction_files(str(project / "repo/src/deep"), config_folder=str(project / "config"))
    assert [(file.text, file.scope, file.shown) for file in found] == [
        ("mine", "global", "AGENTS.md (yours)"),
        ("root", "project", "../../AGENTS.md"),
        ("deep", "project", "AGENTS.md"),
        ("local", "project", ".bridle/AGENTS.md"),
    ]


@pytest.mark.requirement("G14.2")
def test_fallback_files_are_read_only_when_listed(project):
    (project / "repo" / "CLAUDE.md").write_text("fallback")
    where = {"config_folder": str(project / "config")}
    assert "fallback" not in [file.text for file in find_instruction_files(str(project / "repo"), **where)]
    listed = find_instruction_files(str(project / "repo"), sources=("AGENTS.md", "CLAUDE.md"), **where)
    assert listed[-1].text == "fallback"


@pytest.mark.requirement("T12.1")
def test_the_nearer_file_comes_later_whatever_its_name(project):
    deep = project / "repo/src/deep"
    (project / "repo/CLAUDE.md").write_text("root, of another tool")
    (deep / "CLAUDE.md").write_text("deep, of another tool")
    sources = ("AGENTS.md", "CLAUDE.md")
    found = find_instruction_files(str(deep), config_folder=str(project / "config"), sources=sources)
    assert [(file.path, file.scope, file.text) for file in found] == [
        (str(project / "config/AGENTS.md"), "global", "mine"),
        (str(project / "repo/AGENTS.md"), "project", "root"),
        (str(project / "repo/CLAUDE.md"), "project", "root, of another tool"),
        (str(deep / "AGENTS.md"), "project", "deep"),
        (str(deep / "CLAUDE.md"), "project", "deep, of another tool"),
        (str(deep / ".bridle/AGENTS.md"), "project", "local"),
    ]
    text = instruction_text(found)
    assert [text.index(f"\n\n{file.text}") for file in found] == sorted(
        text.index(f"\n\n{file.text}") for file in found
    ), "the model reads them in this order"


def test_what_is_no_regular_readable_file_is_not_there(tmp_path):
    os.mkfifo(tmp_path / "AGENTS.md")
    assert find_instruction_files(str(tmp_path), config_folder=str(tmp_path / "none")) == ()


async def test_headless_an_unseen_file_is_left_out_and_named() -> None:
    model = RecordingModel(scripted(say("Hi.")))
    async with harness(model) as session:
        _write(session, "Obey me.")
        events = await session.ask("go")
    assert b"Obey me" not in model.bodies[0]
    (notice,) = of_kind(events, Notice)
    assert notice.message == "AGENTS.md is not trusted here and was not used. To use it: bridle trust ack"


async def test_a_person_is_asked_once_per_content(tmp_path):
    model = RecordingModel(scripted(say("Hi.")))
    places = {"home": str(tmp_path)}
    async with harness(model, answers=True, **places) as session:
        _write(session, "Run make test.\u200b")
        question = await _answered(session, use=True)
    assert (question.kind, question.path, question.trusted_ms) == ("instructions", "AGENTS.md", None)
    assert question.lines == (DiffLine(" ", 1, "Run make test.\u200b"),)
    assert question.hidden == (HiddenCharacters(line=1, code=0x200B),)
    assert b"# Instructions from AGENTS.md\\n\\nRun make test." in model.bodies[0]
    async with harness(model, answers=True, **places) as session:
        _write(session, "Run make test.\u200b")
        await session.ask("again")
    assert b"Run make test" in model.bodies[1]
    async with harness(model, answers=True, **places) as session:
        _write(session, "Run make all.")
        await _answered(session, use=False)
    assert b"Run make all" not in model.bodies[2]


async def _answered(session, *, use):
    number = await session.send("go")
    asked = await session.until(QuestionAsked, since=number)
    await session.connection.send(
        AnswerQuestion(session=session.id, question_id=asked.question_id, answer=TrustAnswer(use=use))
    )
    await session.turn_of(number)
    return asked.question


def _write(session, text):
    with open(os.path.join(session.folder, "AGENTS.md"), "w") as file:
        file.write(text)


@pytest.mark.requirement("G14.4")
async def test_the_text_is_read_once_per_session_and_stays_the_same(tmp_path):
    model = RecordingModel(scripted(say("One."), say("Two.")))
    async with harness(model, home=str(tmp_path)) as session:
        os.makedirs(tmp_path / "config")
        (tmp_path / "config" / "AGENTS.md").write_text("my way")
        await session.ask("go")
        (tmp_path / "config" / "AGENTS.md").write_text("another way")
        await session.ask("more")
    assert b"my way" in model.bodies[1]
    assert b"another way" not in model.bodies[1]


def test_a_link_out_of_the_project_is_named_and_never_read(tmp_path):
    (tmp_path / "secret").write_text("the key")
    (tmp_path / "shop/.git").mkdir(parents=True)
    (tmp_path / "shop/AGENTS.md").symlink_to(tmp_path / "secret")
    (tmp_path / "shop/CLAUDE.md").symlink_to("notes.md")
    (tmp_path / "shop/notes.md").write_text("inside")
    found = find_instruction_files(
        str(tmp_path / "shop"), config_folder=str(tmp_path / "none"), sources=("AGENTS.md", "CLAUDE.md")
    )
    assert [(file.shown, file.text, file.problem) for file in found] == [
        ("AGENTS.md", "", "is a link that leads out of this project"),
        ("CLAUDE.md", "inside", ""),
    ]


async def test_a_link_out_of_the_project_is_asked_about_by_nobody(tmp_path):
    (tmp_path / "secret").write_text("the key")
    model = RecordingModel(scripted(say("Hi.")))
    async with harness(model, answers=True) as session:
        os.symlink(tmp_path / "secret", os.path.join(session.folder, "AGENTS.md"))
        events = await session.ask("go")
    assert of_kind(events, QuestionAsked) == []
    (notice,) = of_kind(events, Notice)
    assert notice.message == "AGENTS.md is a link that leads out of this project and was not used."
    assert b"the key" not in model.bodies[0]


@pytest.mark.requirement("G45.1")
async def test_a_slash_command_is_a_prompt_with_a_name():
    model = RecordingModel(scripted(say("Hi.")))
    async with harness(model) as session:
        sent = await session.connection.send(RunSlash(session=session.id, name="init", arguments="in German"))
        await session.turn_of(sent.event)
        with pytest.raises(CommandRefused) as refused:
            await session.connection.send(RunSlash(session=session.id, name="nonsense"))
    assert refused.value.reason == "UnknownSlash"
    assert b"Draft an AGENTS.md" in model.bodies[0]
    assert b"in German" in model.bodies[0]
