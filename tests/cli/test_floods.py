"""A flood costs little memory and little disk, whoever sends it, and it is said how it ended."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bridle.protocol.events import StepFailed, TextDelta, ToolResult, TurnEnded
from cli_kit import Place
from effort import sample
from flood_kit import MEGABYTE, ROOM_BYTES, FloodServer, disk_bytes, flooded

KEY = {"WORK_KEY": "a" * 20}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def frames(*events: dict[str, Any], times: int = 1) -> bytes:
    """Server-sent events, all of them so many times over."""
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events) * times


def chat(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"delta": delta}]}


def chat_call(index: int, name: str | None, arguments: str) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return chat(tool_calls=[{"index": index, "id": f"c{index}", "function": function}])


def block(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **more}}


def grown(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


WORDS = "word " * 12_000
BEGUN = {"type": "message_start", "message": {}}
CREATED = {"type": "response.created", "response": {}}
A_CALL = {
    "type": "response.output_item.added",
    "output_index": 0,
    "item": {"type": "function_call", "name": "bash"},
}

FLOODS: dict[str, tuple[str, bytes, bytes]] = {
    "chat text": ("openai_chat", b"", frames(chat(content=WORDS))),
    "chat thinking": ("openai_chat", b"", frames(chat(reasoning_content=WORDS))),
    "chat text and thinking by turns": (
        "openai_chat", b"", frames(chat(content="a"), chat(reasoning_content="b"), times=300)),
    "chat arguments": (
        "openai_chat", frames(chat_call(0, "bash", "{")), frames(chat_call(0, None, "ab" * 8), times=500)),
    "chat a call in the text": ("openai_chat", frames(chat(content="<tool_call>")), frames(chat(content=WORDS))),
    "chat calls": ("openai_chat", b"", b"".join(frames(chat_call(number, "bash", "{}")) for number in range(9_000))),
    "chat one line": ("openai_chat", frames(chat(content="begun")) + b"data: ", b"x" * 60_000),
    "chat one piece full of things": (
        "openai_chat", frames(chat(content="begun")), b'data: {"usage": {"a": [' + b"{}," * 1_300_000 + b"1]}}\n\n"),
    "anthropic text": (
        "anthropic", frames(BEGUN, block(0, "text", text="")), frames(grown(0, type="text_delta", text=WORDS))),
    "anthropic thinking": (
        "anthropic", frames(BEGUN, block(0, "thinking", thinking="")),
        frames(grown(0, type="thinking_delta", thinking="ab" * 8), times=500)),
    "anthropic arguments": (
        "anthropic", frames(BEGUN, block(0, "tool_use", id="t", name="bash", input={})),
        frames(grown(0, type="input_json_delta", partial_json="ab" * 8), times=500)),
    "anthropic hidden thoughts": (
        "anthropic", frames(BEGUN), frames(block(0, "redacted_thinking", data=WORDS))),
    "responses text": (
        "openai_responses", frames(CREATED),
        frames({"type": "response.output_text.delta", "output_index": 0, "delta": WORDS})),
    "responses arguments": (
        "openai_responses", frames(CREATED, A_CALL),
        frames({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "ab" * 8}, times=500)),
    "responses items": (
        "openai_responses", frames(CREATED),
        b"".join(frames({"type": "response.output_text.delta", "item_id": f"i{number}", "delta": "a"})
                 for number in range(60_000))),
}  # fmt: skip
"""The wire, how the answer begins, and what then comes without end."""


@pytest.fixture(scope="module")
def baseline_bytes(tmp_path_factory: pytest.TempPathFactory) -> int:
    """What a run that is no flood takes."""
    place = Place(tmp_path_factory.mktemp("calm"))
    peak = flooded(place, "run", "-m", place.script('call bash {"command": "ls"}\n---\nsay ok\n'), "hello")
    assert peak.ran.code == 0
    return peak.peak_bytes


@pytest.mark.parametrize("name", sample(FLOODS, 4))
async def test_an_answer_without_end_is_cut_off_kept_and_said(
    place: Place, baseline_bytes: int, name: str
) -> None:
    wire, first, flood = FLOODS[name]
    async with FloodServer([flood], first=first) as server:
        in_text = str("in the text" in name).lower()
        at = (
            *(("base_url", f"{server.origin}/v1"), ("key_env", "WORK_KEY"), ("wire", wire)),
            ("quirks.calls_in_text", in_text),
        )
        settings = [word for key, value in at for word in ("--set", f"providers.work.{key}={value}")]
        run = await asyncio.to_thread(flooded, place, "run", "-m", "work:any", *settings, "hello", env=KEY)
    assert run.ran.code == 5, run.ran.err[-500:]
    assert "was cut off after 4 MB" in run.ran.err
    assert len(server.requests) == 1, "it was asked again"
    events = [envelope.event for envelope in place.events(place.only_session())]
    (ended,) = (event for event in events if isinstance(event, TurnEnded))
    assert (ended.stop, ended.reason) == ("error", "AnswerTooLong")
    assert not [event for event in events if isinstance(event, StepFailed | ToolResult)]
    said = "".join(event.text for event in events if isinstance(event, TextDelta))
    if name.split()[1:] == ["text"]:
        assert 3_900_000 < len(said) <= 4 * MEGABYTE
        assert run.ran.out.strip() == said.strip()
    elif name.startswith("chat one"):
        assert said == "begun"
    assert run.peak_bytes - baseline_bytes <= ROOM_BYTES
    assert disk_bytes(place.home) <= ROOM_BYTES


def result_of(place: Place) -> ToolResult:
    events = [envelope.event for envelope in place.events(place.only_session())]
    (result,) = (event for event in events if isinstance(event, ToolResult))
    return result


COMMANDS = {
    "lines": "yes",
    "nothing but zeros": "cat /dev/zero",
    "one line": "tr '\\0' a < /dev/zero",
    "something like a secret without end": "printf 'password=' && tr '\\0' a < /dev/zero",
    "secrets": "yes 'DB_PASSWORD=hunter2hunter2'",
}


@pytest.mark.parametrize("name", sample(COMMANDS, 2))
def test_a_command_that_prints_without_end_runs_to_its_time_limit_and_little_is_kept(
    place: Place, baseline_bytes: int, name: str
) -> None:
    script = place.script(
        f"call bash {json.dumps({'command': COMMANDS[name], 'timeout_ms': 2500})}\n---\nsay ok\n"
    )
    run = flooded(place, "run", "-m", script, "--mode", "yolo", "hello")
    assert run.ran.code == 0, run.ran.err
    result = result_of(place)
    assert result.reason == "ToolTimeout"
    assert run.peak_bytes - baseline_bytes <= ROOM_BYTES
    assert disk_bytes(place.home) <= ROOM_BYTES + 2 * MEGABYTE, "the log and its key come on top"
    assert len(result.content) < 40_000


def test_it_is_said_how_much_came_and_how_much_was_kept(place: Place) -> None:
    command = f"head -c {100 * MEGABYTE} /dev/zero"
    script = place.script(f"call bash {json.dumps({'command': command})}\n---\nsay ok\n")
    run = flooded(place, "run", "-m", script, "--mode", "yolo", "hello")
    assert run.ran.code == 0, run.ran.err
    result = result_of(place)
    assert result.outcome == "ok"
    assert result.metadata["output_bytes"] == 100 * MEGABYTE
    assert f"shows the first 64000000 of all {100 * MEGABYTE} bytes, the rest was not kept]" in result.content


def test_a_command_in_the_background_that_prints_without_end_takes_little(
    place: Place, baseline_bytes: int
) -> None:
    look = 'call bash {"job": "job1"}\n'
    script = place.script(
        'call bash {"command": "yes", "background": true}\n---\n'
        'call bash {"command": "sleep 2"}\n---\n' + look + "---\n" + look + "---\nsay ok\n"
    )
    run = flooded(place, "run", "-m", script, "--mode", "yolo", "hello")
    assert run.ran.code == 0, run.ran.err
    assert run.peak_bytes - baseline_bytes <= ROOM_BYTES
    assert disk_bytes(place.home) <= 4 * MEGABYTE


def test_a_hook_that_prints_without_end_takes_little(place: Place, baseline_bytes: int) -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    hook = '[[hooks]]\nevent = "PreToolUse"\ncommand = "yes"\ntimeout_ms = 2000\non_error = "warn"\n'
    (folder / "config.toml").write_text(hook)
    script = place.script('call bash {"command": "ls"}\n---\nsay ok\n')
    run = flooded(place, "run", "-m", script, "--mode", "yolo", "hello")
    assert run.ran.code == 0, run.ran.err
    assert run.peak_bytes - baseline_bytes <= ROOM_BYTES
    assert disk_bytes(place.home) <= 4 * MEGABYTE
