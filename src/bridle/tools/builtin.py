"""The tools every session has, in the order the model reads them."""

from __future__ import annotations

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
from bridle.tools.write_file import WRITE_FILE


def builtin_tools(jobs: Jobs) -> tuple[Tool, ...]:
    """The built-in tools of one session; `jobs` are its background commands."""
    return (
        READ_FILE,
        WRITE_FILE,
        EDIT_FILE,
        APPLY_PATCH,
        bash_tool(jobs),
        GREP,
        GLOB,
        LS,
        TODO,
        ASK_USER,
    )
