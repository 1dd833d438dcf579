"""Tool packs: named groups of the built-in tools, of which settings may leave some out. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from bridle.engine.tools import Tool

_READ = ("read_file", "grep", "glob", "ls")
_EDIT = ("write_file", "edit_file", "apply_patch")
PACKS: Mapping[str, tuple[str, ...]] = {
    "read": _READ,
    "edit": _EDIT,
    "fs": (*_READ, *_EDIT),
    "shell": ("bash",),
    "web": ("web_fetch",),
}
"""What is in no pack is always there: it changes nothing and reaches nothing."""


def in_packs(tools: Iterable[Tool], packs: Collection[str] | None) -> tuple[Tool, ...]:
    """The tools that these packs leave; all of them where nobody chose any."""
    if packs is None:
        return tuple(tools)
    left_out = {name for names in PACKS.values() for name in names}
    left_out -= {name for pack in packs for name in PACKS.get(pack, ())}
    return tuple(tool for tool in tools if tool.name not in left_out)
