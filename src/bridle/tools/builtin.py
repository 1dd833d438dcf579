"""The tools every session has, in the order the model reads them."""

from __future__ import annotations

from bridle.engine.tools import Tool
from bridle.tools.bash import BASH
from bridle.tools.read_file import READ_FILE
from bridle.tools.write_file import WRITE_FILE

BUILTIN_TOOLS: tuple[Tool, ...] = (READ_FILE, WRITE_FILE, BASH)
