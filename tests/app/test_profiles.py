"""The profile a client names for a session is applied and recorded; names of nothing are refused."""

from pathlib import Path
from typing import Any

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, harness
from bridle.engine.function_tool import tool
from bridle.plugin.registrar import Registrar
from bridle.protocol.commands import CreateSession, EndSession, SessionOptions
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import (
    ContextAdded,
    Notice,
    PermissionDecided,
    PrefixSet,
    SessionCreated,
    ToolResult,
)
from bridle.protocol.messages import TextBlock
from bridle.protocol.queries import DescribeProfile, ListProfiles, ListTools
from bridle.providers.script import call, say
from bridle.safety.trust.approvals import Approvals, content_digest

MINE = 'mode = "auto"\n[[permissions.rules]]\ntool = "bash"\ncommand = "echo no*"\nverdict = "deny"\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config/profiles").mkdir(parents=True)
    (tmp_path / "config/profiles/mine.toml").write_text(MINE)
    return tmp_path


def opened(home: Path, *answers: Any, **given: Any):
    return harness(scripted(*(answers or (say("Hi."),))), home=str(home), sandbox="off", **given)


async def created(session: HarnessSession) -> list[SessionCreated]:
    return [
        envelope.event for envelope in await session.stored() if isinstance(envelope.event, SessionCreated)
    ]


@pytest.mark.requirement("G16.4")
async def test_a_profile_of_create_session_is_applied_and_recorded(home: Path) -> None:
    async with opened(home, call("bash", command="echo now"), say("Hm."), profile="mine") as session:
        events = await session.ask("go")
        (begun,) = await created(session)
        assert (begun.profile, begun.mode) == ("mine", "auto")
        assert session.engine.store.find(session.id).profile == "mine"
    (decided,) = (event for event in events if isinstance(event, PermissionDecided))
    assert (decided.verdict, decided.reason) == ("deny", "RuleDenied")


async def test_a_profile_of_the_persons_own_settings_is_recorded_too(home: Path) -> None:
    (home / "config/config.toml").write_text('profile = "mine"\n')
    async with opened(home) as session:
        assert [begun.profile for begun in await created(session)] == ["mine"]


async def test_a_session_that_goes_on_has_the_profile_of_its_new_run(home: Path, tmp_path: Path) -> None:
    (home / "team.toml").write_text('mode = "plan"\n')
    async with opened(home) as session:
        await session.ask("go")
        await session.connection.send(EndSession(session=session.id))
        await session.connection.send(
            CreateSession(
                cwd=str(home),
                env={},
                resume=session.id,
                profile="./team.toml",
                config=SessionOptions(sandbox="off"),
            )
        )
        names = [begun.profile for begun in await created(session)]
    assert names == ["default", str(home / "team.toml")], "its path is one from where the client is"


@pytest.mark.parametrize("name", ["carful", "zzz"])
async def test_a_profile_that_is_not_there_is_refused_with_those_there_are(home: Path, name: str) -> None:
    with pytest.raises(BridleError) as refused:
        async with opened(home, profile=name):
            pass
    assert refused.value.reason == "BadConfig"
    assert f'there is no profile "{name}"' in refused.value.message
    assert "careful, default, mine" in refused.value.message


async def test_an_agent_that_is_not_there_is_refused_with_those_there_are(home: Path) -> None:
    async with opened(home) as session:
        with pytest.raises(BridleError) as refused:
            await session.connection.send(CreateSession(cwd=session.folder, env={}, agent="reviewer"))
        assert refused.value.reason == "UnknownAgent"
        known = "You can talk with: build, plan, review, solve (nearest: review). See: bridle agents"
        assert refused.value.message == f'There is no agent "reviewer". {known}'
        assert len(session.engine.store.list()) == 1, "nothing was begun"


# Tool packs


@pytest.mark.requirement("G7.22")
async def test_a_profile_says_which_groups_of_tools_a_session_has(home: Path) -> None:
    (home / "config/profiles/looker.toml").write_text('tool_packs = ["read", "git"]\n')
    model = scripted(call("bash", command="echo hi"), say("Hm."))
    async with harness(model, home=str(home), sandbox="off", profile="looker") as session:
        events = await session.ask("go")
        told = {tool.name for tool in (await session.connection.ask(ListTools(session=session.id))).tools}
        said = [one.event.message for one in await session.stored() if isinstance(one.event, Notice)]
    assert {"read_file", "grep", "glob", "ls", "todo", "ask_user"} <= told
    assert not told & {"bash", "web_fetch", "write_file", "edit_file", "apply_patch"}
    (result,) = (event for event in events if isinstance(event, ToolResult))
    assert result.outcome != "ok", "what the model was not told of fails closed"
    assert 'tools.packs: there is no pack "git" (there are read, edit, fs, shell, web).' in said


class _Clock:
    name = "clock"

    def register(self, registrar: Registrar) -> None:
        @tool(risk="read", mutating=False)
        async def now() -> str:
            """Tells the time."""
            return "noon"

        registrar.add_tool(now)
        registrar.add_rule("bash", "deny", reason="the clock says no")


@pytest.mark.parametrize(("packs", "there"), [('["read"]', False), ('["clock"]', True)])
async def test_the_tools_of_a_plugin_are_a_pack_of_its_name(home: Path, packs: str, there: bool) -> None:
    (home / "config/profiles/some.toml").write_text(f"tool_packs = {packs}\n")
    async with opened(home, profile="some", plugins=[_Clock()]) as session:
        names = {tool.name for tool in (await session.connection.ask(ListTools(session=session.id))).tools}
    assert ("clock__now" in names) == there


# The profile in force


@pytest.mark.requirement("X15")
async def test_the_profile_in_force_is_told_with_what_the_session_has(home: Path) -> None:
    (home / "config/profiles/mine.toml").write_text(
        'about = "Mine  alone."\nmode = "auto"\ntool_packs = ["web"]\n'
        'mcp_servers = [{ name = "far", url = "http://127.0.0.1:9/mcp" }]\n'
        '[skills]\ndisabled = ["write-a-skill"]\n'
    )
    own = home / "config/skills/sweep/SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("---\nname: sweep\ndescription: Sweeps.\n---\nSweep.\n")
    async with opened(home, profile="mine") as session:
        told = await session.connection.ask(DescribeProfile(session=session.id))
        listed = await session.connection.ask(ListProfiles(session=session.id))
        alone = await session.connection.ask(DescribeProfile(name="mine"))
    assert (told.name, told.about, told.scope, told.servers) == ("mine", "Mine alone.", "own", ("far",))
    assert told.skills == ("find-the-cause", "sweep")
    assert "web_fetch" in told.tools
    assert "bash" not in told.tools
    assert told.settings == alone.settings == {"mode": "auto", "tools": {"packs": ["web"]}}
    assert [(one.name, one.in_force) for one in listed.entries] == [
        ("careful", False),
        ("default", False),
        ("mine", True),
        ("t-compat", False),
    ]


# Going on, and going on elsewhere


async def test_a_session_keeps_its_profile_when_it_goes_on(home: Path) -> None:
    async with opened(home, profile="mine") as session:
        await session.ask("go")
        await session.connection.send(EndSession(session=session.id))
        await session.connection.send(
            CreateSession(cwd=session.folder, env={}, resume=session.id, config=SessionOptions(sandbox="off"))
        )
        assert [begun.profile for begun in await created(session)] == ["mine", "mine"]
        await session.connection.send(EndSession(session=session.id))
        agent = session.engine.connect(name="other", identity="agent", answers=False)
        with pytest.raises(CommandRefused) as refused:
            await agent.send(CreateSession(cwd=session.folder, resume=session.id))
        assert refused.value.reason == "NotAPerson", "an agent has what the person's own settings give"


@pytest.mark.requirement("G38.6")
async def test_a_session_that_goes_on_with_another_profile_has_its_words_its_mode_and_its_name(
    home: Path,
) -> None:
    (home / "config/profiles/mine.toml").write_text('mode = "plan"\nprompt_header = "Speak like a pirate."\n')
    model = scripted(say("One."), say("Two."))
    async with harness(model, home=str(home), sandbox="off") as session:
        await session.ask("go")
        await session.connection.send(EndSession(session=session.id))
        again = CreateSession(
            cwd=session.folder,
            env={},
            resume=session.id,
            profile="mine",
            config=SessionOptions(sandbox="off"),
        )
        await session.connection.send(again)
        await session.ask("and again")
        prefixes = [one.event for one in await session.stored() if isinstance(one.event, PrefixSet)]
        assert [("pirate" in prefix.system) for prefix in prefixes] == [False, True]
        assert [begun.mode for begun in await created(session)] == ["default", "plan"]
        assert session.engine.store.find(session.id).profile == "mine"
        await session.ask("once more")
        later = [one.event for one in await session.stored() if isinstance(one.event, PrefixSet)]
        assert later == prefixes, "from then on the beginning of a request stays as it is"


@pytest.mark.requirement("G38.6")
async def test_a_new_session_can_begin_with_a_summary_of_the_last_turns_of_another(home: Path) -> None:
    model = scripted(*(say(f"Answer {number}.") for number in range(1, 9)))
    async with harness(model, home=str(home), sandbox="off") as session:
        for number in range(1, 8):
            await session.ask(f"question {number}")
        made = await session.connection.send(
            CreateSession(
                cwd=session.folder,
                env={},
                model=f"{model.name}:scripted",
                profile="mine",
                carry_from=session.id,
                config=SessionOptions(sandbox="off"),
            )
        )
        events = [one.event async for one in session.engine.sessions.events(made.session)]
        assert session.id in session.engine.live.all_open(), "the other one is as it was"
    (begun,) = (event for event in events if isinstance(event, SessionCreated))
    assert (begun.profile, begun.carried_from) == ("mine", session.id)
    (carried,) = (event for event in events if isinstance(event, ContextAdded))
    (block,) = carried.content
    assert isinstance(block, TextBlock)
    assert carried.source == "carried"
    assert "no new request" in block.text
    numbers = [number for number in range(1, 8) if f"asked: question {number}" in block.text]
    assert numbers == [3, 4, 5, 6, 7], "five by default"


async def test_what_was_said_elsewhere_is_for_people_and_for_new_sessions(home: Path) -> None:
    async with opened(home) as session:
        await session.ask("go")
        agent = session.engine.connect(name="other", identity="agent", answers=False)
        with pytest.raises(CommandRefused, match="for people"):
            await agent.send(CreateSession(cwd=session.folder, carry_from=session.id))
        await session.connection.send(EndSession(session=session.id))
        both = CreateSession(cwd=session.folder, env={}, resume=session.id, carry_from=session.id)
        with pytest.raises(CommandRefused, match="new session"):
            await session.connection.send(both)


# Profiles of a project


async def test_a_profile_of_a_project_is_in_force_once_it_is_trusted(home: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".bridle/profiles").mkdir(parents=True)
    (work / ".git").mkdir()
    file = work / ".bridle/profile.toml"
    file.write_text('about = "Ours."\ninstructions = "Obey the house rules."\nmode = "plan"\n')
    async with opened(home, folder=str(work)) as session:
        (begun,) = await created(session)
        assert (begun.profile, begun.mode) == ("default", "default")
        listed = await session.connection.ask(ListProfiles(session=session.id))
        assert [(one.name, one.trusted, one.about) for one in listed.entries if one.scope == "project"] == [
            (".bridle/profile.toml", False, "")
        ], "before trust not even its words are told"
    digest = content_digest(file.read_bytes())
    Approvals(str(home / "config")).add(".bridle/profile.toml", digest, kind="config", root=str(work))
    async with opened(home, folder=str(work)) as session:
        await session.ask("go")
        (begun,) = await created(session)
        assert (begun.profile, begun.mode) == (".bridle/profile.toml", "plan")
        (prefix,) = [one.event for one in await session.stored() if isinstance(one.event, PrefixSet)]
        assert "Obey the house rules." in prefix.system
        told = await session.connection.ask(DescribeProfile(session=session.id))
        assert (told.name, told.about, told.scope) == (".bridle/profile.toml", "Ours.", "project")
    file.write_text('mode = "plan"\n# changed\n')
    async with opened(home, folder=str(work)) as session:
        assert [begun.profile for begun in await created(session)] == ["default"], (
            "its very bytes were agreed to"
        )
