"""Which providers there are: the presets, and what the person's own settings add. Nothing else adds one."""

from pathlib import Path

import pytest

from bridle.base.clock import SystemClock
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.engine.slash_command import SlashCommand
from bridle.engine.tools import Tool, ToolContext
from bridle.protocol.codec import decode_command
from bridle.protocol.commands import SetModel
from bridle.protocol.errors import BridleError
from bridle.providers.model_directory import Models
from bridle.providers.presets import PRESETS
from bridle.providers.script import say

SECTION = '[providers.{name}]\nbase_url = "http://127.0.0.1:9/v1"\nlocal = true\n'


@pytest.mark.requirement("D5.4")
async def test_a_provider_is_added_by_the_persons_settings_and_in_no_other_way(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.toml").write_text(SECTION.format(name="mine"))
    work = tmp_path / "work"
    (work / ".bridle").mkdir(parents=True)
    (work / ".bridle/config.toml").write_text(SECTION.format(name="theirs"))
    async with harness(scripted(say("Hi.")), home=str(tmp_path), folder=str(work)) as session:
        await session.connection.send(SetModel(session=session.id, model="mine:some-model"))
        for name in ("theirs", "brought"):
            with pytest.raises(BridleError) as refused:
                await session.connection.send(SetModel(session=session.id, model=f"{name}:some-model"))
            assert refused.value.reason == "UnknownProvider"
        known = set(session.engine.opening.known_of[session.id].models.names())
        with pytest.raises(BridleError) as refused:
            decode_command(
                b'{"kind": "CreateSession", "cwd": "/", "config": {"providers": {"brought": {"base_url": "http://x"}}}}'
            )
        assert refused.value.reason == "BadCommand", "a client names models, not where they are"
    assert known - set(Models(env={}, clock=SystemClock()).names()) == {"mine"}
    assert {endpoint.name for endpoint in PRESETS} <= known


@pytest.mark.requirement("D5.4")
def test_neither_a_tool_nor_a_command_is_handed_anything_that_knows_providers() -> None:
    words = ("provider", "model", "endpoint")
    for kind in (Tool, ToolContext, SlashCommand):
        fields = kind.__struct_fields__
        assert [name for name in fields if any(word in name for word in words)] == []


async def test_how_long_a_provider_may_be_silent_is_the_persons_setting(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    limits = "first_part_s = 45\nidle_s = 20.5\nalive_s = 90\n"
    (tmp_path / "config/config.toml").write_text(
        SECTION.format(name="mine")
        + limits
        + SECTION.format(name="near")
        + SECTION.format(name="far").replace("true", "false")
    )
    async with harness(scripted(say("Hi.")), home=str(tmp_path)) as session:
        models = session.engine.opening.known_of[session.id].models
        found = {name: models.chat(name).patience for name in ("mine", "near", "far", "ollama", "openai")}
    assert {name: (one.first_part_s, one.idle_s, one.alive_s) for name, one in found.items()} == {
        "mine": (45, 20.5, 90),
        "near": (600, 60, 600),
        "far": (120, 60, 600),
        "ollama": (600, 60, 600),
        "openai": (120, 60, 600),
    }
