"""A conversation as Markdown, for a file: who said what, and one line for each call. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from bridle.base.visible import visible
from bridle.clients.story import Story
from bridle.protocol import events as e


def transcript(title: str, envelopes: Iterable[e.Envelope]) -> str:
    """The events as text. A failed attempt of the model is left out, as the model itself never sees it again."""
    story = Story()
    parts = [f"# {visible(title, newlines=False) or 'A conversation'}"]
    said: list[str] = []
    for envelope in envelopes:
        event = envelope.event
        match event:
            case e.InputAccepted(content=content):
                parts.append(f"## You\n\n{visible(e.text_of(content)).strip()}")
            case e.TextDelta(text=text):
                said.append(text)
            case e.StepStarted() | e.StepFailed():
                said.clear()
            case e.StepEnded() if "".join(said).strip():
                parts.append(f"## Bridle\n\n{visible(''.join(said)).strip()}")
                said.clear()
            case _:
                pass
        if isinstance(
            event, e.ToolResult | e.Cancelled | e.Error | e.ToolCallRequested | e.PermissionDecided
        ):
            parts += [f"    {line}" for line in story.lines(event)]
    return "\n\n".join(parts) + "\n"
