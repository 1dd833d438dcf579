"""Arguments of the search tools."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bridle.base.fs.path_patterns import PathPattern, anywhere
from bridle.tools.search.search_patterns import search_pattern

MAX_MATCHES = 200


class GrepArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(min_length=1, description="Regular expression; no look-around.")]
    path: Annotated[str, Meta(description="File or folder to search.")] = "."
    glob: Annotated[str | None, Meta(description="Only files that match, such as *.{ts,tsx}.")] = None
    output_mode: Literal["content", "files_with_matches", "count"] = "content"
    head_limit: Annotated[int, Meta(ge=1, description="At most 200.")] = MAX_MATCHES
    ignore_case: bool = False

    def __post_init__(self) -> None:
        search_pattern(self.pattern)
        if self.glob is not None:
            _check_paths(self.glob, "glob")


class GlobArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(min_length=1, description="Such as *.py or src/**/*.{ts,tsx}.")]
    path: Annotated[str, Meta(description="Folder to look in.")] = "."

    def __post_init__(self) -> None:
        _check_paths(self.pattern, "pattern")


def _check_paths(pattern: str, name: str) -> None:
    """Raises ValueError for what is no pattern of paths below a folder."""
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ValueError(f"{name} is relative to path and stays below it")
    try:
        PathPattern(anywhere(pattern))
    except ValueError as problem:
        raise ValueError(f"{name} is no pattern for paths: {problem}") from None
