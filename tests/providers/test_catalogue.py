"""What is known of models without asking, and in whose words."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.protocol.messages import Usage
from bridle.providers.endpoints import Endpoint
from bridle.providers.known_models import TTL_MS, Catalogue, snapshot
from bridle.providers.model_listing import FREE, UNKNOWN, ModelFacts, ModelInfo, PricesBeyond
from bridle.providers.presets import PRESETS, preset

WORK = Endpoint(name="work", base_url="https://models.example/v1")
COUNTS = st.integers(0, 2_000_000)
USAGES = st.builds(
    Usage, input_tokens=COUNTS, output_tokens=COUNTS, cache_read_tokens=COUNTS, cache_write_tokens=COUNTS
)
AMOUNTS = st.none() | st.floats(0, 100)
FACTS = st.builds(
    ModelFacts,
    price_in=AMOUNTS,
    price_out=AMOUNTS,
    price_cache_read=AMOUNTS,
    price_cache_write=AMOUNTS,
    context_tokens=st.none() | st.integers(1, 10**6),
    tools=st.none() | st.booleans(),
    images=st.none() | st.booleans(),
)


class Now:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def catalogue(tmp_path: Path, now: Now) -> Catalogue:
    return Catalogue(str(tmp_path / "models"), now_ms=now)


def test_the_snapshot_is_dated_and_every_row_of_it_makes_sense() -> None:
    found = snapshot()
    assert len(found.date) == len("2026-01-01")
    assert set(found.models) <= {known.name for known in PRESETS}
    rows = [facts for models in found.models.values() for facts in models.values()]
    assert len(rows) >= 24
    for facts in rows:
        assert facts.context_tokens is not None
        assert facts.max_output_tokens is not None
        assert facts.price_in is not None
        assert facts.price_out is not None
        assert facts.price_in <= facts.price_out
        assert (facts.price_cache_read or 0) < facts.price_in
        assert facts.max_output_tokens <= facts.context_tokens


@given(FACTS, USAGES)
def test_a_cost_is_known_exactly_when_both_prices_are_and_never_negative(
    facts: ModelFacts, usage: Usage
) -> None:
    cost = facts.cost(usage)
    assert (cost is None) == (facts.price_in is None or facts.price_out is None)
    assert cost is None or cost >= 0
    assert UNKNOWN.cost(usage) is None
    assert FREE.cost(usage) == 0


@given(FACTS, FACTS)
def test_prices_of_two_sources_are_never_mixed(known: ModelFacts, words: ModelFacts) -> None:
    merged = known.behind(words)
    prices = ("price_in", "price_out", "price_cache_read", "price_cache_write")
    assert any(
        all(getattr(merged, field) == getattr(source, field) for field in prices) for source in (known, words)
    )
    assert merged.behind(words) == merged
    corrected = known.corrected(words)
    for field in (*prices, "context_tokens", "tools", "images"):
        said = getattr(words, field)
        assert getattr(corrected, field) == (getattr(known, field) if said is None else said)


def test_a_long_request_is_paid_at_its_own_price_as_a_whole() -> None:
    facts = ModelFacts(price_in=1, price_out=10, beyond=PricesBeyond(tokens=1000, price_in=2, price_out=20))
    assert facts.cost(Usage(input_tokens=1000, output_tokens=100)) == pytest.approx(0.002)
    assert facts.cost(Usage(input_tokens=1001, output_tokens=100)) == pytest.approx(0.004002)
    assert facts.cost(Usage(input_tokens=1, cache_read_tokens=1000, output_tokens=0)) == pytest.approx(
        0.002002
    )


def test_a_person_goes_before_a_listing_and_a_listing_before_the_snapshot(catalogue: Catalogue) -> None:
    openai = preset("openai")
    assert openai is not None
    assert catalogue.facts(openai, "gpt-5").price_in == 1.25
    catalogue.keep(openai, (ModelInfo(name="gpt-5", price_in=7, price_out=8),))
    assert catalogue.facts(openai, "gpt-5").price_in == 7
    assert catalogue.facts(openai, "gpt-5").context_tokens == 400_000, (
        "what the listing does not say stays known"
    )
    catalogue = catalogue.with_settings({"openai:gpt-5": {"price_in": 3.5, "images": False}})
    facts = catalogue.facts(openai, "gpt-5")
    assert (facts.price_in, facts.price_out, facts.images) == (3.5, 8, False)
    assert catalogue.facts(openai, "no-such-model") == UNKNOWN
    with pytest.raises(ValueError, match="price_in"):
        catalogue.with_settings({"openai:gpt-5": {"price_in": "much"}})


def test_a_listing_is_kept_for_a_day_and_only_for_its_address(tmp_path: Path, now: Now) -> None:
    folder = str(tmp_path / "models")
    Catalogue(folder, now_ms=now).keep(WORK, (ModelInfo(name="m", context_tokens=5),))
    later = Catalogue(folder, now_ms=now)
    kept = later.kept(WORK)
    assert kept is not None
    assert [info.name for info in later.models(WORK)] == ["m"]
    now.ms += TTL_MS - 1
    assert later.is_fresh(kept)
    now.ms += 1
    assert not later.is_fresh(kept)
    now.ms = 0
    assert not later.is_fresh(kept), "a clock that went back proves nothing"
    elsewhere = Endpoint(name="work", base_url="https://other.example/v1")
    assert later.kept(elsewhere) is None
    assert later.facts(elsewhere, "m") == UNKNOWN
    assert (tmp_path / "models/work.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"{", b'{"models": 1}', b"\xff" * 10])
def test_a_kept_listing_that_cannot_be_read_is_none(tmp_path: Path, now: Now, content: bytes) -> None:
    (tmp_path / "work.json").write_bytes(content)
    assert Catalogue(str(tmp_path), now_ms=now).kept(WORK) is None


def test_a_provider_with_an_odd_name_is_kept_beside_the_others(tmp_path: Path, now: Now) -> None:
    odd = Endpoint(name="../../evil", base_url="https://models.example/v1")
    kept = Catalogue(str(tmp_path / "models"), now_ms=now)
    kept.keep(odd, (ModelInfo(name="m"),))
    assert [file.parent for file in tmp_path.rglob("*.json")] == [tmp_path / "models"]
