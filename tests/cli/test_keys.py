"""Keys: where they may come from, where they must not show, and the files that are never read for them."""

from __future__ import annotations

import asyncio
import json

import pytest

from bridle.conformance.servers import JsonServer, LoopbackServer, ModelServer, Received
from bridle.providers.script import call, say
from cli_kit import Place, Ran

CHATS = "POST /v1/chat/completions"
OWN, GENERAL = "k1-" + "Qx7w" * 6, "k2-" + "Zp3v" * 6


def configure(place: Place, server: LoopbackServer, more: str = "") -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True, exist_ok=True)
    section = f'[providers.work]\nbase_url = "{server.origin}/v1"\nkey_env = "WORK_KEY"\n{more}'
    (folder / "config.toml").write_text(section, encoding="utf-8")


async def run(place: Place, *words: str, **env: str) -> Ran:
    return await asyncio.to_thread(place.bridle, "run", "-m", "work:some-model", *words, env=env)


def echoed(request: Received) -> dict[str, object]:
    """What a careless vendor does: it repeats the key in its complaint, the second time without a word that tells."""
    sent = request.headers["authorization"]
    message = f"wrong key: {sent}; nobody knows {sent.removeprefix('Bearer ')} here"
    return {"error": {"message": message, "type": "auth"}}


@pytest.mark.requirement("T6.5")
@pytest.mark.parametrize(
    ("env", "sent"),
    [
        ({"WORK_KEY": OWN}, OWN),
        ({"BRIDLE_API_KEY": GENERAL}, GENERAL),
        ({"WORK_KEY": OWN, "BRIDLE_API_KEY": GENERAL}, OWN),
    ],
)
async def test_a_key_comes_from_the_environment_and_is_printed_nowhere(
    place: Place, env: dict[str, str], sent: str
) -> None:
    everything = ""
    command = call("bash", command=f"env; echo {sent[::-1]} | rev; echo done")
    async with ModelServer.playing(command, say("ok")) as server:
        configure(place, server)
        ran = await run(place, "-y", "--stream-json", "what is there?", **env)
        assert server.chats[0].headers["authorization"] == f"Bearer {sent}"
        everything += ran.out + ran.err
    for form in ((), ("--json",), ("--stream-json",)):
        async with JsonServer({CHATS: echoed}, status={CHATS: 401}) as server:
            configure(place, server)
            failed = await run(place, *form, "x", **env)
        assert failed.code == 4
        everything += failed.out + failed.err
    for shown in (("config", "show", "--origin"), ("models", "--keys"), ("doctor", "--offline")):
        ran = await asyncio.to_thread(place.bridle, *shown, env=env)
        everything += ran.out + ran.err
    assert "done" in everything
    assert "work refused the key from " in everything
    assert [key for key in (OWN, GENERAL) if key[3:9] in everything] == []


@pytest.mark.requirement("T6.6")
async def test_a_project_env_file_is_read_by_nobody(place: Place) -> None:
    (place.work / ".git").mkdir()
    text = f"WORK_KEY={OWN}\nBRIDLE_MODEL=demo\nBRIDLE_MODE=yolo\nFROM_FILE=yes\n"
    for name in (".env", ".env.local", ".bridle-secrets/env"):
        (place.work / name).parent.mkdir(exist_ok=True)
        (place.work / name).write_text(text)
    async with ModelServer.playing(call("bash", command="env"), say("ok")) as server:
        configure(place, server)
        without = await run(place, "--json", "x")
        assert (without.code, without.result["reason"]) == (4, "NoKey")
        assert server.chats == []
        assert place.bridle("config", "get", "mode").out == "default\n"
        given = await run(place, "-y", "--json", "x", WORK_KEY=GENERAL)
        assert (given.code, given.result["finalResponse"]) == (0, "ok")
    (result,) = [event for event in given.result["events"] if event["kind"] == "ToolResult"]
    assert "PATH=" in result["payload"]["content"]
    assert "FROM_FILE" not in json.dumps(given.result)
