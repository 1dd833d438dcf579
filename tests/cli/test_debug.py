"""`bridle debug request`: the next request, byte for byte, and nothing else happens."""

from __future__ import annotations

import asyncio
import json

import pytest

from bridle.conformance.servers import ModelServer
from bridle.providers.script import say
from cli_kit import Place
from credentials.credential_kit import made_key


def settings(place: Place, server: ModelServer, more: str = "") -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(f'[providers.work]\nbase_url = "{server.origin}/v1"\n{more}\n')


@pytest.mark.requirement("T18.13")
async def test_what_is_printed_is_what_is_sent(place: Place) -> None:
    key = made_key()
    async with ModelServer.playing(say("One."), say("Two.")) as server:
        settings(place, server, f'api_key_env = "WORK_KEY"\nheaders = {{ x-own = "{key}2" }}')
        env = {"WORK_KEY": key}

        async def bridle(*words: str):
            return await asyncio.to_thread(place.bridle, *words, env=env)

        first = await bridle("debug", "request", "-m", "work:m", "hello")
        assert first.code == 0, first.err
        assert not server.chats, "nothing was asked"
        assert not place.data.exists(), "nothing was stored"
        ran = await bridle("run", "-m", "work:m", "hello")
        assert ran.code == 0, ran.err
        assert first.out.encode() == server.chats[0].body
        stored = place.events(place.only_session())
        again = await bridle("debug", "request", "-c", "and now?")
        assert again.code == 0, again.err
        assert place.events(place.only_session()) == stored, "a session that is looked at stays as it is"
        ran = await bridle("run", "-c", "and now?")
        assert ran.code == 0, ran.err
        assert again.out.encode() == server.chats[1].body
    assert key not in first.out + first.err
    assert "authorization: Bearer ********" in first.err
    assert "x-own: ********" in first.err
    assert first.story[0] == f"POST {server.origin}/v1/chat/completions"
    assert first.story[-1].endswith("not sent, nothing was stored")
    assert json.loads(first.out)["model"] == "m"


def test_the_scripted_model_is_asked_over_no_network(place: Place) -> None:
    ran = place.bridle("debug", "request", "-m", "demo", "hi")
    assert ran.code == 0
    assert json.loads(ran.out)["messages"][-1]["content"][0]["text"] == "hi"
    assert ran.story[0] == "demo:hello is asked over no network"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("debug", "request", "--fork", "-m", "demo"), "--fork makes a session"),
        (("debug", "requst"), "requst"),
        (("debug", "request", "-r", "nosuch"), "nosuch"),
    ],
)
def test_mistakes_are_one_sentence(place: Place, words: tuple[str, ...], told: str) -> None:
    ran = place.bridle(*words)
    assert (ran.code, ran.out, len(ran.story)) == (2, "", 1)
    assert told in ran.story[0]


def test_builders_are_told_of_it(place: Place) -> None:
    assert "bridle debug request" in place.bridle("help", "builders").out
    assert place.bridle("help", "debug").out.startswith("bridle debug request")
