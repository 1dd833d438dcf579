"""`web_fetch`: one page of the web as text. Where a name leads is checked by whoever fetches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from bridle.engine.tools import Subject, Tool, ToolContext, ToolOutput, never_mutating

if TYPE_CHECKING:
    from bridle.base.net.web import RefuseBody, WebAnswer
    from bridle.tools.web_page import Fetch

MAX_CHARACTERS = 1_000_000
TIMEOUT_S = 45.0
"""More than a fetch takes at most, which ends itself in words of its own."""


class WebFetchArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(description="An http or https address.")]
    max_chars: Annotated[int, Meta(ge=1, description="At most so much text.")] = MAX_CHARACTERS
    raw: Annotated[bool, Meta(description="HTML as it is, not as Markdown.")] = False


async def no_web(url: str, _wanted: RefuseBody) -> WebAnswer:
    """Where nobody brought a way to the web."""
    from bridle.base.net.http_dial import HttpFault

    raise HttpFault("unreachable", url, "this session has no way to the web")


def web_fetch_tool(fetch: Fetch) -> Tool:
    """The tool on top of `fetch`, which goes only where anybody may be sent."""

    async def web_fetch(args: WebFetchArgs, _context: ToolContext) -> ToolOutput:
        from bridle.tools.web_page import read_page  # the door of the web

        return await read_page(fetch, args.url, limit=min(args.max_chars, MAX_CHARACTERS), raw=args.raw)

    return Tool(
        name="web_fetch",
        description=(
            "Fetch a public web page or text file; HTML comes as Markdown. No login, no JavaScript, nothing on "
            "this machine or its network."
        ),
        input=WebFetchArgs,
        risk="network",
        run=web_fetch,
        concurrency="parallel_safe",
        mutating=never_mutating,
        subjects=lambda args: (Subject(kind="url", access="fetch", value=args.url),),
        timeout_s=lambda _args: TIMEOUT_S,
        side_effect="network",
        safety_notes=(
            "nobody knows where the name leads before it runs: it is checked then, at every redirect",
        ),
    )
