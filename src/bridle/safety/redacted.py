"""The layer that takes secrets out of what a call prints and returns. The input is never changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

import msgspec

from bridle.base.secrets.redact import StreamRedactor
from bridle.base.secrets.redacted_stream import AT_ONCE, RedactedStream
from bridle.base.threads import in_thread
from bridle.engine.tools import RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.protocol.display_values import AnyShown

_SEQUENCES = (list, tuple)


def redacted(secrets: Callable[[], Iterable[str]] = tuple) -> ToolLayer:
    """Redacts the stream as it passes, then the returned content and every text in what is shown and in the metadata.

    A secret split over two pieces of the stream is found. What was held back is passed on at the end, also
    when the call fails. `secrets` are the keys in use, which are masked whatever they look like.
    """

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        stream = RedactedStream(call.write, known=secrets())
        try:
            output = await proceed(msgspec.structs.replace(call, write=stream.feed))
        finally:
            redactor = await stream.end()
        shown: dict[str, Any] = {} if output.shown is None else msgspec.to_builtins(output.shown)
        if _size([output.content, shown, output.metadata]) <= AT_ONCE:
            return _cleaned(output, shown, redactor)
        return await in_thread(partial(_cleaned, output, shown, redactor))

    return layer


def _cleaned(output: ToolOutput, shown: dict[str, Any], redactor: StreamRedactor) -> ToolOutput:
    """The output without secrets; `shown` is what it shows, as plain data."""
    return msgspec.structs.replace(
        output,
        content=redactor.whole(output.content),
        shown=_shown_without(output.shown, shown, redactor.whole),
        metadata=_changed(output.metadata, redactor.whole),
    )


def _shown_without(
    shown: AnyShown | None, data: dict[str, Any], clean: Callable[[str], str]
) -> AnyShown | None:
    """What is shown, cleaned. Nothing where it is no such value any more: somebody's key is one of our words."""
    data.pop("as", None)  # that is ours
    if (cleaned := _changed(data, clean)) == data:
        return shown
    try:
        return msgspec.convert(cleaned, type(shown))
    except msgspec.ValidationError:
        return None


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        value = cast("dict[Any, Any]", value).values()
    elif not isinstance(value, _SEQUENCES):
        return 0
    return sum(map(_size, cast("Iterable[Any]", value)))


def _changed(value: Any, clean: Callable[[str], str]) -> Any:
    """The same value with every text in it cleaned; names of fields are ours and stay."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _changed(item, clean) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_changed(item, clean) for item in cast("list[Any]", value)]
    if isinstance(value, tuple):
        return tuple(_changed(item, clean) for item in cast("tuple[Any, ...]", value))
    return value
