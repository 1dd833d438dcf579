"""How large a request is: what was counted counts, the rest is estimated block by block."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.text.token_estimate import IMAGE_TOKENS, estimated_tokens
from bridle.engine.conversation import Conversation
from bridle.engine.sizes import request_tokens
from bridle.protocol import events as e
from bridle.protocol.codec import kind_of
from bridle.protocol.messages import ImageBlock, TextBlock, Usage
from tables import table

PREFIX = e.PrefixSet(provider="work", model="m", system="x" * 400)


def conversation(*events: e.DurableEvent) -> Conversation:
    return Conversation.of(
        e.Envelope(id=number, kind=kind_of(event), session="sess_1", originator="", ts_ms=0, event=event)
        for number, event in enumerate(events, 1)
    )


def said(*texts: str) -> tuple[e.DurableEvent, ...]:
    return (e.InputAccepted(content=tuple(TextBlock(text=text) for text in texts)), e.TurnStarted(input=2))


def ended(usage: Usage) -> tuple[e.DurableEvent, ...]:
    begun = e.StepStarted(step=1, provider="work", model="m")
    return (
        begun,
        e.TextDelta(text="y" * 40),
        e.StepEnded(step=1, stop="end_turn", text_sha256="", usage=usage),
    )


@pytest.mark.requirement("P22")
@given(st.integers(0, 10**7))
def test_an_estimate_is_a_quarter_of_the_characters_rounded_up_and_one(characters: int) -> None:
    tokens = estimated_tokens(characters)
    assert 4 * (tokens - 1) >= characters > 4 * (tokens - 2)


def test_every_block_is_estimated_for_itself_and_an_image_has_a_size_of_its_own() -> None:
    assert request_tokens(conversation(PREFIX, *said("a" * 40))) == 101 + 11
    assert request_tokens(conversation(PREFIX, *said("a" * 40, "b"))) == 101 + 11 + 2
    picture = ImageBlock(url="data:image/png;base64," + "A" * 400_000)
    shown = (e.InputAccepted(content=(picture,)), e.TurnStarted(input=2))
    assert request_tokens(conversation(PREFIX, *shown)) == 101 + IMAGE_TOKENS


def test_what_the_provider_counted_takes_the_place_of_the_estimate() -> None:
    counted = (
        PREFIX,
        *said("a" * 40),
        *ended(Usage(input_tokens=700, cache_read_tokens=200, output_tokens=100)),
    )
    assert request_tokens(conversation(*counted)) == 1000
    later = (*counted, e.ContextAdded(source="steer", content=(TextBlock(text="c" * 40),)))
    assert request_tokens(conversation(*later)) == 1011
    uncounted = (PREFIX, *said("a" * 40), *ended(Usage()))
    assert request_tokens(conversation(*uncounted)) == 101 + 11 + 11
    compacted = (*counted, e.Compacted(summary="s" * 40, kept_from=99))
    assert request_tokens(conversation(*compacted)) == 101 + 11, "what was counted is gone"


def test_the_count_and_what_was_spent_survive_a_kept_fold() -> None:
    cost = e.CostIncremented(provider="work", model="m", usage=Usage(input_tokens=1), usd=0.25)
    unknown = e.CostIncremented(provider="work", model="m", usage=Usage(input_tokens=1))
    whole = conversation(
        PREFIX, *said("a"), *ended(Usage(input_tokens=700)), cost, unknown, cost, e.TurnEnded(stop="end_turn")
    )
    kept = whole.folded()
    assert kept is not None
    again = Conversation.restored(kept)
    assert (again.spent_usd, request_tokens(again)) == (0.5, 700)


@table("reported", [1, 5, 4_000])
def test_a_provider_that_cannot_have_counted_is_not_believed(reported: int) -> None:
    few = Usage(input_tokens=reported)
    megabyte = (PREFIX, *said("word " * 200_000), *ended(few))
    assert request_tokens(conversation(*megabyte)) == 101 + 250_001 + 11
    later = (*megabyte, e.ContextAdded(source="steer", content=(TextBlock(text="c" * 40),)))
    assert request_tokens(conversation(*later)) == 101 + 250_001 + 11 + 11
    summed_up = (*megabyte, e.Compacted(summary="s" * 40, kept_from=99))
    assert request_tokens(conversation(*summed_up)) == 101 + 11


def test_dense_text_is_believed() -> None:
    assert (
        request_tokens(conversation(PREFIX, *said("=" * 400_000), *ended(Usage(input_tokens=7_000)))) == 7_000
    )


def test_what_was_weighed_once_is_what_all_of_it_weighs() -> None:
    events = (PREFIX, *said("a" * 4_000), *ended(Usage(input_tokens=5)))
    grown = conversation(*events)
    request_tokens(grown)
    context = e.ContextAdded(source="steer", content=(TextBlock(text="c" * 4_000),))
    grown.apply(
        e.Envelope(id=99, kind=kind_of(context), session="sess_1", originator="", ts_ms=0, event=context)
    )
    assert request_tokens(grown) == request_tokens(conversation(*events, context)) == 101 + 1_001 + 11 + 1_001
