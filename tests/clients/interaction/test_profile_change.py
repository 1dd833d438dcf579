"""`/profile`, `/profiles` and `/profiles:NAME` as a person has them, through a connection and without a screen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.interaction.commands.setting_commands import ProfileChange, parse_change, ways_to_change
from bridle.clients.interaction.composer.picker import ChoiceList
from bridle.clients.interaction.effects import ChooseRow, PickRow, SessionReady
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, harness
from bridle.protocol import events as e
from bridle.protocol.commands import CreateSession, EndSession, SessionOptions
from bridle.providers.script import say
from clients.interaction.headless_kit import Headless, headless


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config/profiles").mkdir(parents=True)
    (tmp_path / "config/profiles/mine.toml").write_text(
        'about = "Mine."\nmode = "plan"\nprompt_header = "Speak like a pirate."\n'
    )
    return tmp_path


@asynccontextmanager
async def talking(home: Path, *answers: str) -> AsyncIterator[tuple[Headless, HarnessSession]]:
    model = scripted(*map(say, answers))
    async with harness(model, home=str(home), sandbox="off", answers=True) as session:
        await session.connection.send(EndSession(session=session.id))
        create = CreateSession(
            cwd=session.folder, env={}, model=f"{model.name}:scripted", config=SessionOptions(sandbox="off")
        )
        async with headless(session.connection, create) as client:
            yield client, session


async def says(client: Headless, words: str) -> None:
    client.writes(words)
    await client.shows(e.TurnEnded)


async def list_of(client: Headless) -> ChoiceList:
    shown = await client.gets(PickRow, lambda effect: effect.ready)
    assert shown.choices is not None
    return shown.choices


async def stored(session: HarnessSession, one: str) -> list[e.AnyEvent]:
    return [envelope.event async for envelope in session.engine.sessions.events(one)]


@pytest.mark.requirement("X15", "G45.2")
async def test_the_profile_in_force_is_shown_with_its_tools_servers_and_skills(home: Path) -> None:
    async with talking(home, "Hi.") as (client, _session):
        client.writes("/profile")
        assert await client.reads("profile  default") == "profile  default   comes with Bridle"
        assert "bash" in await client.reads("tools")
        assert await client.reads("servers") == "servers  none"
        assert await client.reads("skills") == "skills   find-the-cause, write-a-skill"
        client.writes("/profiles")
        assert await client.reads("careful") == (
            "  careful    Asks before everything, keeps commands enclosed and offline, remembers no yes."
        )
        assert await client.reads("default") == "> default    The built-in defaults."
        assert await client.reads("mine") == "  mine       Mine."


@pytest.mark.requirement("G38.6", "G45.6")
async def test_another_profile_is_another_session_with_what_was_said_last_and_the_old_one_is_paused(
    home: Path,
) -> None:
    async with talking(home, "One.", "Two.") as (client, session):
        await says(client, "hello there")
        old = client.driver.controller.session
        client.writes("/profiles:mine")
        choices = await list_of(client)
        assert choices.title == "A new session with the profile mine; this one is paused"
        client.wants(ChooseRow("profile", choices.rows[0].id))
        told = await client.reads("A new session")
        assert told.startswith(
            'A new session on the profile "mine". It begins with a summary of the last 5 turns.'
        )
        assert "is paused: /resume " in told
        await client.gets(SessionReady)
        new = client.driver.controller.session
        assert new != old
        await says(client, "and now")
        events = await stored(session, new)
        (begun,) = (event for event in events if isinstance(event, e.SessionCreated))
        assert (begun.profile, begun.carried_from, begun.mode) == ("mine", old, "plan")
        (prefix,) = (event for event in events if isinstance(event, e.PrefixSet))
        assert "pirate" in prefix.system
        assert any(isinstance(event, e.ContextAdded) and event.source == "carried" for event in events)
        assert isinstance((await stored(session, old))[-1], e.SessionEnded)
        client.writes(f"/resume {old}")
        await client.gets(SessionReady)
        back = [one for one in await stored(session, old) if isinstance(one, e.SessionCreated)]
        assert [one.profile for one in back] == ["default", "default"], "it goes on as it was"


@pytest.mark.requirement("G38.6")
async def test_in_place_the_session_stays_and_has_another_profile_after_a_warning(home: Path) -> None:
    async with talking(home, "One.", "Two.") as (client, session):
        await says(client, "hello there")
        old = client.driver.controller.session
        client.writes("/profiles:mine --in-place")
        choices = await list_of(client)
        assert "Instructions and tools change in the middle of it" in choices.title
        client.wants(ChooseRow("profile", choices.rows[0].id))
        await client.reads('This session goes on with the profile "mine".')
        await client.gets(SessionReady)
        assert client.driver.controller.session == old
        await says(client, "and now")
        events = await stored(session, old)
        assert [one.profile for one in events if isinstance(one, e.SessionCreated)] == ["default", "mine"]
        assert ["pirate" in one.system for one in events if isinstance(one, e.PrefixSet)] == [False, True]


async def test_what_cannot_be_had_changes_nothing(home: Path) -> None:
    (home / "config/profiles/broken.toml").write_text("schema_version = 9\n")
    async with talking(home, "One.") as (client, _session):
        await says(client, "hello there")
        old = client.driver.controller.session
        client.writes("/profiles:mien")
        assert (
            'There is no profile "mien" (there are broken, careful, default, mine, t-compat).'
            in await client.reads("mien")
        )
        client.writes("/profiles:mine --sideways")
        await client.reads("That means nothing here")
        for words in ("/profiles:broken --no-import", "/profiles:broken --in-place --yes"):
            client.writes(words)
            await client.reads("schema_version = 9 is not one this Bridle knows")
        assert client.driver.controller.session == old
        client.writes("/status")
        await client.reads("idle")


@given(words=st.text(min_size=1).filter(lambda text: bool(text.strip())))
def test_whatever_is_written_behind_profiles_is_a_change_or_nothing(words: str) -> None:
    change = parse_change(words)
    assert change is None or change.name == words.split()[0]


@given(in_place=st.booleans(), name=st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True))
def test_every_row_of_the_list_is_a_change_that_needs_no_more_words(in_place: bool, name: str) -> None:
    for row in ways_to_change(ProfileChange(name, in_place=in_place)).rows:
        change = parse_change(row.id)
        assert change is not None
        assert change.is_complete
        assert change.in_place == in_place
