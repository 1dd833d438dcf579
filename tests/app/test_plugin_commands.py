"""Commands and providers of plugins: a command of a client reaches its namespace, an endpoint is one more provider."""

from __future__ import annotations

from typing import Any

import pytest

import bridle
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.plugin.registrar import Registrar
from bridle.protocol.commands import AttachSession, CustomCommand, SetModel
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import CommandTaken, ModelChanged, Notice
from bridle.providers.script import say
from tables import table


class Bell:
    name = "bell"

    def __init__(self, **provider: Any) -> None:
        self.heard: list[dict[str, Any]] = []
        self.provider = provider

    def register(self, registrar: Registrar) -> None:
        async def ring(command: CustomCommand) -> bridle.Notice:
            self.heard.append(command.payload)
            if command.payload.get("broken"):
                raise ValueError("no clapper")
            return Notice(reason="Custom:bell:rang", message="Ding.")

        registrar.add_command("ring", ring)
        if self.provider:
            registrar.add_provider(**self.provider)


def command(session: str, verb: str = "ring", **more: Any) -> CustomCommand:
    return CustomCommand(namespace="bell", verb=verb, session=session, **more)


@pytest.mark.requirement("G16.10")
async def test_a_command_reaches_the_plugin_that_owns_its_namespace() -> None:
    bell = Bell()
    async with harness(scripted(say("Hi.")), plugins=[bell]) as session:
        await session.connection.send(command(session.id, payload={"times": 2}, id="once"))
        told = await session.until(Notice)
        assert (bell.heard, told.reason, told.message) == ([{"times": 2}], "Custom:bell:rang", "Ding.")
        await session.connection.send(command(session.id, payload={"times": 2}, id="once"))
        assert bell.heard == [{"times": 2}], "one id is one command"
        stored = await session.stored()
        assert [one.event.kind for one in stored if isinstance(one.event, CommandTaken)] == ["CustomCommand"]


async def test_a_fault_in_it_is_told_and_ends_nothing() -> None:
    async with harness(scripted(say("Hi.")), plugins=[Bell()]) as session:
        await session.connection.send(command(session.id, payload={"broken": True}))
        told = await session.until(Notice)
        assert (told.reason, "no clapper" in told.message) == ("Custom:bell:Fault", True)
        await session.ask("go on")


async def test_what_nobody_owns_and_what_an_agent_sends_is_refused() -> None:
    bell = Bell()
    async with harness(scripted(say("Hi.")), plugins=[bell]) as session:
        for wrong in (
            command(session.id, "swing"),
            CustomCommand(namespace="gong", verb="ring", session=session.id),
        ):
            with pytest.raises(CommandRefused) as refused:
                await session.connection.send(wrong)
            assert refused.value.reason == "NotSupported"
        agent = session.engine.connect(name="other", identity="agent", answers=False)
        await agent.send(AttachSession(session=session.id))
        with pytest.raises(CommandRefused) as refused:
            await agent.send(command(session.id))
        assert (refused.value.reason, bell.heard) == ("NotAPerson", [])


async def test_a_provider_of_a_plugin_can_be_chosen_in_its_sessions() -> None:
    bell = Bell(wire="openai_chat", base_url="http://127.0.0.1:9/v1", local=True)
    async with harness(scripted(say("Hi.")), plugins=[bell]) as session:
        await session.connection.send(SetModel(session=session.id, model="bell:large"))
        changed = [one.event for one in await session.stored() if isinstance(one.event, ModelChanged)]
        assert (changed[-1].provider, changed[-1].model) == ("bell", "large")


@table(
    ("provider", "problem"),
    [
        ({"wire": "morse", "base_url": "http://127.0.0.1:9"}, "wire"),
        ({"wire": "openai_chat", "base_url": "ftp://x"}, "base_url"),
    ],
)
async def test_a_provider_that_means_nothing_keeps_the_plugin_out(
    provider: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BridleError) as refused:
        async with harness(scripted(say("Hi.")), plugins=[Bell(**provider)]):
            pass
    assert refused.value.reason == "BadPlugin"
    assert problem in refused.value.message
