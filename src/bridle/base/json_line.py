"""JSON for programs that does nothing to a terminal: what one would obey or hide is escaped, and says the same."""

from __future__ import annotations

from typing import Any

import msgspec

from bridle.base.visible import suspects


def json_line(value: Any) -> str:
    """One line with its line feed."""
    return escaped(msgspec.json.encode(value).decode()) + "\n"


def escaped(text: str) -> str:
    r"""JSON text with every character that `visible` looks at more closely as a \u escape. Same values, idempotent.

    Such characters stand inside strings only, so an escape can take their place wherever they are.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return suspects().sub(_escape, text)


def _escape(match: Any) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
