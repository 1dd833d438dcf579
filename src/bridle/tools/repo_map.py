"""`repo_map`: what a project defines and uses most, from tags of its source files. Offered where the grammars are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from bridle.base.process.processes import CannotStart
from bridle.engine.tools import Subject, Tool, ToolContext, ToolOutput, never_mutating
from bridle.protocol.display_values import ShownSearch
from bridle.tools.names import failed, failed_path

if TYPE_CHECKING:
    from bridle.tools.search.file_search import Start
    from bridle.tools.search.map_ranking import RepoMap
    from bridle.tools.search.tag_index import RepoTags

NAME: Final = "repo_map"
DEFAULT_TOKENS: Final = 1_500
MAX_TOKENS: Final = 8_000


class RepoMapArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    focus: Annotated[
        tuple[str, ...],
        Meta(description="Paths, parts of paths or names you care about; they rank higher.", max_length=20),
    ] = ()
    tokens: Annotated[int, Meta(ge=100, description="How long the map may be; at most 8000.")] = (
        DEFAULT_TOKENS
    )


def repo_map_tool(cache_folder: str) -> Tool:
    """The tool of one session; what it works out is kept in `cache_folder`."""

    async def run(args: RepoMapArgs, context: ToolContext) -> ToolOutput:
        from bridle.tools.search.file_search import program_start

        try:
            made = await map_of(
                context.call.resolved("."),
                args.focus,
                min(args.tokens, MAX_TOKENS),
                cache_folder=cache_folder,
                shows=context.sight.shows_content,
                start=program_start(
                    context.spawn, env=context.env, policy=context.policy, call_id=context.call.id
                ),
            )
        except OSError as problem:
            return failed_path("FileUnreadable", ".", problem)
        except CannotStart as problem:
            return failed("CannotStart", problem=problem.reason)
        return ToolOutput(content=made.text, shown=ShownSearch(found=made.definitions, files=made.files))

    return Tool(
        name=NAME,
        description=(
            "Overview of this project: its most used classes and functions by file, with line numbers. "
            "Good before you search in code you do not know. Respects .gitignore."
        ),
        input=RepoMapArgs,
        risk="read",
        run=run,
        concurrency="parallel_safe",
        mutating=never_mutating,
        subjects=lambda _args: (Subject(kind="path", access="read", value="."),),
        side_effect="none",
    )


async def map_of(
    folder: str,
    focus: tuple[str, ...],
    tokens: int,
    *,
    cache_folder: str,
    shows: Callable[[str], bool],
    start: Start,
) -> RepoMap:
    """The map of a folder, with a line about what it leaves out. Raises OSError and `CannotStart`."""
    from bridle.tools.search.map_ranking import repo_map
    from bridle.tools.search.tag_index import TagIndex

    found = await TagIndex(folder, cache_folder, shows).tags(start)
    made = await asyncio.to_thread(repo_map, found.tags, focus=focus, max_tokens=tokens)
    return msgspec.structs.replace(made, text=made.text + _note(found, made.files))


def _note(found: RepoTags, shown: int) -> str:
    if not found.tags and not found.unread:
        return "[no source files in a language that is known here]\n"
    parts = [f"{shown} of {len(found.tags)} source files, the most used definitions"]
    if found.unread:
        parts.append(f"{found.unread} more are not looked at yet: call again")
    if found.too_many:
        parts.append("there are more files than are looked at")
    return f"[{'; '.join(parts)}]\n"
