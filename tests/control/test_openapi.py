"""The OpenAPI document: it is the one of the types, and it says what the routes are."""

import json
from pathlib import Path

from bridle.control.openapi import document
from bridle.control.routes import routes


def test_the_committed_document_is_the_one_of_the_types(repository: Path) -> None:
    written = (repository / "docs/schema/http/openapi.json").read_bytes()
    assert written == document(), "run: python -m bridle.control.openapi docs/schema/http/openapi.json"


def test_every_route_is_in_the_document_and_every_reference_leads_somewhere() -> None:
    told = json.loads(document())
    for route in routes():
        assert route.method.lower() in told["paths"][route.path]
    references = _references(told)
    assert references
    for reference in references:
        place = told
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]


def _references(value: object) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(_references, value.values()))
    if isinstance(value, list):
        return set().union(*map(_references, value))
    return set()
