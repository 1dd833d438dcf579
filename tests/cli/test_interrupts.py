"""Ctrl-C ends a run whatever came before it: floods, silence, long texts, a reader that is gone."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from bridle.base.secrets.redact import redact
from bridle.engine.sizes import MAX_ANSWER
from bridle.protocol.events import TurnEnded
from cli.test_floods import FLOODS, KEY
from cli_kit import BRIDLE, TIMEOUT_S, Place
from effort import sample
from flood_kit import FloodServer

NEAR_SECRETS = "eyJ" * 300_000
"""Nine hundred kilobytes in which secrets are looked for, long and in vain."""
NEVER_ENDS = f"yes {NEAR_SECRETS[:3_000]}"
SCRIPTS = {
    "a provider that is silent": ("wait 600\nsay too late\n", "StepStarted"),
    "a provider that falls silent": ("say begun\nwait 600\nsay too late\n", "TextDelta"),
    "one long piece of text": (
        f"chunk 1000000\nsay {NEAR_SECRETS}\nwait 600\nsay too late\n",
        "TextDelta",
    ),
    "one long thought": (
        f"chunk 1000000\nthink {NEAR_SECRETS}\nwait 600\nsay too late\n",
        "ThinkingDelta",
    ),
    "long arguments": (
        f"call write_file {json.dumps({'path': 'a', 'content': NEAR_SECRETS})}\n---\nwait 600\nsay too late\n",
        "StepStarted",
    ),
    "a command that prints": (f"call bash {json.dumps({'command': NEVER_ENDS})}\n", "ToolCallProgress"),
    "a command in the background that prints": (
        f"call bash {json.dumps({'command': NEVER_ENDS, 'background': True})}\n---\nwait 600\nsay too late\n",
        "BackgroundStarted",
    ),
}
"""What the model does, and the event after which somebody presses Ctrl-C."""


class Stopped(NamedTuple):
    code: int
    took_s: float
    said: str


def stopped(
    place: Place, *words: str, after: str, reading: bool = True, env: Mapping[str, str] | None = None
) -> Stopped:
    """Runs `bridle run WORDS…`, presses Ctrl-C after the first event of a kind, and waits for the end."""
    process = subprocess.Popen(
        [*BRIDLE, "run", "--mode", "yolo", "-s", "off", "--stream-json", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=place.work,
        env=place.environment(**(env or {})),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert any(f'"eventType":"{after}"'.encode() in line for line in process.stdout)
        begun = time.perf_counter()
        process.send_signal(signal.SIGINT)
        if reading:
            process.stdout.read()
        code = process.wait(TIMEOUT_S)
        return Stopped(code, time.perf_counter() - begun, process.stderr.read().decode())
    finally:
        process.kill()
        process.communicate()


def is_whole(place: Place) -> None:
    session = place.only_session()
    place.verify(session)
    ends = [one.event.stop for one in place.events(session) if isinstance(one.event, TurnEnded)]
    assert ends == ["cancelled"]


@pytest.mark.parametrize("reading", sample([True, False]), ids=["read", "not read"])
@pytest.mark.parametrize("what", SCRIPTS)
def test_ctrl_c_ends_a_run_whatever_it_is_about(place: Place, what: str, reading: bool) -> None:
    script, after = SCRIPTS[what]
    ran = stopped(place, "-m", place.script(script), "x", after=after, reading=reading)
    assert (ran.code, "Traceback" in ran.said) == (130, False), ran.said[-500:]
    is_whole(place)


@pytest.mark.parametrize("flood", ["chat text", "chat thinking", "chat arguments", "anthropic arguments"])
async def test_ctrl_c_ends_an_answer_that_floods(place: Place, flood: str) -> None:
    """It falls silent before it would be cut off, so only Ctrl-C ends it."""
    wire, first, piece = FLOODS[flood]
    async with FloodServer([piece], first=first, silent_after=MAX_ANSWER // 2) as server:
        at = (("base_url", f"{server.origin}/v1"), ("key_env", "WORK_KEY"), ("wire", wire))
        settings = [word for key, value in at for word in ("--set", f"providers.work.{key}={value}")]
        words = (*settings, "-m", "work:any", "hello")
        ran = await asyncio.to_thread(stopped, place, *words, after="StepStarted", env=KEY)
    assert ran.code == 130, ran.said[-500:]
    is_whole(place)


@pytest.mark.full
def test_what_is_still_looked_through_does_not_hold_up_the_end(place: Place) -> None:
    """It takes as long as it takes, here and now; whoever presses Ctrl-C waits for much less."""
    begun = time.perf_counter()
    redact(NEAR_SECRETS)
    whole_s = time.perf_counter() - begun
    script, after = SCRIPTS["long arguments"]
    assert stopped(place, "-m", place.script(script), "x", after=after).took_s < whole_s / 2
