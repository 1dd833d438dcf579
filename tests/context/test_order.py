"""Request layers: each stands around the next, the first one outermost, and may look on both ways."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.journal import Journal
from bridle.engine.steps import AskModel, Reply, RequestLayer, Step, with_layers
from bridle.protocol.events import PrefixSet
from bridle.providers.script import say


@pytest.mark.requirement("G7.1")
async def test_layers_stand_around_the_request_in_the_order_they_are_given() -> None:
    passed: list[str] = []

    def noting(name: str) -> RequestLayer:
        async def layer(step: Step, proceed: AskModel) -> Reply:
            passed.append(f"{name} in")
            reply = await proceed(step)
            passed.append(f"{name} out")
            return reply

        return layer

    async def ask(_step: Step) -> Reply:
        passed.append("the model")
        return Reply(stop="end_turn")

    nobody_looks_at_it = cast("Journal", None)
    step = Step(number=1, journal=nobody_looks_at_it)
    reply = await with_layers((noting("first"), noting("second")), ask)(step)
    assert reply == Reply(stop="end_turn")
    assert passed == ["first in", "second in", "the model", "second out", "first out"]


@pytest.mark.requirement("G7.1")
async def test_what_a_layer_adds_is_an_event_and_the_request_is_made_from_it() -> None:
    model = RecordingModel(scripted(say("Hi.")))
    async with harness(model) as session:
        events = await session.ask("go")
    (prefix,) = of_kind(events, PrefixSet)
    assert prefix.system.encode()[:60] in model.bodies[0]


@pytest.mark.requirement("H4.10")
@pytest.mark.parametrize("name", ["instructions", "custom_instructions"])
async def test_instructions_from_the_settings_join_the_system_text(tmp_path: Path, name: str) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(f'{name} = "Answer in rhymes."\n', encoding="utf-8")
    model = RecordingModel(scripted(say("Hi.")))
    async with harness(model, home=str(tmp_path)) as session:
        events = await session.ask("go")
    (prefix,) = of_kind(events, PrefixSet)
    assert "Answer in rhymes." in prefix.system
    assert b"Answer in rhymes." in model.bodies[0]


@pytest.mark.requirement("D10.6")
async def test_a_session_begins_by_telling_the_model_where_it_works() -> None:
    async with harness(scripted(say("Hi."))) as session:
        events = await session.ask("go")
        folder = session.folder
    (prefix,) = of_kind(events, PrefixSet)
    facts = dict(line.split(": ", 1) for line in prefix.system.splitlines() if line.count(": ") == 1)
    assert facts["Folder"] == folder
    assert all(facts[name] for name in ("System", "Date", "Commands run in"))
    assert {"read_file", "bash"} <= {tool.name for tool in prefix.tools}


async def test_a_model_whose_commands_are_held_by_nothing_is_told_so() -> None:
    async with harness(scripted(say("Hi.")), sandbox="off") as session:
        events = await session.ask("go")
    (prefix,) = of_kind(events, PrefixSet)
    assert "\nCommands run in: no sandbox" in prefix.system
