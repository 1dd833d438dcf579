"""Regular expressions that are compiled when first used: a command needs few of those it imports."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


def compiled_later(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like `re.compile`, for a pattern whose methods are called: `re.sub(pattern, …)` does not take it.

    A pattern that is wrong raises with its first use, so each needs a test that uses it.
    """
    return cast("re.Pattern[AnyStr]", _Later(pattern, flags))


class _Later:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._wanted = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        pattern, flags = self._wanted
        found = getattr(re.compile(pattern, flags), name)
        setattr(self, name, found)  # the next call finds the method itself, at no cost
        return found
