"""Every provider a person can choose streams, lists its models and counts tokens, whichever wire it speaks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bridle.base.clock import SystemClock
from bridle.base.net.http import HttpConnections
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import check_choosable_provider, scripted
from bridle.conformance.servers import ModelServer
from bridle.engine.ports import ChoosableProvider, ListedModel
from bridle.protocol.messages import Message
from bridle.providers.endpoints import Endpoint, WireName
from bridle.providers.model_listing import ModelInfo
from bridle.providers.remote import RemoteModel
from bridle.providers.script import Script, answer, call, say
from bridle.providers.scripted import ScriptedModel
from providers.wire_kit import WIRES
from tables import table


@pytest.mark.requirement("G11.1")
@table("wire", [*WIRES, "scripted"])
async def test_it_streams_lists_models_and_counts_tokens(wire: WireName) -> None:
    script = answer(say("Hello.", chunk=2), call("bash", command="ls"))
    if wire == "scripted":
        await check_choosable_provider(lambda: ScriptedModel(Script("it", (script,)), clock=FakeClock()))
        return
    connections = HttpConnections(env={}, clock=SystemClock())
    try:
        async with ModelServer.playing(script) as server:
            endpoint = Endpoint(name="work", base_url=server.url, key_env=None, local=True, wire=wire)
            provider: ChoosableProvider = RemoteModel(endpoint, lambda: None, connections)
            assert provider.name == "work"
            await check_choosable_provider(lambda: RemoteModel(endpoint, lambda: None, connections))
    finally:
        await connections.close()


class Odd(ScriptedModel):
    """Breaks one promise of those that come on top of `Provider`."""

    def __init__(self, how: str) -> None:
        given = scripted(say("a"))
        super().__init__(given._script, clock=FakeClock())
        self._how = how

    async def models(self) -> Sequence[ListedModel]:  # pyright: ignore[reportIncompatibleMethodOverride]
        names = {"none": (), "nameless": ("",), "twice": ("a", "a")}.get(self._how, ("a",))
        return tuple(ModelInfo(name=name) for name in names)

    def token_count(self, messages: Sequence[Message]) -> int:
        real = super().token_count(messages)
        return {"shrinks": -real, "constant": 7, "deaf": len(messages)}.get(self._how, real)


@table("how", ["none", "nameless", "twice", "shrinks", "constant", "deaf"])
async def test_the_check_finds_a_broken_promise(how: str) -> None:
    await check_choosable_provider(lambda: Odd("not at all"))
    with pytest.raises(AssertionError):
        await check_choosable_provider(lambda: Odd(how))
