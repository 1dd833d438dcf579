"""A vendor nobody has heard of: one entry of data, and every part of Bridle knows it. No code is changed."""

import asyncio

from bridle.conformance.servers import ModelServer
from bridle.protocol.messages import Usage
from bridle.providers.script import Spend, answer, call, say
from cli_kit import Place, Ran

KEY = "key-" + "7" * 20
ENTRY = """\
[providers.newco]
base_url = "{url}"
key_env = "NEWCO_API_KEY"
auth = "x-newco-key"
headers = {{ "x-team" = "shop" }}
quirks = {{ max_tokens_field = "max_completion_tokens", omit_tool_choice = true, content_beside_calls = "empty" }}
"""


async def test_one_entry_makes_a_new_vendor(place: Place) -> None:
    async def bridle(*words: str) -> Ran:
        return await asyncio.to_thread(place.bridle, *words, env={"NEWCO_API_KEY": KEY})

    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    (place.work / "a.txt").write_text("Mellon\n")
    spent = Spend(Usage(input_tokens=10, output_tokens=2))
    playing = (
        answer(say("Reading."), call("read_file", path="a.txt")),
        answer(say("It says Mellon."), spent),
    )
    async with ModelServer.playing(*playing) as server:
        (folder / "config.toml").write_text(ENTRY.format(url=server.url))
        keys = await bridle("models", "newco", "--keys", "--json")
        listed = await bridle("models", "newco")
        ran = await bridle("run", "-m", "newco:scripted-large", "what does a.txt say?")
    assert keys.result["keys"] == [{"variable": "NEWCO_API_KEY", "providers": ["newco"], "present": True}]
    assert listed.out.splitlines() == ["  newco:scripted-large", "  newco:scripted-small"]
    assert (ran.code, ran.out) == (0, "It says Mellon.\n")
    assert ran.story[-1].endswith("cost unknown for this model")
    first, second = server.chats
    for chat in (first, second):
        assert (chat.headers["x-newco-key"], chat.headers["x-team"]) == (KEY, "shop")
        assert "authorization" not in chat.headers
        assert "tool_choice" not in chat.json
    assert "Mellon" in second.json["messages"][-1]["content"]
