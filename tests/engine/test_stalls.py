"""Long texts, whoever sends them: while secrets are looked for in them, everything else goes on."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from bridle.base.secrets import redact, secret_openings
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, outcomes
from bridle.protocol.commands import AnswerPermission
from bridle.protocol.events import PermissionRequested
from bridle.providers.script import call, say
from tables import table

NEAR_SECRETS = {
    "one word": "x-" * 200_000,
    "almost web tokens": "eyJ" * 50_000,
    "almost keys": "password: " * 20_000,
    "secrets": ("gh" + "p_" + "a1B2" * 9 + " ") * 20_000,
}
LOOKING = (redact.__file__, secret_openings.__file__)
AT_ONCE = 16 * 1024
"""So much may be looked through on the loop in one go: a piece, and what was held back of the one before."""


@contextmanager
def looks_on_the_loop() -> Generator[list[int]]:
    """How long the longest text is that is looked through for secrets in the thread of the loop, as its only entry."""
    longest = [0]

    def watch(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename in LOOKING:
            texts = (value for value in frame.f_locals.values() if isinstance(value, str | bytes))
            longest[0] = max(longest[0], max(map(len, texts), default=0))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield longest
    finally:
        sys.setprofile(before)


@table("words", NEAR_SECRETS)
async def test_long_arguments_do_not_hold_up_the_loop(words: str) -> None:
    content = NEAR_SECRETS[words]
    arguments: dict[str, Any] = {"path": "long.txt", "content": content}
    async with harness(scripted(call("write_file", **arguments), say("done")), mode="yolo") as session:
        with looks_on_the_loop() as longest:
            await session.ask("write it")
        with open(f"{session.folder}/long.txt", encoding="ascii") as file:
            assert file.read() == content
    assert 0 < longest[0] <= AT_ONCE


async def test_a_question_about_long_arguments_does_not_hold_up_the_loop() -> None:
    content = NEAR_SECRETS["almost web tokens"]
    model = scripted(call("write_file", path="long.txt", content=content), say("done"))
    async with harness(model, mode="default", answers=True) as session:
        with looks_on_the_loop() as longest:
            turn = asyncio.ensure_future(session.ask("write it"))
            asked = await session.until(PermissionRequested)
            answer = AnswerPermission(
                session=session.id, call_id=asked.call_id, digest=asked.digest, answer="once"
            )
            await session.connection.send(answer)
            await turn
    assert 0 < longest[0] <= AT_ONCE


RUN = {
    "printed": call("bash", command="cat long.txt"),
    "printed in the background": call("bash", command="cat long.txt; touch printed", background=True),
    "read": call("read_file", path="long.txt"),
}


@table("how", RUN)
@table("words", NEAR_SECRETS)
async def test_what_a_call_brings_does_not_hold_up_the_loop(words: str, how: str) -> None:
    content = NEAR_SECRETS[words]
    async with harness(scripted(RUN[how], say("done")), mode="yolo", sandbox="off") as session:
        _write(session.folder, content if how != "read" else _in_lines(content))
        with looks_on_the_loop() as longest:
            events = await session.ask("look at it")
            while how.endswith("background") and not os.path.exists(f"{session.folder}/printed"):
                await asyncio.sleep(0)
    assert outcomes(events) == ["ok"]
    assert 0 < longest[0] <= AT_ONCE


@table("words", NEAR_SECRETS)
async def test_a_long_piece_of_an_answer_does_not_hold_up_the_loop(words: str) -> None:
    content = NEAR_SECRETS[words]
    async with harness(scripted(say(content, chunk=len(content)))) as session:
        with looks_on_the_loop() as longest:
            await session.ask("say it")
    assert 0 < longest[0] <= AT_ONCE


def _write(folder: str, content: str) -> None:
    with open(f"{folder}/long.txt", "w", encoding="ascii") as file:
        file.write(content)


def _in_lines(content: str) -> str:
    return "".join(f"{content[at : at + 1_000]}\n" for at in range(0, len(content), 1_000))
