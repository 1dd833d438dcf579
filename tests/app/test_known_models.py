"""What is known about models follows what is configured."""

from pathlib import Path

import pytest

from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.servers import JsonServer
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import ModelChanged, Parameters, PrefixSet
from bridle.providers.anthropic import default_max_tokens
from bridle.providers.known_models import ANSWER_TOKENS, KnownModels, shared_catalogue
from bridle.providers.model_directory import Models

WORK = PrefixSet(provider="work", model="some-model", system="", parameters=Parameters(effort="high"))


def test_a_provider_that_is_configured_anew_is_looked_at_anew(tmp_path: Path) -> None:
    clock = FakeClock()
    models = Models(env={}, clock=clock)
    catalogue = shared_catalogue(str(tmp_path), clock)
    known = KnownModels(models, catalogue, {})
    assert known.answer_limit(WORK) == ANSWER_TOKENS, "nobody has said anything about it"
    anew = models.with_settings({"work": {"base_url": "http://127.0.0.1:9/v1", "wire": "anthropic"}})
    assert KnownModels(anew, catalogue, {}).answer_limit(WORK) == default_max_tokens("high")
    assert known.answer_limit(WORK) == ANSWER_TOKENS, "those who have other settings know what they knew"


KEY = "k" * 24
AT_WORK = {"work": {"base_url": "http://127.0.0.1:9/v1"}}
SAID = {"work:gpt-5": {"price_in": 1.0}, "work:own-model": {}}


def known_with(tmp_path: Path, env: dict[str, str], sections: dict[str, dict[str, object]]) -> KnownModels:
    clock = FakeClock()
    models = Models(env=env, clock=clock).with_settings(sections)
    return KnownModels(models, shared_catalogue(str(tmp_path), clock), SAID if "work" in sections else {})


@pytest.mark.parametrize(
    "name", ["", "demo", "openai", "openai:gpt-5", "openai/gpt-5", "ollama:qwen3:8b", "nobody-has-this"]
)
def test_a_name_that_needs_no_provider_stays_as_it_is(tmp_path: Path, name: str) -> None:
    assert known_with(tmp_path, {"OPENAI_API_KEY": KEY}, {}).full_name(name) == name


def test_a_bare_name_means_the_one_provider_that_is_set_up_and_has_it(tmp_path: Path) -> None:
    assert known_with(tmp_path, {"OPENAI_API_KEY": KEY}, {}).full_name("gpt-5") == "openai:gpt-5"
    known = known_with(tmp_path, {}, AT_WORK)
    assert known.full_name("gpt-5") == "work:gpt-5"
    assert known.choose("own-model") == ModelChanged(provider="work", model="own-model")


def test_a_bare_name_that_two_have_is_asked_about_in_one_sentence(tmp_path: Path) -> None:
    known = known_with(tmp_path, {"OPENAI_API_KEY": KEY}, AT_WORK)
    with pytest.raises(CommandRefused) as refused:
        known.full_name("gpt-5")
    assert (refused.value.reason, refused.value.exit_code) == ("AmbiguousModel", 2)
    assert refused.value.message == (
        '"gpt-5" is a model of work, openai. Write provider:model, such as work:gpt-5.'
    )


def test_a_bare_name_of_a_provider_without_a_key_says_whose_it_is(tmp_path: Path) -> None:
    with pytest.raises(CommandRefused) as refused:
        known_with(tmp_path, {}, {}).full_name("gpt-5")
    assert refused.value.reason == "ModelNotSetUp"
    assert "bridle login openai" in refused.value.message


def test_models_that_are_set_up_are_named_without_asking_anybody(tmp_path: Path) -> None:
    names = known_with(tmp_path, {"OPENAI_API_KEY": KEY}, AT_WORK).names_set_up()
    assert {"work:gpt-5", "work:own-model", "openai:gpt-5"} <= set(names)
    assert not any(name.startswith("anthropic:") for name in names)


async def test_models_that_can_be_used_are_those_of_this_machine_first(tmp_path: Path) -> None:
    listing = {"data": [{"id": "org/model", "owned_by": "vllm", "max_model_len": 16384}]}
    async with JsonServer({"GET /v1/models": listing}) as server:
        section = {"vllm": {"base_url": f"{server.origin}/v1"}}
        known = known_with(tmp_path, {"OPENAI_API_KEY": KEY}, section)
        try:
            found = await known.usable()
        finally:
            await known.models.close()
    names = [f"{endpoint.name}:{info.name}" for endpoint, info in found]
    assert names[0] == "vllm:org/model"
    assert found[0][1].context_tokens == 16384
    assert "openai:gpt-5" in names
