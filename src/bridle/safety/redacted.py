"""The layer that takes secrets out of what a call prints and returns. The input is never changed."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from bridle.base.redact import StreamRedactor, redact
from bridle.engine.tools import RunTool, ToolCall, ToolLayer, ToolOutput


def redacted() -> ToolLayer:
    """Redacts the stream as it passes, then the returned content and every text in the metadata.

    A secret split over two pieces of the stream is found. What was held back is passed on at the end, also
    when the call fails.
    """

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        stream = StreamRedactor()

        def write(text: str) -> None:
            if safe := stream.feed(text):
                call.write(safe)

        try:
            output = await proceed(msgspec.structs.replace(call, write=write))
        finally:
            if rest := stream.flush():
                call.write(rest)
        return msgspec.structs.replace(
            output, content=redact(output.content), metadata=_clean(output.metadata)
        )

    return layer


def _clean(value: Any) -> Any:
    """The same value with every text in it redacted; names of fields are ours and stay."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in cast("list[Any] | tuple[Any, ...]", value)]
    return value
