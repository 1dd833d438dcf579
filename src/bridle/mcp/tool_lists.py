"""What a server offers, as it said so: tools, prompts, resources. Kept in a file between runs.

With a kept list the first request names the tools before the server runs. The list is asked for again once it does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final

import msgspec

from bridle.base.fs.files import private_folder, read_limited, write_atomic
from bridle.base.text.json_schema import BadSchema, JsonSchema

MOST_TOOLS: Final = 1_000
"""So many tools of a server are looked at; prompts alike."""
MOST_BYTES: Final = 4 << 20
"""A list that takes more room is not kept."""
KEPT_MS: Final = 30 * 24 * 3600 * 1000
"""An older list says nothing any more."""
_FORMAT: Final = 1


class ToolHints(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a server says of a tool. Nobody has checked it."""

    title: str = ""
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class ListedTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool in the server's own words."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    hints: ToolHints = ToolHints()

    def digest(self) -> str:
        """Another one where anything of it changed."""
        return sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()


class PromptWord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    description: str = ""
    required: bool = False


class ListedPrompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    description: str = ""
    arguments: tuple[PromptWord, ...] = ()


class ToolList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All a server offers.

    `launch` is the digest of what was started. `about` is what the server says it is for, in its own words;
    `protocol` the revision it speaks.
    `left_out` names tools that cannot be used, each with why: what they say of their input is no schema.
    """

    launch: str
    listed_ms: int
    protocol: str = ""
    about: str = ""
    tools: tuple[ListedTool, ...] = ()
    prompts: tuple[ListedPrompt, ...] = ()
    resources: bool = False
    left_out: tuple[str, ...] = ()

    def same_offer(self, other: ToolList) -> bool:
        """Whether both offer the same in the same words."""
        return self == msgspec.structs.replace(other, listed_ms=self.listed_ms)


class KeptLists:
    """The lists of earlier runs, one file each, by the digest of what was started. Nobody depends on them."""

    def __init__(self, state_folder: str) -> None:
        self._folder = os.path.join(state_folder, "mcp", "lists")

    def read(self, launch: str, now_ms: int) -> ToolList | None:
        """The list that was kept; None where there is none, or none that says anything."""
        try:
            data = read_limited(self._path(launch), MOST_BYTES).data
            version, kept = msgspec.json.decode(data, type=tuple[int, ToolList])
        except (OSError, msgspec.DecodeError):
            return None
        too_old = not kept.listed_ms <= now_ms < kept.listed_ms + KEPT_MS
        return None if version != _FORMAT or kept.launch != launch or too_old else kept

    def keep(self, found: ToolList) -> None:
        """Keeps it for the next run, if it can be."""
        data = msgspec.json.encode((_FORMAT, found))
        if len(data) > MOST_BYTES:
            return
        try:
            private_folder(self._folder)
            write_atomic(self._path(found.launch), data, durable=False)
        except OSError:
            return

    def forget(self, launch: str) -> None:
        """Drops it: somebody is to look anew."""
        try:
            os.unlink(self._path(launch))
        except OSError:
            return

    def _path(self, launch: str) -> str:
        return os.path.join(self._folder, f"{launch}.json")


def usable(tools: Iterable[ListedTool]) -> tuple[tuple[ListedTool, ...], tuple[str, ...]]:
    """The tools that can be used, by name, each once, and what is wrong with the others.

    What the model reads must not depend on the order of the day.
    """
    good: dict[str, ListedTool] = {}
    bad: dict[str, str] = {}
    for tool in tools:
        try:
            JsonSchema(tool.input_schema).check()
        except BadSchema as problem:
            bad[tool.name] = f"{tool.name}: {problem}"
        else:
            good[tool.name] = tool
    return tuple(good[name] for name in sorted(good)), tuple(bad[name] for name in sorted(bad))
