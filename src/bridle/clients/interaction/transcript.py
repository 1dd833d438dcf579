"""A conversation as a file: Markdown, or one HTML page where the name of the file says so. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from bridle.clients.interaction.as_markdown import markdown
from bridle.protocol import events as e


def transcript(title: str, envelopes: Iterable[e.Envelope], *, path: str = "") -> str:
    """The events as text, in the form that the ending of `path` names."""
    if path.lower().endswith((".html", ".htm")):
        from bridle.clients.interaction.as_html import html

        return "".join(html(title, (), envelopes))
    return "".join(markdown(title, (), envelopes))
