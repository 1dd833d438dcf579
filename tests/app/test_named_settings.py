"""A settings file that a person names by its path, where a model can write: their word is for what it said then."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, harness
from bridle.protocol.commands import CreateSession, EndSession, SessionOptions
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Mode, SessionCreated
from bridle.providers.script import call, say
from bridle.safety.trust.approvals import Approvals, content_digest

STRICT = 'mode = "strict"\n'
LOOSE = 'mode = "yolo"\n'
NOT_AGREED = "you have not agreed to what it says now, and it lies where a model can write."


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work/.git").mkdir(parents=True)
    (tmp_path / "work/team.toml").write_text(STRICT)
    return tmp_path / "work"


def opened(work: Path, *answers: Any, **given: Any) -> AbstractAsyncContextManager[HarnessSession]:
    model = scripted(*(answers or (say("Hi."),)))
    folder = str(given.pop("folder", work))
    return harness(model, folder=folder, home=str(work.parent / "home"), sandbox="off", **given)


async def mode_of(session: HarnessSession) -> Mode:
    created = [one.event for one in await session.stored() if isinstance(one.event, SessionCreated)]
    return created[-1].mode


async def mode_with(work: Path, **given: Any) -> Mode:
    async with opened(work, **given) as session:
        return await mode_of(session)


async def refusal(work: Path, **given: Any) -> BridleError:
    with pytest.raises(BridleError) as refused:
        await mode_with(work, **given)
    return refused.value


WAYS: dict[str, dict[str, Any]] = {
    "--profile": {"profile": "./team.toml"},
    "--config": {"config_file": "team.toml"},
    "--set": {"sets": ("profile=./team.toml",)},
}


@pytest.mark.requirement("G7.2")
@pytest.mark.parametrize("way", WAYS)
async def test_what_a_model_wrote_into_a_named_file_counts_after_a_person_agreed(
    work: Path, way: str
) -> None:
    given = WAYS[way]
    assert await mode_with(work, **given) == "strict"
    async with opened(
        work,
        call("read_file", path="team.toml"),
        call("edit_file", path="team.toml", old_string="strict", new_string="yolo"),
        say("Done."),
        mode="auto",
    ) as session:
        await session.ask("loosen")
    assert (work / "team.toml").read_text() == LOOSE
    refused = await refusal(work, **given)
    assert (refused.reason, refused.exit_code) == ("SettingsNotAgreed", 3)
    assert NOT_AGREED in refused.message
    assert refused.message.endswith("bridle trust ack team.toml.")
    approvals = Approvals(str(work.parent / "home/config"))
    approvals.add("team.toml", content_digest(LOOSE.encode()), kind="settings", root=str(work))
    assert await mode_with(work, **given) == "yolo"


@pytest.mark.requirement("G7.2")
async def test_a_session_does_not_go_on_with_a_profile_that_changed_meanwhile(work: Path) -> None:
    async with opened(work, profile="./team.toml") as session:
        await session.ask("go")
        await session.connection.send(EndSession(session=session.id))
        (work / "team.toml").write_text(LOOSE)
        go_on = CreateSession(cwd=str(work), env={}, resume=session.id, config=SessionOptions(sandbox="off"))
        with pytest.raises(BridleError) as refused:
            await session.connection.send(go_on)
        assert refused.value.reason == "SettingsNotAgreed"
        (work / "team.toml").write_text(STRICT)
        await session.connection.send(go_on)
        assert await mode_of(session) == "strict"


async def test_a_session_that_goes_on_is_nobodys_word_on_its_profile(work: Path) -> None:
    async with opened(work, profile="./team.toml") as session:
        await session.ask("go")
        await session.connection.send(EndSession(session=session.id))
        Approvals(str(work.parent / "home/config")).revoke(lambda _entry: True)
        with pytest.raises(BridleError) as refused:
            await session.connection.send(
                CreateSession(cwd=str(work), env={}, resume=session.id, config=SessionOptions(sandbox="off"))
            )
    assert refused.value.reason == "SettingsNotAgreed"


@pytest.mark.parametrize(
    ("variable", "value"), [("BRIDLE_CONFIG", "team.toml"), ("BRIDLE_PROFILE", "./team.toml")]
)
async def test_a_variable_that_means_another_file_in_every_folder_is_no_word_on_any(
    work: Path, variable: str, value: str
) -> None:
    refused = await refusal(work, env={variable: value})
    assert refused.reason == "SettingsNotAgreed"
    assert await mode_with(work, env={variable: str(work / "team.toml")}) == "strict"
    assert await mode_with(work, env={variable: value}) == "strict", "these bytes were agreed to by then"
    (work / "team.toml").write_text(LOOSE)
    assert (await refusal(work, env={variable: str(work / "team.toml")})).reason == "SettingsNotAgreed"


async def test_a_file_outside_the_sessions_folders_is_the_persons_own(work: Path) -> None:
    outside = work.parent / "mine.toml"
    for text, mode in ((STRICT, "strict"), (LOOSE, "yolo")):
        outside.write_text(text)
        assert await mode_with(work, config_file=str(outside)) == mode
    assert not (work.parent / "home/config/approved.lock").exists()


async def test_a_file_of_an_added_folder_and_one_behind_a_link_can_be_written_too(work: Path) -> None:
    added = work.parent / "added"
    added.mkdir()
    (added / "team.toml").write_text(STRICT)
    (work / "link.toml").symlink_to(work.parent / "elsewhere.toml")
    (work.parent / "elsewhere.toml").write_text(STRICT)
    (work.parent / "inward.toml").symlink_to(work / "team.toml")
    ways: list[tuple[Path, dict[str, Any]]] = [
        (added / "team.toml", {"config_file": str(added / "team.toml"), "add_dirs": (str(added),)}),
        (work.parent / "elsewhere.toml", {"config_file": "link.toml"}),
        (work / "team.toml", {"profile": str(work.parent / "inward.toml")}),
    ]
    for file, given in ways:
        assert await mode_with(work, **given) == "strict"
        file.write_text(LOOSE)
        assert (await refusal(work, **given)).reason == "SettingsNotAgreed"


async def test_the_file_of_permissions_that_a_named_profile_names_is_looked_at_as_well(work: Path) -> None:
    (work / "team.toml").write_text('permissions = "rules.toml"\n')
    (work / "rules.toml").write_text(STRICT)
    assert await mode_with(work, profile="./team.toml") == "strict"
    (work / "rules.toml").write_text(LOOSE)
    refused = await refusal(work, profile="./team.toml")
    assert refused.message.endswith("bridle trust ack rules.toml.")


async def test_agreeing_that_a_project_has_a_say_is_no_word_on_settings_of_ones_own(work: Path) -> None:
    (work / ".bridle").mkdir()
    file = work / ".bridle/config.toml"
    file.write_text(STRICT)
    assert await mode_with(work, config_file=str(file)) == "strict"
    file.write_text(LOOSE)
    approvals = Approvals(str(work.parent / "home/config"))
    approvals.add(".bridle/config.toml", content_digest(LOOSE.encode()), kind="config", root=str(work))
    assert (await refusal(work, config_file=str(file))).reason == "SettingsNotAgreed"


async def test_what_cannot_be_remembered_is_said_and_the_session_begins(work: Path) -> None:
    (work.parent / "home/config/approved.lock").mkdir(parents=True)
    async with opened(work, profile="./team.toml") as session:
        assert await mode_of(session) == "strict"
        reasons = [getattr(one.event, "reason", None) for one in await session.stored()]
    assert {"TrustUnwritable", "TrustFileUnsafe"} & {*reasons}
