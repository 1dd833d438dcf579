"""Arguments of slash commands: one description for programs, for help and for the check."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.protocol.errors import BridleError
from bridle.protocol.slash_arguments import (
    SlashArgument,
    args_schema,
    check_words,
    schema_arguments,
    usage_words,
)
from tables import table

names = st.text(min_size=1, max_size=8)
words = st.lists(st.text(max_size=6), max_size=3).map(tuple)
arguments = st.lists(
    st.builds(
        SlashArgument,
        name=names,
        about=st.text(max_size=8),
        required=st.booleans(),
        choices=words,
        examples=words,
    ),
    max_size=4,
    unique_by=lambda one: one.name,
).map(tuple)


@given(arguments)
@pytest.mark.requirement("G45.20")
def test_arguments_come_back_from_their_schema(takes: tuple[SlashArgument, ...]) -> None:
    assert schema_arguments(args_schema(takes)) == takes


@given(arguments.filter(lambda takes: all(len(set(one.choices)) == len(one.choices) for one in takes)))
def test_a_schema_is_one(takes: tuple[SlashArgument, ...]) -> None:
    jsonschema.Draft202012Validator.check_schema(args_schema(takes))


json = st.recursive(
    st.none() | st.booleans() | st.text(max_size=4) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from(("type", "properties", "required")), json))
def test_a_foreign_schema_is_read_as_far_as_it_says_something(schema: dict[str, object]) -> None:
    for one in schema_arguments(schema):
        assert one.name in schema["properties"]  # type: ignore[operator]


WHO = SlashArgument(name="who", required=True)
HOW = SlashArgument(name="how", choices=("hard", "softly"))


@table(
    ("takes", "given_words", "problem"),
    [
        ((), "", None),
        ((), "  ", None),
        ((), "x", "/rain takes no words."),
        ((WHO,), "", "Which who? /rain who"),
        ((WHO,), "all of you", None),
        ((WHO, HOW), "you", None),
        ((WHO, HOW), "you hard", None),
        ((WHO, HOW), "you cats", '"cats" is not a how of /rain (hard, softly).'),
        ((WHO, HOW), "you hard now", '"hard now" is not a how of /rain (hard, softly).'),
    ],
)
@pytest.mark.requirement("G45.20")
def test_words_that_are_not_taken_are_named(
    takes: tuple[SlashArgument, ...], given_words: str, problem: str | None
) -> None:
    if problem is None:
        check_words("rain", takes, given_words)
        return
    with pytest.raises(BridleError) as refused:
        check_words("rain", takes, given_words)
    assert refused.value.message == problem


def test_usage_shows_what_may_be_left_out() -> None:
    assert usage_words("rain", (WHO, HOW)) == "/rain who [how]"
