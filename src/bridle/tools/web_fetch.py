"""`web_fetch`: one page of the web as text.

Where a name leads is checked by whoever fetches; this file decides what the model reads of the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
from msgspec import Meta

from bridle.base.threads import in_thread
from bridle.engine.tools import Subject, Tool, ToolContext, ToolOutput, never_mutating
from bridle.protocol.errors import sentence
from bridle.protocol.events import Evidence

if TYPE_CHECKING:
    from bridle.base.web import RefuseBody, WebAnswer

    Fetch: TypeAlias = Callable[[str, RefuseBody], Awaitable[WebAnswer]]
    """Gets a page: see `bridle.base.web.Web.fetch`, which is the contract. Raises `WebRefused` and `HttpFault`."""

MAX_CHARACTERS = 1_000_000
TIMEOUT_S = 45.0
"""More than a fetch takes at most, which ends itself in words of its own."""
_SHOWN_CHARACTERS = 200


class WebFetchArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(description="An http or https address.")]
    max_chars: Annotated[int, Meta(ge=1, description="At most so much text.")] = MAX_CHARACTERS
    raw: Annotated[bool, Meta(description="HTML as it is, not as Markdown.")] = False


async def no_web(url: str, _wanted: RefuseBody) -> WebAnswer:
    """Where nobody brought a way to the web."""
    from bridle.base.http_dial import HttpFault

    raise HttpFault("unreachable", url, "this session has no way to the web")


def web_fetch_tool(fetch: Fetch) -> Tool:
    """The tool on top of `fetch`, which goes only where anybody may be sent."""

    async def web_fetch(args: WebFetchArgs, _context: ToolContext) -> ToolOutput:
        from bridle.base.http_dial import HttpFault
        from bridle.base.web import WebRefused
        from bridle.base.web_text import NotText, why_not_text

        try:
            answer = await fetch(args.url, why_not_text)
            if problem := _problem(answer):
                return _failed(args.url, problem)
            return await in_thread(partial(_shown, answer, args))
        except WebRefused as refused:
            return _refused(refused.problem, refused.url)
        except (HttpFault, NotText) as fault:
            return _failed(args.url, fault.problem)

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
        subjects=_subjects,
        timeout_s=_timeout,
        side_effect="network",
        safety_notes=(
            "nobody knows where the name leads before it runs: it is checked then, at every redirect",
        ),
    )


def _subjects(args: WebFetchArgs) -> tuple[Subject, ...]:
    return (Subject(kind="url", access="fetch", value=args.url),)


def _timeout(_args: WebFetchArgs) -> float:
    return TIMEOUT_S


def _problem(answer: WebAnswer) -> str:
    """Why there is nothing to show, as the end of a sentence; empty when there is."""
    if answer.status // 100 == 3:
        return f"the server answered {answer.status} and no address to go on to"
    return answer.unwanted or ("" if answer.status // 100 == 2 else f"the server answered {answer.status}")


def _shown(answer: WebAnswer, args: WebFetchArgs) -> ToolOutput:
    """What the model reads. Not called in the event loop: a long page takes a while."""
    from bridle.base.html_markdown import to_markdown, without_unseen
    from bridle.base.web import MAX_BODY_BYTES
    from bridle.base.web_text import media_type, shown_size, web_text

    found = web_text(answer.headers, answer.body, MAX_BODY_BYTES)
    title, cut = "", answer.cut or found.cut
    if found.html and not args.raw:
        title, text, left_out = to_markdown(found.text, answer.url)
        cut = cut or left_out
    else:
        text = without_unseen(found.text)
    limit = min(args.max_chars, MAX_CHARACTERS)
    notes = [f"more follows: cut after {limit} of {len(text)} characters"] if len(text) > limit else []
    if cut:
        notes.append("the page is longer than what was read")
    if found.damaged:
        notes.append("some bytes were no characters and are shown as \N{REPLACEMENT CHARACTER}")
    kind = media_type(answer.headers) or "no type given"
    head = f"[{answer.url}, {kind}, {shown_size(len(answer.body))}]\n"
    if title and text.partition("\n")[0] != f"# {title}":
        head += f"# {title}\n\n"
    body = text[:limit] if text.strip() else "[the page has no text]"
    return ToolOutput(
        content="".join(
            (head, body, "" if body.endswith("\n") else "\n", *(f"[{note}]\n" for note in notes))
        ),
    )


def _failed(url: str, problem: str) -> ToolOutput:
    shown = url if len(url) <= _SHOWN_CHARACTERS else url[:_SHOWN_CHARACTERS] + "…"
    return ToolOutput(
        outcome="error",
        reason="FetchFailed",
        content=sentence("FetchFailed", {"url": shown, "problem": problem}),
    )


def _refused(problem: str, url: str) -> ToolOutput:
    """The same words as where the address itself was enough to refuse."""
    return ToolOutput(
        outcome="blocked",
        reason="NeverAllowed",
        content=sentence("NeverAllowed", {"problem": problem}),
        evidence=Evidence(
            source="address_guard", rule="address", matched=problem, preview=url[:_SHOWN_CHARACTERS]
        ),
    )
