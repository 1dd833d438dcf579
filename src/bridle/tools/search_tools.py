"""`grep` and `glob` as the model reads them. What searches is loaded with the first call."""

from __future__ import annotations

from bridle.engine.tools import Tool, ToolContext, ToolOutput, never_mutating
from bridle.tools.names import reads_path
from bridle.tools.search.search_arguments import GlobArgs, GrepArgs


async def _grep(args: GrepArgs, context: ToolContext) -> ToolOutput:
    from bridle.tools.grep import grep

    return await grep(args, context)


async def _glob(args: GlobArgs, context: ToolContext) -> ToolOutput:
    from bridle.tools.grep import glob

    return await glob(args, context)


GREP = Tool(
    name="grep",
    description=(
        "Search files for a regular expression, line by line; at most 200 answers, by path. Left out: what "
        ".gitignore names, .git, node_modules, build output, binary files, files over 10 MB."
    ),
    input=GrepArgs,
    risk="read",
    run=_grep,
    concurrency="parallel_safe",
    mutating=never_mutating,
    subjects=reads_path,
    side_effect="none",
    safety_notes=("reads the files of a folder",),
)

GLOB = Tool(
    name="glob",
    description=(
        "Find files by name, changed last first, at most 1000. A pattern without / matches at any depth. "
        ".git and node_modules are left out."
    ),
    input=GlobArgs,
    risk="read",
    run=_glob,
    concurrency="parallel_safe",
    mutating=never_mutating,
    subjects=reads_path,
    side_effect="none",
    safety_notes=("lists names of files",),
)
