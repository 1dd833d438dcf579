"""Where every command and every query is found over HTTP: made from their types, so that a new kind has its route.

A command is `POST /v1/sessions/{session}/…`, a query `GET /v1/…`, both named after their kind unless the tables here
say otherwise. What stands in braces is a field of the kind; of a command the other fields are the body, of a query the
query string. A query that a feature from outside answers is at `/v1/features/{namespace}/{verb}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from bridle.control.minting import MintRequest, PendingMint
from bridle.control.request_guard import Listener
from bridle.control.service import Service
from bridle.protocol import commands as c
from bridle.protocol import queries as q
from bridle.protocol.errors import CommandRefused
from bridle.protocol.tokens import Claims

Method = Literal["GET", "POST", "DELETE"]
_OF_SESSION = "/v1/sessions/{session}"
_COMMANDS: Mapping[type[Any], tuple[Method, str]] = {
    c.CreateSession: ("POST", "/v1/sessions"),
    c.EndSession: ("DELETE", _OF_SESSION),
    c.SendInput: ("POST", f"{_OF_SESSION}/input"),
    c.AskAside: ("POST", f"{_OF_SESSION}/aside"),
    c.ShellRequest: ("POST", f"{_OF_SESSION}/shell"),
    c.RunSlash: ("POST", f"{_OF_SESSION}/slash"),
    c.CancelTurn: ("POST", f"{_OF_SESSION}/cancel"),
    c.AnswerPermission: ("POST", f"{_OF_SESSION}/permission"),
    c.AnswerQuestion: ("POST", f"{_OF_SESSION}/question"),
    c.AnswerTrust: ("POST", f"{_OF_SESSION}/trust"),
    c.EnterPlanMode: ("POST", f"{_OF_SESSION}/plan-mode"),
    c.ExitPlanMode: ("POST", f"{_OF_SESSION}/plan-mode"),
    c.CustomCommand: ("POST", "/v1/features/{namespace}/{verb}"),
}
_QUERIES: Mapping[type[Any], str] = {
    q.DescribeSession: _OF_SESSION,
    q.FindSession: "/v1/find-session",
    q.PreviewSession: "/v1/preview-session",
    q.DescribeLog: f"{_OF_SESSION}/log",
    q.SearchSessions: "/v1/search",
    q.ListSlash: "/v1/slash-commands",
    q.DescribeSkill: "/v1/skills/{name}",
    q.CustomQuery: "/v1/features/{namespace}/{verb}",
}
_WORD = re.compile(r"[A-Z][a-z0-9]*")
_FIELD = re.compile(r"\{(\w+)\}")


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One place. `kinds` are what is asked there: where there are two, the body's fields tell which is meant."""

    method: Method
    path: str
    kinds: tuple[type[Any], ...]

    @property
    def is_query(self) -> bool:
        return self.method == "GET"

    @property
    def in_path(self) -> tuple[str, ...]:
        """The fields that stand in the path."""
        return tuple(_FIELD.findall(self.path))

    @property
    def beside(self) -> tuple[str, ...]:
        fields = dict.fromkeys(field for kind in self.kinds for field in kind.__struct_fields__)
        return tuple(field for field in fields if field not in self.in_path)


def routes() -> tuple[Route, ...]:
    found: dict[tuple[Method, str], list[type[Any]]] = {}
    for kind in get_args(c.AnyCommand):
        found.setdefault(_COMMANDS.get(kind) or ("POST", _named_command(kind)), []).append(kind)
    for kind in get_args(q.AnyQuery):
        found.setdefault(("GET", _QUERIES.get(kind) or _named_query(kind)), []).append(kind)
    return tuple(
        Route(method=method, path=path, kinds=tuple(kinds)) for (method, path), kinds in found.items()
    )


def _named_command(kind: type[Any]) -> str:
    """`RenameSession` is `…/rename`, `SetMode` is `…/mode`."""
    name = "-".join(_words(kind.__name__.removesuffix("Session").removeprefix("Set")))
    return f"{_OF_SESSION}/{name}" if "session" in kind.__struct_fields__ else f"/v1/{name}"


def _named_query(kind: type[Any]) -> str:
    """`ListProfiles` is `/v1/profiles`: what is asked for, without how it is called to ask."""
    return "/v1/" + "-".join(_words(kind.__name__)[1:])


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def kind_meant(route: Route, body: Mapping[str, Any]) -> type[Any]:
    """The kind a body is of: of several at one place, the one whose own fields are there, else the one without any."""
    needs = {kind: _needed(kind).difference(route.in_path) for kind in route.kinds}
    by_fields = sorted(route.kinds, key=lambda kind: len(needs[kind]), reverse=True)
    return next((kind for kind in by_fields if needs[kind] <= body.keys()), by_fields[-1])


def _needed(kind: type[Any]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind) if field.required}


class TurnResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the turn of an input ended that was waited for: `text` is what the model said last."""

    session: str
    event: int
    stop: str
    reason: str | None = None
    text: str = ""


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """What a request for a token is answered with: which one, and the code that was shown for it."""

    mint_id: str
    code: str


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    token: str


class RevokedToken(msgspec.Struct, frozen=True, kw_only=True):
    jti: str


async def begin_mint(
    service: Service, by: Claims, listener: Listener, wanted: Mapping[str, Any]
) -> PendingMint:
    if listener.name != "unix":
        raise CommandRefused("MintRefused", problem="it is asked for on the engine's own socket")
    try:
        request = msgspec.convert(wanted, MintRequest, strict=False)
    except msgspec.ValidationError as problem:
        raise CommandRefused("BadCommand", kind="MintRequest", problem=str(problem)) from None
    return await service.minting().begin(by, request)


def confirm_mint(service: Service, by: Claims, body: Mapping[str, Any]) -> NewToken:
    try:
        given = msgspec.convert(body, Confirmation)
    except msgspec.ValidationError as problem:
        raise CommandRefused("BadCommand", kind="Confirmation", problem=str(problem)) from None
    return NewToken(token=service.minting().confirm(by, given.mint_id, given.code))


def revoke_token(service: Service, by: Claims, jti: str) -> RevokedToken:
    if not service.minting().may_revoke(by, jti):
        raise CommandRefused("NotGranted", what="RevokeToken")
    service.revoke(jti, by.jti)
    return RevokedToken(jti=jti)
