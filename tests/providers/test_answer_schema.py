"""The schema of an answer on each wire: where the vendor has a field for it, and only what it takes there."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import Parameters
from bridle.providers.endpoints import Quirks, WireName, is_closed
from bridle.providers.presets import preset
from providers.wire_kit import speaking
from tables import table

CLOSED = {
    "type": "object",
    "required": ["n"],
    "properties": {"n": {"type": "integer"}},
    "additionalProperties": False,
}
OPTIONAL = {**CLOSED, "required": []}
SIZED = {**CLOSED, "properties": {"n": {"type": "integer", "minimum": 1}}}
HELD = Quirks(schemaless_models=("old-*",))


def sent(
    wire: WireName, schema: dict[str, Any], *, model: str = "new", quirks: Quirks = HELD
) -> dict[str, Any]:
    parameters = Parameters(answer_schema=schema, effort="low")
    prefix = PrefixSet(provider="p", model=model, system="s", parameters=parameters)
    encoder = speaking(wire, quirks).wire
    return json.loads(encoder.head(prefix) + encoder.tail(prefix))


def test_each_vendor_gets_the_schema_in_its_own_field() -> None:
    assert sent("openai_chat", CLOSED)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": CLOSED, "strict": True},
    }
    assert sent("openai_responses", CLOSED)["text"] == {
        "format": {"type": "json_schema", "name": "answer", "schema": CLOSED, "strict": True}
    }
    told = sent("anthropic", CLOSED, quirks=Quirks(schemaless_models=(), budget_models=()))["output_config"]
    assert told == {"effort": "low", "format": {"type": "json_schema", "schema": CLOSED}}


@table("schema", [OPTIONAL, SIZED, {"type": "object"}])
def test_what_a_vendor_cannot_hold_a_model_to_is_not_called_strict(schema: dict[str, Any]) -> None:
    assert sent("openai_chat", schema)["response_format"]["json_schema"]["strict"] is False
    assert sent("openai_responses", schema)["text"]["format"]["strict"] is False
    assert ("output_config" in sent("anthropic", schema)) is (schema is OPTIONAL), (
        "any other is refused there"
    )


@table("wire", ["openai_chat", "openai_responses", "anthropic"])
@table(("schema", "model"), [(CLOSED, "old-1"), ({"type": "array"}, "new")])
def test_who_takes_no_schema_or_not_this_one_is_sent_none(
    wire: WireName, schema: dict[str, Any], model: str
) -> None:
    fields = sent(wire, schema, model=model)
    assert not fields.keys() & {"response_format", "text"}
    assert "format" not in fields.get("output_config", {})


def test_the_name_of_the_dialect_is_no_part_of_what_is_sent() -> None:
    fields = sent("openai_chat", {"$schema": "https://json-schema.org/draft/2020-12/schema", **CLOSED})
    assert fields["response_format"]["json_schema"] == {"name": "answer", "schema": CLOSED, "strict": True}


@table(
    ("provider", "model", "takes"),
    [
        ("openai", "gpt-5", True),
        ("openai", "gpt-4", False),
        ("anthropic", "claude-sonnet-4-5", True),
        ("anthropic", "claude-3-5-sonnet-20241022", False),
        ("anthropic", "claude-opus-4-20250514", False),
        ("groq", "llama-3.3-70b", False),
        ("gemini", "gemini-2.5-pro", False),
        ("ollama", "qwen3", False),
    ],
)
def test_a_schema_beside_tools_goes_only_to_models_that_take_both(
    provider: str, model: str, takes: bool
) -> None:
    endpoint = preset(provider)
    assert endpoint is not None
    fields = sent(endpoint.wire, CLOSED, model=model, quirks=endpoint.quirks)
    assert ("response_format" in fields or "format" in fields.get("output_config", {})) is takes


nodes = st.recursive(
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "object", "array"])}),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.builds(
            lambda one, closed: {
                "type": "object",
                "properties": {"a": one},
                "required": ["a"],
                "additionalProperties": closed,
            },
            inner,
            st.booleans(),
        ),
    ),
)


@given(nodes)
def test_what_is_closed_without_optional_parts_is_closed_with_them(schema: dict[str, Any]) -> None:
    assert is_closed(schema, optional=True) or not is_closed(schema, optional=False)
    assert not is_closed({**schema, "minLength": 1}, optional=True)
