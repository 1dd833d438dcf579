"""What an engine says of itself is what it does: kinds and features that are announced exist, and no others."""

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.protocol import commands
from bridle.protocol.codec import COMMAND_KINDS, EVENT_KINDS
from bridle.protocol.errors import CommandRefused
from bridle.protocol.handshake import AWAITED_COMMANDS, AWAITED_EVENTS, FEATURES
from bridle.providers.script import say


@pytest.mark.requirement("G23.1", "G23.5", "G1.8")
async def test_the_features_of_an_engine_are_announced_and_those_to_come_are_not() -> None:
    async with harness(scripted(say("Hi."))) as session:
        hello = session.connection.hello
    built = {
        "plan_mode",
        "branching",
        "undo",
        "compaction",
        "hooks",
        "background_commands",
        "mcp",
        "skills",
        "plugins",
    }
    assert built <= set(hello.features)
    assert {"delegation", "editor_buffers"}.isdisjoint(hello.features)
    assert set(hello.features) <= set(FEATURES)
    assert list(hello.features) == sorted(hello.features)


@pytest.mark.requirement("G23.5")
async def test_a_kind_that_is_announced_is_carried_out_and_one_that_is_not_is_refused() -> None:
    async with harness(scripted(say("Hi."))) as session:
        hello = session.connection.hello
        assert set(hello.command_kinds) | AWAITED_COMMANDS.keys() == set(COMMAND_KINDS)
        assert set(hello.event_kinds) | AWAITED_EVENTS.keys() == set(EVENT_KINDS)
        assert "CustomCommand" in hello.command_kinds, "no plugin here knows this one"
        with pytest.raises(CommandRefused) as refused:
            await session.connection.send(commands.CustomCommand(namespace="a", verb="b", session=session.id))
        assert refused.value.reason == "NotSupported"


def test_every_feature_names_kinds_that_there_are() -> None:
    kinds = {*COMMAND_KINDS, *EVENT_KINDS}
    assert {kind for named in FEATURES.values() for kind in named} <= kinds
