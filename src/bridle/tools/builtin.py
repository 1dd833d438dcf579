"""The tools every session has, in the order the model reads them.

Working out the schemas of their arguments takes longer than everything else a session does before its first request,
so they are kept in a file: `python -m bridle.tools.schemas` writes it, a test compares.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bridle.engine.tools import Tool
from bridle.tools.apply_patch import APPLY_PATCH
from bridle.tools.ask_user import ASK_USER
from bridle.tools.bash import bash_tool
from bridle.tools.edit_file import EDIT_FILE
from bridle.tools.glob import GLOB
from bridle.tools.grep import GREP
from bridle.tools.jobs import Jobs
from bridle.tools.ls import LS
from bridle.tools.read_file import READ_FILE
from bridle.tools.todo import TODO
from bridle.tools.web_fetch import no_web, web_fetch_tool
from bridle.tools.write_file import WRITE_FILE

if TYPE_CHECKING:
    from bridle.tools.web_fetch import Fetch

SCHEMA_FILE: Final = os.path.join(os.path.dirname(__file__), "schemas.json")


def builtin_tools(jobs: Jobs, fetch: Fetch = no_web) -> tuple[Tool, ...]:
    """The built-in tools of one session; `jobs` are its background commands, `fetch` its way to the web."""
    tools = (
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
    return with_kept_schemas(tools)


def with_kept_schemas(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """The tools, with their schemas as they are kept, which costs less than working them out."""
    schemas = kept_schemas()
    return tuple(msgspec.structs.replace(tool, input_schema=schemas.get(tool.name)) for tool in tools)


@functools.cache
def kept_schemas() -> dict[str, dict[str, Any]]:
    """The schemas of the built-in tools' arguments, by name."""
    with open(SCHEMA_FILE, "rb") as file:
        return msgspec.json.decode(file.read(), type=dict[str, dict[str, Any]])
