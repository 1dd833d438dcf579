"""`bridle run -i`: images as the model gets them, how large they may be, and models that read none."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from bridle.conformance.servers import ModelServer, Received
from bridle.providers.script import say
from cli_kit import Place, Ran

pytestmark = pytest.mark.through_engine(quick=False)

PNG = b"\x89PNG\r\n\x1a\n" + b"not decoded by anybody"
ADDRESS = "https://example.invalid/cat.png"
LIMIT = 8_388_608


async def ask(
    place: Place, server: ModelServer, *words: str, more: str = "", wire: str = "openai_chat"
) -> Ran:
    """`bridle run WORDS…` while the server is the model; `more` is added to the person's settings."""
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True, exist_ok=True)
    section = f'[providers.work]\nbase_url = "{server.url}"\nwire = "{wire}"\nlocal = true\n{more}'
    (folder / "config.toml").write_text(section, encoding="utf-8")
    return await asyncio.to_thread(place.bridle, "run", "-m", "work:some-model", *words)


def parts(server: ModelServer) -> list[dict[str, Any]]:
    return server.chats[-1].json["messages"][-1]["content"]


def posted(server: ModelServer) -> list[Received]:
    """What was asked of a model, over whichever wire."""
    return [request for request in server.requests if request.method == "POST"]


def written(place: Place, name: str, data: bytes) -> str:
    (place.work / name).write_bytes(data)
    return name


@pytest.mark.requirement("D15.2", "D6.11")
async def test_images_stand_behind_the_words_in_order_within_the_limit_and_with_the_detail_that_is_set(
    place: Place,
) -> None:
    largest = written(place, "largest.png", PNG.ljust(LIMIT, b"x"))
    small = written(place, "small.png", PNG)
    async with ModelServer.playing(say("Seen."), say("Seen."), say("Seen.")) as server:
        ran = await ask(place, server, "-i", largest, "-i", ADDRESS, "-i", small, "what is it?")
        assert (ran.code, ran.out) == (0, "Seen.\n")
        urls = [
            f"data:image/png;base64,{base64.b64encode((place.work / largest).read_bytes()).decode()}",
            ADDRESS,
            f"data:image/png;base64,{base64.b64encode(PNG).decode()}",
        ]
        assert parts(server) == [
            {"type": "text", "text": "what is it?"},
            *({"type": "image_url", "image_url": {"url": url, "detail": "auto"}} for url in urls),
        ]
        too_large = written(place, "too-large.png", PNG.ljust(LIMIT + 1, b"x"))
        refused = await ask(place, server, "-i", too_large, "what is it?")
        assert (refused.code, refused.story) == (
            2,
            ["The image too-large.png is larger than 8 MB (multimodal.max_image_bytes)"],
        )
        larger = "[multimodal]\nmaxImageBytes = 8388609\ndetail = 'low'\n"
        raised = await ask(place, server, "-i", too_large, "and now?", more=larger)
        assert raised.code == 0, raised
        assert parts(server)[1]["image_url"]["detail"] == "low"
        lower = ("--set", "multimodal.max_image_bytes=10", "-i", small, "x")
        assert (await ask(place, server, *lower)).story == [
            "The image small.png is larger than 10 bytes (multimodal.max_image_bytes)"
        ]
    assert len(server.chats) == 2, "what is refused is not sent"


def test_a_project_does_not_change_the_limit(place: Place) -> None:
    (place.work / ".bridle").mkdir()
    (place.work / ".bridle/config.toml").write_text("[multimodal]\nmax_image_bytes = 99999999\n")
    ran = place.bridle("config", "get", "multimodal.max_image_bytes")
    assert ran.out == f"{LIMIT}\n"


@pytest.mark.requirement("D15.3")
@pytest.mark.parametrize("wire", ["openai_chat", "openai_responses", "anthropic"])
async def test_a_model_without_image_support_fails_clearly_and_degrades_only_when_told_to(
    place: Place, wire: str
) -> None:
    image = written(place, "cart.png", PNG)
    async with ModelServer.playing(say("No picture.")) as server:
        refused = await ask(
            place,
            server,
            "--json",
            "-i",
            image,
            "what is it?",
            wire=wire,
            more='quirks = {images = "refuse"}\n',
        )
        assert (refused.code, refused.result["reason"]) == (2, "NoImages")
        assert refused.result["error"]["message"] == (
            "work takes no images. Choose a model that does, or send only the words: "
            'providers.work.quirks.images = "leave_out"'
        )
        assert posted(server) == [], "no model was asked"
        more = 'quirks = {images = "leave_out"}\n'
        degraded = await ask(place, server, "-i", image, "what is it?", wire=wire, more=more)
        assert (degraded.code, degraded.out) == (0, "No picture.\n")
    (request,) = posted(server)
    assert b"An image was here" in request.body
    assert b"base64" not in request.body


async def test_words_alone_reach_a_model_without_image_support(place: Place) -> None:
    async with ModelServer.playing(say("Hi.")) as server:
        ran = await ask(place, server, "hello", more='quirks = {images = "refuse"}\n')
    assert (ran.code, ran.out) == (0, "Hi.\n")
