"""Schemas and patterns of strangers: right where they are ordinary, bounded where they are not."""

import contextlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.json_schema import MOST_BYTES, BadSchema, JsonSchema
from bridle.base.linear_pattern import BadPattern, LinearPattern, TooMuchWork

SOON_S = 5.0
"""What is bounded takes well under a second; without a bound it takes for ever."""


def object_with(**properties):
    return JsonSchema({"type": "object", "properties": properties})


PATTERNS = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "^", "$", r"\b", "c-", "[a-c]"]),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("(?:{})*".format, inner),
        st.builds("(?:{})+?".format, inner),
        st.builds("(?:{}){{1,2}}".format, inner),
        st.builds("({})?".format, inner),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.text("abc1- ", max_size=8))
def test_a_pattern_matches_what_a_backtracking_one_matches(pattern, text):
    assert LinearPattern(pattern).search(text) == (re.search(pattern, text, re.ASCII) is not None)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(.*)*b$", "(x+x+)+y", "^(a?){40}a{40}$"])
def test_a_pattern_that_would_take_for_ever_ends(pattern):
    begun = time.monotonic()
    assert not LinearPattern(pattern).search("a" * 39 + "!" + "x" * 60)
    assert time.monotonic() - begun < SOON_S


def test_a_text_that_is_too_long_for_its_pattern_is_not_looked_at_to_the_end():
    begun = time.monotonic()
    with pytest.raises(TooMuchWork):
        LinearPattern("(a?){500}b").search("a" * 4_000_000)
    assert time.monotonic() - begun < SOON_S


@pytest.mark.parametrize(
    "pattern", ["(" + "|" * 60_000 + ")b", "(" + "|" * 7_000 + ")b", "[" + "yx" * 60_000 + "]b"]
)
def test_a_pattern_of_many_parts_costs_no_more_than_its_limit(pattern):
    begun = time.monotonic()
    with contextlib.suppress(BadPattern, TooMuchWork):
        LinearPattern(pattern).search("z" * 20_000)
    assert time.monotonic() - begun < SOON_S


def test_a_set_of_many_ranges_is_still_that_set():
    pattern = LinearPattern("^[a-cb-ex-z0-0_]+$")
    assert pattern.search("abcdexyz0_")
    assert not any(map(pattern.search, "fw1A{"))


def test_all_patterns_of_a_check_have_one_limit():
    patterns = {f"({'a?' * 300})z{number}": {} for number in range(60)}
    schema = JsonSchema({"type": "object", "patternProperties": patterns})
    schema.check()
    begun = time.monotonic()
    assert schema.problem({f"{'a' * 300}{number}": 1 for number in range(60)}) is not None
    assert time.monotonic() - begun < SOON_S


@pytest.mark.parametrize(
    "pattern",
    [
        "((((){9999}){9999}){9999}){9999}",
        "(a",
        "a)",
        "[a",
        "*",
        "(?=a)",
        "(?<!a)",
        r"\1",
        r"\p{L}",
        "(?i)a",
        "a{3,1}",
        "((a{99}){99}){99}",
        "(" * 99,
    ],
)
def test_a_pattern_that_cannot_be_had_is_refused(pattern):
    with pytest.raises(BadPattern):
        LinearPattern(pattern)


def test_a_schema_of_pattern_properties_names_the_place():
    schema = JsonSchema(
        {
            "type": "object",
            "patternProperties": {"^(x+)+$": {"type": "integer"}},
            "additionalProperties": {"type": "string"},
        }
    )
    schema.check()
    assert schema.problem({"xx": 1, "other": "a"}) is None
    assert schema.problem({"xx": "a"}) == "'a' is not of type 'integer' - at `$.xx`"
    assert schema.problem({"x" * 40 + "y": 1}).startswith("1 is not of type 'string'")


def test_a_pattern_that_nobody_can_bound_is_not_held_against_anybody():
    schema = JsonSchema(
        {
            "type": "object",
            "properties": {"mail": {"type": "string", "pattern": r"^(?!\.)(a+)+@"}},
            "patternProperties": {r"^\p{L}+$": {"type": "integer"}},
            "additionalProperties": False,
        }
    )
    schema.check()
    assert schema.problem({"mail": "a" * 60, "é": "x"}) is None
    assert schema.problem({"mail": 1}) == "1 is not of type 'string' - at `$.mail`"


def test_what_a_schema_defines_once_can_be_used_again():
    schema = JsonSchema(
        {
            "$id": "https://example.com/ours.json",
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/name"}, "b": {"$ref": "#named"}, "c": {"$ref": "#"}},
            "$defs": {"name": {"$anchor": "named", "type": "string"}},
        }
    )
    schema.check()
    assert schema.problem({"a": "x", "b": "y", "c": {"a": "z"}}) is None
    assert schema.problem({"c": {"b": 1}}) == "1 is not of type 'string' - at `$.c.b`"


def doubling(depth):
    """Each definition asks for the next one twice."""
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    definitions[f"d{depth}"] = {"type": "string"}
    return JsonSchema({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (doubling(40), {"a": "x"}),
        (JsonSchema({"type": "object", "$ref": "#"}), {}),
        (object_with(a={"uniqueItems": True}), {"a": [{"n": n} for n in range(200_000)] * 2}),
        (object_with(a={"items": {"enum": [{"n": n} for n in range(5_000)]}}), {"a": [{"n": -1}] * 100_000}),
        (object_with(a={"pattern": "(a?){500}b"}), {"a": "a" * 4_000_000}),
    ],
)
def test_however_a_schema_and_a_value_are_made_checking_ends(schema, value):
    schema.check()
    begun = time.monotonic()
    assert schema.problem(value) is not None
    assert time.monotonic() - begun < SOON_S


def test_a_value_that_is_nested_without_end_is_refused():
    schema = JsonSchema({"type": "object", "properties": {"a": {"$ref": "#"}}})
    schema.check()
    value = {}
    for _ in range(20_000):
        value = {"a": value}
    assert schema.problem(value) == "it is nested too deeply - at `$`"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, 'its type is not "object"'),
        ({"type": "object", "required": "a"}, "at `$.required`"),
        ({"type": "object", "allOf": [{"$ref": "file:///etc/passwd"}]}, "nothing is fetched"),
        ({"type": "object", "allOf": [{"$ref": "#/$defs/no"}]}, "which is not there"),
        ({"type": "object", "properties": {"const": {"pattern": "(a"}}}, "a bracket is not closed"),
        ({"type": "object", "allOf": [{}], "anyOf": [{"$ref": "#/allOf/7"}]}, "which is not there"),
        ({"type": "object", "allOf": [{"$ref": "#/allOf/" + "1" * 5_000}]}, "which is not there"),
        (
            {"type": "object", "allOf": [{"$id": "http://elsewhere/", "$ref": "#/allOf/0"}]},
            "is not supported",
        ),
        ({"type": "object", "description": "x" * MOST_BYTES}, "128 KB"),
        ({"type": "object", "default": object()}, "it is not JSON"),
        (
            {"type": "object", "patternProperties": {"a": {}}, "unevaluatedProperties": False},
            "is not supported",
        ),
    ],
)
def test_a_schema_that_cannot_be_obeyed_says_why(document, problem):
    with pytest.raises(BadSchema) as bad:
        JsonSchema(document).check()
    assert problem in str(bad.value)


def test_an_ordinary_large_schema_is_read():
    properties = {
        f"p{n}": {"type": "object", "properties": {"a": {"type": "string", "description": "x" * 40}}}
        for n in range(300)
    }
    schema = object_with(**properties)
    schema.check()
    assert schema.problem({"p7": {"a": 1}}) == "1 is not of type 'string' - at `$.p7.a`"


@pytest.mark.parametrize("dialect", [[], {}, 5, "http://["])
def test_a_dialect_that_is_none_is_refused(dialect):
    with pytest.raises(BadSchema, match="no address"):
        JsonSchema({"type": "object", "$schema": dialect}).check()


@pytest.mark.parametrize(
    "hidden", [{"type": "nonsense"}, {"pattern": "(a"}, {"minLength": "x"}, {"$ref": "http://x"}]
)
@pytest.mark.parametrize("place", ["const", "default", "nobody-knows-this"])
def test_no_reference_leads_to_a_schema_that_nobody_looked_at(hidden, place):
    schema = object_with(a={place: hidden}, b={"$ref": f"#/properties/a/{place}"})
    with pytest.raises(BadSchema):
        schema.check()


@pytest.mark.parametrize("number", [10**400, float("inf")])
def test_a_number_beyond_all_numbers_is_a_problem_and_no_failure(number):
    assert object_with(a={"multipleOf": 0.1}).problem({"a": number}) is not None
