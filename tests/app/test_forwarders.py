"""When requests go by way of a helper, and that what is stored is then never opened in this process."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NoReturn

import pytest

from bridle.app.user.forwarders import Forwarders
from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.base.process.processes import Processes
from bridle.config.folders import Folders, folders
from bridle.conformance.servers import ModelServer
from bridle.credentials.records import ApiKey
from bridle.protocol.errors import CommandRefused
from bridle.providers.credential_ports import HelperUse
from bridle.providers.model_directory import Models
from bridle.providers.script import say


class Sealed(StoredKeys):
    """Stored keys that nobody opens here."""

    @property
    def store(self) -> NoReturn:
        raise AssertionError("the store was opened in the engine")


Make = Callable[..., Models]


@pytest.fixture
def where(tmp_path: Path) -> Folders:
    return folders({"BRIDLE_HOME": str(tmp_path)})


@pytest.fixture
async def make(where: Folders) -> AsyncIterator[Make]:
    processes = Processes()
    made: list[Models] = []

    def models(*, listening: bool = False, **env: str) -> Models:
        clock = SystemClock()
        stored = Sealed(where=where, env=env, clock=clock)
        made.append(
            Models(
                env=env,
                clock=clock,
                stored=stored,
                forwarders=lambda: Forwarders(processes, where=where, env=env, clock=clock),
                listening=listening,
            )
        )
        return made[-1]

    yield models
    for one in made:
        await one.close()
    await processes.close()


def store(where: Folders, provider: str) -> str:
    secret = "k" + os.urandom(20).hex()
    StoredKeys(where=where, env={}, clock=SystemClock()).store.put(ApiKey(provider=provider, secret=secret))
    return secret


async def test_a_stored_key_is_used_and_never_opened_in_the_engine(make: Make, where: Folders) -> None:
    secret = store(where, "work")
    async with ModelServer.playing(say("Hello.")) as server:
        section = {"base_url": server.url, "key_env": "WORK_API_KEY"}
        models = make().with_settings({"work": section}, helper="always")
        assert len(await models.chat("work").models()) == 2
        assert server.requests[0].headers["authorization"] == f"Bearer {secret}"
    assert models.keys_in_use() == frozenset()


async def test_which_keys_are_stored_is_asked_of_a_helper(make: Make, where: Folders) -> None:
    store(where, "openai")
    models = make().with_settings({}, helper="always")
    assert models.with_keys() == []
    with pytest.raises(CommandRefused) as none_chosen:
        await models.default()
    assert "A key for openai is there (bridle login)" in str(none_chosen.value)
    assert [endpoint.name for endpoint in models.with_keys()] == ["openai"]


async def test_a_key_this_process_holds_in_any_case_is_kept_out_of_every_text(make: Make) -> None:
    secret = "k" + os.urandom(20).hex()
    async with ModelServer.playing(say("Hello.")) as server:
        section = {"base_url": server.url, "key_env": "WORK_API_KEY"}
        models = make(WORK_API_KEY=secret).with_settings({"work": section}, helper="always")
        await models.chat("work").models()
        assert server.requests[0].headers["authorization"] == f"Bearer {secret}"
    assert models.keys_in_use() == {secret}


async def test_changed_settings_are_a_new_errand(make: Make, where: Folders) -> None:
    secret = store(where, "work")
    models = make()
    async with ModelServer.playing(say("Hello.")) as first, ModelServer.playing(say("Hello.")) as second:
        for server, header in ((first, "authorization"), (second, "x-own-key")):
            section = {"base_url": server.url, "key_env": "WORK_API_KEY", "auth": header}
            await models.with_settings({"work": section}, helper="always").chat("work").models()
        assert [len(first.requests), len(second.requests)] == [1, 1]
        assert second.requests[0].headers["x-own-key"] == secret


@pytest.mark.parametrize(
    ("use", "listening", "wanted"),
    [
        ("always", False, True),
        ("always", True, True),
        ("serve", False, False),
        ("serve", True, True),
        ("never", False, False),
        ("never", True, False),
    ],
)
async def test_it_is_used_always_or_for_an_engine_that_others_reach_or_never(
    make: Make, where: Folders, use: HelperUse, listening: bool, wanted: bool
) -> None:
    store(where, "work")
    async with ModelServer.playing(say("Hello.")) as server:
        section = {"base_url": server.url, "key_env": "WORK_API_KEY"}
        models = make(listening=listening).with_settings({"work": section}, helper=use)
        if wanted:
            assert len(await models.chat("work").models()) == 2
        else:
            with pytest.raises(AssertionError, match="opened in the engine"):
                await models.chat("work").models()
