"""The profile a client names for a session is applied and recorded; names of nothing are refused."""

from pathlib import Path
from typing import Any

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, harness
from bridle.protocol.commands import CreateSession, EndSession
from bridle.protocol.errors import BridleError
from bridle.protocol.events import PermissionDecided, SessionCreated
from bridle.providers.script import call, say

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
                cwd=str(home), env={}, resume=session.id, profile="./team.toml", config={"sandbox": "off"}
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
        assert refused.value.message == 'There is no agent "reviewer". Known: none yet.'
        assert len(session.engine.store.list()) == 1, "nothing was begun"


async def test_a_profile_is_named_in_one_place(home: Path) -> None:
    async with opened(home) as session:
        with pytest.raises(BridleError) as refused:
            await session.connection.send(
                CreateSession(cwd=session.folder, env={}, config={"profile": "mine"})
            )
        assert refused.value.reason == "BadCommand"
