"""`bridle models`: what can be used now and why not, asked of real servers on this machine."""

import asyncio
import json
import os
from typing import Any

import pytest

from bridle.conformance.servers import JsonServer, ModelServer, Received
from bridle.providers.known_models import snapshot
from bridle.providers.presets import PRESETS
from bridle.providers.script import say
from cli_kit import Place, Ran

KEY = "sk-" + "f00ba4" * 6


def shows(request: Received) -> dict[str, Any]:
    if request.json["model"] == "nomic-embed-text":
        return {"capabilities": ["embedding"], "model_info": {"bert.context_length": 2048}}
    return {
        "capabilities": ["completion", "tools"],
        "parameters": "num_ctx 8192",
        "model_info": {"qwen3.context_length": 40960},
    }


OLLAMA: dict[str, Any] = {
    "GET /api/tags": {
        "models": [
            {"name": "qwen3:8b", "size": 5_200_000_000},
            {"name": "evil\x1b[31m", "size": 4_900_000_000},
            {"name": "nomic-embed-text", "size": 274_000_000},
        ]
    },
    "GET /api/ps": {"models": []},
    "POST /api/show": shows,
}


async def bridle(place: Place, *words: str, **env: str) -> Ran:
    """The command in a process, while the servers of the test answer."""
    return await asyncio.to_thread(place.bridle, *words, env=env)


def ollama_at(server: JsonServer) -> tuple[str, str]:
    return ("--set", f"providers.ollama.base_url={server.origin}/v1")


def work_at(server: ModelServer | JsonServer) -> tuple[str, ...]:
    return (
        "--set",
        f"providers.work.base_url={server.origin}/v1",
        "--set",
        "providers.work.key_env=WORK_KEY",
    )


def rows(ran: Ran) -> dict[str, str]:
    """The lines by their second word, which is a provider or a model."""
    assert (ran.code, ran.err) == (0, "")
    return {line[2:].split()[0]: line for line in ran.out.splitlines() if line[2:].strip()}


def test_every_provider_is_listed_with_its_variable_and_nothing_is_made(place: Place) -> None:
    ran = place.bridle("models", env={"OPENAI_API_KEY": KEY, "GROQ_API_KEY": " "})
    found = rows(ran)
    assert {preset.name for preset in PRESETS} | {"demo"} <= set(found)
    assert found["openai"].startswith("✓ openai")
    assert found["openai"].endswith("key from OPENAI_API_KEY")
    assert found["groq"].startswith("  groq")
    assert found["groq"].endswith("GROQ_API_KEY is not set")
    assert found["demo"].startswith("✓ demo")
    assert KEY not in ran.out
    assert os.listdir(place.home) == []


def test_the_key_variables_are_listed_and_keys_are_not(place: Place) -> None:
    ran = place.bridle("models", "--keys", env={"OPENAI_API_KEY": KEY})
    found = rows(ran)
    assert {preset.key_env for preset in PRESETS if preset.key_env} <= set(found)
    assert found["OPENAI_API_KEY"].startswith("✓ ")
    assert found["GOOGLE_API_KEY"] == "  GOOGLE_API_KEY         gemini"
    assert KEY not in ran.out
    (row,) = place.bridle("models", "openai", "--keys", "--json", env={"OPENAI_API_KEY": KEY}).result["keys"]
    assert row == {"variable": "OPENAI_API_KEY", "providers": ["openai"], "present": True}


async def test_a_server_on_this_machine_is_listed_with_context_and_size(place: Place) -> None:
    async with JsonServer(OLLAMA) as server:
        ran = await bridle(place, "models", *ollama_at(server), "--set", "model=ollama:qwen3:8b")
        listed = await bridle(place, "models", "ollama", *ollama_at(server))
        narrowed = await bridle(place, "models", "ollama:QWEN", *ollama_at(server))
        for_programs = await bridle(
            place, "models", "--json", *ollama_at(server), "--set", "model=ollama:qwen3:8b"
        )
    found = rows(ran)
    address = server.origin
    assert found["ollama"].startswith("✓ ollama ")
    assert found["ollama"].endswith(f"answers at {address}, 3 models")
    lines = ran.out.splitlines()
    shown = lines[lines.index("On this machine") + 1 :][:3]
    assert shown == [
        "* ollama:qwen3:8b           default   8k context (of 40k)   5 GB",
        "  ollama:evil⟨ESC⟩[31m      8k context (of 40k)   5 GB",
        "  ollama:nomic-embed-text   cannot chat   274 MB",
    ]
    assert "Default     ollama:qwen3:8b" in lines
    assert [line[2:] for line in listed.out.splitlines()][2] == shown[2][2:]
    assert narrowed.out == "  ollama:qwen3:8b   8k context (of 40k)   5 GB\n"
    result = for_programs.result
    assert result["default"] == "ollama:qwen3:8b"
    assert [row["default"] for row in result["models"]] == [True, False, False]
    assert result["models"][0]["info"]["size_bytes"] == 5_200_000_000
    assert next(row for row in result["providers"] if row["name"] == "ollama")["usable"] is True


async def test_a_named_provider_is_asked_for_its_list_and_only_it(place: Place) -> None:
    async with ModelServer.playing(say("Hi.")) as server, ModelServer.playing(say("Hi.")) as other:
        others = (
            "--set",
            f"providers.other.base_url={other.url}",
            "--set",
            "providers.other.key_env=OTHER_KEY",
        )
        keys = {"WORK_KEY": KEY, "OTHER_KEY": KEY}
        overview = await bridle(place, "models", *work_at(server), *others, **keys)
        assert (server.connections, other.connections) == (0, 0), "nobody was named"
        listed = await bridle(
            place,
            "models",
            "work",
            "--refresh",
            *work_at(server),
            *others,
            BRIDLE_MODEL="work:scripted-small",
            **keys,
        )
        for_programs = await bridle(place, "models", "work", "--json", *work_at(server), **keys)
        none = await bridle(place, "models", "work:gpt", *work_at(server), **keys)
    assert rows(overview)["work"].endswith("key from WORK_KEY")
    assert (listed.code, listed.err) == (0, "")
    assert listed.out.splitlines() == ["  work:scripted-large", "* work:scripted-small   default"]
    assert [request.path for request in server.requests] == ["/v1/models"], "a list is kept for a day"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert other.connections == 0
    assert [row["model"] for row in for_programs.result["models"]] == [
        "work:scripted-large",
        "work:scripted-small",
    ]
    assert (none.code, none.out, none.story) == (2, "", ['work lists no model with "gpt" in its name'])
    for ran in (overview, listed, for_programs, none):
        assert KEY not in ran.out + ran.err


@pytest.mark.parametrize("words", [("opnai",), ("opnai:x",), ("opnai", "--keys"), ("opnai", "--json")])
def test_a_provider_nobody_knows_is_refused(place: Place, words: tuple[str, ...]) -> None:
    ran = place.bridle("models", *words)
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.story
    assert line.startswith('There is no provider "opnai". Known: anthropic, ')
    assert line.endswith("(nearest: openai). What each has: bridle models")


def test_a_provider_without_a_key_is_not_asked(place: Place) -> None:
    ran = place.bridle("models", "openai", "--refresh")
    assert (ran.code, ran.out) == (4, "")
    (refusal,) = ran.story
    assert refusal.startswith("openai needs a key and none was found.")
    known = place.bridle("models", "openai:gpt-5-mini")
    assert (known.code, known.story) == (
        0,
        [f"{refusal} Not asked; this is what is known since {snapshot().date}."],
    )
    assert known.out == "  openai:gpt-5-mini   400k context   images   $0.25 in, $2 out per million tokens\n"


def test_known_models_are_found_by_a_part_of_their_name_without_asking_anybody(place: Place) -> None:
    ran = place.bridle("models", "SONNET-4-5", "--set", 'models."anthropic:claude-sonnet-4-5".price_in=1')
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "  anthropic:claude-sonnet-4-5            200k context   images   $1 in, $15 out per million tokens",
        "  anthropic:claude-sonnet-4-5-20250929   200k context   images   $3 in, $15 out per million tokens",
    ], "what a person says counts first"
    assert os.listdir(place.home) == []


async def test_a_server_that_is_gone_is_said_to_be(place: Place) -> None:
    async with JsonServer({}) as server:
        pass
    for provider, settings in (("ollama", ollama_at(server)), ("work", work_at(server))):
        ran = await bridle(place, "models", provider, *settings, WORK_KEY=KEY)
        assert (ran.code, ran.out) == (5, "")
        (line,) = ran.story
        assert line.startswith(f"Cannot reach {server.origin} (connection refused).")


async def test_a_key_that_is_refused_is_said_to_be_and_not_shown(place: Place) -> None:
    answers = {"GET /v1/models": {"error": {"message": f"Incorrect API key provided: {KEY}"}}}
    async with JsonServer(answers, status={"GET /v1/models": 401}) as server:
        ran = await bridle(place, "models", "work", *work_at(server), WORK_KEY=KEY)
    assert (ran.code, ran.out) == (4, "")
    assert ran.story == ["work refused the key from WORK_KEY (401). Check it, or run: bridle login work"]


async def test_an_answer_that_is_no_list_is_said_to_be_none(place: Place) -> None:
    async with JsonServer({"GET /v1/models": {"hello": "there"}}) as server:
        ran = await bridle(place, "models", "work", *work_at(server), WORK_KEY=KEY)
    assert (ran.code, ran.out, len(ran.story)) == (5, "", 1)


def test_the_scripts_that_come_with_bridle_are_models_too(place: Place) -> None:
    ran = place.bridle("models", "demo", env={"BRIDLE_MODEL": "demo"})
    assert (ran.code, ran.err) == (0, "")
    assert ["*", "demo:hello", "default"] in [line.split() for line in ran.out.splitlines()]


def test_a_default_that_cannot_be_used_is_said_to_be_so(place: Place) -> None:
    ran = place.bridle("models", "--set", "model=nobody:big")
    assert ran.code == 0
    (line,) = [line for line in ran.out.splitlines() if line.startswith("Default")]
    assert line.startswith('Default     nobody:big cannot be used. There is no provider "nobody".')
    assert json.loads(place.bridle("models", "--json", "--set", "model=nobody:big").out)["default"] is None


def test_settings_that_are_wrong_are_one_sentence(place: Place) -> None:
    ran = place.bridle("models", "--set", "mode=yollo")
    assert (ran.code, ran.out, len(ran.story)) == (2, "", 1)


async def test_refreshing_without_a_name_asks_every_provider_whose_key_is_there(place: Place) -> None:
    async with ModelServer.playing(say("Hi.")) as server, ModelServer.playing(say("Hi.")) as other:
        bases = (
            "--set", f"providers.openai.base_url={server.url}", "--set", f"providers.groq.base_url={other.url}",
        )  # fmt: skip
        ran = await bridle(place, "models", "--refresh", *bases, OPENAI_API_KEY=KEY)
        kept = await bridle(place, "models", "openai", *bases, OPENAI_API_KEY=KEY)
    assert (ran.code, ran.story) == (0, ["openai lists 2 models"])
    assert (len(server.requests), other.connections) == (1, 0)
    assert kept.out.splitlines() == ["  openai:scripted-large", "  openai:scripted-small"]
