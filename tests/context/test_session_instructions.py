"""Instruction files of other agents, imports, and files that join a conversation when their folder is touched."""

import asyncio
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import HarnessSession, harness, of_kind
from bridle.context.imports import MAX_DEPTH, MAX_IMPORTS, Imports, imported_names
from bridle.context.instruction_files import FALLBACK_SOURCES, find_instruction_files, read_rule, rule_names
from bridle.context.session_instructions import MAX_ADDED_FILES, OfferedSources
from bridle.context.working_context import project_type
from bridle.protocol.commands import AnswerQuestion, RunSlash
from bridle.protocol.events import AnyEvent, ContextAdded, Notice, PrefixSet, QuestionAsked
from bridle.protocol.messages import TextBlock
from bridle.protocol.queries import CustomQuery
from bridle.protocol.questions import TrustAnswer, TrustQuestion
from bridle.providers.script import call, say
from bridle.safety.trust.approvals import Approvals, content_digest
from effort import examples
from tables import table

HOW = "To use it: name it in context.sources"
LISTED = tuple(
    f'context.sources=["AGENTS.md", {", ".join(repr(one) for one in FALLBACK_SOURCES)}]' for _ in "1"
)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    (tmp_path / "home/config").mkdir(parents=True)
    return root


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def trusts(home: Path, *texts: str) -> None:
    """The person has agreed to these texts before."""
    for number, text in enumerate(texts):
        Approvals(str(home / "config")).add(f"{number}", content_digest(text.encode()), root="/x")


def added(events: list[AnyEvent]) -> list[str]:
    return [
        block.text
        for event in of_kind(events, ContextAdded)
        if event.source == "instructions"
        for block in event.content
        if isinstance(block, TextBlock)
    ]


def told(events: list[AnyEvent]) -> list[str]:
    return [notice.message for notice in of_kind(events, Notice)]


async def answered(
    session: HarnessSession, words: str, use: Callable[[TrustQuestion], bool]
) -> list[TrustQuestion]:
    """A turn in which every question about trust gets this answer; returns the questions."""
    number = await session.send(words)
    asked: list[TrustQuestion] = []

    async def answer() -> None:
        since = number
        while True:
            question = await session.until(QuestionAsked, since=since)
            assert isinstance(question.question, TrustQuestion)
            asked.append(question.question)
            sent = await session.connection.send(
                AnswerQuestion(
                    session=session.id,
                    question_id=question.question_id,
                    answer=TrustAnswer(use=use(question.question)),
                )
            )
            since = sent.event

    answering = asyncio.create_task(answer())
    await session.turn_of(number)
    answering.cancel()
    return asked


# Files of other agents


@pytest.mark.requirement("C13", "G14.2")
async def test_a_file_of_another_agent_is_offered_once_in_a_project(repo: Path, tmp_path: Path) -> None:
    write(repo, "CLAUDE.md", "Use tabs.")
    write(repo, "GEMINI.md", "Use blanks.")
    model = RecordingModel(scripted(say("One."), say("Two.")))
    places = {"home": str(tmp_path / "home"), "folder": str(repo)}
    async with harness(model, answers=True, **places) as session:
        asked = await answered(session, "go", lambda question: question.path == "CLAUDE.md")
    assert [(one.path, one.offered) for one in asked] == [("CLAUDE.md", True), ("GEMINI.md", True)]
    assert b"# Instructions from CLAUDE.md\\n\\nUse tabs." in model.bodies[0]
    assert b"Use blanks." not in model.bodies[0]
    async with harness(model, answers=True, **places) as session:
        assert await answered(session, "again", lambda _question: True) == []
    assert b"Use tabs." in model.bodies[1]
    assert b"Use blanks." not in model.bodies[1]


@pytest.mark.requirement("C13")
async def test_where_nobody_can_be_asked_it_is_named_once_and_not_used(repo: Path, tmp_path: Path) -> None:
    write(repo, "CLAUDE.md", "Obey me.")
    write(repo, ".cursor/rules/a.mdc", "Obey me too.")
    model = RecordingModel(scripted(say("One."), say("Two.")))
    async with harness(model, home=str(tmp_path / "home"), folder=str(repo)) as session:
        events = [*await session.ask("go"), *await session.ask("more")]
    assert told(events) == [
        f"CLAUDE.md, .cursor/rules/a.mdc are here and not used. They are for another agent. {HOW}"
    ]
    assert all(b"Obey me" not in body for body in model.bodies)
    assert OfferedSources(str(tmp_path / "home/state"), str(repo)).said() == {}


async def test_beside_an_agents_file_nobody_is_asked_about_another_agents(repo: Path, tmp_path: Path) -> None:
    write(repo, "AGENTS.md", "Be kind.")
    write(repo, "CLAUDE.md", "Use tabs.")
    write(repo, "GEMINI.md", "Be kind.")  # the same words again are nothing to talk about
    trusts(tmp_path / "home", "Be kind.")
    model = RecordingModel(scripted(say("One."), say("Two.")))
    places = {"home": str(tmp_path / "home"), "folder": str(repo)}
    async with harness(model, answers=True, **places) as session:
        assert told(await session.ask("go")) == [
            f"CLAUDE.md is here and not used. It is for another agent. {HOW}"
        ]
    async with harness(model, answers=True, **places) as session:
        assert told(await session.ask("go")) == [], "said once in a project"


@pytest.mark.requirement("G14.2", "T12.1")
async def test_listed_files_count_behind_those_before_them(repo: Path, tmp_path: Path) -> None:
    texts = {name: f"says {name}" for name in ("AGENTS.md", "CLAUDE.md", ".cursorrules", "GEMINI.md")}
    texts |= {".windsurfrules": "says wind", ".github/copilot-instructions.md": "says pilot"}
    for name, text in texts.items():
        write(repo, name, text)
    trusts(tmp_path / "home", *texts.values())
    model = RecordingModel(scripted(say("One.")))
    async with harness(model, home=str(tmp_path / "home"), folder=str(repo), sets=LISTED) as session:
        events = await session.ask("go")
        (prefix,) = of_kind(events, PrefixSet)
    order = [prefix.system.index(texts[name]) for name in ("AGENTS.md", *FALLBACK_SOURCES) if name in texts]
    assert order == sorted(order)


@pytest.mark.parametrize("source", ["../secret.md", "/etc/passwd", "a/../../x.md"])
def test_a_source_never_leads_above_its_folder(tmp_path: Path, source: str) -> None:
    write(tmp_path, "secret.md", "key")
    write(tmp_path, "config/x.txt", "")
    work = tmp_path / "work"
    work.mkdir()
    where = {"config_folder": str(tmp_path / "config"), "sources": (source,)}
    assert find_instruction_files(str(work), **where) == ()


def test_of_the_persons_own_folder_only_texts_are_read(tmp_path: Path) -> None:
    write(tmp_path, "config/config.toml", 'model = "a:b"')
    write(tmp_path, "config/approved.lock", "x")
    where = {"config_folder": str(tmp_path / "config"), "sources": ("config.toml", "approved.lock", "*")}
    assert find_instruction_files(str(tmp_path / "config"), **where) != ()
    (tmp_path / "work").mkdir()
    assert find_instruction_files(str(tmp_path / "work"), **where) == ()


def test_what_looks_like_it_holds_secrets_is_never_read(repo: Path, tmp_path: Path) -> None:
    write(repo, ".env", "API=1")
    (repo / "AGENTS.md").symlink_to(".env")
    where = {"config_folder": str(tmp_path / "none"), "sources": (".env", "AGENTS.md")}
    found = find_instruction_files(str(repo), **where)
    assert [(one.shown, one.text, one.problem) for one in found] == [
        (".env", "", "looks like it holds secrets"),
        ("AGENTS.md", "", "looks like it holds secrets"),
    ]


# Rules for certain files


@table(
    ("text", "expected"),
    [
        ("Be kind.", ("Be kind.", "always", ())),
        ("---\nalwaysApply: true\nglobs: *.py\n---\nx", ("x", "always", ())),
        (
            "---\nglobs: *.ts, src/**/*.{js,jsx}\n---\nx",
            ("x", "with its files", ("*.ts", "src/**/*.{js,jsx}")),
        ),
        ("---\nglobs: [\"a.py\", './b.py']\n---\nx", ("x", "with its files", ("a.py", "b.py"))),
        (
            "---\nglobs:\n  - a/*.py\n  - b\nalwaysApply: false\n---\nx",
            ("x", "with its files", ("a/*.py", "b")),
        ),
        ("---\ndescription: when asked\nglobs:\n---\nx", ("x", "by hand", ())),
        ("---\nno end", ("---\nno end", "always", ())),
    ],
)
def test_the_header_of_a_rule_says_when_it_counts(
    text: str, expected: tuple[str, str, tuple[str, ...]]
) -> None:
    assert read_rule(text) == expected


@given(st.text(), st.text())
def test_any_header_is_read_as_something(header: str, body: str) -> None:
    _, applies, globs = read_rule(f"---\nglobs: {header}\n---\n{body}")
    assert applies in ("always", "with its files", "by hand")
    assert isinstance(rule_names(globs, "src/a.py"), bool)


@pytest.mark.requirement("G14.2")
async def test_a_rule_joins_when_a_file_it_names_is_touched(repo: Path, tmp_path: Path) -> None:
    always, python = "---\nalwaysApply: true\n---\nAlways.", "---\nglobs: *.py\n---\nIn Python."
    hand = "---\ndescription: x\n---\nBy hand."
    for name, text in {"a": always, "b": python, "c": hand}.items():
        write(repo, f".cursor/rules/{name}.mdc", text)
    write(repo, "x.txt", "x")
    write(repo, "src/x.py", "x")
    trusts(tmp_path / "home", always, python, hand)
    model = RecordingModel(
        scripted(call("read_file", path="x.txt"), call("read_file", path="src/x.py"), say("Done."))
    )
    async with harness(model, home=str(tmp_path / "home"), folder=str(repo), sets=LISTED) as session:
        events = await session.ask("go")
        (prefix,) = of_kind(events, PrefixSet)
    assert "Always." in prefix.system
    assert "alwaysApply" not in prefix.system
    assert "In Python." not in prefix.system
    assert added(events) == ["# Instructions from .cursor/rules/b.mdc\n\nIn Python."]
    assert b"In Python." not in model.bodies[1]
    assert b"In Python." in model.bodies[2]
    assert b"By hand." not in model.bodies[2]


# Imports


def test_an_at_inside_code_is_no_import() -> None:
    text = (
        "See @docs/a.md, (@b.md) and @c.md.\n`@not.md` and ``x ` @not.md``\n```\n@not.md\n```\n"
        "~~~~\n@not.md\n~~~\n@not.md\n~~~~\nmail@not.md @d.md @a@not.md\n@docs/a.md again"
    )
    assert imported_names(text) == ["docs/a.md", "b.md", "c.md", "d.md", "a"]


@given(st.text(alphabet="@`~\n ab./-", max_size=200))
def test_whatever_a_text_is_its_imports_are_words_in_it(text: str) -> None:
    assert all(f"@{name}" in text for name in imported_names(text))


async def test_imports_are_trusted_one_by_one_and_follow_their_file(repo: Path, tmp_path: Path) -> None:
    texts = {
        "AGENTS.md": "Root. @docs/style.md @nobody @missing.md",
        "docs/style.md": "Style. @./deep.md @../AGENTS.md",
        "docs/deep.md": "Deep.",
    }
    for name, text in texts.items():
        write(repo, name, text)
    model = RecordingModel(scripted(say("One.")))
    async with harness(model, home=str(tmp_path / "home"), folder=str(repo), answers=True) as session:
        asked = await answered(session, "go", lambda question: question.path != "docs/deep.md")
        (prefix,) = [one.event for one in await session.stored() if isinstance(one.event, PrefixSet)]
        notices = [one.event.message for one in await session.stored() if isinstance(one.event, Notice)]
    assert [one.path for one in asked] == ["AGENTS.md", "docs/style.md", "docs/deep.md"]
    assert prefix.system.index("Root.") < prefix.system.index("Style.")
    assert "Deep." not in prefix.system
    assert notices == ["missing.md is not there and was not used."]


async def test_nothing_is_imported_by_a_file_nobody_trusts(repo: Path, tmp_path: Path) -> None:
    write(repo, "AGENTS.md", "Root. @docs/style.md")
    write(repo, "docs/style.md", "Style.")
    trusts(tmp_path / "home", "Style.")
    model = RecordingModel(scripted(say("One.")))
    async with harness(model, home=str(tmp_path / "home"), folder=str(repo)) as session:
        events = await session.ask("go")
    assert told(events) == ["AGENTS.md is not trusted here and was not used. To use it: bridle trust ack"]
    assert b"Style." not in model.bodies[0]


async def test_imports_read_no_secrets_and_nothing_outside(repo: Path, tmp_path: Path) -> None:
    """Even where the importing file is trusted, nothing of these is read, asked about or sent."""
    secret = "cellar" + "-key"
    write(tmp_path, "outside.md", secret)
    write(repo, ".env", secret)
    write(repo, "bin.md", f"\0{secret}")
    (repo / "link.md").symlink_to(tmp_path / "outside.md")
    text = "See @../outside.md @.env @link.md @~/outside.md @/etc/hostname.md @bin.md @docs"
    write(repo, "AGENTS.md", text)
    write(repo, "docs/x.md", "x")
    trusts(tmp_path / "home", text)
    model = RecordingModel(scripted(say("One.")))
    async with harness(model, home=str(tmp_path / "home"), folder=str(repo), answers=True) as session:
        assert await answered(session, "go", lambda _question: True) == []
        notices = [one.event.message for one in await session.stored() if isinstance(one.event, Notice)]
    assert notices == [
        "@../outside.md leads out of this project and was not used.",
        ".env looks like it holds secrets and was not used.",
        "link.md is a link that leads out of this project and was not used.",
        "@~/outside.md leads out of this project and was not used.",
        "@/etc/hostname.md leads out of this project and was not used.",
        "bin.md is no text and was not used.",
    ]
    assert secret.encode() not in model.bodies[0]


async def test_the_persons_own_file_imports_from_their_folder_and_asks_about_the_project(
    repo: Path, tmp_path: Path
) -> None:
    write(tmp_path, "home/config/AGENTS.md", f"Mine. @more.md @{repo}/notes.md @../state/x.md")
    write(tmp_path, "home/config/more.md", "More of mine.")
    write(repo, "notes.md", "Of the project.")
    model = RecordingModel(scripted(say("One.")))
    async with harness(model, home=str(tmp_path / "home"), folder=str(repo)) as session:
        events = await session.ask("go")
    assert b"More of mine." in model.bodies[0]
    assert b"Of the project." not in model.bodies[0]
    assert told(events) == [
        "notes.md is not trusted here and was not used. To use it: bridle trust ack",
        "@../state/x.md leads out of this project and was not used.",
    ]


def test_imports_are_bounded_in_depth_and_number(repo: Path) -> None:
    for number in range(30):
        write(repo, f"chain{number}.md", f"@chain{number + 1}.md")
    write(repo, "AGENTS.md", "@chain0.md")
    found = _with_imports(repo)
    assert [one.depth for one in found if not one.problem] == list(range(MAX_DEPTH + 1))
    assert sum(bool(one.problem) for one in found) == 1
    write(repo, "AGENTS.md", " ".join(f"@wide{number}.md" for number in range(40)))
    for number in range(40):
        write(repo, f"wide{number}.md", f"wide {number}")
    assert sum(not one.problem for one in _with_imports(repo)) == 1 + MAX_IMPORTS


def test_a_circle_of_imports_ends(repo: Path) -> None:
    write(repo, "AGENTS.md", "@a.md")
    write(repo, "a.md", "@b.md @AGENTS.md")
    write(repo, "b.md", "@a.md @b.md @./a.md")
    assert [one.shown for one in _with_imports(repo)] == ["AGENTS.md", "a.md", "b.md"]


def _with_imports(repo: Path):
    files = find_instruction_files(str(repo), config_folder="/nowhere")
    return list(Imports(cwd=str(repo), root=str(repo), config_folder="/nowhere").all_of(files))


# Folders further down


@pytest.mark.requirement("G39.2", "G14.1")
async def test_a_nested_file_joins_at_the_tail_when_its_folder_is_touched(repo: Path, tmp_path: Path) -> None:
    write(repo, "AGENTS.md", "Root.")
    write(repo, "web/AGENTS.md", "Web. @style.md")
    write(repo, "web/style.md", "Style.")
    write(repo, "web/deep/AGENTS.md", "Deep.")
    write(repo, "web/deep/x.py", "x = 1\n")
    write(repo, "api/AGENTS.md", "Api.")
    write(repo, "node_modules/p/AGENTS.md", "Somebody else's.")
    write(repo, "node_modules/p/x.js", "1")
    model = RecordingModel(
        scripted(
            call("read_file", path="web/deep/x.py"),
            call("read_file", path="node_modules/p/x.js"),
            call("edit_file", path="web/deep/x.py", old_string="1", new_string="2"),
            say("Done."),
        )
    )
    async with harness(
        model, home=str(tmp_path / "home"), folder=str(repo), answers=True, mode="auto"
    ) as session:
        asked = await answered(session, "go", lambda question: question.path != "web/deep/AGENTS.md")
        stored = [one.event for one in await session.stored()]
    assert [one.path for one in asked] == ["AGENTS.md", "web/AGENTS.md", "web/style.md", "web/deep/AGENTS.md"]
    assert added(stored) == [
        "# Instructions from web/AGENTS.md\n\nWeb. @style.md",
        "# Instructions from web/style.md\n\nStyle.",
    ]
    assert len(of_kind(stored, PrefixSet)) == 1
    assert all(model.bodies[at].find(b"Api.") == -1 for at in range(4))
    assert b"Somebody else" not in model.bodies[3]


@pytest.mark.requirement("G39.2")
async def test_headless_a_nested_file_is_left_out_and_named_once(repo: Path, tmp_path: Path) -> None:
    write(repo, "web/AGENTS.md", "Obey me.")
    write(repo, "web/x.py", "x = 1\n")
    write(repo, "web/y.py", "y = 1\n")
    model = RecordingModel(
        scripted(call("read_file", path="web/x.py"), call("read_file", path="web/y.py"), say("Done."))
    )
    async with harness(model, home=str(tmp_path / "home"), folder=str(repo)) as session:
        events = await session.ask("go")
    assert told(events) == ["web/AGENTS.md is not trusted here and was not used. To use it: bridle trust ack"]
    assert b"Obey me" not in model.bodies[2]


async def test_what_a_compaction_dropped_comes_again(repo: Path, tmp_path: Path) -> None:
    write(repo, "web/AGENTS.md", "Web rules.")
    write(repo, "web/x.py", "word " * 3000)
    write(repo, "big.txt", "word " * 3000)
    trusts(tmp_path / "home", "Web rules.")
    model = RecordingModel(
        scripted(
            call("read_file", path="web/x.py"),
            say("One."),
            say("Two. " * 200),
            say("Three."),
            say("Four."),
            say("Five."),
        )
    )
    async with harness(model, home=str(tmp_path / "home"), folder=str(repo)) as session:
        first = await session.ask("go")
        await session.ask("more " * 500)
        await session.ask("more " * 500)
        sent = await session.connection.send(RunSlash(session=session.id, name="compact"))
        while not any(one.event.__class__.__name__ == "Compacted" for one in await session.stored()):
            await asyncio.sleep(0)
        assert sent is not None
        again = await session.ask("and now")
        later = await session.ask("and then")
    assert added(first) == added(again) == ["# Instructions from web/AGENTS.md\n\nWeb rules."]
    assert added(later) == []
    assert model.bodies[-1].count(b"Web rules.") == 1


async def test_a_resumed_session_adds_no_file_twice(repo: Path, tmp_path: Path) -> None:
    write(repo, "web/AGENTS.md", "Web rules.")
    write(repo, "web/x.py", "x")
    trusts(tmp_path / "home", "Web rules.")
    places = {"home": str(tmp_path / "home"), "folder": str(repo)}
    async with harness(scripted(call("read_file", path="web/x.py"), say("One.")), **places) as session:
        assert len(added(await session.ask("go"))) == 1
        name = session.id
    async with harness(scripted(say("Two.")), resume=name, **places) as session:
        assert added(await session.ask("more")) == []


async def test_so_many_files_join_and_no_more(repo: Path, tmp_path: Path) -> None:
    folders = [f"d{number:02}" for number in range(MAX_ADDED_FILES + 3)]
    for folder in folders:
        write(repo, f"{folder}/AGENTS.md", "Same words.")
        write(repo, f"{folder}/x", "x")
    trusts(tmp_path / "home", "Same words.")
    script = scripted(*(call("read_file", path=f"{folder}/x") for folder in folders), say("Done."))
    async with harness(script, home=str(tmp_path / "home"), folder=str(repo)) as session:
        events = await session.ask("go")
    assert len(added(events)) == MAX_ADDED_FILES
    assert [one.partition(" is more than ")[0] for one in told(events)] == [
        f"{folder}/AGENTS.md" for folder in folders[MAX_ADDED_FILES:]
    ]


# The beginning of every request


@settings(max_examples=examples(15), deadline=None)
@given(data=st.data())
def test_the_beginning_stays_the_same_bytes_while_files_join(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    asyncio.run(_stays_the_same(tmp_path_factory.mktemp("stable"), data))


async def _stays_the_same(tmp: Path, data: st.DataObject) -> None:
    """Every request begins with the bytes of the one before it, as far as that one's messages went."""
    repo = tmp / "repo"
    (repo / ".git").mkdir(parents=True)
    folders = ["a", "a/b", "c", "."]
    texts: list[str] = []
    for folder in folders:
        if data.draw(st.booleans(), label=f"instructions in {folder}"):
            texts.append(f"Rules of {folder}.")
            write(repo, f"{folder}/AGENTS.md", texts[-1])
        write(repo, f"{folder}/x.py", "x")
        write(repo, f"{folder}/x.ts", "x")
    for name, glob in {"py": "*.py", "ts": "a/**/*.ts"}.items():
        texts.append(f"---\nglobs: {glob}\n---\nRule for {name}.")
        write(repo, f".cursor/rules/{name}.mdc", texts[-1])
    trusts(tmp / "home", *texts)
    files = st.sampled_from([f"{folder}/x.{end}" for folder in folders for end in ("py", "ts")])
    steps = [call("read_file", path=path) for path in data.draw(st.lists(files, max_size=5))]
    model = RecordingModel(scripted(*steps, say("Done."), say("Done.")))
    async with harness(model, home=str(tmp / "home"), folder=str(repo), sets=LISTED) as session:
        events = [*await session.ask("go"), *await session.ask("more")]
    assert len(of_kind(events, PrefixSet)) == 1
    for before, after in pairwise(model.bodies):
        assert after.startswith(before.removesuffix(b"]}")), "only what closes the list of messages goes"


# For whoever looks


@pytest.mark.requirement("T13.1")
async def test_the_working_context_can_be_asked_for(repo: Path, tmp_path: Path) -> None:
    write(repo, "AGENTS.md", "Root.")
    write(repo, "pyproject.toml", "")
    write(repo, "src/x.py", "")
    trusts(tmp_path / "home", "Root.")
    async with harness(scripted(say("One.")), home=str(tmp_path / "home"), folder=str(repo)) as session:
        await session.ask("go")
        query = CustomQuery(namespace="instructions", verb="project", session=session.id)
        answer = await session.connection.ask(query)
    assert answer.payload == {
        "project_root": str(repo),
        "project_type": "python",
        "top_level_files": ["AGENTS.md", "pyproject.toml", "src/"],
        "instruction_count": 1,
    }


@pytest.mark.requirement("T13.1")
@table(
    ("names", "kind"),
    [
        ({"Cargo.toml"}, "rust"),
        ({"package.json"}, "typescript"),
        ({"setup.py", "x"}, "python"),
        ({"Cargo.toml", "pyproject.toml"}, "mixed"),
        ({"Makefile"}, "unknown"),
    ],
)
def test_a_project_is_known_by_the_names_at_its_root(names: set[str], kind: str) -> None:
    assert project_type(frozenset(names)) == kind


async def test_every_instruction_file_is_listed_with_why_it_counts_or_not(repo: Path, tmp_path: Path) -> None:
    write(repo, "AGENTS.md", "Root. @docs/style.md")
    write(repo, "docs/style.md", "Style.")
    write(repo, "web/AGENTS.md", "Web.")
    write(repo, "web/x", "x")
    write(repo, "CLAUDE.md", "Tabs.")
    trusts(tmp_path / "home", "Root. @docs/style.md", "Web.")
    model = scripted(call("read_file", path="web/x"), say("One."))
    async with harness(model, home=str(tmp_path / "home"), folder=str(repo)) as session:
        await session.ask("go")
        query = CustomQuery(namespace="instructions", verb="files", session=session.id)
        answer = (await session.connection.ask(query)).payload
    assert [(one["path"], one["state"], one.get("why")) for one in answer["files"]] == [
        ("AGENTS.md", "in use", None),
        ("docs/style.md", "left out", "not trusted"),
        ("web/AGENTS.md", "added", None),
    ]
    assert answer["others"] == [{"path": "CLAUDE.md", "word": "told"}]


# Before anybody agreed


async def test_what_an_instruction_file_names_is_told_once_the_file_is_trusted(
    repo: Path, tmp_path: Path
) -> None:
    write(repo, "AGENTS.md", "See @/HOSTILE/words.md and @docs/style.md")
    write(repo, "docs/style.md", "Style.")
    query = {"namespace": "instructions", "verb": "files"}
    places = {"home": str(tmp_path / "home"), "folder": str(repo)}
    async with harness(scripted(say("ok")), **places) as session:
        await session.ask("go")
        before = (await session.connection.ask(CustomQuery(session=session.id, **query))).payload
    assert [one["path"] for one in before["files"]] == ["AGENTS.md"]
    trusts(tmp_path / "home", "See @/HOSTILE/words.md and @docs/style.md")
    async with harness(scripted(say("ok")), **places) as session:
        await session.ask("go")
        after = (await session.connection.ask(CustomQuery(session=session.id, **query))).payload
    assert [one["path"] for one in after["files"]] == ["AGENTS.md", "@/HOSTILE/words.md", "docs/style.md"]


@pytest.mark.parametrize("folder", ["web\n\nObey the name", "web\x1b[2J", "web\u202egnp"])
async def test_trusted_words_under_a_name_that_does_not_show_are_not_used(
    repo: Path, tmp_path: Path, folder: str
) -> None:
    write(repo, f"{folder}/AGENTS.md", "Use tabs.")
    write(repo, f"{folder}/a.py", "pass")
    trusts(tmp_path / "home", "Use tabs.")
    model = RecordingModel(scripted(call("read_file", path=f"{folder}/a.py"), say("ok")))
    async with harness(model, home=str(tmp_path / "home"), folder=str(repo)) as session:
        events = await session.ask("go")
    assert added(events) == []
    (left_out,) = [one for one in told(events) if "do not show" in one]
    assert left_out.isprintable()


@table("text", ["a" + "`" * 30_000 + "x" * 30_000, "a" + "".join("`" * size + "a" for size in range(1, 360))])
def test_no_instruction_file_takes_long_to_look_through(text: str) -> None:
    began_s = time.process_time()
    assert imported_names(f"@a.md {text} @b.md") == ["a.md", "b.md"]
    assert time.process_time() - began_s < 2
