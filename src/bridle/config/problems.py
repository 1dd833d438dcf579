"""Problems of settings, as data: where, which key, and one clause that says it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec

from bridle.base.secrets.redact import redact
from bridle.base.text.terminal_text import visible
from bridle.protocol.errors import BridleError

Severity: TypeAlias = Literal["error", "warning"]

SHOWN_LENGTH = 60
SHOWN_NAMES = 8


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error stops a run before it begins; a warning is said once.

    `source` is how people call the place (`config.toml`, `BRIDLE_MODE`, `--set`), `path` the file itself.
    """

    severity: Severity
    source: str
    problem: str
    path: str | None = None
    line: int | None = None
    key: str | None = None
    reason: str = "BadConfig"

    @property
    def where(self) -> str:
        return self.source if self.line is None else f"{self.source} line {self.line}"

    @property
    def text(self) -> str:
        return f"{self.where}: {self.problem}."

    def error(self) -> BridleError:
        """As the failure a client sees; its sentence is `{where}: {problem}.`"""
        return BridleError(
            self.reason,
            where=self.where,
            path=self.path or self.source,
            line=self.line,
            key=self.key,
            problem=self.problem,
        )


def shown(text: str) -> str:
    """Foreign words, short, harmless to a terminal and without secrets."""
    safe = visible(redact(text), newlines=False)
    return safe if len(safe) <= SHOWN_LENGTH else f"{safe[: SHOWN_LENGTH - 1]}…"


def shown_names(names: list[str]) -> str:
    """A list of names that stays readable however many there are."""
    listed = ", ".join(map(shown, names[:SHOWN_NAMES]))
    rest = len(names) - SHOWN_NAMES
    return f"{listed} and {rest} more" if rest > 0 else listed


def written(value: object) -> str:
    """A value the way TOML writes it, on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            text = msgspec.json.encode(value.encode("utf-8", "replace").decode()).decode()
            return text.replace("\x7f", "\\u007f")  # the one character that JSON allows and TOML does not
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(written, cast('list[object]', value)))}]"
        case Mapping():
            fields = cast("Mapping[str, Any]", value).items()
            return f"{{ {', '.join(f'{_name(key)} = {written(item)}' for key, item in fields)} }}"
        case _:
            return str(value)


def _name(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else written(key)
