"""What a shell command may do at worst, in one word: what understands commands and what records them say the same."""

from __future__ import annotations

from typing import Literal, TypeAlias

CommandClass: TypeAlias = Literal["read_only", "writes", "network", "executes", "destructive", "unparseable"]
