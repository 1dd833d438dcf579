"""JSON Schemas of servers: checked where they are ordinary, bounded where they are not."""

import time

import pytest

from bridle.base.text.json_schema import MOST_BYTES, BadSchema, JsonSchema
from tables import table

SOON_S = 5.0
"""What is bounded takes well under a second; without a bound it takes for ever."""


def object_with(**properties):
    return JsonSchema({"type": "object", "properties": properties})


ENDLESS = "^(a+)+$"
SLOW = "a" * 60 + "!"


def test_patterns_are_left_to_the_server_and_everything_else_is_checked():
    schema = JsonSchema(
        {
            "type": "object",
            "properties": {
                "mail": {"type": "string", "pattern": ENDLESS},
                "no": {"not": {"pattern": ENDLESS}},
                "one": {"oneOf": [{"pattern": "a"}, {"pattern": "b"}, {"type": "integer"}]},
                "if": {"if": {"pattern": "a"}, "then": {"const": 1}, "else": {"const": 2}},
                "any": {"oneOf": [{"type": "integer"}, {"type": "null"}]},
                "bad": {"pattern": "(a"},
            },
            "patternProperties": {ENDLESS: {"type": "integer"}},
            "additionalProperties": False,
            "allOf": [{"patternProperties": {ENDLESS: {}}}],
            "unevaluatedProperties": False,
        }
    )
    schema.check()
    fits = ({"mail": SLOW}, {"no": SLOW}, {"one": "x"}, {"if": "x"}, {"bad": "x"}, {SLOW: "x"})
    assert [schema.problem(value) for value in fits] == [None] * len(fits)
    assert schema.problem({"mail": 1}) == "1 is not of type 'string' - at `$.mail`"
    assert schema.problem({"any": "x"}).endswith("at `$.any`")


def test_without_patterns_every_keyword_is_checked():
    schema = JsonSchema(
        {
            "type": "object",
            "properties": {
                "a": {"not": {"type": "string"}},
                "b": {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
            },
            "additionalProperties": {"type": "string"},
        }
    )
    schema.check()
    found = [schema.problem(value) for value in ({"a": "x"}, {"b": 3}, {"c": 1}, {"a": 1, "b": 1, "c": "x"})]
    assert [problem is None for problem in found] == [False, False, False, True]
    assert found[2] == "1 is not of type 'string' - at `$.c`"


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


@table(
    ("schema", "value"),
    [
        (doubling(40), {"a": "x"}),
        (JsonSchema({"type": "object", "$ref": "#"}), {}),
        (object_with(a={"uniqueItems": True}), {"a": [{"n": n} for n in range(200_000)] * 2}),
        (object_with(a={"items": {"enum": [{"n": n} for n in range(5_000)]}}), {"a": [{"n": -1}] * 100_000}),
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


@table(
    ("document", "problem"),
    [
        ({}, 'its type is not "object"'),
        ({"type": "object", "required": "a"}, "at `$.required`"),
        ({"type": "object", "allOf": [{"$ref": "file:///etc/passwd"}]}, "nothing is fetched"),
        ({"type": "object", "allOf": [{"$ref": "#/$defs/no"}]}, "which is not there"),
        ({"type": "object", "properties": {"const": {"pattern": 1}}}, "at `$.properties.const.pattern`"),
        ({"type": "object", "$id": "x#y", "allOf": [{"$ref": "#/allOf/0"}]}, "at `$['$id']`"),
        ({"type": "object", "allOf": [{}], "anyOf": [{"$ref": "#/allOf/7"}]}, "which is not there"),
        ({"type": "object", "allOf": [{"$ref": "#/allOf/" + "1" * 5_000}]}, "which is not there"),
        (
            {"type": "object", "allOf": [{"$id": "http://elsewhere/", "$ref": "#/allOf/0"}]},
            "is not supported",
        ),
        ({"type": "object", "description": "x" * MOST_BYTES}, "128 KB"),
        ({"type": "object", "default": object()}, "it is not JSON"),
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


@table("dialect", [[], {}, 5, "http://["])
def test_a_dialect_that_is_none_is_refused(dialect):
    with pytest.raises(BadSchema, match="no address"):
        JsonSchema({"type": "object", "$schema": dialect}).check()


@table("hidden", [{"type": "nonsense"}, {"pattern": 1}, {"minLength": "x"}, {"$ref": "http://x"}])
@table("place", ["const", "default", "nobody-knows-this"])
def test_no_reference_leads_to_a_schema_that_nobody_looked_at(hidden, place):
    schema = object_with(a={place: hidden}, b={"$ref": f"#/properties/a/{place}"})
    with pytest.raises(BadSchema):
        schema.check()


@table("number", [10**400, float("inf")])
def test_a_number_beyond_all_numbers_is_a_problem_and_no_failure(number):
    assert object_with(a={"multipleOf": 0.1}).problem({"a": number}) is not None
