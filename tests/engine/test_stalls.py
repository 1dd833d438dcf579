"""Long texts, whoever sends them: while secrets are looked for in them, everything else goes on."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bridle.base.redact import redact
from bridle.base.secret_openings import might_hold_secret
from bridle.conformance.harness import harness, outcomes
from bridle.conformance.models import scripted
from bridle.protocol.commands import AnswerPermission
from bridle.protocol.events import PermissionRequested
from bridle.providers.script import call, say

NEAR_SECRETS = {
    "one word": "x-" * 200_000,
    "almost web tokens": "eyJ" * 50_000,
    "almost keys": "password: " * 20_000,
    "secrets": ("gh" + "p_" + "a1B2" * 9 + " ") * 20_000,
}
TICK_S = 0.001
LEAST_S = 0.1
"""So long the loop may wait on a machine that has other things to do."""


@asynccontextmanager
async def ticking() -> AsyncGenerator[list[float]]:
    """The longest time in which the loop got to nothing else, as its only entry."""
    longest = [0.0]

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK_S)
            longest[0] = max(longest[0], time.perf_counter() - before)

    task = asyncio.ensure_future(tick())
    try:
        yield longest
    finally:
        task.cancel()


def looked_through_s(text: str) -> float:
    """What one look through a text takes here and now."""
    begun = time.perf_counter()
    might_hold_secret(text.encode())
    redact(text)
    return time.perf_counter() - begun


@pytest.mark.parametrize("words", NEAR_SECRETS)
async def test_long_arguments_do_not_hold_up_the_loop(words: str) -> None:
    content = NEAR_SECRETS[words]
    arguments: dict[str, Any] = {"path": "long.txt", "content": content}
    async with harness(scripted(call("write_file", **arguments), say("done")), mode="yolo") as session:
        async with ticking() as longest:
            await session.ask("write it")
        with open(f"{session.folder}/long.txt", encoding="ascii") as file:
            assert file.read() == content
    allowed = max(looked_through_s(content) / 3, LEAST_S)
    assert longest[0] < allowed


async def test_a_question_about_long_arguments_does_not_hold_up_the_loop() -> None:
    content = NEAR_SECRETS["almost web tokens"]
    model = scripted(call("write_file", path="long.txt", content=content), say("done"))
    async with harness(model, mode="default", answers=True) as session, ticking() as longest:
        turn = asyncio.ensure_future(session.ask("write it"))
        asked = await session.until(PermissionRequested)
        answer = AnswerPermission(
            session=session.id, call_id=asked.call_id, digest=asked.digest, answer="once"
        )
        await session.connection.send(answer)
        await turn
    allowed = max(looked_through_s(content) / 3, LEAST_S)
    assert longest[0] < allowed


RUN = {
    "printed": call("bash", command="cat long.txt"),
    "printed in the background": call("bash", command="cat long.txt; touch printed", background=True),
    "read": call("read_file", path="long.txt"),
}


@pytest.mark.parametrize("how", RUN)
@pytest.mark.parametrize("words", NEAR_SECRETS)
async def test_what_a_call_brings_does_not_hold_up_the_loop(words: str, how: str) -> None:
    content = NEAR_SECRETS[words]
    async with harness(scripted(RUN[how], say("done")), mode="yolo", sandbox="off") as session:
        _write(session.folder, content if how != "read" else _in_lines(content))
        async with ticking() as longest:
            events = await session.ask("look at it")
            while how.endswith("background") and not os.path.exists(f"{session.folder}/printed"):
                await asyncio.sleep(TICK_S)
    assert outcomes(events) == ["ok"]
    assert longest[0] < max(looked_through_s(content) / 3, LEAST_S)


@pytest.mark.parametrize("words", NEAR_SECRETS)
async def test_a_long_piece_of_an_answer_does_not_hold_up_the_loop(words: str) -> None:
    content = NEAR_SECRETS[words]
    async with harness(scripted(say(content, chunk=len(content)))) as session, ticking() as longest:
        await session.ask("say it")
    assert longest[0] < max(looked_through_s(content) / 3, LEAST_S)


def _write(folder: str, content: str) -> None:
    with open(f"{folder}/long.txt", "w", encoding="ascii") as file:
        file.write(content)


def _in_lines(content: str) -> str:
    return "".join(f"{content[at : at + 1_000]}\n" for at in range(0, len(content), 1_000))
