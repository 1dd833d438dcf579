"""What the tests of the wires share: golden files, requests as bytes, streams as what happens in them."""

import asyncio
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridle.base.clock import SystemClock
from bridle.base.net.sse import SseFrameBuffer
from bridle.engine.ports import ModelCall, ModelDone, ModelPart, ModelText, ModelThinking, ModelThought, Wire
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import Message
from bridle.providers.answers import Decoder
from bridle.providers.endpoints import Endpoint, Quirks, WireName
from bridle.providers.wires import Dialect, dialect

GOLDEN = Path(__file__).parent / "golden"
WIRES: tuple[WireName, ...] = ("openai_chat", "openai_responses", "anthropic")


class Unhurried(SystemClock):
    """Waits between attempts take no time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def speaking(wire: WireName, quirks: Quirks | None = None, *, streaming: bool = True) -> Dialect:
    """The dialect of an endpoint called p."""
    endpoint = Endpoint(name="p", base_url="http://p", wire=wire, quirks=quirks or Quirks())
    return dialect(endpoint, streaming=streaming)


def golden(wire: WireName, kind: str) -> list[Any]:
    files = sorted((GOLDEN / wire).glob(f"{kind}-*.json"))
    assert files
    return [pytest.param(file, id=file.stem) for file in files]


def check_golden(file: Path, field: str, found: Any) -> None:
    """The field of a golden file is what was found; UPDATE_GOLDEN=1 writes it."""
    case = json.loads(file.read_text(encoding="utf-8"))
    if os.environ.get("UPDATE_GOLDEN"):
        text = json.dumps({**case, field: found}, ensure_ascii=False, indent=2)
        file.write_text(text + "\n", encoding="utf-8")
        return
    assert found == case[field], f"{file.name} differs; UPDATE_GOLDEN=1 rewrites it"


def check_request(wire: WireName, file: Path) -> None:
    """The request of a golden file is its `sent`, byte for byte."""
    case = json.loads(file.read_text(encoding="utf-8"))
    spoken = speaking(wire, msgspec.convert(case["quirks"], Quirks), streaming=case["streaming"])
    messages = msgspec.convert(case["messages"], tuple[Message, ...])
    body = sent(spoken.wire, msgspec.convert(case["prefix"], PrefixSet), messages)
    found = json.loads(body)
    check_golden(file, "sent", found)
    assert body == json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


def check_stream(wire: WireName, file: Path) -> None:
    """The stream of a golden file gives its `parts`, and cut anywhere the whole answer or none.

    Only the price may be missing from a cut one: it may come after the reason.
    """
    case = json.loads(file.read_text(encoding="utf-8"))
    stream = as_stream(case["frames"])
    whole = joined(read(speaking(wire).decoder(), [stream]))
    check_golden(file, "parts", whole)
    frames, decoder = SseFrameBuffer(), speaking(wire).decoder()
    for byte in stream:
        parts = decoder.feed(frame.data for frame in frames.feed(bytes((byte,))))
        assert decoder.is_done or all(isinstance(part, ModelText | ModelThinking) for part in parts)


def sent(wire: Wire, prefix: PrefixSet, messages: Iterable[Message]) -> bytes:
    body = wire.head(prefix)
    for one in filter(None, map(wire.message, messages)):
        body += one if body.endswith(b"[") else b"," + one
    return body + wire.tail(prefix)


def read(decoder: Decoder, chunks: Iterable[bytes]) -> list[ModelPart]:
    frames = SseFrameBuffer()
    parts: list[ModelPart] = []
    for chunk in chunks:
        parts += decoder.feed(frame.data for frame in frames.feed(chunk))
    return parts + decoder.finish()


def as_stream(frames: Iterable[Any]) -> bytes:
    """Frames as a server sends them: JSON, or text as it stands in the file."""
    texts = (frame if isinstance(frame, str) else json.dumps(frame, ensure_ascii=False) for frame in frames)
    return b"".join(b"data: %b\n\n" % text.encode() for text in texts)


def shown(part: ModelPart) -> dict[str, Any]:
    match part:
        case ModelText(text=text):
            return {"text": text}
        case ModelThinking(text=text):
            return {"thinking": text}
        case ModelThought(block=block):
            return {"thought": block.family, "opaque": json.loads(block.opaque)}
        case ModelCall():
            return {"call": [part.tool, part.arguments, part.wire_id]}
        case ModelDone():
            return {"done": part.stop, "usage": msgspec.to_builtins(part.usage)}
        case _:
            raise AssertionError(part)


def joined(parts: Iterable[ModelPart]) -> list[dict[str, Any]]:
    """Neighbouring texts of one kind as one: how often a text was handed on is not what it says."""
    made: list[dict[str, Any]] = []
    for one in map(shown, parts):
        kind = next(iter(one))
        if made and kind in {"text", "thinking"} and kind in made[-1]:
            made[-1][kind] += one[kind]
        else:
            made.append(one)
    return made
