"""The tools every session has, in the order the model reads them, and the packs that settings may leave out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from bridle.engine.tools import Tool
from bridle.tools.apply_patch import APPLY_PATCH
from bridle.tools.bash import bash_tool
from bridle.tools.edit_file import EDIT_FILE
from bridle.tools.jobs import Jobs
from bridle.tools.ls import LS
from bridle.tools.person_tools import ASK_USER, TODO
from bridle.tools.read_file import READ_FILE
from bridle.tools.repo_map import NAME as REPO_MAP
from bridle.tools.search_tools import GLOB, GREP
from bridle.tools.web_fetch import no_web, web_fetch_tool
from bridle.tools.write_file import WRITE_FILE

if TYPE_CHECKING:
    from bridle.tools.web_page import Fetch


def builtin_tools(jobs: Jobs, fetch: Fetch = no_web) -> tuple[Tool, ...]:
    """The built-in tools of one session; `jobs` are its background commands, `fetch` its way to the web."""
    return (
        READ_FILE,
        WRITE_FILE,
        EDIT_FILE,
        APPLY_PATCH,
        bash_tool(jobs),
        GREP,
        GLOB,
        LS,
        web_fetch_tool(fetch),
        TODO,
        ASK_USER,
    )


def builtin_names() -> tuple[str, ...]:
    """The names of all tools that Bridle brings, also of the one that needs an extra."""
    return (*(tool.name for tool in builtin_tools(Jobs(lambda _event: None))), REPO_MAP)


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
