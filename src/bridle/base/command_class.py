"""The class of a shell command: the worst it may do, in one word that those who judge and those who record share."""

from __future__ import annotations

from typing import Literal, TypeAlias

CommandClass: TypeAlias = Literal["read_only", "writes", "network", "executes", "destructive", "unparseable"]
