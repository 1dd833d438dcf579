"""What came back from a server, as plain data, and what the model and people get of it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bridle.base.text.untrusted import wrap
from bridle.engine.tools import ToolOutput
from bridle.protocol.display_values import ShownServerResult
from bridle.protocol.messages import ImageBlock

RESULT: Final = "mcp-result"
_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MOST_PICTURES: Final = 4
_MOST_PICTURE_CHARACTERS: Final = 4 << 20
_MOST_SHOWN: Final = 32 * 1024


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """An image, in base64."""

    kind: str
    data: str


class ResourceText(msgspec.Struct, frozen=True, kw_only=True):
    """A resource as its server lists it. `kind` is its type of content."""

    uri: str
    name: str = ""
    about: str = ""
    kind: str = ""


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a call, a resource or a prompt came to. `structured` is a JSON value, where there is one."""

    texts: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    structured: Any = None
    failed: bool = False

    def text(self) -> str:
        """All that can be said in words. A value that the text says already is not said twice."""
        parts = [*self.texts, *map(_named, self.pictures)]
        if self.structured is not None and not any(_says(text, self.structured) for text in self.texts):
            parts.append(msgspec.json.encode(self.structured).decode())
        return "\n".join(parts)

    def images(self) -> tuple[ImageBlock, ...]:
        """The pictures that a model could look at, a few of them."""
        return tuple(
            ImageBlock(url=f"data:{one.kind};base64,{one.data}") for one in self.pictures if _fits(one)
        )[:_MOST_PICTURES]


def tool_output(result: CallResult, *, server: str, tool: str) -> ToolOutput:
    """The result for the model, as something from outside, and for people."""
    data = "" if result.structured is None else msgspec.json.encode(result.structured).decode()
    shown = ShownServerResult(
        server=server,
        tool=tool,
        pictures=len(result.pictures),
        structured=data if len(data) <= _MOST_SHOWN else "",
    )
    return ToolOutput(
        outcome="error" if result.failed else "ok",
        reason="MCPToolFailed" if result.failed else None,
        content=wrap(RESULT, result.text()),
        shown=shown,
    )


def _named(picture: Picture) -> str:
    size = decoded_bytes(picture.data)
    return f"[{picture.kind}, {size} bytes{'' if _fits(picture) else ': left out'}]"


def decoded_bytes(data: str) -> int:
    """How many bytes a text in base64 stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def _fits(picture: Picture) -> bool:
    return picture.kind in _PICTURES and len(picture.data) <= _MOST_PICTURE_CHARACTERS


def _says(text: str, value: Any) -> bool:
    try:
        return msgspec.json.decode(text) == value
    except msgspec.DecodeError:
        return False
