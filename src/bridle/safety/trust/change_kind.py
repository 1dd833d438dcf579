"""What kind of change a file went through since it was approved. It is told to the person, and it decides nothing:

words for the model are instructions, so a changed sentence is asked about like a changed command.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from bridle.safety.trust.lockfile import TrustedKind

ChangeKind: TypeAlias = Literal["metadata", "prose", "code", "executable"]

EXECUTABLE: Final[frozenset[TrustedKind]] = frozenset({"hook", "mcp_server", "plugin", "config", "settings"})
"""What starts programs, or lets them start."""

_FRONT: Final = re.compile(r"\A---\n.*?^---$", re.DOTALL | re.MULTILINE)
_FENCED: Final = re.compile(r"^(```|~~~).*?^\1|`[^`\n]+`|^(?: {4}|\t).*$", re.DOTALL | re.MULTILINE)
_COMMAND: Final = re.compile(r"https?://|\$\(|\$\{|[|;&]{1,2}\s*\w|\bsudo\b|^\s*[$%>] ", re.MULTILINE)


def change_of(kind: TrustedKind, before: str, after: str) -> ChangeKind:
    """The heaviest thing that changed: a header or white space, a sentence, something to type, something that runs."""
    if kind in EXECUTABLE or after.startswith("#!"):
        return "executable"
    if _code(before) != _code(after) or len(_COMMAND.findall(before)) != len(_COMMAND.findall(after)):
        return "code"
    if _FRONT.sub("", before).split() == _FRONT.sub("", after).split():
        return "metadata"
    return "prose"


def _code(text: str) -> list[str]:
    return [found[0] for found in _FENCED.finditer(text)]
