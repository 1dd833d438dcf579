"""`python -m bridle.tools.schemas` writes the schemas of the built-in tools' arguments beside this file."""

from __future__ import annotations

import msgspec

from bridle.engine.tools import json_schema
from bridle.tools.builtin import SCHEMA_FILE, builtin_tools
from bridle.tools.jobs import Jobs
from bridle.tools.repo_map import repo_map_tool


def document() -> bytes:
    tools = (*builtin_tools(Jobs(lambda _event: None)), repo_map_tool(""))
    schemas = {tool.name: json_schema(tool.input) for tool in tools}
    return msgspec.json.format(msgspec.json.encode(schemas), indent=2) + b"\n"


if __name__ == "__main__":
    text = document()
    with open(SCHEMA_FILE, "wb") as file:
        file.write(text)
