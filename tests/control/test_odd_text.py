"""Text that is none, in every field there is: characters that end a path, halves of characters, codes of terminals."""

import json
import tempfile
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from bridle.conformance.fake_models import scripted
from bridle.control.routes import Route, routes
from bridle.protocol.commands import SessionOptions
from bridle.providers.script import say
from served_kit import served
from tables import table

ODD = (
    "\0",
    "a\0b",
    "/tmp/x\0",
    "\ud800",
    "\udc00x",
    "\x1b[2J",
    "\N{RIGHT-TO-LEFT OVERRIDE}x",
    "~\0",
    "..\0/..",
    "%00",
)
USUAL, FOLDER = "usual", tempfile.gettempdir()


def filled(hint: Any, text: str) -> Iterator[Any]:
    """Values of a type, with this text wherever one can stand."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        yield from filled(inner[0], text)
    elif origin in (typing.Union, types.UnionType):
        for one in inner:
            if one is not type(None):
                yield from filled(one, text)
    elif origin is typing.Literal:
        yield inner[0]
    elif origin is tuple:
        for one in filled(inner[0], text):
            yield [one]
    elif origin is dict or hint is dict:
        yield from ({text: text}, {"usual": [text]})
    elif hint is bool:
        yield True
    elif hint in (int, float):
        yield 1
    elif hint is str or hint is Any:
        yield text
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield from bodies(hint, text)
    else:
        yield from ()


def bodies(kind: type[msgspec.Struct], text: str) -> Iterator[dict[str, Any]]:
    """Objects of a type, each with one of its fields filled with this text and the others as they usually are."""
    hints = typing.get_type_hints(kind, include_extras=True)
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    usual = {
        field.encode_name: FOLDER if field.name == "cwd" else next(filled(hints[field.name], USUAL))
        for field in info.fields
        if field.required
    }
    if info.tag_field is not None:
        usual[info.tag_field] = info.tag
    yield usual
    for field in info.fields:
        for value in filled(hints[field.name], text):
            yield {**usual, field.encode_name: value}


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


@table("route", [one for one in routes() if not one.is_query])
async def test_no_text_in_a_command_is_a_fault_of_the_engine(route: Route) -> None:
    async with served(scripted(*(say("Yes.") for _ in range(400)))) as kit:
        await kit.shake_hands()
        path = route.path.format_map(_Session(kit.session.id))
        for kind in route.kinds:
            for text in ODD:
                for body in bodies(kind, text):
                    answer = await kit.ask(route.method, path, raw=json.dumps(body).encode())
                    assert answer.status < 500, (body, answer.body)


@table("route", [one for one in routes() if one.is_query])
async def test_no_text_in_a_query_is_a_fault_of_the_engine(route: Route) -> None:
    async with served(scripted()) as kit:
        await kit.shake_hands()
        path = route.path.format_map(_Session(kit.session.id))
        (kind,) = route.kinds
        for text in ODD:
            for fields in bodies(kind, text):
                given = {
                    name: value if isinstance(value, str) else json.dumps(value)
                    for name, value in fields.items()
                    if name in route.beside
                }
                query = urlencode(given, errors="surrogatepass")
                answer = await kit.ask("GET", f"{path}?{query}")
                assert answer.status < 500, (fields, answer.body)


@pytest.mark.parametrize("text", ODD)
async def test_no_text_in_the_options_of_a_session_is_one_either(text: str, tmp_path: Path) -> None:
    async with served(scripted()) as kit:
        await kit.shake_hands()
        for config in bodies(SessionOptions, text):
            body = {"cwd": str(tmp_path), "model": "demo", "config": config}
            answer = await kit.ask("POST", "/v1/sessions", raw=json.dumps(body).encode())
            assert answer.status < 500, (config, answer.body)


async def test_a_folder_that_cannot_be_one_is_named_with_its_field() -> None:
    async with served(scripted()) as kit:
        await kit.shake_hands()
        answer = await kit.ask("POST", "/v1/sessions", {"cwd": "/tmp/a\0b"})
        assert (answer.status, answer.reason) == (400, "BadCommand")
        assert "$.cwd" in answer.json["message"]


class _Session(dict[str, str]):
    """The parts of a path: the session, and anything for the rest."""

    def __init__(self, session: str) -> None:
        super().__init__(session=session)

    def __missing__(self, _name: str) -> str:
        return USUAL
