"""What code that is not ours returns for a call, held to what the log can keep. Loaded with the first such call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from bridle.engine.tools import Tool, ToolContext, ToolOutput
from bridle.protocol.codec import encode_payload
from bridle.protocol.events import ToolResult

MAX_CHARACTERS = 64 * 1024
"""So long may the text be that a layer puts in the place of a result, which is cut already."""
MAX_BYTES = 256 * 1024
"""So much may stand in metadata, and in what a layer shows."""


def run_foreign(tool: Tool) -> Callable[[Any, ToolContext], Awaitable[ToolOutput]]:
    """The function of the tool. What it returns is checked, and where it wants to end the program the call fails."""

    async def run(args: Any, context: ToolContext) -> ToolOutput:
        try:
            return checked(await tool.run(args, context))
        except SystemExit as left:
            raise RuntimeError(f"it wants to end the program ({left})") from None

    return run


def checked(output: object) -> ToolOutput:
    """The output, of which every field is what its type says.

    Raises an `Exception` that says what is wrong where it is none: a row that cannot be written fails a turn, and one
    that cannot be read again a session.
    """
    if not isinstance(output, ToolOutput):
        raise TypeError(f"a ToolOutput is wanted, not {type(output).__name__}")
    if len(msgspec.json.encode(output.metadata)) > MAX_BYTES:
        raise ValueError(f"the metadata is longer than {MAX_BYTES} bytes")
    fields = msgspec.structs.asdict(output)
    kept = msgspec.json.decode(encode_payload(ToolResult(call_id="", tool="", **fields)), type=ToolResult)
    return ToolOutput(**{name: getattr(kept, name) for name in fields})


def cut_short(output: ToolOutput) -> ToolOutput:
    """The output of a layer with no more in it than a model and a client can take."""
    content, shown = output.content, output.shown
    if len(content) > MAX_CHARACTERS:
        content = f"{content[:MAX_CHARACTERS]}\n[cut: {len(content) - MAX_CHARACTERS} more characters]"
    if shown is not None and len(msgspec.json.encode(shown)) > MAX_BYTES:
        shown = None
    return msgspec.structs.replace(output, content=content, shown=shown)
