"""What is known about models follows what is configured."""

from pathlib import Path

from bridle.conformance.fake_clock import FakeClock
from bridle.protocol.events import Parameters, PrefixSet
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
