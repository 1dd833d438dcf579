"""The repo map in a session as a feature."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bridle.base.process.processes import CannotStart
from bridle.context.map_at_tail import MapAtTail
from bridle.tools.repo_map import DEFAULT_TOKENS, NAME, map_of
from bridle.tools.search.file_search import program_start

if TYPE_CHECKING:
    from bridle.app.session_parts import SessionParts


def map_at_tail(parts: SessionParts, cache_folder: str) -> MapAtTail:
    """The map that joins the conversation by itself, once it is made."""
    return MapAtTail(lambda: _made(parts, cache_folder))


def _made(parts: SessionParts, cache_folder: str) -> asyncio.Future[str]:
    async def make() -> str:
        try:
            made = await map_of(
                parts.opened.cwd,
                (),
                DEFAULT_TOKENS,
                cache_folder=cache_folder,
                shows=parts.shows_content,
                start=program_start(parts.spawn, env=parts.opened.env, policy=parts.policy, call_id=NAME),
            )
        except (OSError, CannotStart):
            return ""
        return made.text if made.definitions else ""

    return asyncio.ensure_future(make())
