"""From a delta that leaves the model's server to the words on stdout of `bridle run --stream`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time

from measure import BRIDLE, Figure, plain_env, scratch, within
from over_http import configure

WORDS = 200
PACES = (20, 50, 90)
"""Deltas a second: a large model, a quick one, and more than anyone reads."""


def latency() -> list[Figure]:
    """How late each word of an answer is that comes word by word, at the pace of a model."""
    figures: list[Figure] = []
    for pace in PACES:
        late_ms = asyncio.run(_late_ms(pace))
        how = f"N={len(late_ms)} words, {pace} a second"
        targets = (3, 12) if pace == PACES[1] else (None, None)
        for share, target in zip((0.5, 0.95), targets, strict=True):
            name = f"delta to stdout, {pace}/s, p{int(share * 100)}"
            value = within(late_ms, share)
            figures.append(Figure(name=name, value=value, unit="ms", target=target, how=how))
    return figures


async def _late_ms(pace: int) -> list[float]:
    """Each word is the moment it was written."""
    with scratch() as home, scratch() as cwd:
        server = await asyncio.start_server(
            lambda reader, writer: _answer(reader, writer, pace), "127.0.0.1", 0
        )
        env = plain_env(home) | {"BENCH_SERVER_KEY": "bench" * 4}
        configure(env["BRIDLE_HOME"], f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        process = await asyncio.create_subprocess_exec(
            *(BRIDLE, "run", "--stream", "-m", "bench:some-model", "hi"),
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        late_ms: list[float] = []
        kept = b""
        while chunk := await process.stdout.read(65536):
            now = time.monotonic()
            *words, kept = (kept + chunk).split(b" ")
            late_ms += [(now - float(word)) * 1000 for word in words if word]
        assert await process.wait() == 0
        server.close()
    assert len(late_ms) == WORDS, f"{len(late_ms)} words came"
    return late_ms


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pace: int) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(size)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    begun = time.monotonic()
    for number in range(WORDS):
        await asyncio.sleep(max(0.0, begun + number / pace - time.monotonic()))
        _write(writer, {"content": f"{time.monotonic():.6f} "}, None)
    _write(writer, {}, "stop")
    writer.write(b"data: [DONE]\n\n")
    writer.close()


def _write(writer: asyncio.StreamWriter, delta: dict[str, str], finish: str | None) -> None:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    frame = {"id": "a", "object": "chat.completion.chunk", "choices": [choice]}
    writer.write(b"data: " + json.dumps(frame).encode() + b"\n\n")
