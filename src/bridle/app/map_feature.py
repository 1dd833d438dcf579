"""The repo map that joins a session at its tail. Loaded where a setting asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from bridle.base.processes import CannotStart
from bridle.context.map_at_tail import MapAtTail
from bridle.tools.repo_map import DEFAULT_TOKENS, NAME, map_of, not_shown

if TYPE_CHECKING:
    from bridle.app.session_parts import SessionParts
    from bridle.engine.ports import Process


def map_at_tail(parts: SessionParts, cache_folder: str) -> MapAtTail:
    """The map that joins the conversation by itself, once it is made."""
    return MapAtTail(lambda: _made(parts, cache_folder))


def _made(parts: SessionParts, cache_folder: str) -> asyncio.Future[str]:
    async def start(
        argv: list[str], cwd: str, stdin: bytes | None, on_output: Callable[[bytes], None]
    ) -> Process:
        return await parts.spawn(
            argv,
            cwd=cwd,
            env=parts.opened.env,
            policy=parts.policy,
            call_id=NAME,
            on_output=on_output,
            on_error=not_shown,
            stdin=stdin,
        )

    async def make() -> str:
        try:
            made = await map_of(
                parts.opened.cwd,
                (),
                DEFAULT_TOKENS,
                cache_folder=cache_folder,
                shows=parts.shows_content,
                start=start,
            )
        except (OSError, CannotStart):
            return ""
        return made.text if made.definitions else ""

    return asyncio.ensure_future(make())
