"""The limit of a session, for any price, any size and any rest."""

from hypothesis import assume, given
from hypothesis import strategies as st

from bridle.engine.conversation import Conversation, Counted
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import Usage
from bridle.safety.budget import LEAST_ANSWER, Allowance, Budget, BudgetStop

PREFIX = PrefixSet(provider="work", model="m", system="")
PRICES = st.floats(0, 200, allow_subnormal=False)


def budget(cap: float, prices: tuple[float, float, float], most: int) -> Budget:
    async def nobody(_number: str, _question: str, _choices: tuple[str, ...]) -> None:
        raise AssertionError("nobody is asked here")

    def price_of(_provider: str, _model: str, usage: Usage) -> float:
        paid_in, paid_out, paid_write = prices
        tokens = usage.input_tokens * paid_in + usage.cache_write_tokens * paid_write
        return (tokens + usage.output_tokens * paid_out) / 1_000_000

    return Budget(
        Allowance(cap_usd=cap),
        price_of=price_of,
        answer_limit=lambda _prefix: most,
        cheaper=lambda _provider, _model: None,
        named=lambda name: (_ for _ in ()).throw(AssertionError(name)),
        ask=nobody,
    )


def talked(spent: float, tokens: int) -> Conversation:
    conversation = Conversation()
    conversation.spent_usd = spent
    conversation.counted = Counted(tokens, 0)
    return conversation


@given(
    st.floats(0.0001, 100),
    st.floats(0, 100),
    st.tuples(PRICES, PRICES, PRICES),
    st.integers(0, 2_000_000),
    st.integers(1, 200_000),
)
def test_what_passes_cannot_cost_more_than_is_left_and_what_is_stopped_could(
    cap: float, spent: float, prices: tuple[float, float, float], tokens: int, most: int
) -> None:
    limited = budget(cap, prices, most)
    paid_in, paid_out, paid_write = prices
    read = tokens * max(paid_in, paid_write) / 1_000_000
    try:
        limit = limited._limited(PREFIX, talked(spent, tokens))
    except BudgetStop as stop:
        assert stop.reason == "BudgetExceeded"
        assert spent + read + min(most, LEAST_ANSWER) * paid_out / 1_000_000 > cap - 1e-9
        return
    longest = most if limit is None else min(limit, most)
    assert spent + read + longest * paid_out / 1_000_000 <= cap + 1e-9
    assert limit is None or (limit >= LEAST_ANSWER and limit < most)


@given(st.floats(0.0001, 100), st.tuples(PRICES, PRICES, PRICES), st.integers(0, 1000))
def test_nothing_passes_once_the_limit_is_spent_unless_it_is_free(
    cap: float, prices: tuple[float, float, float], tokens: int
) -> None:
    assume(prices[1] > 0.01)
    try:
        budget(cap, prices, 4096)._limited(PREFIX, talked(cap, tokens))
    except BudgetStop:
        return
    raise AssertionError("it passed")


def test_an_unknown_price_is_never_taken_for_nothing() -> None:
    unknown = Budget(
        Allowance(cap_usd=5),
        price_of=lambda _provider, _model, _usage: None,
        answer_limit=lambda _prefix: 100,
        cheaper=lambda _provider, _model: None,
        named=lambda _name: (_ for _ in ()).throw(AssertionError),
        ask=lambda _number, _question, _choices: (_ for _ in ()).throw(AssertionError),
    )
    try:
        unknown._limited(PREFIX, talked(0, 10))
    except BudgetStop as stop:
        assert stop.reason == "PriceUnknown"
    else:
        raise AssertionError("it passed")
