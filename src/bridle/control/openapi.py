"""The OpenAPI document of the routes, made from the types. `docs/schema/http/openapi.json` holds the committed copy.

Run `python -m bridle.control.openapi FILE` after changing a type; a test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec

from bridle.control.http_status import STATUSES, Problem
from bridle.control.minting import MintRequest, PendingMint
from bridle.control.routes import Confirmation, NewToken, RevokedToken, Route, TurnResult, routes
from bridle.control.served_clients import CLIENT_HEADER
from bridle.protocol.commands import Accepted
from bridle.protocol.handshake import PROTOCOL_VERSION, Handshake
from bridle.protocol.queries import AnyQueryAnswer
from bridle.protocol.schema import clean_descriptions

_JSON = "application/json"
_NAMED = {"type": "string", "minLength": 1, "maxLength": 512, "pattern": "^[^/]+$"}
"""What stands in a path: an id, or any other name a session has."""
_TOKEN_HEADERS = ("X-Bridle-Token", "X-Harness-Token")


@cache
def document() -> bytes:
    """Return the document as deterministic JSON."""
    kinds = [kind for route in routes() for kind in route.kinds]
    answers = [*get_args(AnyQueryAnswer), Accepted, TurnResult, Handshake, Problem]
    answers += [MintRequest, PendingMint, Confirmation, NewToken, RevokedToken]
    _, schemas = msgspec.json.schema_components(
        [*kinds, *answers], ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for path, does, media in _OWN:
        paths[path] = {
            "get": _operation(does, {"200": _answer("What there is.", media)}, _parameters_of(path))
        }
    paths["/v1/handshake"]["get"]["responses"]["200"] = {
        **_answer("What this engine is.", _JSON, _ref(Handshake)),
        "headers": {
            CLIENT_HEADER: {"description": "The client this token is.", "schema": {"type": "string"}}
        },
    }
    paths.update(_of_tokens(schemas))
    for route in routes():
        paths.setdefault(route.path, {})[route.method.lower()] = _of_route(route, schemas)
    whole: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Bridle",
            "version": PROTOCOL_VERSION,
            "summary": "One engine, many clients: sessions, their events and everything that can be asked of them.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://localhost"}],
        "security": [{name: []} for name in _TOKEN_HEADERS],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                name: {"type": "apiKey", "in": "header", "name": name} for name in _TOKEN_HEADERS
            },
            "responses": {"Problem": {"description": "Why not.", "content": _content(_ref(Problem))}},
        },
    }
    text = msgspec.json.encode(clean_descriptions(whole), order="deterministic")
    return msgspec.json.format(text, indent=2) + b"\n"


_OWN = (
    (
        "/v1/handshake",
        "Versions, kinds and features. It comes first: nothing else is answered before it.",
        _JSON,
    ),
    ("/v1/openapi.json", "This document.", _JSON),
    ("/v1/metrics", "What the engine counts, as Prometheus reads it.", "text/plain"),
    (
        "/v1/sessions/{session}/events",
        "The events of a session as they happen, each as `id`, `event` and `data`, behind those above the last id.",
        "text/event-stream",
    ),
)
"""What is neither a command nor a query."""


def _of_tokens(schemas: Mapping[str, Any]) -> dict[str, Any]:
    wanted = schemas["MintRequest"]
    parameters = [
        {**_parameter(name, schema), **({"required": True} if name in wanted["required"] else {})}
        for name, schema in wanted["properties"].items()
    ]
    shown = {"202": _answer("A code is shown to a person.", _JSON, _ref(PendingMint))}
    given = {"201": _answer("The token.", _JSON, _ref(NewToken))}
    confirm = _operation("Brings the code that was shown; the answer is the token.", given, [])
    confirm["requestBody"] = {"required": True, "content": _content(_ref(Confirmation))}
    gone = {"200": _answer("Nobody is admitted with it any more.", _JSON, _ref(RevokedToken))}
    named: dict[str, Any] = {"name": "jti", "in": "path", "required": True, "schema": _NAMED}
    begin = "Asks for a token: a code is shown on a surface of the person's own. On the engine's own socket."
    return {
        "/v1/auth/token": {"get": _operation(begin, shown, parameters), "post": confirm},
        "/v1/auth/tokens/{jti}": {"delete": _operation("Revokes a token.", gone, [named])},
    }


def _parameters_of(path: str) -> list[dict[str, Any]]:
    if path == "/v1/handshake":
        return [_parameter("protocol_version", {"type": "string"}, "What the client speaks.")]
    if path.endswith("/events"):
        number = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}
        return [
            {"name": "session", "in": "path", "required": True, "schema": _NAMED},
            _parameter("since", number, "The last event that is known."),
            {"name": "Last-Event-ID", "in": "header", "schema": number, "description": "The same."},
        ]
    return []


def _parameter(name: str, schema: Mapping[str, Any], does: str = "") -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, **({"description": does} if does else {})}


def _of_route(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    """A command or a query, with what its type says of it."""
    does = " Or: ".join(_first_line(schemas[kind.__name__].get("description", "")) for kind in route.kinds)
    parameters: list[dict[str, Any]] = [
        {"name": field, "in": "path", "required": True, "schema": _NAMED} for field in route.in_path
    ]
    if route.is_query:
        (kind,) = route.kinds
        schema = schemas[kind.__name__]
        for field in route.beside:
            given = _parameter(field, schema["properties"][field])
            if field in schema.get("required", ()):
                given["required"] = True
            if _is_object(schema["properties"][field]):
                given = {**given, "content": {_JSON: {"schema": given.pop("schema")}}}
            parameters.append(given)
        answer = _answer("The answer.", _JSON, _ref(_answer_of(kind)))
        return _operation(does, {"200": answer}, parameters, name=kind.__name__)
    names = [kind.__name__ for kind in route.kinds]
    accepted = {"200": _answer("It was taken.", _JSON, _ref(Accepted))}
    if "CreateSession" in names:
        accepted = {"201": _answer("The session is open.", _JSON, _ref(Accepted))}
    if "SendInput" in names:
        accepted = {
            "202": _answer("It is in the inbox.", _JSON, _ref(Accepted)),
            "200": _answer("The turn ended.", _JSON, _ref(TurnResult)),
        }
        wait = _parameter("wait", {"type": "string", "enum": ["turn"]}, "Answer when the turn has ended.")
        parameters.append(wait)
    bodies = [_body_of(schemas[name], route.in_path) for name in names]
    body = bodies[0] if len(bodies) == 1 else {"anyOf": bodies}
    operation = _operation(does, accepted, parameters, name=names[0])
    required = any(schema.get("required") for schema in bodies)
    if any(schema["properties"] for schema in bodies):
        operation["requestBody"] = {
            "required": required and len(bodies) == 1,
            "content": {_JSON: {"schema": body}},
        }
    return operation


def _is_object(schema: Mapping[str, Any]) -> bool:
    """Whether a parameter is JSON: an object, or a type of ours."""
    choices = [schema, *schema.get("anyOf", ())]
    return any("$ref" in choice or choice.get("type") == "object" for choice in choices)


def _body_of(schema: Mapping[str, Any], in_path: Iterable[str]) -> dict[str, Any]:
    """The schema of a command without its kind and what stands in the path."""
    left_out = {"kind", *in_path}
    return {
        "type": "object",
        "properties": {name: value for name, value in schema["properties"].items() if name not in left_out},
        "required": [name for name in schema.get("required", ()) if name not in left_out],
    }


def _answer_of(kind: type[Any]) -> type[Any]:
    """The kind of a query's answer, which its base names."""
    (base,) = kind.__orig_bases__  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
    return get_args(base)[0]


def _operation(
    does: str, answers: Mapping[str, Any], parameters: list[dict[str, Any]], *, name: str = ""
) -> dict[str, Any]:
    problem = {"$ref": "#/components/responses/Problem"}
    operation: dict[str, Any] = {
        "summary": does,
        "parameters": parameters,
        "responses": {**answers, **{str(status): problem for status in STATUSES}},
    }
    return {**operation, "operationId": name} if name else operation


def _answer(does: str, media: str, schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"description": does, "content": {media: {"schema": schema} if schema is not None else {}}}


def _content(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {_JSON: {"schema": schema}}


def _ref(kind: type[Any]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _first_line(text: str) -> str:
    return text.strip().partition("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(document())
