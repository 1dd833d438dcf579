"""What a turn came to, in words: what is not known is never a number."""

import pytest

from bridle.clients.interaction.render.usage import Tally, cost_words, short_number
from bridle.protocol.events import CostIncremented
from bridle.protocol.messages import Usage
from tables import table

USED = Usage(input_tokens=2300, cache_read_tokens=9800, output_tokens=640)


def spent(usage: Usage, *usd: float | None) -> Tally:
    tally = Tally()
    for each in usd:
        tally.add(CostIncremented(provider="work", model="some-model", usage=usage, usd=each))
    return tally


def test_a_known_price_is_told_for_the_turn_and_the_session() -> None:
    turn, session = spent(USED, 0.03), spent(USED, 0.28, 0.03)
    assert " · ".join(cost_words(turn, session, context=0.24)) == (
        "12.1k in (81% cached) · 640 out · $0.03 · session $0.31 · context 24%"
    )


@table(
    ("turn", "session", "local", "last"),
    [
        ((None,), (None,), False, ["cost unknown for this model"]),
        ((0.03, None), (0.03, None), False, ["cost unknown for this model"]),
        ((0.03,), (None, 0.03), False, ["$0.03"]),
        ((0.0004,), (0.0004,), False, ["$0.0004", "session $0.0004"]),
        ((None,), (None,), True, ["local"]),
        ((0.0,), (0.0,), True, ["local"]),
    ],
)
def test_money_is_said_as_far_as_it_is_known(
    turn: tuple[float | None, ...], session: tuple[float | None, ...], local: bool, last: list[str]
) -> None:
    words = cost_words(spent(USED, *turn), spent(USED, *session), local=local)
    assert words[2:] == last


def test_a_model_that_counts_nothing_cost_something_unknown() -> None:
    assert cost_words(spent(Usage(), None), Tally()) == ["cost unknown for this model"]
    assert cost_words(Tally(), Tally()) == []


@pytest.mark.requirement("G28.4")
def test_a_turn_of_several_models_says_who_got_how_much() -> None:
    turn = Tally()
    for model, usd in (("a", 0.02), ("b", 0.01), ("a", 0.03)):
        turn.add(CostIncremented(provider="work", model=model, usage=USED, usd=usd))
    assert cost_words(turn, turn)[2:] == ["$0.06 (work:a $0.05, work:b $0.01)", "session $0.06"]
    turn.add(CostIncremented(provider="work", model="c", usage=USED, usd=None))
    assert cost_words(turn, turn)[2:] == ["cost unknown (work:a $0.05, work:b $0.01, work:c unknown)"]
    assert turn.is_local(lambda model: model.startswith("work:"))
    assert not turn.is_local(lambda model: model == "work:a")
    assert not Tally().is_local(lambda _model: True)


def test_an_estimated_context_is_called_that() -> None:
    turn = spent(USED, 0.03)
    assert cost_words(turn, turn, context=0.24, estimated=True)[-1] == "context about 24%"
    assert cost_words(Tally(), Tally(), context=0.24, estimated=True) == ["context about 24%"]


@table(
    ("number", "words"),
    [(9_999, "9999"), (12_100, "12.1k"), (999_949, "999.9k"), (999_950, "1.0M"), (1_234_567, "1.2M")],
)
def test_large_numbers_are_short(number: int, words: str) -> None:
    assert short_number(number) == words
